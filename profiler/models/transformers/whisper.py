"""Whisper through transformers: a model that takes exactly one window, 30 s, at a time.

Audio up to a window is padded to it. What is longer goes through transformers' own long-form decoding, which moves from
window to window by the timestamps that the model writes. Untrained weights write timestamps that mean nothing, so that
their windows are cut here, one after another, and the decoder takes the steps of the speech in each.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from profiler.errors import ModelError
from profiler.models.model import ModelRequest
from profiler.models.transformers.decoding import how_it_decodes

if TYPE_CHECKING:
    from profiler.audio import Batch

PROMPT = 4  # tokens that the decoder is given to start from: start, language, task, no timestamps
LENGTHS = ("min_new_tokens", "max_new_tokens", "min_length", "max_length")  # decided here with random weights
NEWER = {"language": "lang_to_id", "task": "task_to_id"}  # what generation_config.json must have for an argument


def is_whisper(module: Any, extractor: Any) -> bool:
    return module.config.model_type == "whisper" and hasattr(extractor, "n_samples")


class Whisper:
    """A loaded Whisper and its feature extractor: rows of samples to hidden states or token ids."""

    def __init__(
        self, module: Any, extractor: Any, request: ModelRequest, arguments: dict[str, Any], pinned: bool
    ) -> None:
        self.module = module
        self.arguments = arguments  # of `generate`
        self.extractor = extractor
        self.request = request
        self.pinned = pinned
        self.rate = int(extractor.sampling_rate)
        self.window = int(extractor.n_samples)
        for name, needed in NEWER.items():
            if arguments.get(name) is not None and not getattr(module.generation_config, needed, None):
                raise ModelError(
                    f"pretrained_model.overrides: `{name}` needs `{needed}` in the generation_config.json of "
                    f"{request.source}, which is of an older version: copy that file from today's folder of the same "
                    f"model, or leave `{name}` out"
                )

    def notes(self, decodes: bool) -> list[str]:
        seconds = f"{self.window / self.rate:g} s"
        heard = (
            f"The model takes {seconds} at a time: shorter audio is padded to {seconds} and costs its encoder as much"
        )
        if not decodes:
            return [f"{heard}; longer audio is cut into windows of {seconds}, one after another."]
        if self.pinned:
            notes = [
                f"{heard}; longer audio is cut into windows of {seconds}, each decoded by itself, because with random "
                "weights the timestamps by which the model would move on mean nothing.",
                self._pinned(),
            ]
        else:
            notes = [
                f"{heard}; longer audio goes through transformers' long-form decoding, window by window, as the "
                "timestamps that the model writes move it on."
            ]
        generation = self.module.generation_config
        notes.append(how_it_decodes(generation, self.arguments))
        language = self.arguments.get("language", getattr(generation, "language", None))
        if getattr(generation, "lang_to_id", None) and language is None:
            notes.append(
                "The language is not given: the model detects it first, for which its encoder takes the first window "
                "once more. Name it in pretrained_model.overrides, for example {language: en}."
            )
        return notes

    def _pinned(self) -> str:
        rate = self.request.tokens_per_second
        note = f"With random weights the decoder is made to take {rate:g} steps per second of audio"
        if rate * self.window / self.rate > self._room():
            note += f", at most the {self._room()} that it has room for in a window"
        return f"{note}, as it does on speech."

    def _room(self) -> int:
        return int(self.module.config.max_target_positions) - PROMPT

    def prepare(self, batch: Batch) -> list[Any]:
        return [row[:length] for row, length in zip(batch.waveforms, batch.lengths, strict=True)]

    def prepare_to_decode(self, batch: Batch) -> list[Any]:
        longer = batch.waveforms.shape[1] > self.window
        if longer and not self.pinned and not hasattr(self.module.generation_config, "no_timestamps_token_id"):
            raise ModelError(
                f"{self.request.source} takes {self.window / self.rate:g} s at a time, and for longer audio its "
                "generation_config.json must name no_timestamps_token_id: take shorter audio, or add it"
            )
        return self.prepare(batch)

    def hidden_states(self, rows: list[Any]) -> Any:
        """What the encoder makes of every window, one after another in time; what is missing of a row is silence."""
        import torch

        encoder = self.module.get_encoder()
        longest = max(len(row) for row in rows)
        windows = [
            [row[start : start + self.window] for row in rows] for start in range(0, max(1, longest), self.window)
        ]
        return torch.cat([encoder(self._features(pieces).input_features).last_hidden_state for pieces in windows], 1)

    def token_ids(self, rows: list[Any]) -> Any:
        """The tokens of each row."""
        if self.pinned:
            return self._pinned_ids(rows)
        if max(len(row) for row in rows) <= self.window:
            return self.module.generate(**self._features(rows), **self._limits(), **self.arguments)
        whole = self._features(rows, padding="longest", truncation=False, return_attention_mask=True)
        return self.module.generate(**whole, **{"return_timestamps": True, **self._limits(), **self.arguments})

    def _limits(self) -> dict[str, int]:
        return {} if self.request.new_tokens is None else {"max_new_tokens": self.request.new_tokens}

    def _pinned_ids(self, rows: list[Any]) -> list[list[int]]:
        ids: list[list[int]] = [[] for _ in rows]
        for start in range(0, max(len(row) for row in rows), self.window):
            pieces = {index: row[start : start + self.window] for index, row in enumerate(rows) if len(row) > start}
            seconds = max(len(piece) for piece in pieces.values()) / self.rate
            steps = min(self._room(), max(1, math.ceil(seconds * self.request.tokens_per_second)))
            # One pass of the decoder: timestamps among untrained tokens would send it back into the same window.
            written = self.module.generate(
                **self._features(list(pieces.values())),
                min_new_tokens=steps,
                max_new_tokens=steps,
                force_unique_generate_call=True,
                **{name: value for name, value in self.arguments.items() if name not in LENGTHS},
            )
            for index, new in zip(pieces, written[:, -steps:].tolist(), strict=True):
                ids[index] += new
        return ids

    def _features(self, rows: list[Any], padding: str = "max_length", **more: Any) -> Any:
        features = self.extractor(rows, sampling_rate=self.rate, return_tensors="pt", padding=padding, **more)
        return features.to(self.request.device)
