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
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from profiler import messages, sandbox
from profiler.device import Device
from profiler.environment import available_memory, versions
from profiler.errors import NotSupported, ProfilerError
from profiler.execution import channel
from profiler.measure.latency import INPUTS, Timing, notice_stops
from profiler.measure.layout import Run, fit, new_pages, own_pages, pages_in_memory
from profiler.measure.passes import PASSES, Absent, Work, memory
from profiler.measure.passes.time import Round
from profiler.models.model import may_download
from profiler.models.registry import port_of
from profiler.processes import die_with_parent, explain
from profiler.results.types import CellInput

if TYPE_CHECKING:
    from profiler.audio import Speech
    from profiler.models.model import Model
    from profiler.serving.records import Request
    from profiler.training.step import TrainingStep

FIRST_USE_SECONDS = 0.01
PROGRESS_SECONDS = 0.5  # at most this often does a worker report how far it is
OOM_SCORE = "1000"  # when memory runs out, the kernel shall end the cell, not the parent


class Worker:
    """What the process holds between requests."""

    def __init__(self, parent: channel.Channel[channel.Request]) -> None:
        self.channel = parent
        self.model: Model | None = None
        self.speech: Speech | None = None
        self.step: TrainingStep | None = None
        self._forks = False  # whether each job has a process of its own, made from this one
        self._own: list[Run] = []  # the pages that loading the model has used, which a fork that takes turns copies
        self._leaving: list[int] = []  # children whose work is done
        self._last_report = 0.0

    def serve(self) -> None:
        """Answer requests until the parent closes the channel."""
        while (request := self.channel.receive()) is not None:
            if isinstance(request, channel.Load):
                self._answer(partial(self._load, request))
            elif isinstance(request, channel.Do) and request.fork:
                self._in_fork(request.job)
            elif isinstance(request, channel.Do):
                self._answer(partial(self._job, request.job))

    def _answer(self, work: Callable[[], channel.Event]) -> bool:
        """Do the work and send its result, or what went wrong in a sentence; the traceback goes to the log."""
        try:
            self.channel.send(work())
        except ProfilerError as error:
            kind: channel.FailureKind = "user" if error.exit_code == 2 else "other"
            self.channel.send(channel.Failed("unsupported" if isinstance(error, NotSupported) else kind, str(error)))
        except MemoryError:
            self.channel.send(channel.Failed("other", "out of memory"))
        except Exception as error:
            traceback.print_exc()
            self.channel.send(channel.Failed("other", explain(error)))
        else:
            return True
        return False

    def _load(self, request: channel.Load) -> channel.Loaded:
        port = port_of(request.model.type, request.model.source)
        downloads = port is None and may_download(request.model)
        if request.sandbox is not None:
            tempfile.tempdir = str(request.sandbox.temporary)  # known to a library already, maybe
            sandbox.restrict(request.sandbox, network=downloads, port=port)
        import torch

        torch.set_num_threads(1)
        from profiler.audio import Speech
        from profiler.measure.breakdown import find_parts
        from profiler.measure.parameters import count_parameters, size_bytes
        from profiler.measure.passes.trace import prepare_profiler
        from profiler.models.load import load_model
        from profiler.training.step import begin_training, describe
        from profiler.variants.convert import convert_loaded

        device = Device(request.model.device)
        device.require()
        self._forks = request.fork
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
        conversion = convert_loaded(self.model, request.variant, self.speech, request.engine, request.finetuning)
        if request.training is not None:
            self.step = begin_training(self.model, request.training, device)
            find_parts(self.model, request.labels)
            parameters, size = count_parameters(self.model), size_bytes(self.model)
        # What is imported on first use is imported here, once, and not in every fork.
        torch.manual_seed(0)
        self.model.prepare(self.speech.batch(FIRST_USE_SECONDS, 1, seed=0))
        for name in ("torch.autograd.profiler", "profiler.measure.breakdown.rows"):
            importlib.import_module(name)
        # What is here now is never garbage: a collection in a fork need not walk it, which would copy all its pages.
        gc.collect()
        gc.freeze()
        if request.turns:
            self._own = new_pages(before, pages_in_memory())
            if not fit(self._own, available_memory()):
                self._own = []
                self.model.notes.append(messages.LARGE_MODEL)
        return channel.Loaded(
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
            device=device.facts(),
            copy_to_device=request.model.copy_to_device if device.kind != "cpu" else None,
            notes=self.model.notes,
        )

    def _job(self, job: channel.AnyJob) -> channel.Done:
        """Each pass is announced, and what it gives is sent as soon as it is done."""
        import torch

        before = os.times()
        memory.let_parent_reset(self._reset_peak)
        if job.cpus:
            os.sched_setaffinity(0, job.cpus)
        torch.set_num_threads(job.threads)
        if isinstance(job, channel.ReferenceJob):
            from profiler.measure.reference import measure_reference

            device = Device(job.device)
            device.require()
            self.channel.send(channel.ReferenceDone(measure_reference(device)))
        else:
            assert self.model is not None
            assert self.speech is not None
            if job.device == "cpu":
                torch.default_generator.manual_seed(job.seed)  # torch.manual_seed asks every kind of device it knows
            else:
                torch.manual_seed(job.seed)
            with torch.set_grad_enabled(self.step is not None):
                if isinstance(job, channel.DatasetJob):
                    from profiler.execution.batches import time_batches

                    time_batches(job, self.model, self.speech, self.channel.send, self.step)
                elif isinstance(job, channel.ServingJob):
                    self._serve_load(job, self.model, self.speech)
                else:
                    self._do_passes(job, self.model, self.speech)
        after = os.times()
        return channel.Done(after.user + after.system - before.user - before.system)

    def _serve_load(self, job: channel.ServingJob, model: Model, speech: Speech) -> None:
        """This process makes the load; it computes nothing, for forks of it that hold the model follow."""
        import torch

        from profiler.execution.batches import row_of
        from profiler.serving.inside import make_step, sample_utterances

        torch.set_num_threads(1)
        rows = [row_of(utterance, speech, job.seed + number) for number, utterance in job.utterances]
        rows = rows or sample_utterances(speech, job.lengths, job.seed)

        def emit(requests: list[Request], sent: int) -> None:
            self.channel.send(channel.Served(requests, sent))

        end = make_step(job.load, model, rows, speech, Device(job.device), job.threads, job.folder, emit)
        self.channel.send(channel.StepDone(end))

    def _do_passes(self, job: channel.CellJob, model: Model, speech: Speech) -> None:
        """With a training step the passes call that, in place of the model."""
        step, device = self.step, Device(job.device)
        if model.graph is not None:
            model.graph.forget()  # before memory is measured anew
        if not self._forks:
            from profiler.variants.compiled import forget_compiled

            forget_compiled()
        device.start_clean()
        batches = [speech.batch(job.seconds, job.batch_size, job.seed + place, job.padding) for place in range(INPUTS)]
        work = Work(
            model=model,
            step=step,
            inputs=[step.prepare(batch, job.seed) if step else model.prepare(batch) for batch in batches],
            seconds_of_audio=batches[0].seconds_of_audio,
            device=device,
            size=job.size,
            seed=job.seed,
            trace=job.trace,
            folder=job.folder,
            place=job.place,
            passes=job.passes,
            handoff=job.handoff,
            wait=self._take_turn if job.turns else None,
            progress=self._progress,
            allowance=job.allowance,
            call_s=job.call_s,
        )
        if model.graph is not None:
            model.graph.prepare(work.inputs)
        given = CellInput(
            seconds_of_audio=statistics.fmean(batch.seconds_of_audio for batch in batches),
            share_of_padding=statistics.fmean(batch.share_of_padding for batch in batches),
        )
        self._last_report = time.monotonic()
        for name in job.passes:
            self.channel.send(channel.BeginPass(name))
            start = time.perf_counter()
            left_out = work.allowance.left_out(name, work.call_s)
            found = Absent(left_out) if left_out else PASSES[name].measure(work)
            if isinstance(found, Round) and found.timing.samples:
                work = replace(work, call_s=statistics.median(found.timing.samples))
            if name == "time" and model.speech_made:  # of a model that speaks, the seconds of speech made count
                made = statistics.fmean(model.speech_made)
                given, work = given.model_copy(update={"seconds_of_audio": made}), replace(work, seconds_of_audio=made)
            done = channel.PassDone(name=name, input=given, work_s=time.perf_counter() - start)
            if isinstance(found, Absent):
                done.reason = found.reason
            else:
                done.result = found
            self.channel.send(done)

    def _reset_peak(self) -> bool:
        self.channel.send(channel.ResetPeak())
        answer = self.channel.receive()
        return isinstance(answer, channel.PeakReset) and answer.done

    def _take_turn(self, last: float | None) -> bool:
        self.channel.send(channel.Called(last))
        answer = self.channel.receive()
        return isinstance(answer, channel.Turn) and answer.again

    def _progress(self, timing: Timing) -> None:
        now = time.monotonic()
        if now - self._last_report >= PROGRESS_SECONDS:
            self._last_report = now
            seen = timing.samples or timing.warmup
            self.channel.send(channel.Progress(len(timing.samples), seen[len(seen) // 2]))

    def _in_fork(self, job: channel.AnyJob) -> None:
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
            self.channel.send(channel.Started(os.getpid()))
            if isinstance(job, channel.CellJob) and job.turns:
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
        self.channel.send(channel.Ended(-ended if ended < 0 else None))


def main() -> None:
    die_with_parent()
    # Forks inherit it, and are larger than this process: the kernel ends the cell. Where it is not Linux, or not
    # allowed, the system chooses by size, which is this process anyway.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)
    notice_stops()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business; it ends workers itself
    read_fd, write_fd = (int(argument) for argument in sys.argv[1:3])
    Worker(channel.Channel(read_fd, write_fd, channel.REQUESTS)).serve()


if __name__ == "__main__":
    main()
