"""Show runs of one recipe on several machines or thread counts side by side: a column group for each, in Markdown.

  profile.py machines RUN RUN RUN                      real-time factor, latency and memory
  profile.py machines RUN RUN --figure rtf --output hardware.md

Runs of other machines are given by their folders. Needs no model and no torch.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from profiler.cli.options import add_logdir
from profiler.errors import StorageError, UserError
from profiler.report.machines import KNOWN, SHOWN, machine_tables
from profiler.report.terminal import show
from profiler.results.runs import open_as_much
from profiler.results.store import write_atomically


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUN", nargs="+", help="a run, named as for compare; a column group each")
    add_logdir(parser)
    parser.add_argument(
        "--figure",
        metavar="NAME",
        action="append",
        help=f"one of {', '.join(KNOWN)}; may be repeated (default: {', '.join(SHOWN)})",
    )
    parser.add_argument("--output", metavar="FILE", type=Path, help="write to a file instead")


def run(arguments: argparse.Namespace) -> int:
    runs, problems = [], []
    for name in arguments.runs:
        try:
            results, problem = open_as_much(name, arguments.logdir)
        except UserError as error:
            problems.append(str(error))
            continue
        problems += [problem] if problem else []
        if results.cells:
            runs.append(results)
        else:
            problems.append(f"The run {results.run.id} is empty: it has no cell to show ({results.run.status}).")
    if runs:
        tables = machine_tables(runs, arguments.figure or SHOWN)
        if arguments.output is None:
            show(tables)
        else:
            _write("\n\n".join(table.markdown() for table in tables) + "\n", arguments.output)
    if problems:
        raise UserError("\n".join(problems))
    return 0


def _write(text: str, output: Path) -> None:
    try:
        write_atomically(output, text)
    except StorageError as error:
        raise UserError(str(error)) from None
    print(f"Wrote {output}.", file=sys.stderr)
