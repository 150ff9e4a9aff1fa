"""Token by token: how `generate` is called, and how many tokens it may write."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from profiler.models.model import ModelRequest

Rows = Callable[[list[Any]], Any]
NEW_TOKENS = 256  # of a language model that names no limit of its own
UNSET = 20  # transformers' max_length where nobody set it
PLAIN = ("greedy", "beam search", "sampling")


class Decoder:
    """Rows of samples -> token ids, by the model's own `generate`; without the tokens of the prompt."""

    def __init__(self, module: Any, inputs: Any, request: ModelRequest, arguments: dict[str, Any], pinned: bool):
        self.module, self.inputs, self.request = module, inputs, request
        self.arguments, self.pinned = arguments, pinned
        self.takes_limits = "kwargs" in inspect.signature(module.generate).parameters

    def __call__(self, rows: list[Any]) -> Any:
        given = self.inputs(rows)
        found = self.module.generate(**given, **self.arguments, **self._limits(rows))
        ids = getattr(found, "sequences", found)
        prompt = given["input_ids"].shape[1] if "input_ids" in given else 0
        return ids if self.module.config.is_encoder_decoder else ids[:, prompt:]

    def _limits(self, rows: list[Any]) -> dict[str, int]:
        most = self.request.new_tokens
        if self.pinned:
            seconds = max(len(row) for row in rows) / self.inputs.rate
            steps = most or max(1, math.ceil(seconds * self.request.tokens_per_second))
            return {"min_new_tokens": steps, "max_new_tokens": steps}
        if most is None and self._lacks_limit():
            most = NEW_TOKENS
        return {} if most is None else {"max_new_tokens": most}

    def _lacks_limit(self) -> bool:
        """Of a language model: an ASR model's default, 20 tokens in all, is its own affair."""
        if self.module.config.is_encoder_decoder or {"max_new_tokens", "max_length"} & set(self.arguments):
            return False
        own = self.module.generation_config
        return own.max_new_tokens is None and own.max_length in (None, UNSET)

    def notes(self) -> list[str]:
        notes = [how_it_decodes(self.module.generation_config, self.arguments)]
        if self.pinned and self.request.new_tokens:
            notes.append(f"With random weights the decoder is made to write {self.request.new_tokens} tokens.")
        elif self.pinned:
            notes.append(
                f"With random weights the decoder is made to take {self.request.tokens_per_second:g} steps per second "
                "of audio, as it does on speech."
            )
        elif self.request.new_tokens or self._lacks_limit():
            notes.append(
                f"At most {self.request.new_tokens or NEW_TOKENS} new tokens (pretrained_model.new_tokens); fewer "
                "where the model ends before."
            )
        return notes


def how_it_decodes(generation: Any, arguments: dict[str, Any]) -> str:
    """What decides the cost: 'Decoding: beam search with 5 beams, language en, at most 444 tokens in a window.'"""
    beams, samples, language = (
        arguments.get(name, getattr(generation, name, None)) for name in ("num_beams", "do_sample", "language")
    )
    how = f"beam search with {beams} beams" if beams and beams > 1 else "sampling" if samples else "greedy"
    return f"Decoding: {how}" + (f", language {language}" if isinstance(language, str) else "") + "."
