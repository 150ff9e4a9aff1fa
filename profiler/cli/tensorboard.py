"""Open the log folder in TensorBoard, on the tab "Speech profile": grids, tables and traces of all runs.

Works without internet. A view's address keeps what it shows, so that it can be shared as a link.
For example: profile.py tensorboard --logdir logs --port 6007
"""

from __future__ import annotations

import argparse
import errno
import logging
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import warnings
from multiprocessing import resource_tracker
from pathlib import Path

from profiler.cli.options import add_logdir
from profiler.errors import UserError
from profiler.temporary import TemporaryFolder
from profiler.tensorboard_plugin.folder import LogFolder

PLUGIN = "speech_profile"
FIRST_PORT = 6006
PORTS = 65_535
STOP = (signal.SIGINT, signal.SIGTERM)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_logdir(parser)
    parser.add_argument("--port", type=int, help=f"port to serve on (default: the first free one from {FIRST_PORT} on)")
    parser.add_argument("--host", default="localhost", help="interface to bind (default: %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    if not arguments.logdir.is_dir():
        raise UserError(f"There is no log folder {arguments.logdir}. `python profile.py RECIPE` makes one.")
    if arguments.port is not None and not 1 <= arguments.port <= PORTS:
        raise UserError(f"--port {arguments.port}: a port is a number from 1 to {PORTS}.")
    _check_free(arguments.host, arguments.port)
    # Processes of other plugins inherit it, and do not end with a traceback at Ctrl-C: we end them. The tracker of
    # multiprocessing is started first, because its start unblocks the signals.
    os.environ["PYTHONWARNINGS"] = "ignore"
    resource_tracker.ensure_running()
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP)
    with TemporaryFolder() as temporary:
        tempfile.tempdir = str(temporary)  # what other plugins leave there goes with it
        print(f"{_serve(arguments.logdir, arguments.host, arguments.port)}#{PLUGIN}", flush=True)
        print(f"{_contents(arguments.logdir)} in {arguments.logdir}. Stop with Ctrl-C.", file=sys.stderr, flush=True)
        signal.sigwait(STOP)
        for child in multiprocessing.active_children():
            child.kill()
    os._exit(0)  # threads of other plugins may wait for ever for a trace that could not be read


def _check_free(host: str, port: int | None) -> None:
    """Before anything is started, so that a mistake ends the command at once."""
    try:
        socket.create_server((host, port or 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise UserError(
                f"Port {port} is in use. Choose another with --port; without it a free one is taken."
            ) from None
        reason = str(error.strerror).partition(" (while")[0]  # Python adds the address, which is ours
        raise UserError(f"Cannot serve at {host}: {reason}.") from None


def _contents(logdir: Path) -> str:
    kinds = [entry.kind for entry in LogFolder(logdir).runs()]
    counts = ((kinds.count("run"), "run", "runs"), (kinds.count("traces"), "folder of traces", "folders of traces"))
    found = [f"{count} {one if count == 1 else more}" for count, one, more in counts if count]
    return " and ".join(found) or "No runs yet"


def _serve(logdir: Path, host: str, port: int | None) -> str:
    """Start TensorBoard in a thread, our tab first and without what libraries log; its address."""
    os.environ["TORCH_PROFILER_LOG_LEVEL"] = "CRITICAL"  # of torch_tb_profiler and the processes that it starts
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    from tensorboard import default, program

    from profiler.tensorboard_plugin.plugin import SpeechProfilePlugin

    core, *others = default.get_static_plugins()
    others += [plugin for plugin in default.get_dynamic_plugins() if plugin is not SpeechProfilePlugin]
    server = program.TensorBoard([core, SpeechProfilePlugin, *others])
    # Not load_fast: a server of its own, which says that it is experimental.
    flags = ["", "--logdir", str(logdir), "--host", host, "--load_fast", "false"]
    server.configure([*flags, "--port", str(port)] if port else flags)
    try:
        return str(server.launch())
    except program.TensorBoardServerException as error:
        raise UserError(f"Cannot serve: {error.msg}.") from None
