"""Inputs and outputs of an exported file -> how it is called: with waveforms or features, with lengths or a mask.

What the shapes tell counts before what the recipe says, for the file takes nothing else; where they tell nothing (an
AOTInductor package does not say), the recipe's `input`, `lengths` and `mels` count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from profiler.errors import ModelError

if TYPE_CHECKING:
    from profiler.models.model import ModelRequest
    from profiler.runtimes.base import TensorInfo

FLOATS = ("float32", "float16", "bfloat16", "float64")
WIDEST = 256  # features of a frame; a size of an input that is larger is a number of frames or samples
SAMPLES_AT_LEAST = 1000  # of a fixed length


@dataclass(frozen=True)
class Signature:
    """How a file is called."""

    features: bool = False
    mels: int = 80
    frames_last: bool = False  # [batch, mels, frames]
    channel: bool = False  # [batch, 1, samples]
    dtype: str = "float32"
    lengths: str = ""  # fractions, counts, mask; empty: none is taken
    lengths_dtype: str = "float32"
    batch: int | None = None  # the only one that it takes
    fixed: int | None = None  # samples or frames, likewise

    @property
    def text(self) -> str:
        """'log-mel features [batch, 80, frames] and lengths'."""
        rows = str(self.batch or "batch")
        length = str(self.fixed or ("frames" if self.features else "samples"))
        if self.features:
            shape = f"{self.mels}, {length}" if self.frames_last else f"{length}, {self.mels}"
            what = f"log-mel features [{rows}, {shape}]"
        else:
            what = f"waveforms [{rows}, 1, {length}]" if self.channel else f"waveforms [{rows}, {length}]"
        beside = {"": "", "mask": " and a mask"}.get(self.lengths, f" and lengths in {self.lengths}")
        return what + beside


def read_signature(inputs: Sequence[TensorInfo], request: ModelRequest) -> Signature:
    """Raises ModelError where the file takes something else than audio and its lengths."""
    if not inputs:
        lengths = request.lengths if request.input.endswith("_and_lengths") else ""
        return Signature(
            request.input.startswith("features"),
            request.mels,
            lengths=lengths,
            lengths_dtype="int64" if lengths == "counts" else "float32",
        )
    audio, *beside = inputs
    if audio.dtype not in FLOATS or len(audio.shape) not in (2, 3) or len(beside) > 1:
        raise ModelError(_refusal(request.source, inputs))
    found = _of_audio(audio, request)
    if not beside:
        return found
    other = beside[0]
    if len(other.shape) == 2 and other.dtype not in FLOATS:
        return replace(found, lengths="mask", lengths_dtype=other.dtype)
    if len(other.shape) != 1:
        raise ModelError(_refusal(request.source, inputs))
    lengths = request.lengths if other.dtype in FLOATS else "counts"
    return replace(found, lengths=lengths, lengths_dtype=other.dtype)


def _of_audio(audio: TensorInfo, request: ModelRequest) -> Signature:
    batch, *rest = audio.shape
    if len(rest) == 1:
        return Signature(dtype=audio.dtype, batch=batch, fixed=rest[0])
    if rest[0] == 1 and (rest[1] is None or rest[1] >= SAMPLES_AT_LEAST):
        return Signature(dtype=audio.dtype, batch=batch, channel=True, fixed=rest[1])
    widths = [size if size is not None and size <= WIDEST else None for size in rest]
    last = widths[0] is not None and (widths[1] is None or request.mels == widths[0])
    mels = widths[0] if last else widths[1]
    fixed = rest[1] if last else rest[0]
    return Signature(True, mels or request.mels, last, dtype=audio.dtype, batch=batch, fixed=fixed)


def _refusal(source: str, inputs: Sequence[TensorInfo]) -> str:
    def shape(info: TensorInfo) -> str:
        return ", ".join("any" if size is None else str(size) for size in info.shape)

    has = "; ".join(f"{info.name} {info.dtype} [{shape(info)}]" for info in inputs)
    return (
        f"{source} takes {has}. What can be given are waveforms [batch, samples] or features [batch, frames, mels], "
        "alone or with lengths [batch] or a mask. Export the model with such inputs, or wrap it in a class "
        "(type: Module)."
    )
