"""Show the tables of a run again and rebuild its files from results.json. Needs no model and no torch."""

from __future__ import annotations

import argparse
import json
import sys

from profiler.cli.options import add_json, add_logdir
from profiler.results import read_results
from profiler.runs import find_run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", nargs="?", default="latest", help="a run's folder, its id, or latest")
    add_logdir(parser)
    add_json(parser, "the results")


def run(arguments: argparse.Namespace) -> int:
    folder = find_run(arguments.run, arguments.logdir)
    results = read_results(folder)
    if arguments.json:
        print(json.dumps(results.model_dump(mode="json", by_alias=True), ensure_ascii=False))
        return 0

    from profiler.errors import StorageError
    from profiler.report.markdown import render
    from profiler.report.write import write_views

    print(render(results))
    if results.run.status != "complete":
        print(f"This run is not complete ({results.run.status}); the tables show what was measured.", file=sys.stderr)
    try:
        write_views(results, folder)
    except (OSError, StorageError) as error:
        print(f"Its files could not be rebuilt: {error}", file=sys.stderr)
    return 0
