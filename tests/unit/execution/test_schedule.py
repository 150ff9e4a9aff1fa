"""Which cells a round visits, and what ends a run: with states made by hand, no model is run."""

from __future__ import annotations

import itertools
from array import array
from collections import Counter
from collections.abc import Iterable

import pytest

from profiler.execution.cell import CellState
from profiler.execution.channel import PassDone
from profiler.execution.schedule import RoundSchedule
from profiler.execution.tune import FinalSchedule
from profiler.measure.afford import Allowance
from profiler.measure.latency import Timing
from profiler.measure.passes.time import Round, Rounds
from profiler.plan import Cell
from profiler.recipe.schema import Measure
from profiler.results.types import CellInput, Condition

GRID = tuple((seconds, batch) for seconds in (1.0, 2.0, 4.0) for batch in (1, 2))
WAVERING = (0.4, 0.8, 0.2, 0.6)  # each for twice as many rounds as the one before: no number of rounds averages it out


class Clock:
    """Goes on by what each visit takes: `long`, so long that after the first rounds the run has lasted long enough."""

    def __init__(self, long: float) -> None:
        self.now, self.long = 0.0, long

    def __call__(self) -> float:
        return self.now


def make(
    grid: Iterable[tuple[float, int]] = GRID,
    variants: int = 1,
    rounds: int = 10,
    budget: float = 10.0,
    seed: int = 0,
    visit_seconds: float = 60.0,
) -> RoundSchedule:
    names = [f"v{number}" for number in range(variants)]
    states = {(cell := Cell(name, seconds, batch)): CellState(cell) for name in names for seconds, batch in grid}
    measure = Measure(rounds=rounds, budget=budget)
    allowed = Allowance(seconds=6 * budget, rounds=min(rounds, 6))
    allowances = dict.fromkeys(names, allowed)
    return RoundSchedule(states, dict.fromkeys(names, measure), seed, rounds, Clock(visit_seconds), allowances)


def cells_of(visits: list[tuple[Cell, ...]] | None) -> list[Cell]:
    assert visits is not None
    return [cell for (cell,) in visits]


def measured(schedule: RoundSchedule, cell: Cell, value: float, seconds: float = 0.1) -> None:
    """One round of a cell: one call, and how long all timing took."""
    state = schedule.states[cell]
    timing = Round(Timing(samples=[value], cpu=[value]))
    done = PassDone(name="time", result=timing, input=CellInput(seconds_of_audio=1.0), work_s=seconds)
    state.add({"time": done}, Condition())
    assert isinstance(schedule.clock, Clock)
    schedule.clock.now += schedule.clock.long


def play(
    schedule: RoundSchedule, wavering: Iterable[Cell] = (), seconds: float = 0.1, call: float = 0.5
) -> list[list[Cell]]:
    """A whole run: cells give the same time in every round, but for those that waver."""
    rounds, wavering = [], set(wavering)
    while (visits := schedule.next_round()) is not None:
        rounds.append(cells_of(visits))
        for cell in rounds[-1]:
            count = len(schedule.states[cell].rounds)
            measured(schedule, cell, WAVERING[count.bit_length() % 4] if cell in wavering else call, seconds)
        assert len(rounds) < 1000, "it never ends"
    return rounds


def test_every_cell_gets_the_rounds_that_were_asked_for() -> None:
    schedule = make(rounds=10)
    rounds = play(schedule)
    assert [sorted(cells, key=str) for cells in rounds] == [sorted(schedule.states, key=str)] * 10
    assert (schedule.stopped_by, schedule.number) == ("width", 10)


def test_the_first_round_takes_smaller_cells_before_larger_ones() -> None:
    for seed in range(10):
        order = cells_of(make(seed=seed).next_round())
        for place, cell in enumerate(order):
            later = order[place + 1 :]
            assert not any(each.seconds <= cell.seconds and each.batch_size <= cell.batch_size for each in later)


def test_later_rounds_are_shuffled_each_in_its_own_way() -> None:
    orders = {tuple(cells) for cells in play(make())[1:]}
    assert len(orders) == 9


def test_later_rounds_mix_the_variants() -> None:
    """What a slow second of the machine falls upon is not one variant."""
    _, *later = play(make(variants=2))
    changes = [sum(one.variant != other.variant for one, other in itertools.pairwise(cells)) for cells in later]
    assert min(changes) > 1


def test_the_same_seed_gives_the_same_rounds() -> None:
    assert play(make(seed=3)) == play(make(seed=3)) != play(make(seed=4))


def test_where_models_do_not_fit_together_the_cells_of_a_variant_stay_together() -> None:
    schedule = make(variants=3)
    for _ in range(4):
        order = cells_of(schedule.next_round(by_variant=True))
        names = [cell.variant for cell in order]
        assert len(order) == 18
        assert sum(one != other for one, other in itertools.pairwise(names)) == 2
        for cell in order:
            measured(schedule, cell, 1.0)


def test_it_goes_on_with_the_unstable_cells_alone() -> None:
    schedule = make()
    unstable = [Cell("v0", 2.0, 1), Cell("v0", 4.0, 2)]
    rounds = play(schedule, unstable)
    assert len(rounds) > 10
    assert all(set(cells) == set(unstable) for cells in rounds[10:])
    assert schedule.unstable() == unstable


def test_a_cell_that_becomes_stable_is_left_alone() -> None:
    schedule = make(grid=[(1.0, 1)], budget=1000.0, visit_seconds=600.0)
    cell = Cell("v0", 1.0, 1)
    for number in range(10):
        schedule.next_round()
        measured(schedule, cell, WAVERING[number % 4])
    assert schedule.unstable() == [cell]
    rounds = 10
    while schedule.next_round() is not None:
        measured(schedule, cell, 0.5)
        rounds += 1
    assert schedule.stopped_by == "width"
    assert 10 < rounds < 50
    assert schedule.states[cell].stable(0.03)


def test_the_time_that_is_spent_ends_it() -> None:
    schedule = make(budget=5.0)
    rounds = play(schedule, schedule.states, seconds=0.25)
    assert schedule.stopped_by == "budget"
    assert len(rounds) == 20
    assert schedule.seconds_left() == 0.0


def test_time_that_stable_cells_leave_over_goes_to_the_unstable() -> None:
    """6 cells of 5 s: five use 2.5 s each in their 10 rounds, and leave 12.5 s for the sixth."""
    schedule = make(budget=5.0)
    wavering = Cell("v0", 4.0, 1)
    visits = Counter(cell for cells in play(schedule, [wavering], seconds=0.25) for cell in cells)
    assert schedule.stopped_by == "budget"
    assert visits.pop(wavering) == (5 + 12.5) / 0.25
    assert set(visits.values()) == {10}


def test_the_first_rounds_are_made_even_where_they_take_longer_than_the_budget() -> None:
    schedule = make(budget=1.0)
    assert len(play(schedule, schedule.states, seconds=60.0, call=0.9)) == 10
    assert schedule.stopped_by == "budget"


def test_a_cell_whose_calls_are_long_has_as_many_rounds_as_its_time_allows() -> None:
    """A minute, with 10 s of budget: a first round of 40 s leaves time for one more of 20 s."""
    schedule = make(grid=[(1.0, 1), (8.0, 8), (32.0, 8)])
    long = {Cell("v0", 8.0, 8): 20.0, Cell("v0", 32.0, 8): 64.0}
    visits: Counter[Cell] = Counter()
    while (round_of := schedule.next_round()) is not None:
        for cell in cells_of(round_of):
            call = long.get(cell, 0.1)
            measured(schedule, cell, call, seconds=call if cell in visits else 2 * call)
            visits[cell] += 1
    assert visits[Cell("v0", 8.0, 8)] == 2
    assert visits[Cell("v0", 32.0, 8)] == 1
    assert visits[Cell("v0", 1.0, 1)] >= 10
    assert schedule.stopped_by == "budget"
    assert set(schedule.unstable()) == set(long), "they have no interval, and are not said to be stable"


def test_time_that_small_cells_leave_over_goes_to_long_calls_that_it_is_enough_for() -> None:
    """12 cells of 10 s; two long calls take 84 s of the 120 s: there is time for one more of 20 s, for none of 64 s."""
    small = [(float(seconds), 1) for seconds in range(1, 11)]
    schedule = make(grid=[*small, (32.0, 1), (32.0, 4)])
    long = {Cell("v0", 32.0, 1): 20.0, Cell("v0", 32.0, 4): 64.0}
    rounds: Counter[Cell] = Counter()
    while (visits := schedule.next_round()) is not None:
        for cell in cells_of(visits):
            measured(schedule, cell, long.get(cell, 0.001), seconds=long.get(cell, 0.001))
            rounds[cell] += 1
    assert rounds[Cell("v0", 32.0, 1)] == 3
    assert rounds[Cell("v0", 32.0, 4)] == 1


@pytest.mark.parametrize("cells", [1, 4])
def test_few_small_cells_are_all_visited_for_as_long_as_six_would_have(cells: int) -> None:
    """Ten rounds that were made within a second are one look at the machine, however well they agree."""
    schedule = make(grid=GRID[:cells], budget=10.0, visit_seconds=0.25)
    rounds = play(schedule, list(schedule.states)[1:2], seconds=0.1)
    everywhere = [set(cells) == set(schedule.states) for cells in rounds]
    assert schedule.clock() >= 60.0
    assert everywhere.count(True) == 60.0 / 0.25 / cells
    assert all(everywhere[: everywhere.count(True)])
    assert (schedule.stopped_by, schedule.span_left() <= 0) == ("width" if cells == 1 else "budget", True)


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_a_quick_look_makes_exactly_the_rounds_that_were_asked_for(rounds: int) -> None:
    schedule = make(rounds=rounds)
    assert len(play(schedule)) == rounds
    assert schedule.stopped_by == "rounds"


def test_six_rounds_are_enough_where_cells_are_stable() -> None:
    schedule = make(rounds=6)
    assert len(play(schedule)) == 6
    assert schedule.stopped_by == "width"


def test_cells_that_failed_or_were_skipped_are_not_visited_again() -> None:
    schedule = make()
    failed, skipped = Cell("v0", 4.0, 2), Cell("v0", 4.0, 1)
    schedule.states[skipped].skip = "would need about 99 GB"
    first = cells_of(schedule.next_round())
    assert skipped not in first
    for cell in first:
        measured(schedule, cell, 1.0)
    schedule.states[failed].failure = "killed by SIGKILL"
    rounds = play(schedule)
    assert len(rounds) == 9
    assert all(failed not in cells and skipped not in cells for cells in rounds)


def test_a_run_whose_cells_all_failed_ends() -> None:
    schedule = make()
    for cell in cells_of(schedule.next_round()):
        schedule.states[cell].failure = "killed by SIGSEGV"
    assert schedule.next_round() is None


def test_a_run_that_is_taken_up_makes_the_rounds_that_it_lacks() -> None:
    """Interrupted in its third round, before all cells had been visited."""
    schedule = make()
    late = Cell("v0", 4.0, 2)
    for cell, state in schedule.states.items():
        state.found["time"] = Rounds(wall=[array("d", [0.5])] * (2 if cell == late else 3))
    assert schedule.planned() == {cell: 8 if cell == late else 7 for cell in schedule.states}
    rounds = play(schedule)
    assert rounds[0] == [late]
    assert [len(cells) for cells in rounds[1:]] == [6] * 7
    assert schedule.number == 10


def test_what_is_planned_becomes_less_with_every_round() -> None:
    schedule = make(rounds=3)
    left = [sum(schedule.planned().values())]
    while (visits := schedule.next_round()) is not None:
        for cell in cells_of(visits):
            measured(schedule, cell, 1.0)
        left.append(sum(schedule.planned().values()))
    assert left == [18, 12, 6, 0]


def test_finalists_take_turns_at_each_batch_size_and_begin_in_another_order_each_round() -> None:
    schedule = FinalSchedule(make(grid=((1.0, 1), (1.0, 4)), variants=3, rounds=6, visit_seconds=0.0))
    orders, wavering = set(), Cell("v1", 1.0, 4)
    for number in range(8):
        visits = schedule.next_round()
        assert visits is not None
        assert sorted(len(visit) for visit in visits) == [3] * len(visits), "all three together"
        assert {cell.place for visit in visits for cell in visit[:1]} == {
            cell.place for visit in visits for cell in visit
        }
        orders |= {tuple(cell.variant for cell in visit) for visit in visits}
        for cell in itertools.chain(*visits):
            measured(schedule, cell, WAVERING[number % 4] if cell == wavering else 0.5, seconds=3.0)
    assert len(orders) > 2
    # Three cells at a place wait for one another: what timing took there is shared among them.
    assert schedule.spent(wavering) == pytest.approx(schedule.states[wavering].work["time"] / 3)


def test_where_one_finalist_is_unstable_the_others_at_its_batch_size_go_on_with_it() -> None:
    schedule = FinalSchedule(make(grid=((1.0, 1), (1.0, 4)), variants=2, rounds=6))
    wavering = Cell("v1", 1.0, 4)
    for number in range(6):
        for cell in itertools.chain(*(schedule.next_round() or [])):
            measured(schedule, cell, WAVERING[number % 4] if cell == wavering else 0.5)
    (visit,) = schedule.next_round() or []
    assert set(visit) == {Cell("v0", 1.0, 4), wavering}
