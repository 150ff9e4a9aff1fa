"""What a worker reports of its calls becomes kept texts and an entry of the results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler.accuracy import transcripts
from profiler.dataset.items import Utterance
from profiler.dataset.plan import DatasetPlan
from profiler.execution.channel import BatchDone
from profiler.execution.dataset_state import DatasetState
from profiler.execution.scoring import RunScores
from profiler.recipe.schema import Dataset
from profiler.report.dataset import accuracy_tables
from profiler.results.types import Accuracy, LeftOut, ModelResult, Results, Run

UTTERANCES = [Utterance(f"u{n}", 1.0 + n, Path("a.wav"), text=text) for n, text in enumerate(["yes", "no", "oh no"])]
PLAN = DatasetPlan(
    name="set.csv",
    format="csv",
    settings=Dataset(source="set.csv"),
    utterances=UTTERANCES,
    all_batches=[tuple(UTTERANCES[:2]), tuple(UTTERANCES[2:])],
    batches=[tuple(UTTERANCES[:2]), tuple(UTTERANCES[2:])],
    scored=True,
)


def first(texts: list[str] | None) -> BatchDone:
    """What a worker says of the first batch."""
    ids = ["u0", "u1"]
    return BatchDone(number=0, latency=0.25, seconds_of_audio=3.0, padded_seconds=4.0, ids=ids, texts=texts)


@pytest.fixture
def scoring(tmp_path: Path) -> RunScores:
    (tmp_path / "float32").mkdir()
    return RunScores.of(PLAN, tmp_path, ["float32"], [])


def entry(scoring: RunScores, state: DatasetState, weights: Any = "pretrained", output: str = "text") -> Accuracy:
    model = ModelResult(variant="float32", source="x", type="y", weights=weights, output=output)
    found = scoring.record(state, state.result("", ""), model)
    assert found is not None
    return found


def told(record: Accuracy) -> str:
    run = Run(id="1", recipe="r", recipe_sha256="", command="", started="")
    return accuracy_tables(Results(run=run, accuracy=[record]), "x")[0].markdown()


def test_texts_of_the_first_round_count_and_others_are_compared(scoring: RunScores) -> None:
    state = DatasetState.of("float32", PLAN)
    event = first(["yes", "yes"])
    state.add(event)
    scoring.keep("float32", event, 0)
    scoring.keep("float32", first(["yes", "no"]), 0)
    found = entry(scoring, state)
    assert found.wer is not None
    assert (found.wer.value, found.utterances, found.of_utterances) == (0.5, 2, 3)
    assert found.changed_texts == 1
    assert found.left_out == [LeftOut(reason="not transcribed yet", utterances=1, ids=["u2"])]
    assert "1 utterances got another text in a later round" in told(found)
    kept = transcripts.read(scoring.folder / "float32" / transcripts.FILE)
    assert [(t.hypothesis, t.latency_s, t.batch_size) for t in kept.values()] == [("yes", 0.25, 2)] * 2


def test_an_earlier_run_is_taken_up(scoring: RunScores) -> None:
    scoring.keep("float32", first(["yes", "no"]), 0)
    again = RunScores.of(PLAN, scoring.folder, ["float32"], [])
    state = DatasetState.of("float32", PLAN)
    state.recover(again.texts["float32"])
    assert state.to_do(0) == [1]
    assert (state.batches[0].latency_s, state.batches[0].seconds_of_audio, state.batches[0].padded_seconds) == (
        [0.25],
        3,
        4,
    )
    assert entry(again, state).utterances == 2


@pytest.mark.parametrize(
    ("weights", "output", "texts", "reason"),
    [
        ("random", "text", ["yes", "no"], "random weights"),
        ("pretrained", "hidden states", None, "the model's final output is hidden states, not text"),
        ("no", "features", None, "the model's final output is features, not text"),
    ],
)
def test_without_a_rate_there_is_a_reason(
    scoring: RunScores, weights: str, output: str, texts: list[str] | None, reason: str
) -> None:
    scoring.keep("float32", first(texts), 0)
    found = entry(scoring, DatasetState.of("float32", PLAN), weights, output)
    assert (found.wer, found.reason) == (None, reason)
    assert f" {reason} |" in told(found)


def test_a_long_reason_stands_below_the_table(scoring: RunScores) -> None:
    state = DatasetState.of("float32", PLAN)
    state.failure = "the weights of this model are not available, " * 3
    table = told(entry(scoring, state))
    assert " none |" in table
    assert "no error rate: the weights of this model" in table


def test_a_perfect_score_says_what_is_not_known(scoring: RunScores) -> None:
    scoring.keep("float32", first(["Yes.", "No."]), 0)
    found = entry(scoring, DatasetState.of("float32", PLAN))
    assert found.wer is not None
    assert found.wer.value == 0
    assert "with 95 % confidence at most 77.6% of such utterances have one" in told(found)
