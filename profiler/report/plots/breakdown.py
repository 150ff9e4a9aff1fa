"""Where the time of a call goes, of the largest cell: a bar for each label; for several variants a bar made of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from profiler.metrics import LATENCY
from profiler.report.breakdown import label_rows, largest
from profiler.report.plots.bars import ROW, THICKNESS, WIDEST, draw_stacked, left_for, name_rows
from profiler.report.plots.style import COLOURS, MOST_SERIES, SMALL, Caption, Plot, figure
from profiler.results.types import CellResult, Results

NAME = "breakdown"
TITLE = "Where the time of a call goes"
WHOLE = "(whole call)"
OTHERS = "others"
MOST_LABELS = 20
NAMED_SHARE = 0.01  # of a call, below which a label goes to the others
LEAST_SHOWN = 0.0005  # that is 0.1%
LEAST_LEFT = 1e-6  # of the longest call: less than that is rounding
NOTHING = {"own_s": 0.0}

Label = tuple[str, str]  # name and phase


def draw(results: Results, folder: Path) -> list[Plot]:
    """Nothing where no cell has a breakdown."""
    found = [largest([cell for cell in results.cells if cell.variant == name]) for name in results.variants]
    cells = [cell for cell in found if cell is not None]
    if not cells:
        return []
    variants = [cell.variant for cell in cells]
    places = ", ".join(dict.fromkeys(cell.place for cell in cells))
    caption = Caption.of(results, variants, TITLE, places, "share of the call on each bar")
    rows = variants if len(cells) > 1 else [_text(label) for label in _labels(cells, MOST_LABELS, LEAST_SHOWN)]
    x, left = f"self time, {LATENCY.shown.name} per call", left_for(rows)
    with figure(folder / NAME, caption, x, "", left, ROW * len(rows), wide=left > WIDEST) as plot:
        if len(cells) > 1:
            draw_stacked(plot.axes[0], _parts(cells))
        else:
            _draw_bars(plot.axes[0], cells[0])
        name_rows(plot.axes[0], rows)
    return [plot]


def _draw_bars(axes: Any, cell: CellResult) -> None:
    """Labels below one another, in the model's order."""
    rows = _rows(cell)
    shown = [rows[label] for label in _labels([cell], MOST_LABELS, LEAST_SHOWN)]
    lengths = [row["own_s"] / LATENCY.shown.scale for row in shown]
    axes.barh(range(len(shown)), lengths, height=THICKNESS, color=COLOURS[0])
    for place, (row, length) in enumerate(zip(shown, lengths, strict=True)):
        share = f"{row['own_share']:.1%}"
        axes.annotate(share, (length, place), (3, 0), textcoords="offset points", va="center", fontsize=SMALL)
    axes.set_xlim(0, max(lengths) * 1.18 or 1.0)


def _parts(cells: list[CellResult]) -> dict[str, list[float]]:
    """The costliest labels of several variants, and what is left of each call."""
    labels = _labels(cells, MOST_SERIES - 1, least=NAMED_SHARE)
    parts = {
        _text(label): [_rows(cell).get(label, NOTHING)["own_s"] / LATENCY.shown.scale for cell in cells]
        for label in labels
    }
    wholes = [sum(row["own_s"] for row in _rows(cell).values()) / LATENCY.shown.scale for cell in cells]
    others = [whole - sum(lengths[place] for lengths in parts.values()) for place, whole in enumerate(wholes)]
    return parts | ({OTHERS: others} if max(others) > max(wholes) * LEAST_LEFT else {})


def _rows(cell: CellResult) -> dict[Label, dict[str, Any]]:
    return {(row["name"], row["phase"]): row for row in label_rows(cell) if row["name"] != WHOLE}


def _labels(cells: list[CellResult], most: int, least: float = 0.0) -> list[Label]:
    """In the model's order; the costliest of them where they are many, and none below so small a share."""
    cost: dict[Label, float] = {}
    for cell in cells:
        for label, row in _rows(cell).items():
            if row["own_share"] < least:
                continue
            cost[label] = max(cost.get(label, 0.0), row["own_s"])
    shown = sorted(cost, key=lambda label: -cost[label])[:most]
    return [label for label in cost if label in shown]


def _text(label: Label) -> str:
    name, phase = label
    return name if phase == "forward" else f"{name}, {phase}"
