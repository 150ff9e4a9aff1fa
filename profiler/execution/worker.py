"""The worker process: loads one model, then does jobs. Started as `python -P -m profiler.execution.worker`.

What it loads may be anybody's: unless the user said `--trust` it runs in a sandbox from its first request on, and what
it says is data to the parent.

On a CPU each job runs in a fork of this process: the loaded model is there within milliseconds, and nothing a job does
(caches, memory, a crash) reaches the next one. That only works while this process itself has never run an operation on
several threads, because threads do not survive a fork; so it loads the model on one thread and computes nothing.
Where a fork is not possible (a GPU context), a worker does one job in itself and the parent starts another.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from profiler import messages, sandbox
from profiler.environment import available_memory, versions
from profiler.errors import NotSupported, ProfilerError
from profiler.execution.channel import (
    REQUESTS,
    AnyJob,
    CellJob,
    Channel,
    Do,
    Done,
    Ended,
    Event,
    Failed,
    Load,
    Loaded,
    Request,
    Started,
)
from profiler.execution.job import run_job
from profiler.measure.latency import notice_stops
from profiler.measure.layout import Run, fit, new_pages, own_pages, pages_in_memory
from profiler.models.request import may_download
from profiler.processes import die_with_parent, explain

if TYPE_CHECKING:
    from profiler.audio import Speech
    from profiler.models.model import Model
    from profiler.training.step import TrainingStep

FIRST_USE_SECONDS = 0.01
OOM_SCORE = "1000"  # when memory runs out, the kernel shall end the cell, not the parent


class Worker:
    """What the process holds between requests."""

    def __init__(self, channel: Channel[Request]) -> None:
        self.channel = channel
        self.model: Model | None = None
        self.speech: Speech | None = None
        self.step: TrainingStep | None = None
        self._own: list[Run] = []  # the pages that loading the model has used, which a fork that takes turns copies
        self._leaving: list[int] = []  # children whose work is done

    def serve(self) -> None:
        """Answer requests until the parent closes the channel."""
        while (request := self.channel.receive()) is not None:
            if isinstance(request, Load):
                self._answer(partial(self._load, request))
            elif isinstance(request, Do) and request.fork:
                self._in_fork(request.job)
            elif isinstance(request, Do):
                self._answer(partial(self._job, request.job))

    def _answer(self, work: Callable[[], Event]) -> bool:
        """Do the work and send its result, or what went wrong in a sentence; the traceback goes to the log."""
        try:
            self.channel.send(work())
        except ProfilerError as error:
            unsupported = isinstance(error, NotSupported)
            self.channel.send(
                Failed("unsupported" if unsupported else "user" if error.exit_code == 2 else "other", str(error))
            )
        except MemoryError:
            self.channel.send(Failed("other", "out of memory"))
        except Exception as error:
            traceback.print_exc()
            self.channel.send(Failed("other", explain(error)))
        else:
            return True
        return False

    def _load(self, request: Load) -> Loaded:
        downloads = may_download(request.model)
        if request.sandbox is not None:
            tempfile.tempdir = str(request.sandbox.temporary)  # known to a library already, maybe
            sandbox.restrict(request.sandbox, network=downloads)
        import torch

        torch.set_num_threads(1)
        from profiler.audio import Speech
        from profiler.device import Device
        from profiler.execution.conversion import convert_loaded
        from profiler.measure.breakdown import find_parts
        from profiler.measure.parameters import count_parameters, size_bytes
        from profiler.measure.passes.trace import prepare_profiler
        from profiler.models.load import load_model
        from profiler.training.step import begin_training, describe

        device = Device(request.model.device)
        device.require()
        if request.fork and request.traced:
            prepare_profiler()
        before = pages_in_memory() if request.turns else []
        self.model = load_model(request.model)
        self.speech = Speech(request.audio, self.model.rate)
        if request.sandbox is not None and downloads:
            sandbox.restrict(request.sandbox, network=False)
        if request.training is None:
            find_parts(self.model, request.labels)  # a label that matches nothing is a mistake of the recipe
            parameters, size = count_parameters(self.model), size_bytes(self.model)
        conversion = convert_loaded(self.model, request.variant, self.speech)
        if request.training is not None:
            self.step = begin_training(self.model, request.training, device)
            find_parts(self.model, request.labels)
            parameters, size = count_parameters(self.model), size_bytes(self.model)
        # What is imported on first use is imported here, once, and not in every fork.
        torch.manual_seed(0)
        self.model.prepare(self.speech.batch(FIRST_USE_SECONDS, 1, seed=0))
        for name in (
            "torch.autograd.profiler",
            "profiler.measure.breakdown.rows",
            "profiler.measure.breakdown.profiled",
        ):
            importlib.import_module(name)
        # What is here now is never garbage: a collection in a fork need not walk it, which would copy all its pages.
        gc.collect()
        gc.freeze()
        if request.turns:
            self._own = new_pages(before, pages_in_memory())
            if not fit(self._own, available_memory()):
                self._own = []
                self.model.notes.append(messages.LARGE_MODEL)
        return Loaded(
            weights=self.model.weights,
            output=self.model.output,
            sample_rate=self.model.rate,
            window_s=self.model.window,
            parameters=parameters,
            size_bytes=conversion.bytes_after if conversion else size,
            conversion=conversion,
            training=describe(self.step) if self.step else None,
            versions=versions(),
            flags=device.flags(),
            notes=self.model.notes,
        )

    def _job(self, job: AnyJob) -> Done:
        before = os.times()
        run_job(job, self.model, self.speech, self.channel.send, self.channel.receive, self.step)
        after = os.times()
        return Done(after.user + after.system - before.user - before.system)

    def _in_fork(self, job: AnyJob) -> None:
        """Have the job done by a child. One that is done says so by a byte, and is still leaving while the next one
        starts: giving back its memory takes as long as all else around a small job."""
        sys.stdout.flush()
        sys.stderr.flush()
        self._leaving = [child for child in self._leaving if os.waitpid(child, os.WNOHANG)[0] == 0]
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read_end)
            die_with_parent()
            self.channel.send(Started(os.getpid()))
            if isinstance(job, CellJob) and job.turns:
                own_pages(self._own)
            done = self._answer(partial(self._job, job))
            sys.stderr.flush()
            if done:
                os.write(write_end, b"d")
            os._exit(0 if done else 1)
        os.close(write_end)
        done = os.read(read_end, 1) != b""  # the end of the pipe: it is gone without being done
        os.close(read_end)
        if done:
            self._leaving.append(child)
            return
        _, status = os.waitpid(child, 0)
        ended = os.waitstatus_to_exitcode(status)
        self.channel.send(Ended(-ended if ended < 0 else None))


def _offer_to_oom_killer() -> None:
    """Forks inherit it, and are larger than this process: the kernel ends the cell."""
    # Where it is not Linux, or not allowed, the system chooses by size, which is this process anyway.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)


def main() -> None:
    die_with_parent()
    _offer_to_oom_killer()
    notice_stops()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business; it ends workers itself
    read_fd, write_fd = (int(argument) for argument in sys.argv[1:3])
    Worker(Channel(read_fd, write_fd, REQUESTS)).serve()


if __name__ == "__main__":
    main()
