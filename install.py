"""VENV CONSTRAINTS -> an environment with everything, and a line that says what is being done. `make setup` calls it.

Of the standard library alone, because it runs before anything is installed. pip's own output is in VENV/install.log.
"""

from __future__ import annotations

import os
import re
import selectors
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

EXTRAS = (
    "dev,ctranslate2,datasets,docs,energy,espnet,executorch,onnxruntime,openvino,pandas,quantize,ray,serving,"
    "silero,slurm,speech-models,transducer"
)
ALONE = ("espnet", "mistral-common", "zeus")  # without what they ask for: setup.cfg says why
NEEDED_GB = 4.0  # of disk: everything with a CPU build of torch
EVERY = 15.0  # seconds between two lines where nobody watches
WORKS = "import sys, pip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))"

FULL = (
    f"The disk is full: the environment takes {NEEDED_GB:g} GB with a CPU build of torch and 7 GB with CUDA "
    "libraries, and pip uses the temporary folder too. Free some space, or use another disk: TMPDIR=/big/disk"
    " make setup VENV=/big/disk/venv."
)
# What pip or venv writes -> what it means and what to do. The first that fits counts: a retry
# that succeeded is no reason, and a missing network looks like a missing package.
REASONS = (
    (r"No space left on device|Disk quota exceeded|\[Errno (28|122)\]", FULL),
    (
        r"command '\S*(cc|\+\+|clang)\S*' failed|unable to execute '\S*(cc|\+\+|clang)|CMAKE_C(XX)?_COMPILER"
        r"|Python\.h: No such file|[Nn]o (acceptable )?C compiler",
        "A package has no binary for this system and could not be compiled: a C compiler or Python's headers are "
        "missing. Debian, Ubuntu: apt-get install build-essential python3-dev. Fedora, RHEL: dnf install gcc gcc-c++ "
        "python3-devel.",
    ),
    (
        r"ensurepip is not|No module named '?(venv|ensurepip)",
        "This Python cannot make environments. Debian, Ubuntu: apt-get install "
        f"python{sys.version_info[0]}.{sys.version_info[1]}-venv.",
    ),
    (
        r"Permission denied|\[Errno 13\]",
        "A file may not be written: it belongs to another user, as after a run with sudo. Delete the environment "
        "(make clean), as that user.",
    ),
    (
        r"Failed to establish a new connection|[Nn]ame resolution|Name or service not known|Network is unreachable"
        r"|ConnectTimeoutError|ReadTimeoutError|Read timed out|ProxyError|SSLError|Connection (refused|reset|aborted)",
        "The package index cannot be reached. Check the network. Behind a proxy, set HTTPS_PROXY; where there is a "
        "mirror, PIP_INDEX_URL.",
    ),
    (
        r"No matching distribution found for|requires a different Python",
        "The package index has no version of a package for this Python and this system. Use Python 3.11 on Linux "
        "(make setup PYTHON=/path/to/python3.11); where PIP_INDEX_URL is set, the mirror may lack packages.",
    ),
)
UNKNOWN = "The reason is not one of the usual ones; pip's whole output is in install.log of the environment."
AGAIN = "Then give the same command again: what was downloaded is kept."


class Failed(Exception):
    """What happened, and what to do."""


def main(venv: Path, constraints: Path) -> int:
    begun = time.monotonic()
    try:
        _prepare(venv, constraints)
        held = ("--constraint", str(constraints))
        _pip(venv, _number(constraints), *held, "--editable", f".[{EXTRAS}]")
        _pip(venv, len(ALONE), *held, "--no-deps", *ALONE)
    except Failed as failure:
        print("", *textwrap.wrap(f"Setting up failed. {failure} {AGAIN}", 80), sep="\n", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted. The same command starts again; what was downloaded is kept.", file=sys.stderr)
        return 130
    (venv / ".ready").touch()
    print(f"Ready after {_clock(begun)}. Next: {venv}/bin/python profile.py --help", flush=True)
    return 0


def _prepare(venv: Path, constraints: Path) -> None:
    """An environment with pip: the one that is there, if it is whole, else a new one."""
    python = venv / "bin" / "python"
    if _unfinished(venv).exists():
        print(f"The last setup stopped while it unpacked packages: {venv} is made again.")
    elif python.exists() and subprocess.run([python, "-c", WORKS], capture_output=True, check=False).returncode == 0:
        print(f"Bringing {venv} up to date: what is not there yet is downloaded and installed.", flush=True)
        return
    elif venv.exists():
        print(f"{venv} is no working environment with pip and a fitting Python: it is made again.")
    number = _number(constraints)
    print(
        f"Setting up {venv}: {f'about {number}' if number else 'all'} packages from the package index, with torch.\n"
        "It downloads some 700 MB and takes 3.3 GB of disk and, on a fast connection, two to three minutes. Where the\n"
        "index has torch with CUDA libraries, it is several times as much: 7 GB of disk. Ctrl-C stops it at any time.",
        flush=True,
    )
    free = shutil.disk_usage(next(place for place in (venv, *venv.absolute().parents) if place.exists())).free / 1e9
    if free < NEEDED_GB:
        raise Failed(f"{free:.1f} GB are free for {venv}. {FULL}")
    made = subprocess.run([sys.executable, "-m", "venv", "--clear", venv], capture_output=True, text=True, check=False)
    if made.returncode:
        _raise(f"python -m venv {venv}", made.stdout + made.stderr)


def _number(constraints: Path) -> int:
    """How many packages there are, about; 0 where nothing is held to a version."""
    return len(re.findall(r"(?m)^[\w.-]+==", constraints.read_text(encoding="utf-8")))


def _unfinished(venv: Path) -> Path:
    """There while packages are unpacked: pip takes half a package for a whole one the next time."""
    return venv / ".installing"


def _pip(venv: Path, number: int, *arguments: str) -> None:
    """`pip install` with a line that says what it is at."""
    options = ("--disable-pip-version-check", "--no-input", "--progress-bar", "off")
    command = [str(venv / "bin" / "python"), "-m", "pip", "install", *options, *arguments]
    line = Line(venv, number)
    with (
        (venv / "install.log").open("a", encoding="utf-8") as log,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=os.environ | {"PYTHONUNBUFFERED": "1"}
        ) as pip,
        selectors.DefaultSelector() as waiting,
    ):
        assert pip.stdout is not None
        waiting.register(pip.stdout, selectors.EVENT_READ)
        written = rest = ""
        try:
            while True:
                if waiting.select(timeout=0.5):
                    piece = os.read(pip.stdout.fileno(), 65536).decode("utf-8", "replace")
                    if not piece:
                        break
                    log.write(piece)
                    written += piece
                    *lines, rest = (rest + piece).split("\n")
                    for text in lines:
                        line.follow(text)
                line.draw()
        except KeyboardInterrupt:
            pip.terminate()
            pip.wait()
            raise
        finally:
            line.end()
    if pip.returncode:
        _raise("pip", written)
    _unfinished(venv).unlink(missing_ok=True)


def _raise(what: str, written: str) -> None:
    """The end of what a program wrote, and the reason, where it is a known one."""
    last = [text for text in written.splitlines() if text.strip()][-12:]
    print(f"\nThe last lines of {what}:", *(f"  {text}" for text in last), sep="\n", file=sys.stderr)
    raise Failed(next((advice for sign, advice in REASONS if re.search(sign, written)), UNKNOWN))


class Line:
    """What pip is at and for how long: one line that changes on a terminal, a line now and then elsewhere."""

    def __init__(self, venv: Path, number: int) -> None:
        self.venv = venv
        self.number = number
        self.begun = self.drawn = time.monotonic()
        self.text = "starting pip"
        self.seen: set[str] = set()
        self.unpacking = 0

    def follow(self, text: str) -> None:
        """A line of pip's output."""
        if found := re.match(r"(?:Collecting|Requirement already satisfied:) ([\w.-]+)|Processing \S+/(\w+)-", text):
            self.seen.add(found[1] or found[2])
            self.text = f"{self._place()}: {found[1] or found[2]}"
        elif found := re.match(r" *Downloading (?:\S+/)?([^/\s]+?)-(\d[^-\s]*)\S* (\(.+\))", text):
            self.text = f"{self._place()}: downloading {found[1]} {found[2]} {found[3]}"
        elif found := re.match(r" *(Building wheel for [\w.-]+|Installing build dependencies)", text):
            self.text = found[1][0].lower() + found[1][1:]
        elif found := re.match(r"Installing collected packages: (.+)", text):
            self.unpacking = len(found[1].split(", "))
            self.before = self._unpacked()
            _unfinished(self.venv).touch()

    def _place(self) -> str:
        of = f" of about {self.number}" if self.number > len(self.seen) else ""
        return f"package {len(self.seen)}{of}"

    def _unpacked(self) -> int:
        return sum(1 for _ in self.venv.glob("lib/*/site-packages/*.dist-info"))

    def draw(self) -> None:
        if self.unpacking:
            done = max(self._unpacked() - self.before, 0)
            self.text = f"unpacking: {min(done, self.unpacking)} of {self.unpacking} packages"
        shown = f"{_clock(self.begun)}  {self.text}"
        if sys.stdout.isatty():
            print(f"\r{shown[: shutil.get_terminal_size().columns - 1]}\x1b[K", end="", flush=True)
        elif time.monotonic() > self.drawn + EVERY:
            self.drawn = time.monotonic()
            print(shown, flush=True)

    def end(self) -> None:
        if sys.stdout.isatty():
            print("\r\x1b[K", end="", flush=True)


def _clock(begun: float) -> str:
    minutes, seconds = divmod(round(time.monotonic() - begun), 60)
    return f"{minutes}:{seconds:02}"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
