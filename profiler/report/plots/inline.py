"""An SVG file as a part of a page: no header, ids of its own, and colours that follow the page's, light or dark."""

from __future__ import annotations

import re
from pathlib import Path

from profiler.report.plots.style import COLOURS, GREY, PAPER

# The page's stylesheet gives these their values.
NAMES = ("blue", "vermilion", "green", "pink", "sky", "orange", "ink")
VARIABLES = {
    **{colour.lower(): f"var(--{name})" for colour, name in zip(COLOURS, NAMES, strict=True)},
    GREY.lower(): "var(--grey)",
    PAPER.lower(): "var(--paper)",
    "#b0b0b0": "var(--rule)",  # matplotlib's grid
}
IDS = re.compile(r'(\bid="|url\(#|href="#)')
COLOUR = re.compile(r"(?<=: )#[0-9a-f]{6}\b")


def inline_svg(path: Path, shows: str) -> str:
    """The `<svg>` element of a file that matplotlib wrote; `shows` is for readers who do not see it."""
    text = path.read_text(encoding="utf-8")
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    head, body = text.split(">", 1)
    head = re.sub(r' (width|height|version|xmlns(:\w+)?)="[^"]*"', "", head).replace("<svg", '<svg role="img"', 1)
    body = IDS.sub(lambda match: f"{match[1]}{path.stem}-", body)
    body = body.replace("xlink:href", "href")
    body = COLOUR.sub(lambda match: VARIABLES.get(match[0], match[0]), body)
    return f'{head} aria-label="{shows}">{body}'.strip()
