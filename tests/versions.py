"""Sets of versions -> an environment of each, and whether the tests pass in it: the ranges of setup.cfg are true.

    python tests/versions.py                                   # all sets, all tests
    python tests/versions.py newest python3.13 --folder /tmp/sets -- -m "not slow" tests/unit

What follows `--` goes to pytest. An environment is made by `make setup`; with --folder it stays and is used again. At
the end there is one line for each set, and nothing else is written. Separate from the tests, which know only the
environment they run in; of the standard library alone, so that any Python can start it.
"""

from __future__ import annotations

import argparse
import configparser
import datetime
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SETS = {
    "pinned": "the versions of constraints.txt",
    "newest": "the newest that setup.cfg allows and the package registry has",
    "oldest": "the lower end of every range in setup.cfg",
    "python3.12": "the versions of constraints.txt, with Python 3.12",
    "python3.13": "the versions of constraints.txt, with Python 3.13",
}
PYTHON = "python3.11"  # of the sets that are not named after another
SHOWN = ("torch", "torchaudio", "transformers", "speechbrain", "torchao", "espnet", "numpy")
VERSIONS = """
import platform
from importlib.metadata import PackageNotFoundError, version

print("Python", platform.python_version(), end="")
for name in {names!r}:
    try:
        print(",", name, version(name), end="")
    except PackageNotFoundError:
        print(", no", name, end="")
"""


class Outcome(NamedTuple):
    """What came of a set, and its line. A set whose Python is not on this machine was not tried: no failure."""

    word: str
    line: str


def constraints(name: str) -> str:
    """What pip is held to for a set."""
    if name == "newest":
        return ""
    if name != "oldest":
        return (ROOT / "constraints.txt").read_text(encoding="utf-8")
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    ranges = "\n".join([config["options"]["install_requires"], *config["options.extras_require"].values()])
    return "".join(f"{found[1]}=={found[2]}\n" for found in re.finditer(r"^([\w.-]+)>=([\w.]+)", ranges, re.MULTILINE))


def runs(python: str) -> bool:
    """Whether there is such an interpreter: a file of that name may be pyenv's, which says that there is none."""
    try:
        return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def build(name: str, python: str, folder: Path) -> Path:
    """The environment of a set, as `make setup` makes it -> its interpreter."""
    environment = folder / f"{name}-{Path(python).name}"
    held = environment.with_suffix(environment.suffix + ".txt")
    if not held.exists() or held.read_text(encoding="utf-8") != constraints(name):
        held.write_text(constraints(name), encoding="utf-8")
    settings = [f"VENV={environment}", f"PYTHON={python}", f"CONSTRAINTS={held}"]
    subprocess.run(["make", "--directory", str(ROOT), "setup", *settings], check=True)
    return environment / "bin" / "python"


def test(interpreter: Path, arguments: list[str]) -> tuple[int, str]:
    """Exit status and last line of pytest, whose output passes through."""
    command = [str(interpreter), "-m", "pytest", *arguments]
    last = ""
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            print(line, end="", flush=True)
            last = line.strip(" =\n") or last
    return running.returncode, last


def try_out(name: str, python: str, folder: Path, arguments: list[str]) -> Outcome:
    python = name if name.startswith("python") else python
    today = datetime.date.today().isoformat()
    if not runs(python):
        return Outcome("not tried", f"{name}: {today}: there is no {python} on the PATH")
    try:
        interpreter = build(name, python, folder)
    except subprocess.CalledProcessError:
        return Outcome("FAILED", f"{name}: {today}: could not be installed with {python}")
    asked = [str(interpreter), "-c", VERSIONS.format(names=SHOWN)]
    versions = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    status, last = test(interpreter, arguments)
    return Outcome("FAILED" if status else "passed", f"{name}: {today}: {versions}: {last}")


def main() -> int:
    known = "; ".join(f"{name}: {meaning}" for name, meaning in SETS.items())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"{known} (default: all)")
    parser.add_argument("--python", default=PYTHON, help="of sets that name none (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="where environments are made and stay (default: a temporary one)")
    # argparse would take what follows `--` for names of sets.
    own, separator, arguments = sys.argv[1:], "--", []
    if separator in own:
        own, arguments = own[: own.index(separator)], own[own.index(separator) + 1 :]
    chosen = parser.parse_args(own)
    names = chosen.sets or list(SETS)
    if unknown := [name for name in names if name not in SETS]:
        parser.error(f"no set is called {', '.join(unknown)}; there are {', '.join(SETS)}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = (chosen.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        outcomes = [try_out(name, chosen.python, folder, arguments) for name in names]
    print(*(f"{word}  {line}" for word, line in outcomes), sep="\n")
    return 1 if any(word == "FAILED" for word, _ in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
