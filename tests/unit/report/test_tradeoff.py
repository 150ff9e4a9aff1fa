"""The Pareto front of error and cost."""

from __future__ import annotations

from profiler.report.tradeoff import Point, front, tradeoff_table
from profiler.results.types import ErrorRate


def point(name: str, error: float | None, rtf: float, size: float = 1e6, utterances: int = 50) -> Point:
    rate = None if error is None else ErrorRate(value=error, substitutions=1, insertions=0, deletions=0, units=100)
    return Point(name, rate, rate, "random weights", rtf, f"{rtf:.3g}", 0.1, 1e9, size, utterances=utterances)


def names(points: list[Point]) -> list[str]:
    return [point.name for point in points]


def test_the_front_has_who_is_beaten_by_nobody_in_both() -> None:
    points = [point("slow", 0.05, 0.4), point("beaten", 0.1, 0.3), point("middle", 0.1, 0.2), point("quick", 0.3, 0.1)]
    assert names(front(points, "rtf")) == ["quick", "middle", "slow"]
    assert names(front(points, "size")) == ["slow"], "all are of the same size"


def test_equals_stand_on_it_together() -> None:
    assert names(front([point("one", 0.1, 0.2), point("two", 0.1, 0.2)], "rtf")) == ["one", "two"]


def test_costs_are_compared_in_three_digits() -> None:
    larger = point("larger by a byte", 0.1, 0.2, 1_000_001)
    assert names(front([point("one", 0.1, 0.2, 1_000_000), larger], "size")) == ["one", "larger by a byte"]


def test_who_has_no_error_rate_or_heard_less_is_on_no_front() -> None:
    points = [point("random", None, 0.01), point("half", 0.0, 0.01, utterances=25), point("whole", 0.1, 0.2)]
    assert names(front(points, "rtf")) == ["whole"]
    table = tradeoff_table("Accuracy", points, "2 s x 1")
    assert table is not None
    assert [row[1] for row in table.rows] == ["random weights", "0.00", "10.00"]
    assert [row[-1] for row in table.rows] == ["", "", "RTF, peak memory, size"]
    assert any("half: of 25 utterances, where others transcribed 50" in remark for remark in table.remarks)


def test_without_any_error_rate_there_is_no_trade_off() -> None:
    assert tradeoff_table("Accuracy", [point("random", None, 0.1)], None) is None
