"""Show the tables of a run again and rebuild its files from results.json. Needs no model and no torch."""

from __future__ import annotations

import argparse
import json
import sys

from profiler.cli.options import add_json, add_logdir
from profiler.errors import StorageError, UserError
from profiler.results import read_results
from profiler.runs import find_run
from profiler.units import parse_bytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", nargs="?", default="latest", help="a run's folder, its id, or latest")
    add_logdir(parser)
    add_json(parser, "the results")
    parser.add_argument("--memory", metavar="SIZE", help="say what would fit in so much memory, such as '8 GB'")


def check_size(text: str) -> None:
    try:
        parse_bytes(text)
    except ValueError as error:
        raise UserError(f"--memory {text}: {error}.") from None


def run(arguments: argparse.Namespace) -> int:
    if arguments.memory is not None:
        check_size(arguments.memory)
    folder = find_run(arguments.run, arguments.logdir)
    results = read_results(folder)
    if arguments.json:
        print(json.dumps(results.model_dump(mode="json", by_alias=True), ensure_ascii=False))
        return 0

    from profiler.report.markdown import render
    from profiler.report.write import write_views

    print(render(results, arguments.memory))
    if results.run.status != "complete":
        print(f"This run is not complete ({results.run.status}); the tables show what was measured.", file=sys.stderr)
    try:
        write_views(results, folder)
    except (OSError, StorageError) as error:
        print(f"Its files could not be rebuilt: {error}", file=sys.stderr)
    return 0
