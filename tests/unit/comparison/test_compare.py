"""Pairing, what differs, other metrics than speed, and runs that are not whole."""

from __future__ import annotations

import re
from typing import Any

import pytest

from profiler import compare
from profiler.comparison.compare import match_rounds
from profiler.comparison.result import Ratio
from profiler.errors import UserError
from profiler.measure.energy.sensor import energy_of
from profiler.recipe.schema import Recipe
from profiler.report.comparison import answer, headline, how_decided, speed_table
from profiler.results.types import Accuracy, Condition, ErrorRate, Results, Size, WorkerSettings
from tests.helpers.synthetic import QUIET, SHARED, STEADY, Machine, Made, latency, make

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
    assert comparison.others[0].geometric_mean.verdict in ("same", "unclear")
    assert comparison.others[1].geometric_mean.verdict == "slower"


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
    (found,) = compare(make(Made(1, machine=STEADY)), damaged(change, machine=STEADY)).others
    assert found.cells[0].speed.verdict == "not judged"
    assert reason in found.cells[0].speed.reason
    assert {cell.speed.verdict for cell in found.cells[1:]} == {"same"}


def test_a_cell_that_fails_now_is_a_regression() -> None:
    comparison = compare(BASE, damaged(_fail))
    assert [cell.label for cell in comparison.regressions(0.05)] == ["0.5 s x 1"]


def test_regressions_are_those_over_the_given_share() -> None:
    comparison = compare(BASE, make(Made(2, factors={(1.0, 1): 1.2})))
    assert [cell.label for cell in comparison.regressions(0.05)] == ["1 s x 1"]
    assert comparison.regressions(0.5) == []


def test_slow_calls_that_are_slower_are_a_regression_though_the_median_is_the_same() -> None:
    (found,) = compare(make(Made(1, machine=STEADY)), make(Made(2, machine=STEADY))).others
    assert found.regressions(0.05) == []
    found.cells[0].speed.slow_calls = Ratio(verdict="slower", ratio=1.5, ci=(1.4, 1.6))
    found.cells[1].speed.slow_calls = Ratio(verdict="same", ratio=1.0, ci=(0.99, 1.01))
    assert [cell.label for cell in found.regressions(0.05)] == ["0.5 s x 1"]
    assert found.regressions(0.6) == []
    assert speed_table(found, found.cells).remarks == ["- 0.5 s x 1: slow calls (p90) 1.50 [1.40, 1.60], slower."]
    assert "Slow calls (90th percentile): 1 slower, 1 same." in answer(found)


def test_what_differs_is_named() -> None:
    other = make(
        Made(
            2,
            weights="pretrained",
            resolved={"measure": {"rounds": 5}},
            environment={"packages": {"torch": "2.14.0", "numpy": "2.4.6"}, "repository": {"commit": "f" * 40}},
        )
    )
    other.environment.settings = {"float32": WorkerSettings(threads=1)}
    other.models[0].flags = {"cudnn.allow_tf32": "True"}
    (found,) = compare(make(Made(1, resolved={"measure": {"rounds": 3}})), other).others
    said = {(each.kind, each.name): (each.before, each.after) for each in found.differences}
    assert said["recipe", "measure.rounds"] == (3, 5)
    assert said["versions", "torch"] == ("2.13.0", "2.14.0")
    assert said["threads", "float32"] == (2, 1)
    assert said["machine", "cudnn.allow_tf32"] == (None, "True")
    assert said["weights", "weights of float32"] == ("random", "pretrained")
    assert said["code", "commit"] == (None, "f" * 10)
    assert ("versions", "numpy") not in said


def test_memory_size_energy_and_error_rate_are_compared_too() -> None:
    base, other = make(Made(1)), make(Made(2))
    assert other.cells[0].peak_memory_bytes is not None
    other.cells[0].peak_memory_bytes.process = 250_000_000
    other.models[0].size_bytes = Size(total=1000)
    other.cells[0].energy_j = energy_of(1.0, 3.0, None, mean_power_w=3.0, sensor="s", source="measured", covers="all")
    for results, rate in ((base, 0.05), (other, 0.10)):
        wer = ErrorRate(value=rate, ci95=(0.0, 0.2), substitutions=1, insertions=0, deletions=0, units=10)
        results.accuracy = [Accuracy(variant="float32", dataset="d", of_utterances=1, wer=wer, normalisation="none")]
    (found,) = compare(base, other).others
    of_cell = {change.metric: change for change in found.cells[0].other_metrics}
    assert of_cell["memory"].ratio == 0.5
    assert (of_cell["energy"].before, of_cell["energy"].after) == (None, 3.0)
    of_variant = {change.metric: change for change in found.variants[0].metrics}
    assert of_variant["size"].ratio == 0.25
    assert of_variant["wer"].ratio == 2.0
    assert of_variant["wer"].after_ci95 == (0.0, 0.2)


def test_an_unfinished_run_is_compared_as_far_as_it_goes() -> None:
    other = make(Made(2, id="half"))
    other.run.status = "interrupted"
    (found,) = compare(BASE, other).others
    assert "half is not complete (interrupted): what it has measured is compared." in found.notes


def test_cells_as_a_data_frame() -> None:
    frame = compare(BASE, make(Made(2, factors={"float32": 2.0}))).frame()
    assert set(frame.verdict) == {"slower"}
    assert list(frame.audio_s[:2]) == [0.5, 0.5]
    assert (frame.ratio_ci_low < frame.ratio).all()


def test_the_first_line_counts_the_words_and_says_what_could_have_been_seen() -> None:
    (found,) = compare(*(make(Made(seed, machine=SHARED)) for seed in (1, 2))).others
    assert re.fullmatch(r"Of 8 cells: 8 unclear \(smallest detectable change [\d.]+-[\d.]+ %\)\.", headline(found))
    (steady,) = compare(*(make(Made(seed, machine=STEADY)) for seed in (1, 2))).others
    assert headline(steady) == "Of 8 cells: 8 same."


def test_the_figures_are_those_of_the_runs() -> None:
    other = make(Made(2))
    (found,) = compare(BASE, other).others
    for cell, one, two in zip(found.cells, BASE.cells, other.cells, strict=True):
        assert one.latency_s is not None
        assert two.latency_s is not None
        assert cell.latency_s == (one.latency_s.median, two.latency_s.median)
        assert cell.latency_ci95 == (one.latency_s.ci95, two.latency_s.ci95)
        assert cell.speed.ratio == two.latency_s.median / one.latency_s.median


def test_two_models_are_compared_and_called_so() -> None:
    (found,) = compare(BASE, make(Made(2, source="modules.Other", recipe="other.yaml", factors={"float32": 2}))).others
    assert {cell.speed.verdict for cell in found.cells} == {"slower"}
    sentence = "These are different models: modules.Synthetic, then modules.Other."
    assert sentence in speed_table(found, found.cells).remarks
    (trained,) = compare(BASE, make(Made(2, weights="pretrained"))).others
    assert trained.different_models == "The weights differ: random, then pretrained."
    (same,) = compare(BASE, make(Made(2))).others
    assert not same.different_models


# --- variants of one run ---

DRIFTING = Machine(drift=0.2)


def both(machine: Machine = DRIFTING, **more: Any) -> Results:
    """int8 takes a tenth less time in a run whose rounds differ by more than that."""
    return make(Made(1, machine=machine, variants=("float32", "int8"), factors={"int8": 0.9}, **more))


def test_variants_of_one_run_are_compared_round_by_round() -> None:
    """They met the machine in the same minutes: what it did then cancels out."""
    (within,) = compare(both(), variants=("float32", "int8")).others
    assert within.paired
    assert within.floor is None
    assert {cell.speed.verdict for cell in within.cells} == {"faster"}
    assert within.geometric_mean.verdict == "faster"
    assert within.geometric_mean.ci is not None
    assert "ratio [99.9 % CI]" in speed_table(within, within.cells).header
    (runs,) = compare(BASE, make(Made(2))).others
    assert "ratio [95 % CI]" in speed_table(runs, runs.cells).header
    again = both()
    again.run.id = "again"
    (between,) = compare(both(), again, variants=("float32", "int8")).others
    assert not between.paired
    assert "faster" not in {cell.speed.verdict for cell in between.cells}


def test_rounds_are_matched_by_their_numbers() -> None:
    """A run that goes back to some cells leaves others with fewer rounds."""
    run = both(grid=((1.0, 1),))
    first, second = run.cells
    assert first.latency_s is not None
    assert second.latency_s is not None
    rounds = first.latency_s.by_round, second.latency_s.by_round
    kept = [9, 0, 2, 3, 4, 5, 7, 8], [0, 1, 2, 3, 4, 5, 6, 7, 9]
    for cell, side, numbers in zip((first, second), rounds, kept, strict=True):
        cell.latency_s = latency([side[number] for number in numbers])
        cell.conditions = [Condition(round=number) for number in numbers]
    assert match_rounds(first, second) == [(rounds[0][n], rounds[1][n]) for n in (0, 2, 3, 4, 5, 7, 9)]
    (found,) = compare(run, variants=("float32", "int8")).others
    assert found.cells[0].speed.verdict == "faster"


def test_without_numbers_rounds_are_matched_by_place_if_there_are_as_many() -> None:
    run = both(grid=((1.0, 1),))
    for cell in run.cells:
        cell.conditions = []
    assert len(match_rounds(*run.cells)) == 10
    assert run.cells[0].latency_s is not None
    run.cells[0].latency_s = latency(run.cells[0].latency_s.by_round[:9])
    assert match_rounds(*run.cells) == []


def test_slow_calls_alone_make_a_cell_slower_and_are_named() -> None:
    """Four calls of ten take twice as long: the median is the same."""
    run = make(Made(1, machine=STEADY, grid=((1.0, 1),), variants=("a", "b")))
    for cell, slow in zip(run.cells, (0.01, 0.02), strict=True):
        cell.latency_s = latency([[0.01 + 1e-5 * (number % 3)] * 6 + [slow] * 4 for number in range(10)])
    (found,) = compare(run, variants=("a", "b")).others
    assert found.cells[0].speed.verdict == "slower"
    assert found.cells[0].speed.ratio == pytest.approx(1.0)
    (remark,) = speed_table(found, found.cells).remarks
    assert re.match(r"- 1 s x 1: slow calls \(p90\) (1\.99|2\.00)\d? \[.*\], slower\.", remark)
    assert [cell.label for cell in found.regressions(0.05)] == ["1 s x 1"]


def test_few_matched_rounds_are_judged_unpaired() -> None:
    (found,) = compare(both(QUIET, rounds=5), variants=("float32", "int8")).others
    assert not found.paired
    assert found.floor is None  # one run: no run-to-run change
    assert {cell.speed.verdict for cell in found.cells} == {"faster"}
    assert all(cell.speed.p_adjusted is not None for cell in found.cells)


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


@pytest.mark.parametrize(("threshold", "text"), [(0.02, "2 %"), (0.005, "0.5 %"), (0.0001, "0.01 %")])
def test_a_small_threshold_is_not_rounded_to_nothing(threshold: float, text: str) -> None:
    found = compare(BASE, make(Made(2)), threshold=threshold)
    assert f"lies within {text} either way" in how_decided(found)
