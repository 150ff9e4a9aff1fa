"""A run, however it is named -> its results: a folder, an id, `latest`, a log folder (its latest run), or a zip file.

The one door for all that only reads runs: report, compare, history, machines, and Python's `load_run`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from profiler.results import Results, read_results
from profiler.runs import find_run
from profiler.salvage import read_as_much
from profiler.sharing.unpack import is_archive, unpack


@contextmanager
def opened(name: str, logdir: Path) -> Iterator[Path]:
    """The run's folder; that of an archive is gone again at the end."""
    if not is_archive(Path(name)):
        yield find_run(name, logdir)
        return
    with tempfile.TemporaryDirectory(prefix="speech-profiler-") as temporary:
        unpack(Path(name), Path(temporary))
        yield Path(temporary)


def open_run(name: str, logdir: Path) -> tuple[Path, Results]:
    """Where the run is, and all that it measured. Raises UserError where there is none, or it is damaged."""
    with opened(name, logdir) as folder:
        return Path(name) if is_archive(Path(name)) else folder, read_results(folder)


def open_as_much(name: str, logdir: Path) -> tuple[Results, str | None]:
    """What is whole of a run, and what is wrong with it. Raises UserError where nothing can be shown."""
    with opened(name, logdir) as folder:
        return read_as_much(folder)
