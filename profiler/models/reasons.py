"""Why a library could not load a model, in one line for its user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from profiler.errors import ModelError, whole_line

UNREADABLE = ("SafetensorError", "UnpicklingError", "EOFError", "BadZipFile")
OTHER_SIZES = "the saved weights have other sizes than its configuration; overrides of sizes need weights: random"


def reason(error: Exception) -> str:
    """The first line that says something; the whole error stays in the chain."""
    name = type(error).__name__
    if name in UNREADABLE:
        return f"a file of weights cannot be read: damaged, not complete, or not only weights ({name})"
    if "ignore_mismatched_sizes" in str(error):  # transformers: "look at the above report", which is not shown
        return OTHER_SIZES
    # The first argument, because the text of a KeyError is its argument in quotes; of an OSError it is a number.
    first = error.args[0] if error.args and not isinstance(error, OSError) else None
    text = str(error if first is None else first)  # None: of YAML, which has what was being read first
    return whole_line(text) or name


@contextmanager
def explained(what: str, why: Callable[[Exception], str] = reason) -> Iterator[None]:
    """Whatever a library raises becomes one line that begins with `what`: each library below has errors of its own."""
    try:
        yield
    except (ModelError, MemoryError):
        raise
    except Exception as error:
        raise ModelError(f"{what}: {why(error)}") from error
