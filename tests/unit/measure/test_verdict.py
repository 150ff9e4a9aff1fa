"""Stable or noisy, and why: each reason that a user can be told."""

from __future__ import annotations

from typing import Any

import pytest

from profiler import warnings
from profiler.measure.statistics import summarize
from profiler.measure.verdict import judge, reach

CALM = [1.0, 1.01, 1.0, 0.99, 1.0, 1.0, 1.01, 0.99]
WILD = [1.0, 1.4, 0.8, 1.3, 0.7, 1.2, 0.9, 1.5]
SLOW_START = [3.0, *reversed(WILD)]
QUIET: dict[str, Any] = {"other_cpus": 0.0, "stolen_cpus": 0.0, "throttled": 0}


def reasons(*rounds: list[float], **conditions: float) -> list[str]:
    verdict, found = judge(rounds, [QUIET, {**QUIET, **conditions}], width=0.03)
    assert verdict == "noisy"
    return found


def test_a_narrow_interval_is_stable() -> None:
    assert judge([CALM, CALM], [QUIET, QUIET], width=0.03) == ("stable", [])


def test_the_wanted_width_decides() -> None:
    assert judge([WILD], [QUIET], width=0.03)[0] == "noisy"
    assert judge([WILD], [QUIET], width=0.9)[0] == "stable"


def test_a_stable_figure_has_no_excuses() -> None:
    """The machine was busy, but it did not matter."""
    assert judge([CALM], [{"other_cpus": 2.0, "throttled": 5}], width=0.03) == ("stable", [])


def test_a_slow_first_call_points_to_the_warm_up() -> None:
    assert warnings.FIRST_CALL_SLOW in reasons(SLOW_START)
    assert "measure.warmup" in warnings.FIRST_CALL_SLOW


def test_a_slow_first_call_of_a_later_round_counts_too() -> None:
    assert warnings.FIRST_CALL_SLOW in reasons(WILD, SLOW_START)


def test_rounds_at_different_speeds_are_told() -> None:
    found = reasons([1.0, 1.01, 0.99, 1.0, 1.0], [1.3, 1.31, 1.29, 1.3, 1.3])
    assert found == [warnings.drift_between_rounds(0.3)]
    assert "30% slower" in found[0]


def test_a_machine_that_becomes_faster_is_told_as_well() -> None:
    assert reasons([1.3, 1.31, 1.29, 1.3, 1.3], [1.0, 1.01, 0.99, 1.0, 1.0]) == [warnings.drift_between_rounds(0.3)]


def test_cores_that_were_moved_are_told_where_nothing_else_explains_it() -> None:
    rounds = [1.0, 1.01, 0.99, 1.0, 1.0], [1.3, 1.31, 1.29, 1.3, 1.3]

    def told(handoffs: list[float], **more: float) -> bool:
        conditions = [QUIET | {"handoff_s": [3.4e-6, 3.4e-6]}, QUIET | more | {"handoff_s": handoffs}]
        _, found = judge(rounds, conditions, width=0.03)
        return any("3.4 to 5.4 us" in text for text in found)

    assert told([3.4e-6, 5.4e-6])
    assert not told([3.5e-6, 3.6e-6])
    assert not told([3.4e-6, 5.4e-6], other_cpus=1.0), "other processes delay threads too"


def test_rounds_that_overlap_are_no_drift() -> None:
    assert reasons(WILD, [value * 1.05 for value in WILD]) == [warnings.UNKNOWN_NOISE]


def test_other_processes_are_told() -> None:
    assert reasons(WILD, other_cpus=1.5) == ["Other processes used 1.5 CPUs meanwhile."]


def test_a_little_of_other_processes_is_no_reason() -> None:
    assert reasons(WILD, other_cpus=0.05) == [warnings.UNKNOWN_NOISE]


def test_stolen_time_is_told() -> None:
    (reason,) = reasons(WILD, stolen_cpus=0.25)
    assert "hypervisor" in reason
    assert "0.25" in reason


def test_throttling_is_told() -> None:
    assert reasons(WILD, throttled=3) == [warnings.THROTTLED]


def test_noise_without_a_cause_says_so_and_what_may_help() -> None:
    assert reasons(WILD) == [warnings.UNKNOWN_NOISE]
    assert "measure.budget" in warnings.UNKNOWN_NOISE


def test_all_reasons_from_outside_are_told_together() -> None:
    found = reasons(SLOW_START, other_cpus=1.0, stolen_cpus=0.5, throttled=1)
    assert found == [
        warnings.other_processes(1.0),
        warnings.cpu_stolen(0.5),
        warnings.THROTTLED,
    ]


def test_the_worst_round_counts() -> None:
    _, found = judge([WILD, WILD], [{"other_cpus": 2.0}, {"other_cpus": 0.2}], width=0.03)
    assert found == [warnings.other_processes(2.0)]


@pytest.mark.parametrize("scale", [1.0, 1e-6])
def test_caching_is_told_even_of_stable_figures(scale: float) -> None:
    pairs = [1.0 * scale, 0.5 * scale] * 10
    _, found = judge([pairs], [QUIET], width=0.9)
    assert found == [warnings.caching(0.5)]
    assert "50%" in found[0]


def test_a_system_that_shows_nothing_is_no_error() -> None:
    assert judge([WILD], [], width=0.03) == ("noisy", [warnings.UNKNOWN_NOISE])
    assert judge([WILD], [{}], width=0.03) == ("noisy", [warnings.UNKNOWN_NOISE])


def test_caching_is_looked_for_round_by_round() -> None:
    """A round may have an odd number of calls: the next one begins with a fresh input all the same."""
    verdict, found = judge([[1.0, 0.5] * 4 + [1.0], [1.0, 0.5] * 4], [QUIET, QUIET], width=0.9)
    assert verdict == "stable"
    assert found == [warnings.caching(0.5)]


def test_rounds_that_disagree_are_noisy_however_narrow_the_interval() -> None:
    """95 calls of one round agree so well that the interval of all calls is narrow; the other round says otherwise."""
    rounds = [[1.0] * 95, [1.2] * 5]
    assert summarize([sample for values in rounds for sample in values]).half_width <= 0.03
    verdict, found = judge(rounds, [], width=0.03)
    assert verdict == "noisy"
    assert any("20% slower" in reason for reason in found)
    assert reach(rounds) == pytest.approx(0.2)


def test_a_slow_first_call_is_not_blamed_on_the_warm_up_while_others_use_the_cpu() -> None:
    found = reasons(SLOW_START, other_cpus=0.9)
    assert warnings.FIRST_CALL_SLOW not in found
    assert warnings.other_processes(0.9) in found
