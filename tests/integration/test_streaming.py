"""An ASR model that takes its audio in chunks: each chunk is timed, and the tables say what its listener waits."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from profiler.errors import ModelError
from profiler.execution.cell import CellState
from profiler.execution.channel import PassDone
from profiler.measure.latency import Timing
from profiler.measure.passes.time import KEPT_IN_ROUND, ChunkRound, Round, add_round, chunk_round
from profiler.models.load import load_model
from profiler.models.model import Chunks, ModelRequest
from profiler.plan import Cell
from profiler.recipe.load import load_recipe
from profiler.report.tables import chunk_table
from profiler.results.types import CellInput, CellResult, Condition
from tests.helpers import program, tiny
from tests.helpers.road import Done, go
from tests.helpers.shipped import EMFORMER
from tests.integration.test_torchaudio_models import TRANSDUCER, batch, run

CHUNK = 0.16
LOOKAHEAD = 0.04


def stream() -> Any:
    return load_model(ModelRequest(source=TRANSDUCER, type="RNNTStreaming", weights="random", overrides=EMFORMER))


# -- the model


@pytest.mark.parametrize("seconds", [0.1, 0.16, 1, 2.7])
def test_every_chunk_is_timed(seconds: float) -> None:
    model = stream()
    assert (model.chunks.seconds, model.chunks.lookahead) == (CHUNK, LOOKAHEAD)
    run(model, batch(seconds))
    assert len(model.chunks.times) == math.ceil(seconds / CHUNK)
    assert all(taken > 0 for taken in model.chunks.times)


def test_chunks_follow_the_sizes_of_the_model() -> None:
    model = load_model(
        ModelRequest(
            source=TRANSDUCER,
            type="RNNTStreaming",
            weights="random",
            overrides={**EMFORMER, "segment_length": 32, "right_context_length": 8},
        )
    )
    assert model.chunks is not None
    assert (model.chunks.seconds, model.chunks.lookahead) == (0.32, 0.08)
    run(model, batch(1))
    assert len(model.chunks.times) == 4


def test_the_whole_utterance_has_no_chunks() -> None:
    model = load_model(ModelRequest(source=TRANSDUCER, type="RNNTBundle", weights="random", overrides=EMFORMER))
    assert model.chunks is None


def test_a_stream_is_one_recording() -> None:
    with pytest.raises(ModelError, match=r"set batch_sizes: \[1\]"):
        stream().prepare(batch(1, 2))


def test_batches_are_refused_before_anything_runs(tmp_path: Path) -> None:
    done = program.run("recipes/streaming.yaml", "profiling_dimensions.batch_sizes=[1,2]", "--logdir", tmp_path)
    assert done.returncode == 2
    assert "profiling_dimensions.batch_sizes: the interface RNNTStreaming takes one recording at a time" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_streaming_and_whole_utterances_are_measured_alike() -> None:
    live, whole = (load_recipe(tiny.RECIPES / f"{name}.yaml").recipe for name in ("streaming", "transducer"))
    assert live.profiling_dimensions.audio_mockup_secs == whole.profiling_dimensions.audio_mockup_secs
    assert live.profiling_dimensions.example_audio == whole.profiling_dimensions.example_audio
    assert live.variants == whole.variants
    assert live.measure == whole.measure
    assert live.pretrained_model.overrides == whole.pretrained_model.overrides


# -- the figures


def chunks_of(times: list[float], seconds: float = CHUNK) -> Chunks:
    return Chunks(seconds, LOOKAHEAD, times)


def test_a_round_sends_what_it_saw() -> None:
    figures = chunk_round(chunks_of([0.1, 0.2, 0.15]), seed=0)
    assert figures == ChunkRound(seconds=CHUNK, lookahead_s=LOOKAHEAD, n=3, late=1, max=0.2, samples=[0.1, 0.2, 0.15])


def test_of_many_chunks_some_are_kept_and_the_rest_is_counted() -> None:
    times = [number / 10_000 for number in range(5000)]
    figures = chunk_round(chunks_of(times), seed=0)
    assert figures.n == 5000
    assert figures.late == sum(taken > CHUNK for taken in times)
    assert figures.max == times[-1]
    assert len(figures.samples) == KEPT_IN_ROUND
    assert set(figures.samples) <= set(times)
    made = add_round(None, figures)
    assert made is not None
    assert made.median == pytest.approx(0.25, rel=0.1)


def test_percentiles_wait_for_enough_chunks() -> None:
    few = add_round(None, chunk_round(chunks_of([0.1] * 100), seed=0))
    assert few is not None
    assert set(few.percentiles) == {"p50", "p90"}
    many = add_round(few, chunk_round(chunks_of([0.1] * 600), seed=0))
    assert many is not None
    assert "p99" in many.percentiles


def add(state: CellState, times: list[float]) -> None:
    """A round of two calls, in which the chunks took so long."""
    timing = Timing(samples=[0.5, 0.6], cpu=[0.9, 1.0], warmup=[0.7])
    made = Round(timing, chunks=chunk_round(chunks_of(times), seed=0))
    done = PassDone(name="time", result=made, input=CellInput(seconds_of_audio=1.0), work_s=1.0)
    state.add({"time": done}, Condition())


def test_a_resumed_cell_goes_on_with_its_chunks() -> None:
    cell = Cell("float32", 1.0, 1)
    whole = CellState(cell)
    add(whole, [0.1, 0.2])
    stored = json.dumps(whole.result(0.03, "region", "audio").model_dump(mode="json"))
    resumed = CellState.from_result(cell, CellResult.model_validate_json(stored))
    for state in (whole, resumed):
        add(state, [0.05, 0.3, 0.1])
    found, expected = (state.result(0.03, "region", "audio").chunks for state in (resumed, whole))
    assert found == expected
    assert found is not None
    assert (found.n, found.late, found.max) == (5, 2, 0.3)
    assert found.over == pytest.approx(0.4)


def test_the_table_says_what_a_listener_waits() -> None:
    state = CellState(Cell("float32", 1.0, 1))
    add(state, [0.05] * 7 + [0.2])
    table = chunk_table("Latency", [state.result(0.03, "region", "audio")])
    assert table is not None
    row = dict(zip(table.header, table.rows[0], strict=True))
    assert row == {
        "audio x batch": "1 s x 1",
        "chunk": "160",
        "lookahead": "40.0",
        "median": "50.0",
        "p90": "n/a",
        "p99": "n/a",
        "max": "200",
        "RTF of a chunk": "0.312",
        "late, %": "12",
        "delay": "250",
    }
    assert "662 chunks for p99" in table.remarks[-1]


def test_other_models_have_no_such_table() -> None:
    assert chunk_table("Latency", [CellResult(variant="a", seconds=1, batch_size=1, status="ok")]) is None


# -- the whole road


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    return go(
        "recipes/streaming.yaml",
        tmp_path_factory.mktemp("logs"),
        "pretrained_model.weights=random",
        f"pretrained_model.overrides={json.dumps(EMFORMER)}",
        "profiling_dimensions.audio_mockup_secs=[0.5, 1]",
        "measure.rounds=2",
        "measure.budget=0.1",
        "measure.warmup=1",
        "--quiet",
    )


@pytest.mark.slow
def test_results_have_the_chunks_of_all_timed_calls_and_no_others(done: Done) -> None:
    assert len(done.results["cells"]) == 2
    for cell in done.results["cells"]:
        chunks = cell["chunks"]
        in_a_call = math.ceil(cell["seconds"] / CHUNK)
        assert chunks["n"] == cell["latency_s"]["n"] * in_a_call == len(chunks["samples"])
        assert (chunks["seconds"], chunks["lookahead_s"]) == (CHUNK, LOOKAHEAD)
        assert 0 < chunks["median"] <= chunks["max"] == max(chunks["samples"])
        assert chunks["over"] == chunks["late"] / chunks["n"]
        assert sum(chunks["samples"]) < sum(cell["latency_s"]["samples"]), "chunks are parts of calls"


@pytest.mark.slow
def test_the_table_is_printed(done: Done) -> None:
    assert "**Latency of each chunk, in ms - torchaudio:EMFORMER_RNNT_BASE_LIBRISPEECH" in done.stdout
    assert "Delay: from the first sound of a chunk to its result" in done.tables
