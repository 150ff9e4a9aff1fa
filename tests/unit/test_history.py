"""Series over runs: told apart by machine and variant, by date or by commit."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from profiler.errors import UserError
from profiler.history import HistoryQuery, choose_cell, level_shifts, make_series, parse_cell
from profiler.metrics import METRICS, find_metric
from profiler.report.history import history_tables
from profiler.results.runs import runs_of
from profiler.results.types import Commit, Results
from tests.helpers.synthetic import Made, make, save

RTF = METRICS["rtf"]


def runs(count: int, **more: object) -> list[Results]:
    return [
        make(Made(n, id=f"r{n}", started=f"2026-01-{n + 1:02}T10:00:00+00:00", **more))  # type: ignore[arg-type]
        for n in range(count)
    ]


def test_a_series_a_variant_and_machine() -> None:
    here = runs(3, variants=("float32", "int8"))
    there = make(Made(9, id="there", environment={"host": "jetson", "cpu": "ARM"}))
    series, without = make_series([*here, there], HistoryQuery(RTF, (1.0, 1)))
    assert {each.name: len(each.points) for each in series} == {
        "float32, Some CPU, 2 threads": 3,
        "int8, Some CPU, 2 threads": 3,
        "float32, ARM, 2 threads": 1,
    }
    assert without == 0


def test_machines_of_one_kind_are_told_apart_by_their_names() -> None:
    twins = [make(Made(n, id=f"r{n}", environment={"host": f"node{n}"})) for n in range(2)]
    series, _ = make_series(twins, HistoryQuery(RTF, (1.0, 1)))
    assert [each.machine for each in series] == ["Some CPU (node0), 2 threads", "Some CPU (node1), 2 threads"]


def test_by_commit_runs_of_one_commit_are_one_point() -> None:
    found = runs(4)
    for number, results in enumerate(found):
        results.environment.repository = Commit(commit="ab"[number // 2] * 40)
    (series,), _ = make_series(found, HistoryQuery(RTF, (1.0, 1), by="commit"))
    assert [(point.label, len(point.runs)) for point in series.points] == [("a" * 10, 2), ("b" * 10, 2)]


def test_figures_of_a_variant_need_no_cell() -> None:
    found = runs(2)
    assert choose_cell(found, HistoryQuery(METRICS["size"])) is None
    (series,), _ = make_series(found, HistoryQuery(METRICS["size"]))
    assert [point.value for point in series.points] == [4000, 4000]


def test_times_have_their_interval_and_the_machines_floor_and_other_metrics_neither() -> None:
    found = runs(2)
    latency = found[0].cells[0].latency_s
    assert latency is not None
    (times,), _ = make_series(found, HistoryQuery(METRICS["latency"], (0.5, 1)))
    assert (times.points[0].value, times.points[0].half_width) == (latency.median, latency.half_width)
    assert (times.floor, times.floor_source) == (0.005, "measured by doctor on 2026-01-01")
    (memory,), _ = make_series(found, HistoryQuery(METRICS["memory"], (0.5, 1)))
    assert (memory.points[0].half_width, memory.floor) == (None, None)
    assert "±" in history_tables("t", [times], HistoryQuery(METRICS["latency"]))[0].markdown()


def test_few_rounds_have_no_interval() -> None:
    (series,), _ = make_series(runs(2, rounds=5), HistoryQuery(RTF, (1.0, 1), by="commit"))
    assert series.points[0].half_width is None
    assert "±" not in history_tables("t", [series], HistoryQuery(RTF))[0].markdown()


def test_the_largest_cell_that_most_runs_have_is_taken() -> None:
    found = [*runs(2), make(Made(5, id="big", grid=((64.0, 8), (4.0, 2))))]
    assert choose_cell(found, HistoryQuery(RTF)) == (4.0, 2)
    with pytest.raises(UserError, match=r"No run has `rtf` of the cell 3s_x1: .*0\.5s_x1"):
        choose_cell(found, HistoryQuery(RTF, (3.0, 1)))


def test_runs_without_the_figure_are_counted() -> None:
    series, without = make_series(runs(2), HistoryQuery(METRICS["wer"]))
    assert (series, without) == ([], 2)


@pytest.mark.parametrize(("text", "cell"), [("2s_x1", (2.0, 1)), ("0.5 s x 4", (0.5, 4)), ("2x1", (2.0, 1))])
def test_a_cell_is_written_as_in_folders_or_in_tables(text: str, cell: tuple[float, int]) -> None:
    assert parse_cell(text) == cell


def test_bad_names_are_met_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"no figure `latncy`.*Did you mean `latency`"):
        find_metric("latncy")
    with pytest.raises(UserError, match="--cell big: expected seconds and batch size"):
        parse_cell("big")


def test_runs_are_found_in_the_log_folder_and_where_they_are_given(tmp_path: Path) -> None:
    first, second, third, other = (
        make(Made(n, id=f"r{n}", recipe=recipe, started=f"2026-01-0{n}T00:00:00+00:00"))
        for n, recipe in ((1, "a/mine.yaml"), (2, "mine.yaml"), (3, "mine.yaml"), (4, "else.yaml"))
    )
    logdir, elsewhere = tmp_path / "logs", tmp_path / "elsewhere"
    save(first, logdir / "jetson")  # dropped in with its folder
    save(second, logdir)
    save(other, logdir)
    save(third, elsewhere)
    (logdir / "mine" / "broken").mkdir()
    (logdir / "mine" / "broken" / "results.json").write_text("{")
    found, problems = runs_of("recipes/mine.yaml", logdir, [str(elsewhere)])
    assert [results.run.id for results in found] == ["r1", "r2", "r3"]
    assert len(problems) == 1
    assert "broken" in problems[0]
    with pytest.raises(UserError, match=r"no run of `mien`.*Did you mean `mine`"):
        runs_of("mien", logdir, [])


def noisy(levels: list[float], seed: int, noise: float = 0.02) -> list[float]:
    random_ = random.Random(seed)
    return [level * math.exp(random_.gauss(0, noise)) for level in levels]


def test_a_shift_of_ten_percent_is_found_where_it_is() -> None:
    found = [level_shifts(noisy([1.0] * 8 + [1.1] * 8, seed), 0.02) for seed in range(50)]
    near = [[shift for shift in shifts if abs(shift.at - 8) <= 1] for shifts in found]
    assert sum(len(shifts) == 1 for shifts in near) >= 45
    assert near[0][0].ratio == pytest.approx(1.1, abs=0.03)


@pytest.mark.parametrize("count", [6, 12, 40])
def test_noise_alone_hardly_ever_shows_one(count: int) -> None:
    assert sum(bool(level_shifts(noisy([1.0] * count, seed), 0.02)) for seed in range(100)) <= 1


def test_up_and_down_again_are_two() -> None:
    assert [round(shift.ratio, 1) for shift in level_shifts([1.0] * 5 + [2.0] * 5 + [1.0] * 5, 0.01)] == [2.0, 0.5]


def test_one_bad_run_is_no_new_level() -> None:
    assert level_shifts(noisy([1.0] * 6 + [1.5] + [1.0] * 6, 1), 0.01) == []


def test_a_shift_too_small_to_matter_is_not_marked() -> None:
    assert level_shifts([1.0] * 10 + [1.015] * 10, 0.001) == []


def test_a_shift_that_the_floor_may_explain_is_not_marked() -> None:
    """The machine is known to differ by so much from run to run, though these runs happen to agree."""
    values = [1.0] * 5 + [1.1] * 5
    assert len(level_shifts(values, 0.01)) == 1
    assert level_shifts(values, 0.05) == []


@pytest.mark.parametrize("values", [[], [1.0] * 5, [0.0] * 10, [1.0, 0.0] * 5])
def test_too_few_points_or_zeros_have_none(values: list[float]) -> None:
    assert level_shifts(values, 0.01) == []
