"""report.html: a run on one page that needs nothing else, no network and no other file. Made from results alone."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from profiler import __version__
from profiler.report.facts import environment_facts, method, name_of, recipe_name
from profiler.report.markdown import how_measured
from profiler.report.plots.inline import inline_svg
from profiler.report.summary import counts, summary
from profiler.report.table import Table
from profiler.report.tables import build_tables, remarks_on
from profiler.results.metric import UNSTABLE_MARK
from profiler.results.store import write_atomically
from profiler.results.types import Results

FILE = "report.html"
TEMPLATES = Path(__file__).parent / "templates"


def render(results: Results, plots: Mapping[Path, str], problems: Iterable[str] = ()) -> str:
    """The page. `plots`: files without suffix, and what each shows; `problems`: what a reader is told first."""
    weights = dict.fromkeys(model.weights for model in results.models if model.weights)
    verdicts = remarks_on(results.cells)
    return page(
        "report.html",
        results=results,
        name=name_of(results, results.variants) if results.variants else recipe_name(results),
        recipe=recipe_name(results),
        weights=list(weights),
        problems=list(problems),
        summary=summary(results),
        counts=counts(results),
        verdicts=verdicts,
        plots=[Markup(inline_svg(path.with_suffix(".svg"), shows)) for path, shows in plots.items()],
        tables=_tables(results, verdicts),
        environment=environment_facts(results),
        packages=results.environment.packages,
        method=method(results),
        measured=how_measured(results).splitlines(),
        resolved=json.dumps(results.run.resolved, indent=2, ensure_ascii=False) if results.run.resolved else "",
    )


def write(results: Results, folder: Path, plots: Mapping[Path, str]) -> Path:
    write_atomically(folder / FILE, render(results, plots))
    return folder / FILE


def _tables(results: Results, told: list[str]) -> list[Table]:
    """Without the remarks that stand below the verdicts already."""
    tables = build_tables(results) if results.cells or results.datasets else []
    return [replace(table, remarks=[line for line in table.remarks if line not in told]) for table in tables]


def page(template: str, **values: Any) -> str:
    """A page of the templates beside this file. All that is put in is escaped."""
    return _templates().get_template(template).render(version=__version__, **values)


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {"code": _code, "kind": _kind, "grouped": _grouped}
    return templates


def _code(text: str) -> Markup:
    """`word` between backticks is code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _kind(text: str) -> Markup:
    """The class of a figure that is unstable or absent."""
    kind = text if text in ("failed", "skipped") else "unstable" if f" {UNSTABLE_MARK}" in text else ""
    return Markup(f' class="{kind}"') if kind else Markup("")


def _grouped(lines: Iterable[str]) -> list[tuple[bool, list[str]]]:
    """Remarks in their order; those that start with a dash are lists."""
    groups = itertools.groupby(lines, key=lambda line: line.startswith("- "))
    return [(listed, [line.removeprefix("- ") for line in group]) for listed, group in groups]
