#!/usr/bin/env python3
"""Launcher: `python profile.py recipes/wav2vec2.yaml`.

The file is called `profile`, like a module of the standard library that cProfile, torch.compile and pytest plugins
import. Python puts the folder of a script first on its search path, so they would get this file instead. Hence two
roles: run as a script it starts the profiler, with this folder moved to the end of the search path; imported as a
module it hands over the standard library's `profile`.
"""

import contextlib
import sys
from pathlib import Path


def _run() -> int:
    here = str(Path(__file__).resolve().parent)
    # Nor is anything imported from the current folder, where anybody's files may lie (an empty entry of PYTHONPATH).
    left_out = {"", here}
    with contextlib.suppress(FileNotFoundError):
        left_out.add(str(Path.cwd()))
    sys.path[:] = [entry for entry in sys.path if entry not in left_out] + [here]
    try:
        from profiler.cli import main
    except ModuleNotFoundError as error:
        print(
            f"The package `{error.name}` is missing. Run `make setup`, then use `.venv/bin/python profile.py ...`.",
            file=sys.stderr,
        )
        return 2
    return main()


def _become_the_standard_module() -> None:
    import importlib.util
    import sysconfig

    path = Path(sysconfig.get_path("stdlib")) / "profile.py"
    spec = importlib.util.spec_from_file_location(__name__, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[__name__] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    sys.exit(_run())
else:
    _become_the_standard_module()
