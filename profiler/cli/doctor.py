"""Say whether this machine is fit for measuring: settings, limits, load, and the noise floor from an A/A trial.

  profile.py doctor                 with all threads that may be used, as a run has by default
  profile.py doctor --threads 1     the floor is kept for each number of threads

Takes less than a minute. The floor is kept for `compare`. Exit status 0, whatever the answer.
"""

from __future__ import annotations

import argparse
import json

from profiler.cli.options import add_json, add_logdir
from profiler.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads (default: all that may be used)")
    add_logdir(parser)
    add_json(parser, "the answer")
    parser.add_argument("--quiet", action="store_true", help="no progress, only the answer")


def run(arguments: argparse.Namespace) -> int:
    if arguments.threads is not None and arguments.threads < 1:
        raise UserError(f"--threads {arguments.threads}: expected a whole number greater than 0.")

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from profiler.doctor.diagnosis import diagnose

    console = Console(stderr=True, quiet=arguments.quiet)
    if not console.is_terminal:
        console.print("A/A trial: the same model in equal runs, less than a minute", highlight=False)
    # Moves only when a round is done: it must not take CPU time from the trial.
    columns = (BarColumn(bar_width=24), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, auto_refresh=False, transient=True) as bar:
        task = bar.add_task("A/A trial: workers, then rounds", total=None, start=console.is_terminal)

        def show(done: int, of: int) -> None:
            if console.is_terminal:
                bar.update(task, completed=done, total=of, refresh=True)

        found = diagnose(arguments.threads, arguments.logdir, show)
    if arguments.json:
        print(json.dumps(found.to_json(), ensure_ascii=False, indent=1))
    else:
        print(found.text())
    return 0
