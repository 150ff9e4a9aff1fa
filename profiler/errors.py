"""What can go wrong in ways that a user causes or can fix. Each error carries the exit status of the program.

A traceback is for our own mistakes; these are shown as their message alone.
"""

from __future__ import annotations

from collections.abc import Iterable

LIST_AT_MOST = 12  # longer lists of what is known help nobody
LONGEST_WORD = 100  # of what could be a name with a typing mistake


class ProfilerError(Exception):
    """Base of everything that ends the program with a plain message."""

    exit_code = 1


class UserError(ProfilerError):
    """The user's input is wrong: nothing was run, nothing was lost."""

    exit_code = 2


class AudioError(UserError):
    """The example audio is missing, empty, broken or not audio."""


class ModelError(UserError):
    """The model is not available, or cannot be built as the recipe asks."""


class NotSupported(ProfilerError):
    """The variant changes nothing in this model, or cannot run here. The model is not to be used any more."""


class StorageError(ProfilerError):
    """Results cannot be written: disk full, folder gone, no permission."""


class WorkerError(ProfilerError):
    """A worker process died, hung, or broke its protocol."""


class Interrupted(ProfilerError):
    """The user pressed Ctrl-C, or the process was asked to stop."""

    exit_code = 130


def closest(word: str, known: Iterable[str], most: int = 1) -> list[str]:
    """What is known and close to a word that may have a typing mistake; the closest first."""
    import difflib

    if len(word) > LONGEST_WORD:
        return []
    by_lower = {name.lower(): name for name in known}
    return [by_lower[name] for name in difflib.get_close_matches(word.lower(), list(by_lower), n=most)]


def did_you_mean(word: str, known: list[str]) -> str:
    """' Did you mean `x`?' where something known is close, else the list of what is known; to follow a sentence."""
    close = closest(word, known)
    if close:
        return f" Did you mean `{close[0]}`?"
    more = f" and {len(known) - LIST_AT_MOST} more" if len(known) > LIST_AT_MOST else ""
    return f" Known here: {', '.join(known[:LIST_AT_MOST])}{more}." if known else ""


def whole_line(text: str) -> str:
    """The first line of a library's message that says something, with the lines that it announces by a colon."""
    lines = [line.strip() for line in text.splitlines() if line.strip().strip("`")]
    found = lines[0] if lines else ""
    for line in lines[1:]:
        if not found.endswith(":"):
            break
        found += f" {line}"
    return found
