"""Pairing, what differs, what stands beside speed, and runs that are not whole."""

from __future__ import annotations

from typing import Any

import pytest

from profiler import compare
from profiler.errors import UserError
from profiler.recipe.schema import Recipe
from profiler.report.comparison.words import headline
from profiler.results import Accuracy, ErrorRate, Results
from tests.synthetic import Machine, Made, make

BASE = make(Made(1, id="base"))


def damaged(change: Any, **more: Any) -> Results:
    """A run whose first cell was changed."""
    results = make(Made(2, id="other", **more))
    change(results.cells[0])
    return results


def test_cells_are_paired_by_variant_seconds_and_batch() -> None:
    other = make(Made(2, grid=((0.5, 1), (8.0, 1)), variants=("float32", "int8")))
    (found,) = compare(BASE, other).others
    assert [(cell.variants, cell.label) for cell in found.cells] == [(("float32", "float32"), "0.5 s x 1")]
    assert "float32 4 s x 2" in found.only_in_baseline
    assert found.only_in_other == ["float32 8 s x 1", "int8 (all cells)"]


def test_two_runs_of_one_variant_each_are_paired_whatever_it_is_called() -> None:
    (found,) = compare(BASE, make(Made(2, variants=("int8",)))).others
    assert {cell.variants for cell in found.cells} == {("float32", "int8")}


def test_variants_may_be_chosen_between_runs() -> None:
    other = make(Made(2, variants=("float32", "int8"), factors={"int8": 0.5}))
    (found,) = compare(BASE, other, variants=("float32", "int8")).others
    assert {cell.speed.verdict for cell in found.cells} == {"faster"}


def test_several_runs_are_each_compared_with_the_first() -> None:
    comparison = compare(BASE, make(Made(2, id="b")), make(Made(3, id="c", factors={"float32": 2.0})))
    assert [other.run.id for other in comparison.others] == ["b", "c"]
    assert [other.geometric_mean.verdict for other in comparison.others] == ["no difference", "slower"]


@pytest.mark.parametrize(
    ("runs", "variants", "message"),
    [
        ([BASE], None, "one run only"),
        ([BASE, BASE], None, "base is given twice"),
        (
            [BASE, make(Made(2, grid=((9.0, 9),)))],
            None,
            r"no cell in common(.|\n)*base has 0.5 s x 1(.|\n)*has 9 s x 9",
        ),
        ([BASE, make(Made(2, id="e", grid=()))], None, "The run e is empty"),
        ([BASE], ("float32", "in8"), "has no variant `in8`"),
        ([BASE, make(Made(2, variants=("a", "b")))], None, "no variant in common.*--variants A B"),
    ],
    ids=["one", "twice", "no common cell", "empty", "unknown variant", "no common variant"],
)
def test_runs_that_cannot_be_compared_are_told_why(
    runs: list[Results], variants: tuple[str, str] | None, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        compare(*runs, variants=variants)


def _fail(cell: Any) -> None:
    cell.status, cell.reason, cell.latency_s = "failed", "out of memory", None


def _lose_samples(cell: Any) -> None:
    cell.latency_s.samples = []


def _spoil_rounds(cell: Any) -> None:
    cell.latency_s.rounds = [1]


def _zero(cell: Any) -> None:
    cell.latency_s.samples[0] = 0.0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_fail, "failed: out of memory"),
        (_lose_samples, "raw samples are missing"),
        (_spoil_rounds, "do not fit the rounds"),
        (_zero, "not all are times above 0"),
    ],
)
def test_a_cell_that_cannot_be_judged_says_why_and_the_others_are(change: Any, reason: str) -> None:
    (found,) = compare(BASE, damaged(change)).others
    assert found.cells[0].speed.verdict == "not judged"
    assert reason in found.cells[0].speed.reason
    assert {cell.speed.verdict for cell in found.cells[1:]} == {"no difference"}


def test_a_cell_that_fails_now_is_a_regression() -> None:
    comparison = compare(BASE, damaged(_fail))
    assert [cell.label for cell in comparison.regressions(0.05)] == ["0.5 s x 1"]


def test_regressions_are_those_over_the_given_share() -> None:
    comparison = compare(BASE, make(Made(2, factors={(1.0, 1): 1.2})))
    assert [cell.label for cell in comparison.regressions(0.05)] == ["1 s x 1"]
    assert comparison.regressions(0.5) == []


def test_what_differs_is_named() -> None:
    other = make(
        Made(
            2,
            weights="pretrained",
            resolved={"measure": {"rounds": 5}},
            environment={"packages": {"torch": "2.14.0", "numpy": "2.4.6"}, "repository": {"commit": "f" * 40}},
        )
    )
    other.environment["settings"] = {"float32": {"threads": 1}}
    (found,) = compare(make(Made(1, resolved={"measure": {"rounds": 3}})), other).others
    said = {(each.kind, each.name): (each.before, each.after) for each in found.differences}
    assert said["recipe", "measure.rounds"] == (3, 5)
    assert said["versions", "torch"] == ("2.13.0", "2.14.0")
    assert said["threads", "float32"] == (2, 1)
    assert said["weights", "weights of float32"] == ("random", "pretrained")
    assert said["code", "commit"] == (None, "f" * 10)
    assert ("versions", "numpy") not in said


def test_memory_size_energy_and_error_rate_stand_beside_speed() -> None:
    base, other = make(Made(1)), make(Made(2))
    assert other.cells[0].peak_memory_bytes is not None
    other.cells[0].peak_memory_bytes.process = 250_000_000
    other.models[0].size_bytes = {"total": 1000}
    other.cells[0].energy_j = {"per_call": 3.0, "source": "measured"}
    for results, rate in ((base, 0.05), (other, 0.10)):
        wer = ErrorRate(value=rate, ci95=(0.0, 0.2), substitutions=1, insertions=0, deletions=0, units=10)
        results.accuracy = [Accuracy(variant="float32", dataset="d", of_utterances=1, wer=wer, normalisation="none")]
    (found,) = compare(base, other).others
    beside = {change.name: change for change in found.cells[0].beside}
    assert beside["memory of the process"].ratio == 0.5
    assert (beside["energy of a call"].before, beside["energy of a call"].after) == (None, 3.0)
    figures = {change.name: change for change in found.variants[0].figures}
    assert figures["size"].ratio == 0.25
    assert figures["word error rate"].ratio == 2.0
    assert figures["word error rate"].after_ci95 == (0.0, 0.2)


def test_an_unfinished_run_is_compared_as_far_as_it_goes() -> None:
    other = make(Made(2, id="half"))
    other.run.status = "interrupted"
    (found,) = compare(BASE, other).others
    assert "half is not complete (interrupted): what it has measured is compared." in found.notes


def test_cells_as_a_data_frame() -> None:
    frame = compare(BASE, make(Made(2, factors={"float32": 2.0}))).frame()
    assert set(frame.verdict) == {"slower"}
    assert list(frame.audio_s[:2]) == [0.5, 0.5]
    assert (frame.ratio_ci95_low < frame.ratio).all()


def test_a_restless_machine_is_not_taken_for_no_difference() -> None:
    restless = Machine(run=0.1, drift=0.2, round=0.2, call=0.1, disturbed=0.3)
    (found,) = compare(*(make(Made(seed, machine=restless)) for seed in (1, 2))).others
    assert "No difference could be shown" in headline(found)
    assert min(cell.speed.detectable or 0.0 for cell in found.cells) > 1.2


def test_keys_that_an_earlier_version_did_not_know_do_not_differ() -> None:
    whole = {
        "pretrained_model": {"source": "m.M", "type": "Module"},
        "profiling_dimensions": {"audio_mockup_secs": [1.0], "batch_sizes": [1]},
    }
    newer = Recipe.model_validate(whole).model_dump(mode="json")
    (found,) = compare(make(Made(1, resolved=whole)), make(Made(2, resolved=newer))).others
    assert found.differences == []


def test_cells_that_neither_run_measured_are_left_out() -> None:
    runs = [make(Made(seed)) for seed in (1, 2)]
    for results in runs:
        results.cells[-1].status, results.cells[-1].latency_s = "skipped", None
    runs[1].cells[0].status, runs[1].cells[0].reason = "skipped", "it would not fit in memory."
    (found,) = compare(*runs).others
    assert len(found.cells) == len(runs[0].cells) - 1
    assert found.cells[0].speed.reason == "skipped: it would not fit in memory."
