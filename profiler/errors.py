"""What can go wrong in ways that a user causes or can mend. Each error carries the exit status of the program.

A traceback is for our own mistakes; these are shown as their message alone.
"""

from __future__ import annotations


class ProfilerError(Exception):
    """Base of everything that ends the program with a plain message."""

    exit_code = 1


class UserError(ProfilerError):
    """The user's input is wrong: nothing was run, nothing was lost."""

    exit_code = 2


class AudioError(UserError):
    """The example audio is missing, empty, broken or not audio."""


class ModelError(UserError):
    """The model cannot be had or built as the recipe asks."""


class StorageError(ProfilerError):
    """Results cannot be written: disk full, folder gone, no permission."""


class WorkerError(ProfilerError):
    """A worker process died, hung, or broke its protocol."""


class Interrupted(ProfilerError):
    """The user pressed Ctrl-C, or the process was asked to stop."""

    exit_code = 130
