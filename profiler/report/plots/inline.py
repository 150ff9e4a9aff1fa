"""An SVG file as a part of a page: no header, ids of its own, and colours that follow the page's, light or dark."""

from __future__ import annotations

import re
from itertools import count

from markupsafe import escape

from profiler.report.plots.style import COLOURS, FAINT, GREY, PAPER, Plot

# The page's stylesheet gives these their values.
NAMES = ("blue", "vermilion", "green", "pink", "sky", "orange", "ink")
VARIABLES = {
    **{colour.lower(): f"var(--{name})" for colour, name in zip(COLOURS, NAMES, strict=True)},
    GREY.lower(): "var(--grey)",
    PAPER.lower(): "var(--paper)",
    FAINT: "var(--rule)",
    "#000000": "var(--ink)",
}
IDS = re.compile(r'(\bid="|url\(#|href="#)')
COLOUR = re.compile(r"(?<=: )#[0-9a-f]{6}\b")
MARKS = re.compile(r'<g id="(marks-\d+)">(.*?)</g>\s*</g>', re.DOTALL)
MARK = re.compile(r"<use ([^>]*)/>")


def inline_svg(plot: Plot, shows: str) -> str:
    """The `<svg>` element of a plot; `shows` is for readers who do not see it. Its marks say what they stand for."""
    text = plot.path.with_suffix(".svg").read_text(encoding="utf-8")
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    head, body = text.split(">", 1)
    head = re.sub(r' (width|height|version|xmlns(:\w+)?)="[^"]*"', "", head).replace("<svg", '<svg role="img"', 1)
    body = MARKS.sub(lambda match: _with_tips(match, plot.tips), body)
    body = IDS.sub(lambda match: f"{match[1]}{plot.path.stem}-", body)
    body = body.replace("xlink:href", "href")
    body = COLOUR.sub(lambda match: VARIABLES.get(match[0], match[0]), body)
    return f'{head} aria-label="{escape(shows)}">{body}'.strip()


def _with_tips(group: re.Match[str], tips: dict[str, list[str]]) -> str:
    said, number = tips[group[1]], count()
    return MARK.sub(lambda mark: f'<use {mark[1]} data-tip="{escape(said[next(number)])}"/>', group[0])
