"""Show the answer of a run again, or all its tables (--full), and rebuild its files from results.json: report.html,
tables.md, results.csv, plots.

Files that are up to date are left as they are. In a pipe it prints all tables, as Markdown.
RUN may also be a file that `profile.py export` wrote. Needs no model and no torch.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from profiler.accuracy.normalise import NORMALISATIONS
from profiler.cli.options import add_full, add_json, add_logdir
from profiler.errors import StorageError, UserError
from profiler.report.breakdown import BYS, KEYS, BreakdownQuery, By, breakdown_tables, plain_rows
from profiler.report.terminal import show
from profiler.results import LOGDIR
from profiler.results.export.unpack import check_place, is_archive
from profiler.results.runs import NAMES, open_as_much, opened
from profiler.results.store import ResultsFile, read_as_much
from profiler.results.types import Results
from profiler.units import parse_bytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run",
        metavar="RUN",
        nargs="?",
        default="latest",
        help=f"{NAMES}, or an exported FILE.zip (default: latest)",
    )
    add_logdir(parser)
    add_full(parser)
    add_json(parser, "the results")
    breakdown = parser.add_argument_group(
        "where the time goes", "tables of these alone, of each variant's largest cell"
    )
    breakdown.add_argument("--labels", metavar="PATTERN", help="rows whose name matches, such as 'encoder*'")
    breakdown.add_argument("--by", choices=BYS, help="one row per label (default), module or operator")
    breakdown.add_argument("--sort", choices=tuple(KEYS), help="most first; else in the model's order")
    breakdown.add_argument("--cell", metavar="CELL", help="another cell, such as 2s_x1")
    breakdown.add_argument("--unfolded", action="store_true", help="modules: every numbered layer in a row of its own")
    accuracy = parser.add_argument_group("error rates", "of the texts that the run has kept; no model is needed")
    accuracy.add_argument("--rescore", action="store_true", help="count errors again, and write them to the run")
    accuracy.add_argument(
        "--normalise", choices=NORMALISATIONS, help="of both texts, with --rescore (default: as in the run)"
    )
    lab = parser.add_argument_group("as a lab asks for it")
    lab.add_argument(
        "--lab",
        action="store_true",
        help="the page of a benchmarking lab, lab.html and lab.md: parameters, latency with its mean and standard "
        "deviation, energy, what grew how",
    )
    lab.add_argument(
        "--beside",
        metavar="RUN",
        action="append",
        default=[],
        help="with --lab: a run of the same recipe on another machine; may be repeated",
    )
    parser.add_argument("--memory", metavar="SIZE", help="say what would fit in so much memory, such as '8 GB'")
    parser.add_argument("--titles", action="store_true", help="write into each plot what it shows, for slides")
    parser.add_argument(
        "--output",
        metavar="FOLDER",
        type=Path,
        help="where to write the files (default: the run's folder, or one beside the zip file)",
    )


def check_size(text: str) -> None:
    try:
        parse_bytes(text)
    except ValueError as error:
        raise UserError(f"--memory {text}: {error}.") from None


def run(arguments: argparse.Namespace) -> int:
    if arguments.memory is not None:
        check_size(arguments.memory)
    if arguments.normalise and not arguments.rescore:
        raise UserError(f"--normalise {arguments.normalise} needs --rescore, which replaces the run's error rates.")
    if arguments.beside and not arguments.lab:
        raise UserError("--beside needs --lab; to show runs of several machines alone there is `profile.py machines`.")
    with opened(arguments.run, arguments.logdir) as folder:
        results, problem = read_as_much(folder)
        beside = Path(arguments.run).with_suffix("") if is_archive(Path(arguments.run)) else folder
        output = arguments.output or beside
        if arguments.rescore and problem is None:
            from profiler.accuracy.score import rescore

            rescore(results, folder, arguments.normalise)
            ResultsFile(folder, results).write()
        written = _show(arguments, results, folder, output if problem is None else None)
    if problem is not None:
        raise UserError(problem)
    return 0 if written else 1


def _show(arguments: argparse.Namespace, results: Results, folder: Path, output: Path | None) -> bool:
    """Print what is asked for; write the files where there is a place for them. False: that could not be done."""
    if arguments.labels or arguments.by or arguments.sort or arguments.cell or arguments.unfolded:
        by: By = arguments.by or ("module" if arguments.unfolded else "label")
        asked = BreakdownQuery(arguments.labels, by, arguments.sort, arguments.cell, arguments.unfolded)
        if arguments.json:
            print(json.dumps(plain_rows(results, folder, asked)))
        else:
            show(breakdown_tables(results, folder, asked))
        return True
    if arguments.json:
        print(json.dumps(results.model_dump(mode="json", by_alias=True), ensure_ascii=False))
        return True

    if arguments.lab:
        return _show_lab(arguments, results, output)

    from profiler.report.closing import show_run

    where = "" if arguments.logdir == LOGDIR else f" --logdir {arguments.logdir}"
    short = show_run(results, output or folder, arguments.full, where, arguments.memory)
    if not results.run.is_finished:
        print(f"This run is not complete ({results.run.status}); the tables show what was measured.", file=sys.stderr)
    under_load = any(step.latency_s for result in results.serving for step in result.steps)
    if not under_load and not any(cell.latency_s is not None or cell.breakdown for cell in results.cells):
        print("This run has no cell with a figure; the tables say what is known.", file=sys.stderr)
    if output is None:
        return True

    from profiler.report.write import write_views

    def write() -> None:
        if is_archive(Path(arguments.run)):
            shutil.copytree(folder, output, dirs_exist_ok=True)
        write_views(results, output, arguments.titles)

    if not _written(arguments, results, output, write):
        return False
    if not short:
        print(f"Report:  {output / 'report.html'}   Cells: {output / 'results.csv'}")
    return True


def _written(arguments: argparse.Namespace, results: Results, output: Path, write: Callable[[], None]) -> bool:
    """Make the folder and write into it; False where that could not be done, which is said."""
    if is_archive(Path(arguments.run)):
        check_place(results.run.id, output)
    try:
        output.mkdir(parents=True, exist_ok=True)
        write()
    except (OSError, StorageError) as error:
        reason = getattr(error.__cause__ or error, "strerror", None) or str(error).rstrip(".")
        print(
            f"Its files could not be written to {output}: {reason}. Choose another folder with --output.",
            file=sys.stderr,
        )
        return False
    return True


def _show_lab(arguments: argparse.Namespace, results: Results, output: Path | None) -> bool:
    """Print the lab's page as Markdown, and write it where there is a place for it."""
    from profiler.report.lab import PAGE, render_markdown, write_lab
    from profiler.report.plots import draw_plots

    others = [open_as_much(run, arguments.logdir)[0] for run in arguments.beside]
    show([render_markdown(results, others)])
    if output is None:
        return True

    def write() -> None:
        write_lab(results, output, draw_plots(results, output, arguments.titles), others)

    if not _written(arguments, results, output, write):
        return False
    print(f"Page:  {output / PAGE}", file=sys.stderr)
    return True
