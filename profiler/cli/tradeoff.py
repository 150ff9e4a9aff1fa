"""Put error rates beside speed, memory and size: a table and plots over the variants of one run or of several.

The runs have to be of the same data set. What stands on the Pareto front of error and a cost is marked.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from profiler.accuracy.normalise import NORMALISATIONS
from profiler.cli.options import add_json, add_logdir
from profiler.errors import UserError
from profiler.report.terminal import show
from profiler.report.tradeoff import COSTS, plain_points, points_of, tradeoff_table
from profiler.results.export.unpack import is_archive, unpack
from profiler.results.runs import NAMES, find_run
from profiler.results.store import read_results
from profiler.results.types import Results
from profiler.units import many

FOLDER = "tradeoff"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUN", nargs="+", help=f"{NAMES}, or an exported FILE.zip")
    add_logdir(parser)
    add_json(parser, "the points")
    parser.add_argument(
        "--error", choices=("wer", "cer"), default="wer", help="which error rate (default: %(default)s)"
    )
    parser.add_argument("--against", choices=tuple(COSTS), nargs="+", default=tuple(COSTS), help="plots of these alone")
    parser.add_argument(
        "--normalise", choices=NORMALISATIONS, help="score the texts of all runs again like this; nothing is written"
    )
    parser.add_argument("--out", metavar="FOLDER", type=Path, help=f"where plots go (default: {FOLDER}/ of the logdir)")


def run(arguments: argparse.Namespace) -> int:
    runs = [_read(name, arguments.logdir, arguments.normalise) for name in dict.fromkeys(arguments.runs)]
    _check_same_set(runs)
    points, cell = points_of(runs)
    if arguments.json:
        print(json.dumps(plain_points(points, arguments.error), ensure_ascii=False))
        return 0
    table = tradeoff_table(_title(runs), points, cell, arguments.error)
    if table is None:
        reasons = "; ".join(dict.fromkeys(point.error_text for point in points))
        raise UserError(f"None of the variants has an error rate: {reasons}.")
    table.remarks += _remarks(runs)
    show([table])
    folder = arguments.out or arguments.logdir / FOLDER

    from profiler.report.plots.tradeoff import draw_points

    try:
        folder.mkdir(parents=True, exist_ok=True)
        drawn = draw_points(points, folder, cell, arguments.error, arguments.against or tuple(COSTS))
    except OSError as error:
        raise UserError(f"Cannot write plots in {folder}: {error.strerror}. Choose another one with --out.") from None
    if drawn:
        print("\nPlots: " + ", ".join(str(plot.files[0]) for plot in drawn))
    else:
        print("\nNo plot: fewer than two variants have both figures.", file=sys.stderr)
    return 0


def _read(name: str, logdir: Path, normalise: str | None) -> Results:
    if not is_archive(Path(name)):
        return _scored(find_run(name, logdir), name, normalise)
    with tempfile.TemporaryDirectory(prefix="speech-profiler-") as temporary:
        unpack(Path(name), Path(temporary))
        return _scored(Path(temporary), name, normalise)


def _scored(folder: Path, name: str, normalise: str | None) -> Results:
    results = read_results(folder)
    if not results.accuracy:
        raise UserError(
            f"The run {name} has no error rates: its recipe names no data set with transcripts (dataset.source)."
        )
    if normalise:
        from profiler.accuracy.score import rescore

        rescore(results, folder, normalise)
    return results


def _check_same_set(runs: list[Results]) -> None:
    """Error rates of different speech, or of texts that were normalised differently, are no trade-off."""
    for what, advice, kinds in (
        ("data sets", "", {r.references: f"{r.dataset} ({run.run.id})" for run in runs for r in run.accuracy if r.wer}),
        (
            "normalisations of texts",
            " Score them all alike: --normalise english.",
            {r.normalisation: f"{r.normalisation} ({run.run.id})" for run in runs for r in run.accuracy if r.wer},
        ),
    ):
        if len(kinds) > 1:
            raise UserError(f"The runs are of different {what}: {', '.join(kinds.values())}.{advice}")


def _title(runs: list[Results]) -> str:
    record = next(record for results in runs for record in results.accuracy)
    what = f"{len(runs)} runs" if len(runs) > 1 else f"run {runs[0].run.id}"
    return f"Accuracy beside speed, data set {record.dataset}, texts normalised: {record.normalisation} - {what}"


def _remarks(runs: list[Results]) -> list[str]:
    machines = dict.fromkeys(
        f"{results.environment.cpu}, {many(results.environment.threads or 0, 'thread')}" for results in runs
    )
    if len(machines) < 2:
        return []
    return [f"The runs are of different machines or threads ({'; '.join(machines)}): their RTFs say as much of these."]
