"""report.html: a run on one page that needs nothing else, no network and no other file. Made from results alone."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from profiler import __version__
from profiler.metrics import RTF
from profiler.report import opening
from profiler.report.comparison import sides_tables
from profiler.report.facts import environment_facts, method, name_of, recipe_name
from profiler.report.markdown import how_measured
from profiler.report.plots.inline import inline_svg
from profiler.report.plots.style import Caption, Plot
from profiler.report.serving import serving_tables
from profiler.report.summary import summary
from profiler.report.table import Table
from profiler.report.tables import build_tables, remarks_on
from profiler.results.metric import UNSTABLE_MARK
from profiler.results.store import write_atomically
from profiler.results.types import Results

FILE = "report.html"
TEMPLATES = Path(__file__).parent / "templates"


def render(results: Results, plots: Mapping[Plot, str], problems: Iterable[str] = ()) -> str:
    """The page. `plots`: each with what it shows; `problems`: what a reader is told first."""
    sources = list(dict.fromkeys(model.source for model in results.models))
    failed = {cell.key for cell in results.cells if cell.status == "failed"}
    several = len(results.variants) > 1
    return page(
        "report.html",
        results=results,
        name=sources[0] if len(sources) == 1 else f"{len(sources)} models" if sources else recipe_name(results),
        recipe=recipe_name(results),
        weights=list(dict.fromkeys(model.weights for model in results.models if model.weights)),
        problems=list(problems),
        tiles=opening.tiles(results),
        summary=summary(results, named=False),
        answer=opening.answer(results),
        load=next(iter(sides_tables(results) or serving_tables(results, "")), None) if results.serving else None,
        cards=opening.cards(results),
        failures=opening.failures(results),
        matrix=opening.matrix(results),
        parts_of=opening.parts(results),
        reasons=remarks_on([cell for cell in results.cells if cell.key not in failed], several),
        plots=[(plot, Markup(inline_svg(plot, shows)), _said(plot, results)) for plot, shows in plots.items()],
        tables=_tables(results),
        environment=environment_facts(results),
        packages=results.environment.packages,
        method=method(results),
        measured=how_measured(results).splitlines(),
        resolved=json.dumps(results.run.resolved, indent=2, ensure_ascii=False) if results.run.resolved else "",
    )


def write(results: Results, folder: Path, plots: Mapping[Plot, str]) -> Path:
    write_atomically(folder / FILE, render(results, plots))
    return folder / FILE


def _tables(results: Results) -> list[Table]:
    """Without what the page says above them already: RTF of one variant, names of the model, remarks on cells."""
    tables = build_tables(results) if results.cells or results.datasets or results.serving else []
    if len(results.variants) == 1:
        tables = [table for table in tables if not table.title.startswith(RTF.heading)]
    told = remarks_on(results.cells)
    if results.serving:  # the first stands at the top of the page
        tables = tables[1:]
    return [
        Table(_unnamed(table.title, results), table.header, table.rows, [x for x in table.remarks if x not in told])
        for table in tables
    ]


def _unnamed(text: str, results: Results) -> str:
    """A title or a caption without the name of the model, which the page has at its top, unless there are several."""
    sources, name = {model.source for model in results.models}, name_of(results, results.variants)
    text = text.removesuffix(f" - {name}").removeprefix(f"{name}; ").removeprefix(name)
    return text.replace(f"{next(iter(sources))}, ", "") if len(sources) == 1 else text


def _said(plot: Plot, results: Results) -> str:
    """The caption below a plot."""
    return Caption(plot.caption.title, _unnamed(plot.caption.note, results)).text + "."


def page(template: str, **values: Any) -> str:
    """A page of the templates beside this file. All that is put in is escaped; no script runs but the page's own."""
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    values |= {"script": Markup(script), "allowed": Markup(allowed), "version": __version__}
    return _templates().get_template(template).render(values)


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {"code": _code, "kind": _kind, "figure": _figure, "grouped": _grouped}
    return templates


def _code(text: str) -> Markup:
    """`word` between backticks is code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _figure(text: str) -> Markup:
    """An unstable figure, whose mark leads to the reasons."""
    number, mark, width = text.partition(f" {UNSTABLE_MARK}")
    width, space, more = width.partition(" ")
    link = Markup(' <a class="why" href="#unstable">{}{}</a>{}{}').format(UNSTABLE_MARK, width, space, more)
    return _code(number) + link if mark else _code(text)


def _kind(text: str) -> Markup:
    """The class of a figure that is unstable or absent."""
    kind = text if text in ("failed", "skipped") else "unstable" if f" {UNSTABLE_MARK}" in text else ""
    return Markup(f' class="{kind}"') if kind else Markup("")


def _grouped(lines: Iterable[str]) -> list[tuple[bool, list[str]]]:
    """Remarks in their order; those that start with a dash are lists."""
    groups = itertools.groupby(lines, key=lambda line: line.startswith("- "))
    return [(listed, [line.removeprefix("- ") for line in group]) for listed, group in groups]
