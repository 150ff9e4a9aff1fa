"""A large trace -> columns in a file, read by a process of its own, which can be ended.

A trace may come from anybody, and a small file may unpack to gigabytes. The process has limits of memory and time; it
ends when these are reached, when nobody waits for the answer any more, and together with the server. Meanwhile the
server answers others.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from profiler.errors import UserError
from profiler.tensorboard_plugin.trace.columns import Columns, collect
from profiler.tensorboard_plugin.trace.events import TraceError, check_size, read_events

SECONDS = 60  # 1 GB of events takes some 20 s
MEMORY = 6_000_000_000  # bytes of address space: of 10 million events, twice what they need
POLL_S = 0.2
ARRAYS = ("start", "duration", "own", "name", "category", "detail", "correlation", "rows", "row_track", "row_depth")
LISTS = ("names", "categories", "details", "tracks", "track_device", "about")
START = "import sys; sys.path.append(sys.argv.pop(1)); from profiler.tensorboard_plugin.trace.apart import main; main()"

Wanted = Callable[[], bool]


class Abandoned(UserError):
    """Nobody waits for the answer any more."""


def read_apart(path: Path, target: Path, key: str, wanted: Wanted) -> None:
    """Put the columns of a trace in a file. Raises TraceError, and Abandoned as soon as `wanted` says no."""
    command = [sys.executable, "-P", "-c", START, str(Path(__file__).parents[3]), str(path), str(target), key]
    given_up = time.monotonic() + SECONDS
    child = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,  # closed when this process is gone, whatever ended it
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # each thread would take address space
    )
    with child:
        try:
            while child.poll() is None:
                if time.monotonic() > given_up:
                    raise TraceError(f"{path.name} was not read within {SECONDS} s, so it is not shown.")
                if not wanted():
                    raise Abandoned(f"{path.name} is not read to its end: nobody waits for it.")
                try:
                    child.wait(POLL_S)
                except subprocess.TimeoutExpired:
                    continue
            said = child.stdout.read().decode(errors="replace") if child.stdout else ""
        finally:
            child.kill()
    if child.returncode:
        limits = f"it needs more than {MEMORY / 1e9:g} GB of memory or {SECONDS} s"
        raise TraceError(said.strip() or f"{path.name} cannot be read: {limits}. Such a trace is not opened.")


def main() -> None:
    """The process: trace, target and key are its arguments; what is wrong is printed."""
    path, target, key = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    threading.Thread(target=_end_with_server, daemon=True).start()
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    try:
        check_size(path)  # a tenth of the work: what is too large is refused within seconds
        save(target, key, collect(read_events(path), path.name))
    except TraceError as error:
        print(error)
        sys.exit(2)


def _end_with_server() -> None:
    os.read(0, 1)  # nothing is ever written there
    os._exit(1)


def save(file: Path, key: str, columns: Columns) -> None:
    texts = {name: getattr(columns, name) for name in LISTS} | {"key": key, "devices": list(columns.memory)}
    arrays = {name: getattr(columns, name) for name in ARRAYS}
    for number, (times, held) in enumerate(columns.memory.values()):
        arrays |= {f"times{number}": times, f"held{number}": held}
    with file.open("wb") as target:
        np.savez(target, texts=np.frombuffer(json.dumps(texts).encode(), np.uint8), **arrays)


def load(file: Path, key: str) -> Columns | None:
    try:
        with np.load(file, allow_pickle=False) as found:
            texts = json.loads(found["texts"].tobytes())
            if texts["key"] != key:
                return None
            memory = {
                device: (found[f"times{number}"], found[f"held{number}"])
                for number, device in enumerate(texts["devices"])
            }
            columns = Columns(
                **{name: found[name] for name in ARRAYS}, **{name: texts[name] for name in LISTS}, memory=memory
            )
        os.utime(file)  # used again, so it goes last
        return columns
    except Exception:  # missing, or damaged in whatever way: the trace itself is read
        return None
