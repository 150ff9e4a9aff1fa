"""Show a figure of a recipe over its runs, as a table and a plot, with level shifts marked.

  profile.py history wav2vec2                                the real-time factor of its largest cell
  profile.py history wav2vec2 --figure memory --cell 2s_x1   another figure, of a cell of your choice
  profile.py history wav2vec2 from-the-jetson/ --by commit   with runs of another machine, one point per commit

Runs of other machines may lie in the log folder, or be given as paths; each machine has a series of its own.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

from profiler.cli.options import add_json, add_logdir
from profiler.errors import UserError, did_you_mean
from profiler.history import HistoryQuery, Series, choose_cell, make_series, parse_cell
from profiler.metrics import METRICS, find_metric
from profiler.report.history import history_tables, history_title
from profiler.report.stamp import digest, is_up_to_date, write_stamp
from profiler.report.terminal import show
from profiler.results.runs import runs_of

MAIN = [metric.key for metric in METRICS.values() if not metric.detail]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", metavar="RECIPE", help="a recipe's name or file")
    parser.add_argument("runs", metavar="RUN", nargs="*", help="further runs: their folders, or a folder of runs")
    add_logdir(parser)
    parser.add_argument(
        "--figure",
        metavar="NAME",
        default="rtf",
        help=f"one of {', '.join(MAIN)}, or another of profiler/metrics.py (default: %(default)s)",
    )
    parser.add_argument("--cell", metavar="CELL", help="such as 2s_x1 (default: the largest that most runs have)")
    parser.add_argument("--variant", metavar="NAME", help="one variant only")
    parser.add_argument("--by", choices=("date", "commit"), default="date", help="one point per run, or per commit")
    parser.add_argument(
        "--output",
        metavar="FILE",
        type=Path,
        help="where the plot goes, .png, .svg and .pdf (default: in the log folder)",
    )
    add_json(parser, "the series")


def run(arguments: argparse.Namespace) -> int:
    metric = find_metric(arguments.figure)
    cell = parse_cell(arguments.cell) if arguments.cell else None
    runs, problems = runs_of(arguments.recipe, arguments.logdir, arguments.runs)
    variants = list(dict.fromkeys(variant for results in runs for variant in results.variants))
    if arguments.variant is not None and arguments.variant not in variants:
        raise UserError(f"No run has the variant `{arguments.variant}`.{did_you_mean(arguments.variant, variants)}")
    asked = HistoryQuery(metric, cell, arguments.variant, arguments.by)
    asked = replace(asked, cell=choose_cell(runs, asked))
    series, without = make_series(runs, asked)
    if not series:
        reason = f"None of {len(runs)} runs has a figure `{metric.key}`; they were made without it."
        raise UserError("\n".join([reason, *problems]))
    title = history_title(arguments.recipe, asked)
    if arguments.json:
        print(json.dumps({"title": title, "series": [_plain(each) for each in series]}, indent=1))
    else:
        show(history_tables(title, series, asked))
        if without:
            print(f"\n{without} of {len(runs)} runs have no such figure and are left out.")
    _draw(arguments, series, asked, title)
    if problems:
        raise UserError("\n".join(["Some runs could not be read and are left out:", *problems]))
    return 0


def _plain(series: Series) -> dict[str, object]:
    return asdict(series) | {"shifts": [asdict(shift) | {"ratio": shift.ratio} for shift in series.shifts]}


def _draw(arguments: argparse.Namespace, series: list[Series], asked: HistoryQuery, title: str) -> None:
    name = Path(arguments.recipe).name.removesuffix(".yaml").replace(".", "-")
    path = arguments.output or arguments.logdir / f"history-{name}-{asked.metric.key}"
    stamp = arguments.logdir / f".{path.name}.json"
    made_from = digest(title, asked.by, repr(series))
    files = [path.with_suffix(suffix) for suffix in (".png", ".svg", ".pdf")]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if arguments.output or not is_up_to_date(stamp, made_from):  # no stamp in a folder that is not ours
            from profiler.report.plots.history import draw_history

            draw_history(series, asked, title, path)
            if not arguments.output:
                write_stamp(stamp, made_from, files)
    except OSError as error:
        raise UserError(
            f"Cannot write the plot {path}: {error.strerror}. Choose another place with --output."
        ) from None
    print(f"Plot: {files[0]}, {files[1].name} and {files[2].name}", file=sys.stderr if arguments.json else sys.stdout)
