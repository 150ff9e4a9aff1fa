"""One look for all plots, fit for a paper: a column wide (or a page), text of 7 points and more, readable in grey and
by colour-blind people, units on the axes, nothing that is not data.

A plot has no title: its `Caption` is the file's metadata, stands below the plot in report.html, and is drawn only where
`titles` are wanted. Axes have places worked out here in inches, without matplotlib's layout engine and without its
mathematical text: a report has a dozen plots in three formats each, and is to be there within two seconds.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from profiler.report.facts import name_of
from profiler.results.types import Results
from profiler.results.untrusted import fresh

# Okabe and Ito's colours, which most colour-blind people can tell apart; markers and dashes say the same in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)), (0, (3, 1, 1, 1)))
HATCHES = ("", "////", "----", "xxxx", "\\\\\\\\", "||||", "++++")
MOST_SERIES = 6  # in one axes; more become small multiples
GREY = "#595959"  # of what is said beside the data; dark enough to be read on white
FAINT = "#b0b0b0"  # matplotlib's grid, and what is there for orientation only
PAPER = "#ffffff"
TEXT, SMALL = 8, 7  # points: names of axes; everything else
# TrueType outlines, as papers want them; the reduced font makes that cheap, others stand in for letters that it lacks.
FONT = Path(__file__).parent / "fonts" / "DejaVuSansReduced.ttf"
SETTINGS = {
    "pdf.fonttype": 42,
    "font.family": ["DejaVu Sans Reduced", "sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],
    "svg.fonttype": "none",  # text stays text: it can be searched, and takes the reader's font
    "svg.hashsalt": "speech-profiler",  # the same results give the same file
    "text.hinting": "none",  # takes a tenth of the time of a plot, and is not seen at this resolution
    "text.parse_math": False,  # a name with a dollar sign is a name
    "font.size": TEXT,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "hatch.linewidth": 0.5,
}
DPI = 300
SUFFIXES = (".png", ".svg", ".pdf")
# Where ticks may stand in each decade of a logarithmic axis; the first of these that gives no more than MOST_TICKS.
STEPS = ((1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9), (1, 1.5, 2, 3, 5, 7), (1, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,))
MOST_TICKS = 7

# Inches: the width of a column and of a page of two columns.
COLUMN, PAGE = 3.4, 7.0
HEIGHT, PANEL_HEIGHT = 1.9, 1.35
LEFT, RIGHT, BOTTOM, BETWEEN = 0.58, 0.17, 0.4, 0.15
NAME, TICKS = 0.19, 0.2  # above and below a panel
X_LABEL, Y_LABEL = 0.25, 0.16  # from the axis down, from the edge inwards
LINE = 0.14
EDGE = 0.05
CHARACTER, HANDLE = 0.06, 0.41  # of text of 7 points on average; what stands before a name in a legend
FEW_PANELS, PANELS_ACROSS, MORE_ACROSS = 6, 3, 4

_TITLES: ContextVar[bool] = ContextVar("titles", default=False)


@contextmanager
def titles(wanted: bool) -> Iterator[None]:
    """Whether the plots that are drawn inside have their captions in the picture."""
    before = _TITLES.set(wanted)
    try:
        yield
    finally:
        _TITLES.reset(before)


@dataclass(frozen=True)
class Caption:
    """What a plot shows, and how to read it."""

    title: str
    note: str = ""
    mark: str = ""  # in the picture in any case: random weights

    @classmethod
    def of(cls, results: Results, variants: list[str], title: str, *notes: str) -> Caption:
        random = any(model.weights == "random" for model in results.models if model.variant in variants)
        notes = (name_of(results, variants), *notes)
        return cls(title, "; ".join(note for note in notes if note), "random weights" if random else "")

    @property
    def text(self) -> str:
        return f"{self.title}. {self.note[:1].upper()}{self.note[1:]}".strip(". ")


@dataclass(eq=False)
class Plot:
    """A plot while it is drawn, and what is left of it: its files, its caption, and the figures at its marks."""

    path: Path  # without suffix
    caption: Caption
    axes: list[Any] = field(default_factory=list)
    tips: dict[str, list[str]] = field(default_factory=dict)  # group of marks in the SVG -> what each of them says
    wide: bool = False

    @property
    def files(self) -> list[Path]:
        return [self.path.with_suffix(suffix) for suffix in SUFFIXES]

    def mark(self, axes: Any, xs: Sequence[float], ys: Sequence[float], tips: Sequence[str], **style: Any) -> None:
        """Marks, each of which says a text where the plot is in a page."""
        (line,) = axes.plot(xs, ys, linestyle="none", **style)
        name = f"marks-{len(self.tips)}"
        line.set_gid(name)
        self.tips[name] = list(tips)


@contextmanager
def figure(
    path: Path, caption: Caption, x: str, y: str, left: float = LEFT, height: float = HEIGHT, wide: bool = False
) -> Iterator[Plot]:
    """One pair of axes to draw on; written to path.png, .svg and .pdf at the end."""
    with panels(path, caption, x, y, [""], left, height, wide) as plot:
        yield plot


@contextmanager
def panels(
    path: Path,
    caption: Caption,
    x: str,
    y: str,
    names: Sequence[str],
    left: float = LEFT,
    height: float = PANEL_HEIGHT,
    wide: bool = False,
) -> Iterator[Plot]:
    """Axes with a name each, side by side and of one scale. What is labelled on the first is told above them all."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_pdf import FigureCanvasPdf
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.font_manager import fontManager

    if FONT.name not in (Path(font.fname).name for font in fontManager.ttflist):
        fontManager.addfont(FONT)
    columns = across(names)
    plot = Plot(path, caption, wide=wide or columns > 1)
    with matplotlib.rc_context(SETTINGS):
        made = Figure()
        first: Any = None
        for name in names:
            axes = made.add_subplot(sharex=first, sharey=first)
            first = first or axes
            axes.set_title(name, fontsize=SMALL, loc="left", color=GREY, y=1.0, pad=3)
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(True, which="major", linewidth=0.4, alpha=0.5)
            axes.set_axisbelow(True)
            plot.axes.append(axes)
        yield plot
        for axes in plot.axes:
            plain_ticks(axes)
        _arrange(made, plot, (x, y), left, height, columns)
        png, svg, pdf = (fresh(file) for file in plot.files)
        FigureCanvasAgg(made).print_figure(png, dpi=DPI, pil_kwargs={"compress_level": 3})
        about = {"Creator": "speech-profiler", "Title": caption.text}
        FigureCanvasSVG(made).print_figure(svg, metadata=about | {"Date": None})
        FigureCanvasPdf(made).print_figure(pdf, metadata=about | {"CreationDate": None})


def _arrange(made: Any, plot: Plot, labels: tuple[str, str], left: float, height: float, columns: int) -> None:
    """Caption (where wanted) and legend at the top, then the panels in rows; only the outer ones have labels."""
    drawn, full = plot.axes, PAGE if plot.wide else COLUMN
    handles, names = drawn[0].get_legend_handles_labels()
    if drawn[0].get_legend() is not None:  # there is one for all of them, above
        drawn[0].get_legend().remove()
    lines = [(plot.caption.mark, {"color": GREY})] if plot.caption.mark else []
    if _TITLES.get():
        wrapped = [textwrap.wrap(text, int(full / CHARACTER)) for text in (plot.caption.title, plot.caption.note)]
        lines = [(line, {}) for line in wrapped[0]] + [(line, {"color": GREY}) for line in wrapped[1]]
    names = [shortened(name) for name in names]
    each_row = _legend_columns(names, full)
    head = EDGE + LINE * (len(lines) + math.ceil(len(handles) / each_row)) + 0.05
    rows = math.ceil(len(drawn) / columns)
    named = NAME if len(drawn) > 1 else 0.02
    whole = head + rows * (named + height) + (rows - 1) * TICKS + BOTTOM
    made.set_size_inches(full, whole)
    width = (full - left - RIGHT - (columns - 1) * BETWEEN) / columns
    for number, axes in enumerate(drawn):
        row, column = divmod(number, columns)
        bottom = whole - head - (row + 1) * (named + height) - row * TICKS
        across_from = left + column * (width + BETWEEN)
        axes.tick_params(labelleft=column == 0, labelbottom=number + columns >= len(drawn))  # the scale is one
        axes.set_position((across_from / full, bottom / whole, width / full, height / whole))
        # Places that are given need not be found: that would lay out every tick label twice.
        axes.xaxis.set_label_coords(0.5, -X_LABEL / height)
        axes.yaxis.set_label_coords(-(left - Y_LABEL) / width, 0.5)
    if len(drawn) == 1:
        drawn[0].set_xlabel(labels[0])
    else:  # once for all: a panel may be narrower than its label
        centre = (left + (full - left - RIGHT) / 2) / full
        made.text(centre, (BOTTOM - X_LABEL) / whole, labels[0], ha="center", va="top")
    for axes in drawn[::columns]:
        axes.set_ylabel(labels[1])
    from_top = EDGE
    for line, style in lines:
        made.text(EDGE / full, 1 - from_top / whole, line, fontsize=SMALL, va="top", **style)
        from_top += LINE
    if handles:
        made.legend(
            *(_by_rows(each, each_row) for each in (handles, names)),
            loc="upper left",
            bbox_to_anchor=(EDGE / full, 1 - from_top / whole),
            ncols=each_row,
            frameon=False,
            fontsize=SMALL,
            borderpad=0.1,
            borderaxespad=0.0,
            labelspacing=0.35,
            handlelength=2.4,
            handletextpad=0.5,
            columnspacing=1.2,
        )


def across(names: Sequence[str]) -> int:
    """How many panels stand side by side."""
    return min(PANELS_ACROSS if len(names) <= FEW_PANELS else MORE_ACROSS, len(names))


def _legend_columns(names: list[str], full: float) -> int:
    """As many as fit: each is as wide as its longest name."""
    for columns in range(len(names), 1, -1):
        if sum(HANDLE + CHARACTER * max(map(len, names[n::columns])) for n in range(columns)) <= full - EDGE:
            return columns
    return 1


def _by_rows(items: list[Any], columns: int) -> list[Any]:
    """In the order that a legend, which fills its columns one after another, needs to be read along its rows."""
    return [item for column in range(columns) for item in items[column::columns]]


def shortened(name: str, most: int = 40) -> str:
    return name if len(name) <= most else f"{name[: most - 3]}..."


def mark_level(axes: Any, value: float, text: str, side: Literal["left", "right"] = "right") -> None:
    """A line across the plot that is no data: real time, or all the memory there is. `side`: where no curve is."""
    axes.axhline(value, color=GREY, linewidth=0.8)
    place = {"xycoords": ("axes fraction", "data"), "ha": side, "va": "bottom"}
    axes.annotate(text, (float(side == "right"), value), fontsize=SMALL, color=GREY, **place)


def label_points(axes: Any, points: Sequence[tuple[float, float, str]], box: tuple[float, float]) -> None:
    """Names beside points, the first of them first; one that would lie on another is left out.

    `box`: inches of the axes, whose limits and scales are set already.
    """
    shares = (axes.transScale + axes.transLimits).transform([(x, y) for x, y, _ in points])
    places = [(across * box[0], up * box[1]) for across, up in shares]
    taken = [(x - 0.03, y - 0.03, x + 0.03, y + 0.03) for x, y in places]
    for (x, y), (at_x, at_y, text) in zip(places, points, strict=True):
        wide, high, gap = CHARACTER * len(text), 0.1, 0.05
        for left, bottom, ha, va in (
            (x + gap, y - high / 2, "left", "center"),
            (x - gap - wide, y - high / 2, "right", "center"),
            (x - wide / 2, y + gap, "center", "bottom"),
            (x - wide / 2, y - gap - high, "center", "top"),
        ):
            here = (left, bottom, left + wide, bottom + high)
            inside = here[0] >= 0 and here[1] >= 0 and here[2] <= box[0] + RIGHT and here[3] <= box[1]
            if inside and not any(_overlap(here, other) for other in taken):
                offset = {"left": (gap, 0), "right": (-gap, 0)}.get(ha, (0, gap if va == "bottom" else -gap))
                shift = tuple(72 * each for each in offset)
                axes.annotate(text, (at_x, at_y), shift, textcoords="offset points", ha=ha, va=va, fontsize=SMALL)
                taken.append(here)
                break


def _overlap(one: tuple[float, ...], two: tuple[float, ...]) -> bool:
    return one[0] < two[2] and two[0] < one[2] and one[1] < two[3] and two[1] < one[3]


def look(number: int) -> dict[str, Any]:
    """Colour, marker and dashes of the n-th series."""
    return {"color": COLOURS[number % 7], "marker": MARKERS[number % 7], "linestyle": DASHES[number % 7]}


def plain_ticks(axes: Any) -> None:
    """0.1, 1, 10 on logarithmic axes, instead of powers; 1, 2 and 5 of each where there is room."""
    from matplotlib.ticker import FixedLocator, StrMethodFormatter

    for axis, scale, limits in (
        (axes.xaxis, axes.get_xscale(), axes.get_xlim()),
        (axes.yaxis, axes.get_yscale(), axes.get_ylim()),
    ):
        if isinstance(axis.get_major_locator(), FixedLocator):
            continue
        if scale == "log":
            ticks_at(axis, _round_numbers(*sorted(limits)), thin=False)
        else:
            axis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))


def ticks_at(axis: Any, values: Sequence[float], thin: bool = True) -> None:
    """Ticks at the values that were measured, in plain decimals; those that would touch another one are left out."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    shown = _apart(sorted(set(values))) if thin else list(values)
    axis.set_major_locator(FixedLocator(shown))
    axis.set_major_formatter(FixedFormatter([f"{value:,.10g}" for value in shown]))
    axis.set_minor_locator(NullLocator())


def _apart(values: list[float]) -> list[float]:
    """At most about nine, by their distance on a logarithmic axis."""
    least = math.log(values[-1] / values[0]) / 9 if values and values[0] > 0 else 0.0
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
