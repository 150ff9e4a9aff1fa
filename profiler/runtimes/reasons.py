"""What an exporter, or the engine that tries its file, raised -> a sentence. All of it goes to the worker's log."""

from __future__ import annotations

import functools
import re
import traceback
from collections.abc import Callable
from typing import TypeVar

from profiler.errors import NotSupported, ProfilerError, whole_line

Result = TypeVar("Result")
# In order: the first that is found decides. {} is what its group has.
REASONS = (
    (
        r"No conversion rule found for operations?: (?!prim::)([\w:.]+?)(?:\.\w+)?(?=[,\s]|$)",
        "it has no operator for {}",
    ),
    (r"No ONNX function found for <OpOverload\(op='([\w.:]+?)(?:\.\w+)?'", "it has no operator for {}"),
    (r"[Mm]issing out variants?: \{'?([\w:.]+)", "it has no operator for {}"),
    (
        r"GuardOnDataDependent|data.dependent|DataDependent",
        "the model's code takes a decision that depends on the data, which an export cannot keep",
    ),
    (
        r"finite upper bound|[Uu]nbacked|PendingUnbackedSymbolNotFound",
        "the size of a tensor in it depends on the data, which an export cannot keep",
    ),
    (
        r"ONNXRuntimeError|Failed to execute method|src/inference|src/plugins",
        "its file does not run at every shape that is needed: the export fixed one, or the engine lacks an operator",
    ),
    (
        r"ConstraintViolation|Constraints violated|specialized it to be a constant",
        "the model's code depends on the length or the batch size, which the export would fix",
    ),
    (r"CppCompileError|C\+\+ compile error", "the code that it generates for this model does not compile here"),
    (r"ScriptModule|ScriptFunction|torch\.jit", "a TorchScript module is in it, which torch.export does not take"),
)
LONGEST = 150  # characters of what a library says


def plain_reason(error: BaseException) -> str:
    """For what is not known: the kind of the error, and its first line."""
    causes = [error]
    while (cause := causes[-1].__cause__) is not None:
        causes.append(cause)
    said = "\n".join(f"{type(each).__name__}: {each}" for each in causes)
    for pattern, sentence in REASONS:
        if found := re.search(pattern, said):
            return sentence.format(*found.groups())
    first = re.sub(r"0x[0-9a-f]+|[{}<>]", "", whole_line(str(causes[-1])))[:LONGEST]
    return f"its exporter ends with {type(causes[-1]).__name__}" + (f" ({first})" if first else "")


def explained(work: Callable[[], Result]) -> Callable[[], Result]:
    """The work, with what a library raises in it as NotSupported."""

    @functools.wraps(work)
    def done() -> Result:
        try:
            return work()
        except (ProfilerError, MemoryError):
            raise
        except Exception as error:
            traceback.print_exc()
            raise NotSupported(plain_reason(error)) from None

    return done
