"""The filterbank is Kaldi's, for a whole batch at once, and each recording of a batch is treated by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profiler.audio import Batch, Speech
from profiler.errors import ModelError
from profiler.measure.parameters import count_parameters, size_bytes
from profiler.models.features.filterbank import Filterbank
from profiler.models.load import build_for_counting, load_model
from profiler.models.model import ModelRequest
from profiler.models.torchaudio.on_cpu import ensure_torchaudio
from tests.helpers import tiny
from tests.helpers.program import ROOT


def speech(seconds: float, rows: int = 2, padding: float = 0.0) -> Batch:
    return Speech(tiny.SPEECH, 16000).batch(seconds, rows, seed=3, padding=padding)


def waveforms(seconds: float, rows: int = 2) -> Any:
    import torch

    return torch.from_numpy(speech(seconds, rows).waveforms)


def kaldi(waveform: Any, **settings: Any) -> Any:
    """torchaudio's own, one recording at a time; dither 0."""
    ensure_torchaudio()
    from torchaudio.compliance.kaldi import fbank

    return fbank(waveform[None], sample_frequency=settings.pop("rate", 16000), dither=0.0, **settings)


def log_mel(**more: Any) -> ModelRequest:
    return ModelRequest(source="log-mel", type="LogMel", **more)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({}, {"num_mel_bins": 80}),
        ({"mels": 23, "window_ms": 32.0, "shift_ms": 8.0}, {"frame_length": 32.0, "frame_shift": 8.0}),
        ({"mels": 40, "rate": 8000}, {"num_mel_bins": 40, "rate": 8000}),
    ],
)
@pytest.mark.parametrize("seconds", [0.033, 1.0, 2.345])
def test_it_gives_kaldis_figures(ours: dict[str, Any], theirs: dict[str, Any], seconds: float) -> None:
    import torch

    rows = waveforms(seconds, 3)
    values = Filterbank(**ours)(rows)
    expected = torch.stack([kaldi(row, **theirs) for row in rows])
    assert values.shape == expected.shape
    torch.testing.assert_close(values, expected, atol=1e-3, rtol=0)


def test_deltas_and_normalisation_are_those_of_the_baseline() -> None:
    import torch

    rows = waveforms(1.5)
    values = Filterbank(deltas=2, normalize=True)(rows)
    assert values.shape == (2, 148, 240)
    from torchaudio.functional import compute_deltas

    for row, value in zip(rows, values, strict=True):
        plain = kaldi(row, num_mel_bins=80).T
        first = compute_deltas(plain)
        expected = torch.cat([plain, first, compute_deltas(first)]).T
        expected = (expected - expected.mean(0)) / expected.std(0)
        torch.testing.assert_close(value, expected, atol=2e-3, rtol=0)


@pytest.mark.parametrize(("samples", "frames"), [(400, 1), (401, 1), (559, 1), (560, 2), (16000, 98)])
def test_only_whole_windows_are_frames(samples: int, frames: int) -> None:
    import torch

    assert Filterbank()(torch.zeros(1, samples)).shape == (1, frames, 80)


@pytest.mark.parametrize("normalize", [False, True])
def test_a_padded_row_gives_what_it_gives_alone_and_zeros_after_it(normalize: bool) -> None:
    import torch

    padded = speech(1.0, 4, padding=0.6)
    features = Filterbank(deltas=2, normalize=normalize)
    together = features(torch.from_numpy(padded.waveforms), torch.from_numpy(padded.lengths))
    assert len(set(padded.lengths)) == 4
    for row, length, values in zip(padded.waveforms, padded.lengths, together, strict=True):
        alone = features(torch.from_numpy(row[None, :length]))[0]
        frames = len(alone)
        torch.testing.assert_close(values[:frames], alone, atol=1e-3, rtol=1e-4)
        assert not values[frames:].any()


@pytest.mark.parametrize("samples", [400, 16000])
def test_silence_and_a_single_frame_give_numbers(samples: int) -> None:
    import torch

    assert Filterbank(deltas=2, normalize=True)(torch.zeros(2, samples)).isfinite().all()


def test_a_clip_shorter_than_a_window_is_an_error_in_a_sentence() -> None:
    model = load_model(log_mel())
    model.prepare(speech(0.01))
    with pytest.raises(ModelError, match=r"10 ms of audio is shorter than one window of the features \(25 ms\)"):
        model.run(model.prepare(speech(0.01)))


def test_log_mel_is_a_model_without_parameters() -> None:
    model = load_model(log_mel())
    assert model.output == "features"
    assert model.run(model.prepare(speech(1.0))).shape == (2, 98, 240)
    assert model.weights == "no"
    assert "no weights" in model.notes[0]
    for built in (model, build_for_counting(log_mel())):
        counted = count_parameters(built)
        assert (counted.total, counted.trainable, counted.components) == (0, 0, {})
        assert size_bytes(built).total == 0


def test_it_can_be_asked_for_under_every_setting_of_weights() -> None:
    outputs = []
    for weights in ("auto", "pretrained", "random"):
        model = load_model(log_mel(weights=weights))
        outputs.append(model.run(model.prepare(speech(0.5))).numpy())
    assert np.array_equal(outputs[0], outputs[1])
    assert np.array_equal(outputs[0], outputs[2])


def test_overrides_change_the_features() -> None:
    changed = {"mels": 40, "window_ms": 20, "shift_ms": 20.0, "deltas": 0, "normalize": False}
    model = load_model(log_mel(overrides=changed))
    assert model.run(model.prepare(speech(1.0))).shape == (2, 50, 40)


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        ({"mel": 40}, "LogMel has no `mel`. Did you mean `mels`?"),
        ({"mels": 3}, "mels: expected 4 to 256, not 3"),
        ({"mels": 300}, "mels: expected 4 to 256, not 300"),
        ({"mels": 40.0}, "mels: expected 4 to 256, not 40.0"),
        ({"deltas": -1}, "deltas: expected 0 to 8, not -1"),
        ({"deltas": True}, "deltas: expected 0 to 8, not True"),
        ({"window_ms": 0}, "window_ms: expected 1 to 1000 milliseconds, not 0"),
        ({"shift_ms": "10"}, "shift_ms: expected 1 to 1000 milliseconds, not '10'"),
        ({"normalize": "yes"}, "normalize: expected true or false, not 'yes'"),
    ],
)
def test_settings_that_cannot_be_are_refused(overrides: dict[str, Any], says: str) -> None:
    with pytest.raises(ModelError) as caught:
        load_model(log_mel(overrides=overrides))
    assert says in str(caught.value)


def test_the_shipped_recipe_says_what_the_defaults_are() -> None:
    from profiler.models.features.adapter import DEFAULTS
    from profiler.recipe.load import load_recipe

    recipe = load_recipe(Path(tiny.RECIPES / "log-mel.yaml"), read_audio=False).recipe
    assert recipe.pretrained_model.overrides.items() <= DEFAULTS.items()


def test_counting_on_the_meta_device_leaves_kaldis_constants_real() -> None:
    """torchaudio makes one when it is imported, which a count may be the first to do; in a process of its own."""
    script = (
        "from profiler.models.load import build_for_counting\n"
        "from profiler.models.model import ModelRequest\n"
        "build_for_counting(ModelRequest(source='torch.nn.Identity', type='Module', weights='random'))\n"
        "from torchaudio.compliance.kaldi import EPSILON\n"
        "print(EPSILON.is_meta)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "False", done.stderr
