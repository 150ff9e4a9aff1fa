"""Stable or unstable, and what disturbed a cell: each thing that a user can be told."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from profiler import messages
from profiler.measure.verdict import STRETCHED, judge, stretched
from profiler.results.types import Condition
from profiler.units import many

CALM = [[1.0], [1.01], [1.0], [0.99], [1.0], [1.0], [1.01], [0.99]]
WILD = [[1.0], [1.4], [0.8], [1.3], [0.7], [1.2], [0.9], [1.5]]
SLOW_START = [[3 * level, level, level, level] for (level,) in WILD]
QUIET = Condition()
UNKNOWN = {"unknown": pytest.approx(1.5 / 0.7 - 1)}
Rounds = Sequence[Sequence[float]]


def disturbances(rounds: Rounds, cpu: Rounds = (), **conditions: float) -> dict[str, float]:
    """Of an unstable cell, one of whose rounds met these conditions."""
    _, verdict, found = judge(rounds, cpu, [QUIET, Condition(**conditions)], width=0.03)
    assert verdict == "unstable"
    return found


def sentences(found: dict[str, float]) -> list[str]:
    return [messages.disturbance(kind, value) for kind, value in found.items()]


def test_a_narrow_interval_is_stable() -> None:
    figure, verdict, found = judge(CALM, [], [QUIET] * 8, width=0.03)
    assert (figure.value, figure.ci95) == (1.0, (0.99, 1.01))
    assert (verdict, found) == ("stable", {})


def test_the_wanted_width_decides_and_nothing_else() -> None:
    assert judge(WILD, [], [QUIET], width=0.03)[1] == "unstable"
    assert judge(WILD, [], [QUIET], width=0.9)[1] == "stable"
    assert judge(CALM, [], [QUIET], width=0.001)[1] == "unstable"


def test_a_stable_figure_has_no_excuses() -> None:
    """The machine was busy, but it did not matter."""
    assert judge(CALM, [], [Condition(other_cpus=2.0, throttled=5)], width=0.03)[1:] == ("stable", {})


def test_calls_that_vary_within_rounds_leave_a_figure_stable_where_rounds_agree() -> None:
    assert judge([[0.7, 1.0, 1.4]] * 8, [], [QUIET], width=0.03)[1] == "stable"


def test_rounds_that_disagree_are_unstable_however_alike_their_calls_are() -> None:
    """95 of 100 calls agree; but they were made in one minute."""
    found = disturbances([[1.0] * 95, [1.2], [1.3], [1.1], [1.2], [1.2]])
    assert list(found) == ["unknown"]


@pytest.mark.parametrize("rounds", range(1, 6))
def test_too_few_rounds_for_an_interval_are_told(rounds: int) -> None:
    figure, verdict, found = judge([[1.0]] * rounds, [], [], width=0.03)
    assert figure.ci95 is None
    assert (verdict, found) == ("unstable", {"too_few_rounds": rounds})
    assert sentences(found) == [f"{many(rounds, 'round')}: too few for a 95 % CI, which takes 6 (measure.rounds)."]


# --- what was done to the machine ---


def test_other_processes_are_told() -> None:
    found = disturbances(WILD, other_cpus=1.5)
    assert sentences(found) == ["other processes used up to 1.5 CPUs meanwhile."]


def test_a_little_of_other_processes_is_no_reason() -> None:
    assert disturbances(WILD, other_cpus=0.05) == UNKNOWN


def test_stolen_time_is_told() -> None:
    (sentence,) = sentences(disturbances(WILD, stolen_cpus=0.25))
    assert "hypervisor took up to 0.25 CPUs" in sentence


def test_throttling_is_told() -> None:
    found = disturbances(WILD, throttled=3)
    assert found == {"throttled": 3}
    assert "throttled" in sentences(found)[0]


def test_the_worst_round_counts() -> None:
    _, _, found = judge(WILD, [], [Condition(other_cpus=2.0), Condition(other_cpus=0.2)], width=0.03)
    assert found == {"other_processes": 2.0}


def test_all_that_came_from_outside_is_told_together() -> None:
    found = disturbances(SLOW_START, other_cpus=1.0, stolen_cpus=0.5, throttled=1)
    assert found == {"other_processes": 1.0, "stolen": 0.5, "throttled": 1.0}


def test_vcpus_that_were_moved_are_told_where_nothing_else_explains_it() -> None:
    def found(handoff: float, **more: float) -> dict[str, float]:
        conditions = [Condition(handoff_s=3.4e-6), Condition(handoff_s=handoff, **more)]
        return judge(WILD, [], conditions, width=0.03)[2]

    assert found(5.4e-6) == {"thread_latency": 5.4e-6}
    (sentence,) = sentences(found(5.4e-6))
    assert "inter-thread latency" in sentence
    assert "5.4 µs" in sentence
    assert "thread_latency" not in found(3.6e-6)
    assert "thread_latency" not in found(5.4e-6, other_cpus=1.0), "other processes delay threads too"


def test_a_spread_without_a_cause_says_so() -> None:
    assert disturbances(WILD) == UNKNOWN
    assert sentences(disturbances(WILD)) == ["rounds differ by up to 114%, for no reason that the system shows."]


def test_a_system_that_shows_nothing_is_no_error() -> None:
    assert judge(WILD, [], [], width=0.03)[1:] == ("unstable", UNKNOWN)
    assert judge(WILD, [], [Condition()], width=0.03)[1:] == ("unstable", UNKNOWN)


# --- wall time and CPU time ---


def test_wall_time_that_grows_without_cpu_time_was_stretched_by_others() -> None:
    """Every call needs 2 CPU seconds on two threads; in some rounds others had the CPUs for half of the time."""
    wall, cpu = [[1.0], [1.0], [2.0], [1.0], [1.5], [1.0], [1.0], [2.0]], [[2.0]] * 8
    found = disturbances(wall, cpu)
    assert found == {"stretched": 2.0}
    assert sentences(found) == [
        "wall time grew up to 2.0 times while CPU time did not: other processes ran on the same CPUs."
    ]


def test_rounds_that_really_worked_longer_were_not_stretched() -> None:
    cpu = [[2 * level] for (level,) in WILD]
    assert stretched(WILD, cpu) == pytest.approx(1.0)
    assert disturbances(WILD, cpu) == UNKNOWN


def test_a_model_that_waits_in_every_round_was_not_stretched() -> None:
    """It sleeps for nine tenths of a call, always."""
    assert stretched([[1.0]] * 8, [[0.1]] * 8) == pytest.approx(1.0)


def test_a_little_longer_than_the_cpu_time_is_no_stretching() -> None:
    assert 1.0 < stretched([*CALM[:7], [1.04]], [[1.0]] * 8) < STRETCHED


def test_runs_without_cpu_times_know_nothing_of_stretching() -> None:
    assert stretched(WILD, []) == 1.0
    assert stretched(WILD, [[0.0]] * 8) == 1.0, "a clock that never moved"
    assert stretched(WILD[:5], [[1.0]] * 5) == 1.0, "too few rounds to know the typical one"


# --- the first call of a round ---


def test_a_slow_first_call_points_to_the_warm_up() -> None:
    found = disturbances(SLOW_START)
    assert found == {"slow_first_call": 3.0}
    assert "the warm-up is too short (measure.warmup)" in sentences(found)[0]


def test_one_round_with_a_slow_first_call_is_chance() -> None:
    rounds = [[level] * 4 for (level,) in WILD[1:]] + [SLOW_START[0]]
    assert "slow_first_call" not in disturbances(rounds)


def test_a_slow_first_call_is_not_blamed_on_the_warm_up_while_others_use_the_cpu() -> None:
    assert disturbances(SLOW_START, other_cpus=0.9) == {"other_processes": 0.9}


# --- does something cache? ---


@pytest.mark.parametrize("scale", [1.0, 1e-6])
def test_caching_is_told_even_of_stable_figures(scale: float) -> None:
    rounds = [[1.0 * scale, 0.5 * scale] * 2] * 8
    _, verdict, found = judge(rounds, [], [QUIET], width=0.9)
    assert (verdict, found) == ("stable", {"caching": 0.5})
    assert "a repeated input took 50% of the time of a new one" in sentences(found)[0]


def test_caching_is_told_of_few_rounds_too() -> None:
    _, _, found = judge([[1.0, 0.5] * 4] * 2, [], [QUIET], width=0.03)
    assert list(found) == ["too_few_rounds", "caching"]


def test_caching_is_looked_for_round_by_round() -> None:
    """A round may have an odd number of calls: the next one begins with a new input all the same."""
    _, _, found = judge([[1.0, 0.5, 1.0, 0.5, 1.0]] * 8, [], [QUIET] * 8, width=0.9)
    assert found == {"caching": 0.5}


def test_pairs_that_differ_by_chance_are_no_cache() -> None:
    rounds = [[1.0, 0.5], [1.0, 0.5], [0.5, 1.0], [1.0, 0.5]] * 2
    assert "caching" not in judge(rounds, [], [QUIET], width=0.9)[2]


def test_on_a_disturbed_machine_it_takes_more_pairs_to_show_a_cache() -> None:
    def found(rounds: int) -> dict[str, float]:
        return judge([[1.0, 0.5]] * rounds, [], [Condition(other_cpus=1.0)], width=0.9)[2]

    assert found(7) == {}
    assert found(8) == {"caching": 0.5}


# --- several cells ---


def test_of_several_cells_each_kind_is_told_once_with_the_worst_figure() -> None:
    cells = [{"other_processes": 1.2}, {"other_processes": 0.4, "caching": 0.5}, {"caching": 0.1}, {}]
    assert messages.worst([*cells]) == {"other_processes": (2, 1.2), "caching": (2, 0.1)}


def test_the_fewest_rounds_of_several_cells_are_told() -> None:
    assert messages.worst([{"too_few_rounds": 3.0}, {"too_few_rounds": 2.0}]) == {"too_few_rounds": (2, 2.0)}


@pytest.mark.parametrize("kind", messages.DISTURBANCES)
def test_every_disturbance_is_a_sentence_that_follows_the_cells_it_is_about(kind: str) -> None:
    text = messages.disturbance(kind, 0.5)
    assert text.endswith(".")
    assert not text[0].isupper()


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("width", "Stopped after 12 rounds: the 95 % CI of every cell is as narrow as wanted."),
        (
            "budget",
            "Stopped after 12 rounds: the time is spent (measure.budget); 3 of 9 cells are still wider than wanted.",
        ),
        (
            "rounds",
            "Stopped after 12 rounds, as asked (measure.rounds): too few for a 95 % CI.",
        ),
    ],
)
def test_a_run_says_why_it_made_no_more_rounds(by: str, expected: str) -> None:
    assert messages.stopped(by, rounds=12, unstable=3, cells=9) == expected
