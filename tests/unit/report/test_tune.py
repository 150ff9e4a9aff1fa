"""What `tune` ends with: the Pareto front as a plot, in files and in characters."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from profiler.report.plots.front import draw_front
from profiler.report.tune import plot_text, shown_points
from profiler.results.types import Results
from profiler.tuning.choice import Choice, choose
from profiler.tuning.halving import Aim
from profiler.tuning.limits import parse_limits
from tests.unit.report.runs import full


def finalists(*memory_mb: int, under: str = "") -> tuple[Results, Choice]:
    """v0, v1, ...: each takes half the time of the one before, and so much memory."""
    made = full(*(f"v{number}" for number in range(len(memory_mb))))
    made.cells = [cell for cell in made.cells if cell.key[1:] == (1, 1)]
    for cell, memory in zip(made.cells, memory_mb, strict=True):
        assert cell.peak_memory_bytes is not None
        cell.peak_memory_bytes.process = memory * 10**6
    return made, choose(made, Aim(limits=tuple(parse_limits(under))))


def test_the_picture_names_every_point_and_has_both_figures_on_its_axes(tmp_path: Path) -> None:
    results, choice = finalists(100, 300, 200)
    plot = draw_front(choice, results, tmp_path)
    assert plot is not None
    assert [file.name for file in plot.files] == ["front.png", "front.svg", "front.pdf"]
    texts = [
        "".join(text.itertext()) for text in ElementTree.parse(plot.files[1]).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert {"v0 (batch 1)", "v2 (batch 1)"} <= set(texts)
    assert any("memory" in text for text in texts)
    assert [tips for (tips,) in plot.tips.values() if "v1" in tips], "a point that is not on the front is there too"
    assert "square: the pick" in plot.caption.note


def test_in_characters_the_fastest_is_on_the_left_and_the_largest_at_the_top() -> None:
    _, choice = finalists(100, 300, 200)
    assert [point.cell.variant for point in shown_points(choice).values()] == ["v2", "v0"], "v1 is beaten by v2 in both"
    head, *rows, axis = plot_text(choice, 9).splitlines()
    assert head.strip() == "peak memory, MB, over RTF; .: not on the front"
    assert len(rows) == 7
    assert rows[0].strip().startswith("300 |")
    assert rows[0].rstrip().endswith("."), "v1, the largest"
    assert rows[-1].rstrip().endswith("b"), "v0: the slowest, the smallest"
    assert [row.rstrip()[-2:] for row in rows if row.rstrip().endswith("a")] == ["|a"], "the fastest"
    assert axis.split()[0] == "0.0250"
    assert axis.split()[-1] == "0.100"


def test_where_there_is_no_room_or_one_point_alone_there_is_no_plot(tmp_path: Path) -> None:
    _, choice = finalists(100, 300, 200)
    assert plot_text(choice, 4) == ""
    results, alone = finalists(100)
    assert plot_text(alone, 20) == ""
    assert draw_front(alone, results, tmp_path) is None


def test_what_is_over_a_limit_says_so_in_the_picture(tmp_path: Path) -> None:
    results, choice = finalists(100, 300, under="memory 200 MB")
    plot = draw_front(choice, results, tmp_path)
    assert plot is not None
    assert [tip for (tip,) in plot.tips.values() if "over: " in tip]
    assert choice.pick is not None
    assert choice.pick.cell.variant == "v0"
