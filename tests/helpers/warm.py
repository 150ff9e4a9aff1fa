"""The real program without the wait for torch: a script and its arguments -> exit status and output.

A process of its own imports the libraries and the project once, and is forked for every run: the launcher, and the
workers that it starts, go on in forks, where nothing has been run yet. What a fork cannot show stays with real
processes: what is imported when, settings that are read while torch is loaded, signals, addresses in memory.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import random
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any

# What runs import before they look at a model, of libraries and of the project.
LIBRARIES = (
    "hyperpyyaml",
    "jinja2",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
    "matplotlib.figure",
    "msgspec",
    "numpy",
    "platformdirs",
    "psutil",
    "pydantic.json_schema",
    "pydantic.main",
    "pydantic.types",
    "rich.console",
    "rich.progress",
    "rich.table",
    "soundfile",
    "tabulate",
    "tensorboard.plugins.text.metadata",
    "tensorboard.summary.writer.event_file_writer",
    "tensorboard.util.tensor_util",
)
PROJECT = ("profiler.cli", "profiler.report")  # all of these packages
PROJECT_WITH_TORCH = (
    *PROJECT,
    "profiler.execution",
    "profiler.measure",
    "profiler.models",
    "profiler.training",
    "profiler.variants",
)
# Its profiler imports the second; libraries of models import the rest.
WITH_TORCH = (
    "torch",
    "torch._dynamo",
    "torch.utils.flop_counter",
    "huggingface_hub",
    "scipy.interpolate",
    "scipy.stats",
)
# As the first adapter that a run takes would have them.
WITH_MODELS = (
    "transformers.models.wav2vec2.modeling_wav2vec2",
    "speechbrain.inference.ASR",
    "espnet2.asr.espnet_model",
)
KINDS = {"plain": (), "torch": WITH_TORCH, "models": (*WITH_TORCH, *WITH_MODELS)}
ROOT = Path(__file__).resolve().parents[2]
_LENGTH = 8  # bytes that say how long a request is


class Warm:
    """The process that has imported everything, seen from the tests."""

    def __init__(self, kind: str) -> None:
        ours, theirs = socket.socketpair()
        command = [sys.executable, str(Path(__file__).resolve()), str(theirs.fileno()), kind]
        # As the profiler starts its workers: they are to iterate over sets in the same order in every run.
        environment = os.environ | {"PYTHONHASHSEED": "0", "KINETO_LOG_LEVEL": "6"}
        self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment)
        theirs.close()
        self.socket = ours
        self.answers = ours.makefile("r")
        atexit.register(self.close)

    def run(
        self, arguments: list[str], folder: Path, timeout: float, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Have a script run to its end."""
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
            request = {"arguments": arguments, "folder": str(folder), "environment": dict(environment)}
            data = json.dumps(request).encode()
            socket.send_fds(self.socket, [len(data).to_bytes(_LENGTH, "big")], [output.fileno(), errors.fileno()])
            self.socket.sendall(data)
            pid = int(self.answers.readline())
            self.socket.settimeout(timeout)
            try:
                status = int(self.answers.readline())
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                self.close()  # the next run gets another one
                raise subprocess.TimeoutExpired(arguments, timeout, _read(output), _read(errors)) from None
            self.socket.settimeout(None)
            return subprocess.CompletedProcess(arguments, status, _read(output), _read(errors))

    def close(self) -> None:
        self.socket.close()
        self.answers.close()
        self.process.kill()
        self.process.wait()


def _read(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


_started: dict[str, Warm] = {}


def run(
    arguments: list[str], folder: Path, timeout: float, kind: str = "torch", path: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """`python ARGUMENTS` run to its end in a fork of the process that has imported what KINDS says.

    `path`: the PYTHONPATH, a folder from which modules are taken that are not imported yet.
    """
    if kind not in _started or _started[kind].process.poll() is not None:
        _started[kind] = Warm(kind)
    environment = os.environ if path is None else {**os.environ, "PYTHONPATH": str(path)}
    return _started[kind].run(arguments, folder, timeout, environment)


# -- in that process, and its forks


def serve(channel: socket.socket) -> None:
    """Fork for each request, and say how the fork ended."""
    while True:
        head, descriptors, *_ = socket.recv_fds(channel, _LENGTH, 2)
        if not head:
            return
        data = b""
        while len(data) < int.from_bytes(head, "big"):
            data += channel.recv(1 << 20)
        request = json.loads(data)
        pid = os.fork()
        if pid == 0:
            channel.close()
            os.dup2(descriptors[0], 1)
            os.dup2(descriptors[1], 2)
            _leave(partial(_run_script, **request))
        for descriptor in descriptors:
            os.close(descriptor)
        channel.sendall(f"{pid}\n".encode())
        _, status = os.waitpid(pid, 0)
        channel.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _run_script(arguments: list[str], folder: str, environment: dict[str, str]) -> None:
    os.chdir(folder)
    subprocess.Popen = Forked  # type: ignore[assignment,misc]
    _add_path(environment)
    if "doctor" in arguments:
        trial: Any = importlib.import_module("profiler.doctor.trial")
        trial.RUNS, trial.ROUNDS = 3, 4  # most of a minute; no test looks at how good its figures are
    if arguments[0] == "-m":
        _become(arguments[1:], environment)
        sys.path.insert(0, folder)
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    _become(arguments, environment)
    home = Path(arguments[0]).parent
    sys.path.insert(0, str(home))
    if home != ROOT and (home / "profiler").is_dir():  # a copy of the project, with code of its own
        for name in [name for name in sys.modules if name.partition(".")[0] == "profiler"]:
            del sys.modules[name]
    runpy.run_path(arguments[0], run_name="__main__")


def _become(arguments: list[str], environment: dict[str, str]) -> None:
    """What a new process has that a fork has not."""
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[:] = arguments
    random.seed()


def _add_path(environment: Mapping[str, str]) -> None:
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))


def _leave(work: Callable[[], None]) -> None:
    """Do the work, and end this process with the status that Python would have given."""
    status = 1
    try:
        work()
        status = 0
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status & 0xFF)


class Forked(subprocess.Popen[Any]):
    """`python -P -m profiler...` of this Python goes on in the fork, with all that is imported; all else is real."""

    def __init__(self, args: Any, **more: Any) -> None:
        if list(args[:3]) == [sys.executable, "-P", "-m"] and args[3].startswith("profiler."):
            kept = {0, 1, 2, *more.get("pass_fds", ())}
            more["preexec_fn"] = lambda: _leave(lambda: _run_module(args[3:], more.get("env") or os.environ, kept))
        super().__init__(args, **more)


def _run_module(arguments: list[str], environment: Mapping[str, str], kept: set[int]) -> None:
    _close_all_but(kept)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as Python has it
    _become(arguments, dict(environment))
    _add_path(environment)
    with contextlib.suppress(ImportError):  # a third of what a small run costs; no test looks at how good its figure is
        reference: Any = importlib.import_module("profiler.measure.reference")
        reference.SECONDS_EACH, reference.MATRIX, reference.COPY_BYTES = 0.01, 256, 1 << 20
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)


def _close_all_but(kept: set[int]) -> None:
    for descriptor in [int(link.name) for link in Path("/proc/self/fd").iterdir()]:
        if descriptor not in kept:
            with contextlib.suppress(OSError):  # that of the listing
                os.close(descriptor)


def _import(kind: str) -> None:
    sys.path[0] = str(ROOT)  # not this folder: its modules are not for the program
    if kind == "models":
        importlib.import_module("profiler.models.torchaudio.on_cpu").ensure_torchaudio()
    for module in (*LIBRARIES, *KINDS[kind]):
        with contextlib.suppress(ImportError):  # the run that needs it will say so
            importlib.import_module(module)
    for package in PROJECT if kind == "plain" else PROJECT_WITH_TORCH:
        for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if not found.name.endswith((".__main__", ".worker")):  # what is run itself
                importlib.import_module(found.name)
    _use()
    del sys.path[0]
    gc.collect()
    gc.freeze()  # never garbage: a collection in a fork need not walk it, which would copy its pages


def _use() -> None:
    """What is made at the first use: the checks of results, the list of packages, all that drawing a plot imports."""
    results: Any = importlib.import_module("profiler.results.types")
    kinds = [results.Record]
    for kind in kinds:
        kinds += kind.__subclasses__()
        kind.model_rebuild()
    environment: Any = importlib.import_module("profiler.environment")
    environment.read_packages()
    style: Any = importlib.import_module("profiler.report.plots.style")
    with tempfile.TemporaryDirectory() as place, style.figure(Path(place) / "a", style.Caption("A"), "x", "y") as plot:
        plot.axes[0].plot([1, 2], [1, 2])


if __name__ == "__main__":
    _import(sys.argv[2])
    serve(socket.socket(fileno=int(sys.argv[1])))
