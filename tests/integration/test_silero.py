"""Silero VAD with the weights that its package brings: it finds speech, and runs in a fork as it does outside."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profiler.audio import Batch, Speech, read_mono
from profiler.errors import ModelError
from profiler.measure.parameters import count_parameters
from profiler.models.load import load_model
from profiler.models.model import Model, ModelRequest
from tests.helpers import program, tiny

RATE, WINDOW = 16000, 512
REQUEST = ModelRequest(source="silero_vad", type="SileroVAD")


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(REQUEST)


def probabilities(model: Model, waveforms: Any) -> Any:
    import torch

    rows = np.atleast_2d(np.asarray(waveforms, dtype=np.float32))
    with torch.no_grad():
        return model.run(model.prepare(Batch(rows, np.full(len(rows), rows.shape[1]), RATE))).numpy()


def test_speech_is_found_where_it_is(model: Model) -> None:
    recording = read_mono(tiny.SPEECH, RATE)
    found = probabilities(model, recording)[0]
    with tiny.SPEECH.with_suffix(".tsv").open(encoding="utf-8") as file:
        sentences = [(float(row["start"]), float(row["end"])) for row in csv.DictReader(file, delimiter="\t")]
    at = (np.arange(len(found)) + 0.5) * WINDOW / RATE
    for start, end in sentences:
        inside = found[(at > start) & (at < end)]
        assert np.mean(inside > 0.5) > 0.8, (start, end)
    assert found[at < sentences[0][0] - 0.1].max(initial=0.0) < 0.5


@pytest.mark.parametrize("level", [0.0, 0.001, 0.1])
def test_silence_and_noise_are_no_speech(model: Model, level: float) -> None:
    noise = np.random.default_rng(0).standard_normal(5 * RATE) * level
    assert probabilities(model, noise).mean() < 0.1


def test_with_its_network_called_from_here_as_an_engine_is_it_gives_the_same(model: Model) -> None:
    import torch

    assert model.own_export is not None
    assert all(file.is_file() for file in model.own_export.files.values())
    value = model.prepare(Speech(tiny.SPEECH, RATE).batch(3.3, 3, seed=1))
    with torch.no_grad():
        torch.testing.assert_close(model.own_export.run(value), model.run(value))


def test_it_gives_what_the_package_gives(model: Model) -> None:
    import torch
    from silero_vad import load_silero_vad

    given = Speech(tiny.SPEECH, RATE).batch(3.3, 3, seed=1)
    with torch.no_grad():
        expected = load_silero_vad().audio_forward(torch.from_numpy(given.waveforms), RATE)
    assert np.array_equal(probabilities(model, given.waveforms), expected.numpy())


def test_one_recording_does_not_colour_the_next(model: Model) -> None:
    speech = Speech(tiny.SPEECH, RATE).batch(2, 1, seed=1).waveforms
    first = probabilities(model, speech)
    probabilities(model, np.zeros(RATE))
    assert np.array_equal(probabilities(model, speech), first)


def test_every_window_is_a_chunk(model: Model) -> None:
    assert model.chunks is not None
    model.chunks.times.clear()
    assert (model.chunks.seconds, model.chunks.lookahead) == (0.032, 0.0)
    probabilities(model, np.zeros(RATE))
    assert len(model.chunks.times) == 32, "31 whole windows, and one that is filled up"


def test_only_the_network_that_runs_is_counted(model: Model) -> None:
    assert model.weights == "pretrained"
    assert count_parameters(model).total == 243_585
    assert "219,009 parameters, which is not run and not counted" in model.notes[0]


@pytest.mark.slow
def test_loading_leaves_the_number_of_threads_alone() -> None:
    script = """
import torch
torch.set_num_threads(2)
from profiler.models.load import load_model
from profiler.models.model import ModelRequest
load_model(ModelRequest(source="silero_vad", type="SileroVAD"))
assert torch.get_num_threads() == 2
"""
    assert_runs(script)


FORKED = """
import os, sys, torch
from pathlib import Path
torch.set_num_threads(1)
from profiler.audio import Speech
from profiler.models.load import load_model
from profiler.models.model import ModelRequest
model = load_model(ModelRequest(source="silero_vad", type="SileroVAD"))
value = model.prepare(Speech(Path("samples/speech.flac"), 16000).batch(3, 4, seed=2))
child = os.fork()
torch.set_num_threads(2 if child == 0 else 1)
with torch.no_grad():
    for _ in range(3):
        found = model.run(value)
if child == 0:
    torch.save(found, sys.argv[1])
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert torch.allclose(torch.load(sys.argv[1]), found, atol=1e-5)
"""


@pytest.mark.slow
def test_a_fork_of_the_loaded_model_gives_the_same(tmp_path: Path) -> None:
    assert_runs(FORKED, str(tmp_path / "found.pt"))


def assert_runs(script: str, *arguments: str) -> None:
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, cwd=program.ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


# -- what cannot be


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("pretrained_model.weights=random", "is only there with its weights; set weights: auto"),
        ("pretrained_model.source=silero", "set source: silero_vad"),
    ],
)
def test_a_mistake_is_named_before_anything_runs(setting: str, said: str, tmp_path: Path) -> None:
    done = program.run("recipes/silero-vad.yaml", setting, "--logdir", tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_random_weights_and_overrides_are_refused() -> None:
    with pytest.raises(ModelError, match="come with its package"):
        load_model(ModelRequest(**{**vars(REQUEST), "weights": "random"}))
    with pytest.raises(ModelError, match="no configuration to override"):
        load_model(ModelRequest(**{**vars(REQUEST), "overrides": {"threshold": 0.5}}))


def test_without_the_package_the_command_that_installs_it_is_named() -> None:
    script = """
import sys
sys.modules["silero_vad"] = None  # as if it were not installed
from profiler.errors import ModelError
from profiler.models.registry import check_type
try:
    check_type("SileroVAD")
except ModelError as error:
    assert 'pip install "speech-profiler[silero]"' in str(error), error
else:
    raise SystemExit("not refused")
"""
    assert_runs(script)
