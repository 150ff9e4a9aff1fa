"""Adapter for features without a model: the baseline that an encoder is compared with.

    pretrained_model: {source: log-mel, type: LogMel, overrides: {mels: 40, deltas: 0}}

`source` is a label, for the tables. Nothing is learned, so there are no weights to look for.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.errors import ModelError
from profiler.models.formats import Format, Found
from profiler.models.model import Model, ModelRequest, lengths_where_padded, refuse_unknown

if TYPE_CHECKING:
    pass

RATE = 16000
FEWEST_MELS = 4
MOST_DELTAS = 8
DEFAULTS: dict[str, Any] = {"mels": 80, "window_ms": 25.0, "shift_ms": 10.0, "deltas": 2, "normalize": True}
NO_WEIGHTS = "The features are computed, not learned: there are no weights, and the output is what it is anywhere."


class Computed(Format):
    """Complete without any weights, which is why they are never missing."""

    def find(self, request: ModelRequest) -> Found:
        return Found(request.source)


LIBRARY = "features"
INTERFACES = ("LogMel",)
FORMAT = Computed()


def load_pretrained(request: ModelRequest, source: str) -> Model:
    model = build_random(request, None)
    model.weights = "no"
    return model


def build_random(request: ModelRequest, folder: Path | None) -> Model:
    from profiler.models.features.filterbank import Filterbank

    module = Filterbank(**checked(request.overrides)).to(request.device)

    def run(value: tuple[Any, Any]) -> Any:
        waveforms, lengths = value
        return module(waveforms.to(request.device), lengths)

    return Model(module, lengths_where_padded, run, "features", RATE, {"filterbank": module}, [NO_WEIGHTS])


def checked(overrides: dict[str, Any]) -> dict[str, Any]:
    """The settings of the features, as the recipe changes them; one sentence about what cannot be."""
    refuse_unknown(overrides, sorted(DEFAULTS), "LogMel")
    wanted = {**DEFAULTS, **overrides}
    for name in ("window_ms", "shift_ms"):
        value = wanted[name]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1 <= value <= 1000:
            raise ModelError(f"pretrained_model.overrides.{name}: expected 1 to 1000 milliseconds, not {value!r}")
    most_mels = fft_size(samples_in(wanted["window_ms"], RATE)) // 2  # as many as there are frequencies
    for name, least, most in (("mels", FEWEST_MELS, most_mels), ("deltas", 0, MOST_DELTAS)):
        value = wanted[name]
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ModelError(f"pretrained_model.overrides.{name}: expected {least} to {most}, not {value!r}")
    if not isinstance(wanted["normalize"], bool):
        raise ModelError(f"pretrained_model.overrides.normalize: expected true or false, not {wanted['normalize']!r}")
    return wanted


def samples_in(milliseconds: float, rate: int) -> int:
    return int(rate * milliseconds * 0.001)


def fft_size(samples: int) -> int:
    """The next power of two."""
    return 1 << (samples - 1).bit_length()
