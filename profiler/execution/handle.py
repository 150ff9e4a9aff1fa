"""The parent's side of a worker: starts it, asks it, notices when it dies or hangs, ends it with all its children."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from profiler.errors import ModelError, WorkerError
from profiler.execution.channel import Channel, Message
from profiler.execution.job import Job
from profiler.execution.settings import worker_environment
from profiler.variants.support import NotSupported

OnEvent = Callable[[Message], None]
GRACE_SECONDS = 10.0  # for a worker to notice that its child was ended


class JobFailed(WorkerError):
    """A job ended before all its passes were done; the message says why, in the words of a table."""

    def __init__(self, reason: str, during: str = "", results: dict[str, Any] | None = None) -> None:
        super().__init__(reason)
        self.during = during  # the pass that did not end
        self.results = results or {}  # of the passes before it


class WorkerHandle:
    """One worker process with its channel."""

    def __init__(self, log: Path, threads: int) -> None:
        their_read, our_write = os.pipe()
        our_read, their_write = os.pipe()
        self.log = log
        self.job_cpu_seconds = 0.0  # of the last job
        self._ending = False
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "profiler.execution.worker", str(their_read), str(their_write)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(their_read, their_write),
                env=worker_environment(threads),
                start_new_session=True,  # a group of its own: Ctrl-C reaches only us, and we can end all of it at once
            )
        os.close(their_read)
        os.close(their_write)
        self.channel = Channel(our_read, our_write)

    @property
    def pid(self) -> int:
        return self.process.pid

    def load(
        self,
        model: Message,
        variant: Message,
        audio: Path | None,
        timeout: float,
        fork: bool = True,
        traced: bool = False,
        labels: Message | None = None,
        training: Message | None = None,
    ) -> Message:
        """Have the model loaded; raises ModelError when the user can mend what is wrong, NotSupported for the variant.

        `fork` and `traced` say what jobs will follow, so that forks find prepared what they need;
        `labels` are checked against the model's modules; with `training` the model is made ready to be trained.
        """
        answer = self._ask(
            {
                "do": "load",
                "model": model,
                "variant": variant,
                "audio": str(audio) if audio else None,
                "fork": fork,
                "traced": traced,
                "labels": labels or {},
                "training": training,
            },
            timeout,
            "loading the model",
        )
        if answer["event"] == "error":
            if answer["kind"] == "user":
                raise ModelError(answer["message"])
            if answer["kind"] == "unsupported":
                raise NotSupported(answer["message"])
            raise WorkerError(f"Loading the model failed: {answer['message']}. The worker's log is {self.log}.")
        loaded: Message = answer["model"]
        return loaded

    def run(self, job: Job, fork: bool, timeout: float, on_event: OnEvent = lambda event: None) -> dict[str, Any]:
        """Have a job done: {pass: result}. Raises JobFailed when it dies, hangs or raises.

        Returns as soon as the last pass is done; a fork's process is then still ending, which `settle` waits for.
        """
        self.settle()
        self._send({"do": "job", "job": job.to_message(), "fork": fork})
        deadline = time.monotonic() + timeout
        child: int | None = None
        results: dict[str, Any] = {}
        current = problem = ""
        while True:
            try:
                event = self.channel.receive(max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                if problem:  # ended already, and still no word: the worker itself hangs
                    self.kill()
                    raise JobFailed(problem, current, results) from None
                problem = f"no result within {timeout:g} s (measure.limit)"
                self._end_job(child)
                deadline = time.monotonic() + GRACE_SECONDS
                continue
            if event is None:
                raise JobFailed(problem or self._how_it_died(), current, results)
            kind = event["event"]
            if kind == "started":
                child = event["pid"]
            elif kind == "result":
                results[event["pass"]] = event["result"]
            elif kind == "error":
                problem = problem or event["message"]
            elif kind in ("pass", "progress"):
                current = event.get("pass", current)
                on_event(event)
            elif kind == "batch":  # of a data set: each has the whole time
                deadline = time.monotonic() + timeout
                on_event(event)
            if kind == "done" and not problem:
                self.job_cpu_seconds = event["cpu_s"]
                self._ending = fork
                return results
            if kind == "ended" or (kind == "error" and not fork):
                raise JobFailed(problem or _signal_sentence(event["signal"]), current, results)

    def settle(self) -> None:
        """Wait until the process of the last job is gone."""
        if self._ending:
            self._ending = False
            try:
                self.channel.receive(GRACE_SECONDS)
            except TimeoutError:
                self.kill()

    def _end_job(self, child: int | None) -> None:
        if child is None:
            self.kill()
        else:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)

    def _ask(self, request: Message, timeout: float, doing: str) -> Message:
        self._send(request)
        try:
            answer = self.channel.receive(timeout)
        except TimeoutError:
            self.kill()
            raise WorkerError(
                f"No answer within {timeout:g} s while {doing}. The worker's log is {self.log}."
            ) from None
        if answer is None:
            raise WorkerError(f"The worker died while {doing}: {self._how_it_died()}. Its log is {self.log}.")
        return answer

    def _send(self, request: Message) -> None:
        try:
            self.channel.send(request)
        except BrokenPipeError:
            raise JobFailed(self._how_it_died()) from None

    def _how_it_died(self) -> str:
        try:
            code = self.process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return "the worker closed its channel"
        return _signal_sentence(-code) if code < 0 else f"the worker ended with status {code}"

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """End the worker and whatever it started, at once."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        if self.alive:
            self.kill()
        self.channel.close()


def _signal_sentence(number: int | None) -> str:
    if not number:
        return "the worker ended without a result"
    name = signal.Signals(number).name
    if number == signal.SIGKILL:
        return "killed by SIGKILL; out of memory is the usual cause"
    return f"killed by {name}"
