"""One look for all plots: readable in grey and by colour-blind people, units on the axes, nothing that is not data.

A plot is drawn on axes whose places are worked out here in inches, without matplotlib's layout engine and without its
mathematical text: a report has a dozen plots in two formats each, and is to be there within two seconds.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from profiler.results.untrusted import fresh

# Okabe and Ito's colours, which most colour-blind people can tell apart; markers and dashes say the same in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)), (0, (3, 1, 1, 1)))
HATCHES = ("", "///", "---", "xxx", "\\\\\\", "|||", "+++")
GREY = "#595959"  # of what is said beside the data; dark enough to be read on white
PAPER = "#ffffff"
SETTINGS = {
    "svg.fonttype": "none",  # text stays text: it can be searched, and takes the reader's font
    "svg.hashsalt": "speech-profiler",  # the same results give the same file
    "text.hinting": "none",  # takes a tenth of the time of a plot, and is not seen at this resolution
    "text.parse_math": False,  # a name with a dollar sign is a name
    "font.size": 10,
    "hatch.linewidth": 0.6,
}
DPI = 150
# Where ticks may stand in each decade of a logarithmic axis; the first of these that gives no more than MOST_TICKS.
STEPS = ((1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9), (1, 1.5, 2, 3, 5, 7), (1, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,))
MOST_TICKS = 7

# Inches. A plot is a column and a half of a paper wide.
WIDTH = 6.4
HEIGHT, PANEL_HEIGHT = 2.9, 2.2
LEFT, RIGHT, BOTTOM, BETWEEN = 0.85, 0.2, 0.55, 0.25
NAME, TICKS = 0.25, 0.25  # above and below a panel
X_LABEL, Y_LABEL = 0.28, 0.28  # from the axis down, from the edge inwards
LINE = 0.2
EDGE = 0.12
LEGEND_COLUMNS = 4
TITLE_CHARACTERS, NOTE_CHARACTERS, LEGEND_CHARACTERS = 78, 96, 18


@contextmanager
def figure(
    path: Path, title: str, x: str, y: str, note: str = "", left: float = LEFT, height: float = HEIGHT
) -> Iterator[Any]:
    """Axes to draw on; written to path.png and path.svg at the end. `note`: a line below the title."""
    with panels(path, title, x, y, [""], note, left, height) as (axes,):
        yield axes


@contextmanager
def panels(
    path: Path,
    title: str,
    x: str,
    y: str,
    names: Sequence[str],
    note: str = "",
    left: float = LEFT,
    height: float = PANEL_HEIGHT,
) -> Iterator[list[Any]]:
    """Axes with a name each, side by side and of one scale. What is labelled on the first is told above them all."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context(SETTINGS):
        made = Figure()
        several = len(names) > 1
        first: Any = None
        drawn: list[Any] = []
        for name in names:
            axes = made.add_subplot(sharex=first, sharey=first)
            first = first or axes
            axes.set_title(name, fontsize=9, loc="left", color=GREY, y=1.0)
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(True, which="major", linewidth=0.4, alpha=0.5)
            axes.set_axisbelow(True)
            drawn.append(axes)
        yield drawn
        for axes in drawn:
            plain_ticks(axes)
        _arrange(made, drawn, (title, note), (x, y), left, height, columns=2 if several else 1)
        FigureCanvasAgg(made).print_figure(fresh(path.with_suffix(".png")), dpi=DPI, pil_kwargs={"compress_level": 3})
        about = {"Date": None, "Creator": "speech-profiler", "Title": f"{title}. {note}".strip(". ")}
        FigureCanvasSVG(made).print_figure(fresh(path.with_suffix(".svg")), metadata=about)


def _arrange(
    made: Any,
    drawn: list[Any],
    texts: tuple[str, str],
    labels: tuple[str, str],
    left: float,
    height: float,
    columns: int,
) -> None:
    """Title, note and legend at the top, then the panels in rows; only the outer ones have labels."""
    handles, names = drawn[0].get_legend_handles_labels()
    if drawn[0].get_legend() is not None:  # there is one for all of them, above
        drawn[0].get_legend().remove()
    title = textwrap.wrap(texts[0], TITLE_CHARACTERS)
    note = textwrap.wrap(texts[1], NOTE_CHARACTERS)
    longest = max(map(len, names), default=1)
    across = max(1, min(LEGEND_COLUMNS, LEGEND_COLUMNS * LEGEND_CHARACTERS // max(longest, LEGEND_CHARACTERS)))
    legend_lines = math.ceil(len(handles) / across)
    head = EDGE + LINE * (len(title) + 0.85 * len(note) + 1.05 * legend_lines) + 0.1
    rows = math.ceil(len(drawn) / columns)
    named = NAME if columns > 1 else 0.05
    whole = head + rows * (named + height) + (rows - 1) * TICKS + BOTTOM
    made.set_size_inches(WIDTH, whole)
    width = (WIDTH - left - RIGHT - (columns - 1) * BETWEEN) / columns
    for number, axes in enumerate(drawn):
        row, column = divmod(number, columns)
        bottom = whole - head - (row + 1) * (named + height) - row * TICKS
        across_from = left + column * (width + BETWEEN)
        axes.tick_params(labelleft=column == 0)  # the scale is the same in all
        axes.set_position((across_from / WIDTH, bottom / whole, width / WIDTH, height / whole))
    # Places that are given need not be found: that would lay out every tick label twice.
    for axes in drawn:
        axes.xaxis.set_label_coords(0.5, -X_LABEL / height)
        axes.yaxis.set_label_coords(-(left - Y_LABEL) / width, 0.5)
    for axes in drawn[-columns:]:
        axes.set_xlabel(labels[0])
    for axes in drawn[::columns]:
        axes.set_ylabel(labels[1])
    from_top = EDGE
    for lines, size, style in ((title, 10, {"weight": "bold"}), (note, 8.5, {"color": GREY})):
        for line in lines:
            made.text(EDGE / WIDTH, 1 - from_top / whole, line, fontsize=size, va="top", **style)
            from_top += LINE * (1 if size == 10 else 0.85)
    if handles:
        made.legend(
            *(_by_rows(each, across) for each in (handles, names)),
            loc="upper left",
            bbox_to_anchor=((EDGE - 0.05) / WIDTH, 1 - from_top / whole),
            ncols=across,
            frameon=False,
            fontsize=9,
            borderpad=0.2,
            borderaxespad=0.0,
            handlelength=2.4,
            columnspacing=1.4,
        )


def _by_rows(items: list[Any], columns: int) -> list[Any]:
    """In the order that a legend, which fills its columns one after another, needs to be read along its rows."""
    return [item for column in range(columns) for item in items[column::columns]]


def mark_level(axes: Any, value: float, text: str) -> None:
    """A line across the plot that is no data: real time, or all the memory there is."""
    axes.axhline(value, color=GREY, linewidth=1.0)
    place = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "bottom"}
    axes.annotate(text, (1, value), fontsize=8, color=GREY, **place)


def look(number: int) -> dict[str, Any]:
    """Colour, marker and dashes of the n-th series. After a full turn the markers shift, so that none is repeated."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[(number + number // len(COLOURS)) % len(MARKERS)],
        "linestyle": DASHES[number % len(DASHES)],
    }


def plain_ticks(axes: Any) -> None:
    """0.1, 1, 10 on logarithmic axes, instead of powers; 1, 2 and 5 of each where there is room."""
    from matplotlib.ticker import FixedLocator

    for axis, scale, limits in (
        (axes.xaxis, axes.get_xscale(), axes.get_xlim()),
        (axes.yaxis, axes.get_yscale(), axes.get_ylim()),
    ):
        if scale == "log" and not isinstance(axis.get_major_locator(), FixedLocator):
            ticks_at(axis, _round_numbers(*sorted(limits)), thin=False)


def ticks_at(axis: Any, values: Sequence[float], thin: bool = True) -> None:
    """Ticks at the values that were measured, in plain decimals; those that would touch another one are left out."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    shown = _apart(sorted(set(values))) if thin else list(values)
    axis.set_major_locator(FixedLocator(shown))
    axis.set_major_formatter(FixedFormatter([f"{value:,.10g}" for value in shown]))
    axis.set_minor_locator(NullLocator())


def _apart(values: list[float]) -> list[float]:
    """At most about a dozen, by their distance on a logarithmic axis."""
    least = math.log(values[-1] / values[0]) / 12 if values and values[0] > 0 else 0.0
    shown: list[float] = []
    for value in values:
        if not shown or math.log(value / shown[-1]) >= least:
            shown.append(value)
    return shown


def _round_numbers(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in STEPS:
        ticks = [step * 10.0**power for power in decades for step in steps]
        ticks = [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]
        if len(ticks) <= MOST_TICKS:
            return ticks
    return ticks[:: math.ceil(len(ticks) / MOST_TICKS)]
