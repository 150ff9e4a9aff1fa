"""What a decoder does in a call: when its first token is there, how fast the others follow, how large its cache grows.

A hook on the model sees each step as it ends. It is there in this pass alone, and in up to three calls of it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from profiler.measure.passes.base import Absent, Pass, Work
from profiler.results.metric import HIGHER, detail, of
from profiler.results.types import CellResult

if TYPE_CHECKING:
    from profiler.recipe.schema import Recipe

DECODERS = ("AutoModelForSpeechSeq2Seq", "AutoModelForMultimodalLM")
CALLS, ENOUGH_SECONDS = 3, 2.0  # no further call once they took so long


def _of(name: str) -> Any:
    return of("figures", "decoding", name)


class DecodingPass(Pass[dict[str, float], dict[str, float]]):
    name = "decoding"
    table = "Decoding"
    absent = "Decoding was not watched"
    metrics = (
        detail("first_token", "time to first token", "s", "time_to_first_token_s", _of("first_token_s")),
        detail("token_rate", "tokens per second", "", "tokens_per_second", _of("tokens_per_second"), **HIGHER),
        detail("tokens", "tokens per recording", "count", "tokens_per_recording", _of("tokens")),
        detail("encoder_calls", "windows", "count", "encoder_windows", _of("windows")),
        detail("cache", "key-value cache", "bytes", "key_value_cache_bytes", _of("cache_bytes")),
    )

    def wanted(self, recipe: Recipe) -> bool:
        return recipe.mode == "inference" and recipe.pretrained_model.type in DECODERS

    def measure(self, work: Work) -> dict[str, float] | Absent:
        watch, begun = _Watch(work), time.perf_counter()
        calls: list[dict[str, float]] = []
        most = 1 if work.long else CALLS
        try:
            while len(calls) < most and (not calls or time.perf_counter() - begun < ENOUGH_SECONDS):
                calls.append(watch.call())
        finally:
            watch.close()
        if not watch.steps:
            return Absent("the model's decoder keeps no key-value cache, by which its steps are known")
        return {name: statistics.median(call[name] for call in calls if name in call) for name in calls[0]}

    def remarks(self, cells: Sequence[CellResult]) -> list[str]:
        return [
            "Medians of up to three calls, apart from those that were timed. Tokens per second: of all recordings of a "
            "call together, after the first token. The cache is that of all recordings and beams, at its largest."
        ]


PASS = DecodingPass()


class _Watch:
    """Hooks on a model that decodes, while it is called."""

    def __init__(self, work: Work) -> None:
        self.work, module = work, work.model.module
        self.rows = len(work.inputs[0])
        self.hooks = [module.register_forward_hook(self._step)]
        if module.config.is_encoder_decoder:
            self.hooks.append(module.get_encoder().register_forward_hook(self._window))
        self._reset()

    def _reset(self) -> None:
        self.steps = self.windows = self.largest = 0
        self.first: float | None = None
        self.cache: Any = None

    def call(self) -> dict[str, float]:
        self._reset()
        self.work.device.synchronize()
        start = time.perf_counter()
        self.work.run(self.work.inputs[0])
        self.work.device.synchronize()
        seconds = time.perf_counter() - start
        self._weigh()
        first = (self.first or start) - start
        rest = seconds - first
        found = {"first_token_s": first, "tokens": self.steps, "cache_bytes": self.largest}
        found |= {"tokens_per_second": (self.steps - 1) * self.rows / rest} if self.steps > 1 and rest > 0 else {}
        return found | ({"windows": self.windows} if self.windows else {})

    def _step(self, module: Any, given: Any, output: Any) -> None:
        cache = getattr(output, "past_key_values", None)
        if cache is None:
            return
        if self.first is None:
            self.work.device.synchronize()
            self.first = time.perf_counter()
        if cache is not self.cache:  # of another window
            self._weigh()
            self.cache = cache
        self.steps += 1

    def _window(self, *_: Any) -> None:
        self.windows += 1

    def _weigh(self) -> None:
        """The bytes of the cache that grew until now; each tensor once."""
        self.largest = max(self.largest, sum({id(each): each.nbytes for each in _tensors(self.cache)}.values()))
        self.cache = None

    def close(self) -> None:
        for hook in self.hooks:
            hook.remove()


def _tensors(value: Any, depth: int = 5) -> list[Any]:
    """All tensors in a cache, of whatever class: lists of layers, and objects with keys and values."""
    if hasattr(value, "nbytes"):
        return [value]
    if depth == 0 or value is None or isinstance(value, (str, int, float)):
        return []
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else None
    if inner is None:
        inner = vars(value).values() if hasattr(value, "__dict__") else ()
    return [each for part in inner for each in _tensors(part, depth - 1)]
