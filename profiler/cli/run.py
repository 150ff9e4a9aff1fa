"""Run a recipe: measure every cell, print the answer, write results, traces and tables to the log folder."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path

from profiler.cli.options import add_full, add_json, add_logdir, add_recipe, overrides
from profiler.device import check_device_names
from profiler.errors import Interrupted, UserError
from profiler.models.identify import could_be_model
from profiler.recipe.init import write_recipe
from profiler.recipe.load import load_recipe
from profiler.results import LOGDIR
from profiler.results.runs import check_logdir, find_run
from profiler.results.types import Results
from profiler.shipped import recipe_path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_recipe(parser)
    add_logdir(parser)
    parser.add_argument(
        "--device",
        default="cpu",
        help="cpu, cuda, xpu, mps, or cuda:N (default: cpu); cuda:0,cuda:1 measures cells at the same time on equal "
        "devices, a data set and serving on the first",
    )
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads (default: all that may be used)")
    parser.add_argument("--resume", metavar="RUN", help="measure what a run of the recipe lacks, such as latest")
    add_json(parser, "the results")
    add_full(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress, only the answer")


def run(arguments: argparse.Namespace) -> int:
    path = recipe_path(arguments.recipe)
    if not path.is_file() and could_be_model(arguments.recipe):
        written = write_recipe(arguments.recipe)
        path = written.path
        print(f"Wrote {path}: {written.found.source} as {written.found.type}.", file=sys.stderr)
    check_device_names(arguments.device)
    if arguments.threads is not None and arguments.threads < 1:
        raise UserError(f"--threads {arguments.threads}: expected a whole number greater than 0.")
    loaded = load_recipe(path, overrides(arguments.overrides), arguments.trust)
    resume = find_run(arguments.resume, arguments.logdir, loaded.name) if arguments.resume else None
    check_logdir(arguments.logdir)

    from profiler.api import run_recipe
    from profiler.execution.run import Options

    options = Options(
        logdir=arguments.logdir,
        device=arguments.device,
        threads=arguments.threads,
        command=_command(),
        resume=resume,
    )
    done = run_recipe(loaded, options, arguments.quiet, signals=True)
    if arguments.json:
        print(json.dumps(done.results.model_dump(mode="json", by_alias=True), ensure_ascii=False))
    else:
        _print_end(done.results, done.folder, arguments)
    if done.problem is not None:
        raise done.problem
    if done.interrupted:
        raise Interrupted(
            f"interrupted; what was measured is in {done.folder}.\n"
            f"  go on with: python {_command(resume=done.folder.name)}"
        )
    return 1 if done.results.has_failures else 0


def _command(resume: str = "") -> str:
    """The command as it was given; with `resume`, the one that takes the run up again."""
    given = list(sys.argv[1:])
    if resume:
        while "--resume" in given:
            place = given.index("--resume")
            del given[place : place + 2]
        given += ["--resume", resume]
    return shlex.join(["profile.py", *given])


def _print_end(results: Results, folder: Path, arguments: argparse.Namespace) -> None:
    from profiler.report.closing import show_run

    print()
    where = "" if arguments.logdir == LOGDIR else f" --logdir {arguments.logdir}"
    if show_run(results, folder, arguments.full, where):
        return
    print(f"Results: {folder / 'results.json'}   Tables: {folder / 'tables.md'}")
    print(f"Report:  {folder / 'report.html'}   Cells: {folder / 'results.csv'}")
    if any(cell.trace for cell in results.cells):
        print(f"Traces:  python profile.py tensorboard{where}")
