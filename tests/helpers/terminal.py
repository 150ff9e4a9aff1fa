"""What a person sees: the program in a pseudo-terminal of so many columns, forked, without a new Python."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import termios
from pathlib import Path
from typing import NamedTuple

CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Screen(NamedTuple):
    """Lines without colours, and the raw text with them."""

    status: int
    lines: list[str]
    raw: str

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def screen(columns: int, *arguments: str | Path, folder: Path | None = None) -> Screen:
    """For commands that need no model. Both outputs go to the terminal."""
    from profiler.cli import main

    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = os.fork()
    if process == 0:
        status = 70
        try:
            os.setsid()
            for stream in (0, 1, 2):
                os.dup2(child, stream)
            _as_a_terminal(folder)
            status = main([str(argument) for argument in arguments])
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        finally:
            os._exit(status)
    os.close(child)
    raw = _read(parent)
    _, ended = os.waitpid(process, 0)
    lines = [line.rstrip() for line in CODES.sub("", raw).splitlines()]
    return Screen(os.waitstatus_to_exitcode(ended), lines, raw)


def _as_a_terminal(folder: Path | None) -> None:
    """pytest replaced the streams by files of its own."""
    import sys

    sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1) for number in (1, 2))
    os.environ["TERM"] = "xterm-256color"
    for name in ("COLUMNS", "LINES", "NO_COLOR"):
        os.environ.pop(name, None)
    if folder is not None:
        os.chdir(folder)


def _read(terminal: int) -> str:
    found = b""
    while True:
        try:
            more = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        if not more:
            break
        found += more
    os.close(terminal)
    return found.decode().replace("\r\n", "\n")
