"""Open the log folder in TensorBoard: the tab "Speech profile" with grids, tables and traces, and scalars beside it.

Works without internet. A view's address keeps what it shows, so that it can be shared as a link.
For example: profile.py tensorboard --logdir logs --port 6007
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib.metadata import entry_points

from profiler.cli.options import add_logdir
from profiler.errors import UserError
from profiler.results.runs import list_runs

PLUGIN = "speech_profile"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_logdir(parser)
    parser.add_argument("--port", type=int, default=6006, help="where to serve (default: %(default)s)")
    parser.add_argument("--host", default="localhost", help="for whom to serve (default: %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    if not arguments.logdir.is_dir():
        raise UserError(f"There is no log folder {arguments.logdir}. `python profile.py RECIPE` makes one.")
    if not entry_points(group="tensorboard_plugins", name=PLUGIN):
        print(
            'The tab "Speech profile" is not installed yet: run `make setup`, or `pip install -e .`.', file=sys.stderr
        )
    runs = list_runs(arguments.logdir)
    print(f"{len(runs)} run(s) in {arguments.logdir}. Stop with Ctrl-C.", file=sys.stderr)
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(arguments.logdir)]
    command += ["--port", str(arguments.port), "--host", arguments.host]
    sys.stdout.flush()
    os.execv(sys.executable, command)
