"""A path that a user wrote -> a Path, or a sentence about what is wrong with it."""

from __future__ import annotations

import os
from pathlib import Path

from profiler.errors import UserError

LONGEST_NAME, LONGEST_PATH = 255, 4095  # bytes, on every file system that is common


def user_path(text: str | Path, base: Path | None = None) -> Path:
    """`~` is the home folder, and what is relative is so to `base`. Raises UserError."""
    given = str(text)
    try:
        path = Path(given).expanduser()
        path = path if base is None else base / path
        name = os.fsencode(path)
    except UnicodeEncodeError:
        raise UserError(f"{given!a} is no path: it holds half of a character") from None
    except RuntimeError:
        raise UserError(f"{given}: there is no such user, so that `~` has no folder here") from None
    if b"\0" in name:
        raise UserError(f"{given!a} is no path: it holds a NUL character")
    if len(name) > LONGEST_PATH or max((len(part) for part in name.split(b"/")), default=0) > LONGEST_NAME:
        raise UserError(f"{given[:60]}... is too long for a path ({len(name):,} bytes)")
    return path
