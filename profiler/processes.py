"""Forks of this process, and what is said of what went wrong in one.

A trial tells whether a converted model runs at all, and what happens inside it while it does. The process that holds
the model is itself forked for every cell, which works only as long as it has computed nothing on several threads (see
execution/worker.py); and what a trial leaves behind (caches, compiled code, hooks, a crash) shall not reach any cell.
So trials run in a fork, and only plain values come back: what ran there may be anybody's, so they are read as data of a
known type, and never unpickled.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from profiler.device import Device
from profiler.errors import ProfilerError, whole_line

if TYPE_CHECKING:
    from profiler.models.model import Model

Result = TypeVar("Result")
PR_SET_PDEATHSIG = 1
GAVE, FAILED = b"+", b"-"  # how an answer begins
LIBC = ctypes.CDLL(None)


def explain(error: Exception) -> str:
    """One line for a cell's place in the table."""
    text = str(error).strip()
    first = whole_line(text)
    if isinstance(error, ProfilerError):  # a sentence of ours
        return first
    if "can't allocate memory" in text or "out of memory" in text.lower():
        return f"out of memory: {first}"
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def die_with_parent() -> None:
    """Have the kernel end this process when its parent is gone, whatever killed it (Linux)."""
    if sys.platform == "linux":
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@contextmanager
def stopping(at_once: Callable[[], None] = lambda: None) -> Iterator[None]:
    """First Ctrl-C (SIGTERM, a closed terminal): KeyboardInterrupt, to end in order. Second: end at once, after
    `at_once`, which leaves no process behind."""
    seen = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal seen
        if seen:
            at_once()
            os._exit(130)
        seen = True
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, stop)
    yield


class TrialFailed(Exception):
    """The trial raised, or its process died; the message is one line."""


def run_all(model: Model, inputs: list[Any]) -> None:
    """The model on each input, as in a cell, but on one thread."""
    import torch

    with torch.no_grad():
        for value in inputs:
            model.run(value)


def trial(model: Model, work: Callable[[], Result], kind: Any) -> Result:
    """Do the work in a fork of this process and give what it returns, of this type; in this process where a fork cannot
    be."""
    if not (hasattr(os, "fork") and Device(device_of(model)).can_fork):
        try:
            return work()
        except MemoryError:
            raise
        except Exception as error:
            raise TrialFailed(explain(error)) from error
    return in_fork(work, kind)


def in_fork(work: Callable[[], Result], kind: Any) -> Result:
    """Do the work in a fork of this process and give what it returns, of this type. Raises TrialFailed."""
    failure, answer = _forked(work)
    if failure:
        raise TrialFailed(failure)
    try:
        return msgspec.msgpack.decode(answer, type=kind)  # type: ignore[no-any-return]
    except msgspec.MsgspecError as error:
        raise TrialFailed(f"its process gave a wrong answer ({error})") from error


def device_of(model: Model) -> str:
    """Where the model's weights are: cpu, cuda:1."""
    first = next(model.module.parameters(), None)
    return str(first.device) if first is not None else "cpu"


def _forked(work: Callable[[], Any]) -> tuple[str, bytes]:
    """(why it failed, if it did; what it gave)."""
    sys.stdout.flush()
    sys.stderr.flush()
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read_end)
            die_with_parent()
            try:
                answer = GAVE + msgspec.msgpack.encode(work())
            except Exception as error:
                answer = FAILED + explain(error).encode(errors="replace")
            with os.fdopen(write_end, "wb") as pipe:
                pipe.write(answer)
            os._exit(0)
        finally:
            os._exit(1)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        sent = pipe.read()
    _, status = os.waitpid(child, 0)
    ended = os.waitstatus_to_exitcode(status)
    if sent[:1] == FAILED:
        return sent[1:].decode(errors="replace"), b""
    if sent:
        return "", sent[1:]
    why = f"killed by {signal.Signals(-ended).name}" if ended < 0 else f"exit status {ended}"
    return f"its process ended without an answer ({why})", b""
