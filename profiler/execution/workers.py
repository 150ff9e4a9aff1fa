"""The parent's side of workers: one process per variant, started when needed and replaced when it died.

A worker is asked, noticed when it dies or hangs, and ended with all its children.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import psutil
from msgspec import structs
from platformdirs import user_cache_path

from profiler import sandbox
from profiler.dataset.finetuning import finetuning_set
from profiler.device import Device
from profiler.environment import available_memory, worker_environment
from profiler.errors import ModelError, NotSupported, WorkerError
from profiler.execution import channel, standalone
from profiler.execution.cell import typed
from profiler.models import registry
from profiler.models.model import ModelRequest, model_request
from profiler.models.own.adapter_file import HOW_TO_RUN_ELSEWHERE, is_adapter_file
from profiler.plan import make_plan
from profiler.recipe.load import LoadedRecipe
from profiler.recipe.schema import Variant
from profiler.results.runs import make_folder
from profiler.results.types import Reference
from profiler.runtimes.part import EngineRequest
from profiler.temporary import TemporaryFolder

OnEvent = Callable[[channel.Event], None]
E = TypeVar("E")
GRACE_SECONDS = 10.0  # for a worker to notice that its child was ended
LOADING_SECONDS = 3600.0  # a large model over a slow network; a hang is noticed all the same
LOG = "worker.log"
ROOM = 0.5  # of the machine's memory stays free while models of other variants are kept


class JobFailed(WorkerError):
    """A job ended before all its passes were done; the message says why, in the words of a table."""

    def __init__(self, reason: str, during: str = "", results: dict[str, channel.PassDone] | None = None) -> None:
        super().__init__(reason)
        self.during = during  # the pass that did not end
        self.results = results or {}  # of the passes before it


ADDR_NO_RANDOMIZE = 0x0040000  # personality(2)
ASK = 0xFFFFFFFF  # gives the personality without changing it


@contextmanager
def same_addresses(wanted: bool = True) -> Iterator[bool]:
    """Processes that are started meanwhile have their memory at the same addresses; gives whether that is so.

    Linux puts the code, the heap and the stack of each process at random addresses. Where they happen to lie makes the
    same code a per cent or two faster or slower for as long as the process lives: two equal sides of an A/B run would
    differ by that in all rounds alike. Containers may forbid it.
    """
    if not wanted or sys.platform != "linux":
        yield False
        return
    personality = ctypes.CDLL(None).personality
    personality.argtypes, personality.restype = [ctypes.c_ulong], ctypes.c_int
    before = personality(ASK)
    fixed = before != -1 and personality(before | ADDR_NO_RANDOMIZE) != -1
    try:
        yield fixed
    finally:
        if fixed:
            personality(before)


class WorkerHandle:
    """One worker process with its channel. Without `trust` it is told where it may write (sandbox.py).

    With `audio` it is the one that needs nothing of the profiler's, and is given its inputs (standalone.py).
    """

    def __init__(
        self,
        log: Path,
        threads: int,
        python: str = sys.executable,
        same_place: bool = False,
        trust: bool = False,
        audio: standalone.AudioFiles | None = None,
        waiting_sleep: bool = False,
    ) -> None:
        # -P: nothing is imported from the current folder, where anybody's files may lie
        program = ["-P", "-m", "profiler.execution.worker"] if audio is None else [str(standalone.PROGRAM)]
        their_read, our_write = os.pipe()
        our_read, their_write = os.pipe()
        self.log = log
        self.python = python
        self.audio = audio
        self.job_cpu_seconds = 0.0  # of the last job
        self.forks = False  # whether its jobs run in forks of it
        self.used = False  # whether it has begun a job
        self._temporary = None if trust else TemporaryFolder()
        self.places = _places(log.parent, self._temporary.path) if self._temporary else None
        own = worker_environment(threads, trust, waiting_sleep)
        environment = own if audio is None else standalone.environment(threads, waiting_sleep)
        if self.places is not None:
            environment.update(sandbox.environment(self.places))
        with log.open("ab") as output, same_addresses(same_place):
            self.process = subprocess.Popen(
                [python, *program, str(their_read), str(their_write)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(their_read, their_write),
                env=environment,
                start_new_session=True,  # a group of its own: Ctrl-C reaches only us, and we can end all of it at once
            )
        os.close(their_read)
        os.close(their_write)
        self.channel = channel.Channel(our_read, our_write, channel.EVENTS)

    @property
    def pid(self) -> int:
        return self.process.pid

    def load(self, request: channel.Load, timeout: float) -> channel.Loaded:
        """Have the model loaded. Raises ModelError when the user can fix it, NotSupported for the variant."""
        self.send(request)
        try:
            answer = self.channel.receive(timeout)
        except TimeoutError:
            self.kill()
            raise WorkerError(
                f"No answer within {timeout:g} s while loading the model. The worker's log is {self.log}."
            ) from None
        except ValueError as error:
            self.kill()
            raise WorkerError(f"The worker's answer while loading the model cannot be read: {error}.") from error
        if answer is None:
            died = self.how_it_died()
            if (lacks := self._lacks()) is not None:
                raise WorkerError(
                    f"A worker cannot run in the environment of {self.python} ({lacks}). "
                    f"{HOW_TO_RUN_ELSEWHERE.format(self.python)}"
                )
            raise WorkerError(f"The worker died while loading the model: {died}. Its log is {self.log}.")
        if isinstance(answer, channel.Failed):
            if answer.kind == "other":
                raise WorkerError(f"Loading the model failed: {answer.message}. The worker's log is {self.log}.")
            raise (ModelError if answer.kind == "user" else NotSupported)(answer.message)
        assert isinstance(answer, channel.Loaded)
        self.forks = request.fork and answer.forks
        if self.audio is not None:
            self.audio.begin(request.audio, answer.sample_rate)
        return answer

    def start(self, job: channel.AnyJob, timeout: float, on_event: OnEvent = lambda event: None) -> RunningJob:
        """Begin a job."""
        self.used = True
        self.send(channel.Do(job, self.forks))
        return RunningJob(self, job, timeout, on_event)

    def send(self, request: channel.Request) -> None:
        try:
            self.channel.send(request)
        except BrokenPipeError:
            raise JobFailed(self.how_it_died()) from None

    def how_it_died(self) -> str:
        try:
            code = self.process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return "the worker closed its channel"
        return _signal_sentence(-code) if code < 0 else f"the worker ended with status {code}"

    def _lacks(self) -> str | None:
        """What the log of a worker ends with that could not import what it needs, in another environment."""
        if self.python == sys.executable or self.audio is not None:
            return None
        last = (self.log.read_text(errors="replace").strip().splitlines() or [""])[-1]
        return last if last.startswith(("ModuleNotFoundError", "ImportError")) else None

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """End the worker and whatever it started, at once."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def owns(self, pid: int) -> bool:
        """Whether a process that the worker names is one of its own."""
        try:
            return os.getsid(pid) == self.pid
        except OSError:
            return False

    def close(self) -> None:
        if self.alive:
            self.kill()
        self.channel.close()
        if self._temporary is not None:
            self._temporary.remove()
        if self.audio is not None:
            self.audio.remove()


def _places(folder: Path, temporary: Path) -> sandbox.Places:
    cache = user_cache_path("speech-profiler", appauthor=False) / "untrusted"
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError:  # no home, or one that cannot be written to
        cache = temporary
    return sandbox.Places(folder.resolve(), temporary, cache)


class RunningJob:
    """A job that a worker is doing: reads what it reports, and notices when it dies or hangs."""

    def __init__(self, worker: WorkerHandle, job: channel.AnyJob, timeout: float, on_event: OnEvent) -> None:
        self.worker = worker
        self.job = job
        self.timeout = timeout
        self.on_event = on_event
        self.results: dict[str, channel.PassDone] = {}  # of the passes that are done
        self.reference: Reference | None = None
        self._deadline = time.monotonic() + timeout
        self._child: int | None = None
        self._during = self._problem = ""

    def finish(self) -> dict[str, channel.PassDone]:
        """What each pass gave, once all are done."""
        self.wait_for(channel.Done)
        return self.results

    def call(self) -> float | None:
        """Of a job that takes turns: one timed call; its wall seconds."""
        self.worker.send(channel.Turn(again=True))
        return self.wait_for(channel.Called).wall

    def finish_turns(self) -> None:
        """Of a job that takes turns: no more calls, but for those of further passes."""
        self.worker.send(channel.Turn(again=False))
        self.finish()

    def wait_for(self, kind: type[E]) -> E:
        """Read events up to one of this kind. Raises JobFailed."""
        while not isinstance(event := self._receive(), kind) or self._problem:
            pass
        if isinstance(event, channel.Done):
            self.worker.job_cpu_seconds = event.cpu_s
        return event

    def _receive(self) -> channel.Event | None:
        """The next event, noted; None where the time was over first."""
        try:
            event = self.worker.channel.receive(max(0.0, self._deadline - time.monotonic()))
            if isinstance(event, channel.PassDone):
                self.results[event.name] = typed(event)
        except TimeoutError:
            if self._problem:  # ended already, and still no word: the worker itself hangs
                self.worker.kill()
                raise self._failed(self._problem) from None
            self._problem = f"no result within {self.timeout:g} s (measure.limit)"
            self._end()
            self._deadline = time.monotonic() + GRACE_SECONDS
            return None
        except ValueError as error:
            self.worker.kill()
            raise self._failed(f"what the worker sent cannot be read: {error}") from error
        if event is None:
            raise self._failed(self._problem or self.worker.how_it_died())
        if isinstance(event, channel.Started):
            self._child = event.pid if self.worker.owns(event.pid) else None
        elif isinstance(event, channel.ResetPeak):
            self.worker.send(channel.PeakReset(self._reset_peak()))
        elif isinstance(event, channel.WantAudio) and self.worker.audio is not None:
            self.worker.send(self.worker.audio.give(self.job, event.number))
        elif isinstance(event, channel.ReferenceDone):
            self.reference = event.reference
        elif isinstance(event, channel.Failed):
            self._problem = self._problem or event.message
            if not self.worker.forks:
                raise self._failed(self._problem)
        elif isinstance(event, channel.Ended):
            raise self._failed(self._problem or _signal_sentence(event.signal))
        elif not isinstance(event, channel.PassDone):
            if isinstance(event, channel.BeginPass):
                self._during = event.name
            elif isinstance(event, channel.BeginBatch | channel.BatchDone):  # of a data set: each has the whole time
                self._deadline = time.monotonic() + self.timeout
            self.on_event(event)
        return event

    def _failed(self, reason: str) -> JobFailed:
        return JobFailed(reason, self._during, self.results)

    def _reset_peak(self) -> bool:
        try:
            Path(f"/proc/{self._child or self.worker.pid}/clear_refs").write_text("5")
        except OSError:
            return False
        return True

    def _end(self) -> None:
        if self._child is None:
            self.worker.kill()
        else:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._child, signal.SIGKILL)


def _signal_sentence(number: int | None) -> str:
    if not number:
        return "the worker ended without a result"
    why = "; out of memory is the usual cause" if number == signal.SIGKILL else ""
    return f"killed by {signal.Signals(number).name}{why}"


Outcome = tuple[dict[str, channel.PassDone], JobFailed | None]


class Workers:
    """Hands out a loaded worker for a variant. Idle workers keep their model; they sleep."""

    def __init__(self, loaded: LoadedRecipe, folder: Path, device: str, threads: dict[str, int]) -> None:
        self.loaded = loaded
        self.folder = folder
        self.device = Device(device)
        self.threads = threads
        self.before_load: Callable[[str], None] = lambda variant: None
        self.on_load: Callable[[str, channel.Loaded, float], None] = lambda variant, model, seconds: None
        self._workers: dict[str, WorkerHandle] = {}
        self.crowded = False  # whether the models of all variants were too large to be held at once
        # Whether variants take turns: all are needed at once, none is let go for another, their processes are alike.
        self.together = False

    @property
    def pids(self) -> list[int]:
        return [worker.pid for worker in list(self._workers.values())]

    @property
    def can_fork(self) -> bool:
        return self.device.can_fork and sys.platform == "linux"

    def ready(self, variant: str) -> WorkerHandle:
        """A worker with the variant's model loaded."""
        if (worker := self._workers.get(variant)) is not None and worker.alive:
            return worker
        self._discard(variant)
        self.before_load(variant)
        self._make_room()
        recipe = self.loaded.by_variant[variant]
        audio = recipe.profiling_dimensions.example_audio
        make_folder(self.folder / variant)
        start = time.perf_counter()
        settings = self._settings(variant)
        log, python = self.folder / variant / LOG, self._python(variant)
        trust, inputs = self.loaded.trust, standalone.AudioFiles() if self._standalone(variant) else None
        if inputs is not None and not trust:
            raise ModelError("an adapter file is a program; if you trust it, add --trust")
        sleep = self.loaded.recipe.has_engines
        worker = WorkerHandle(log, self.threads[variant], python, self.together, trust, inputs, sleep)
        self._workers[variant] = worker
        try:
            request = channel.Load(
                model=self._request(variant),
                variant=settings,
                audio=self.loaded.resolve_path(audio, variant) if audio else None,
                fork=self.can_fork,
                traced=recipe.profiling_dimensions.export_logs,
                labels=recipe.trace.labels,
                training=recipe.training if recipe.mode == "training" else None,
                finetuning=finetuning_set(self.loaded, settings),
                turns=self.together,
                engine=self._engine(variant, worker.places),
                sandbox=worker.places,
            )
            model = worker.load(request, LOADING_SECONDS)
        except BaseException:
            self._discard(variant)
            raise
        self.on_load(variant, model, time.perf_counter() - start)
        return worker

    def _make_room(self) -> None:
        """Idle models are let go where a new one could find too little memory; they are loaded again when needed."""
        if self._workers and not self.together and available_memory() < ROOM * psutil.virtual_memory().total:
            self.crowded = True
            self.close()

    def _settings(self, name: str) -> Variant:
        return next(variant for variant in self.loaded.recipe.variants if variant.name == name)

    def _request(self, variant: str) -> ModelRequest:
        """Code comes from the variant's own folder, where it names one; all other paths are the recipe's."""
        base, code = self.loaded.folder_of(variant), self._settings(variant).path
        request = model_request(self.loaded.by_variant[variant], base, self.device.name, self.loaded.trust)
        if is_adapter_file(request.type):
            request = replace(request, type=str(self.loaded.resolve_path(request.type, variant)))
        return (
            request if code is None else replace(request, base=self.loaded.resolve_path(code, variant), base_first=True)
        )

    def _standalone(self, variant: str) -> bool:
        """Whether the variant's model is loaded and called by a file of the user's."""
        return is_adapter_file(self.loaded.by_variant[variant].pretrained_model.type)

    def _engine(self, name: str, places: sandbox.Places | None) -> EngineRequest | None:
        """What is to be exported. Files of untrusted workers lie apart: a trusted one would run what is in them."""
        if self._settings(name).runtime == "torch":
            return None
        recipe = self.loaded.by_variant[name]
        grid, data = recipe.profiling_dimensions, recipe.dataset
        batches = registry.takes_batches(self._request(name).type)
        several = data is not None and (data.batch_size != 1 or bool(data.batch_seconds or data.batch_frames))
        return EngineRequest(
            threads=self.threads[name],
            cells=[(cell.seconds, cell.batch_size) for cell in make_plan(recipe).to_measure if cell.variant == name],
            padding=grid.padding,
            batches=batches,
            padded=batches and (grid.padding > 0 or several),
            cache=(places.cache if places else user_cache_path("speech-profiler", appauthor=False)) / "engines",
        )

    def _python(self, variant: str) -> str:
        given = self._settings(variant).python
        return sys.executable if given is None else os.path.normpath(self.loaded.folder_of(variant) / given)

    def begin_round(self) -> None:
        """Where jobs cannot run in forks, each round has new processes; within a round they serve one cell after
        another, for loading a model on a GPU takes longer than a round of most cells."""
        for variant, worker in list(self._workers.items()):
            if worker.used and not worker.forks:
                self._discard(variant)

    def do(self, variant: str, job: channel.AnyJob, timeout: float, on_event: OnEvent) -> dict[str, channel.PassDone]:
        """Do a job in a fork of the loaded worker, or in the worker itself. Raises JobFailed."""
        worker = self.ready(variant)
        try:
            return worker.start(job, timeout, on_event).finish()
        except JobFailed:
            if not worker.forks:
                self._discard(variant)
            raise

    def run(self, jobs: dict[str, channel.CellJob], timeout: float, on_event: OnEvent) -> Outcome:
        """Do one job: {pass: result} of what was done, and why the rest was not."""
        ((variant, job),) = jobs.items()
        try:
            return self.do(variant, job, timeout, on_event), None
        except JobFailed as error:
            return error.results, error

    def take_turns(self, jobs: dict[str, channel.CellJob], timeout: float, on_event: OnEvent) -> list[Outcome]:
        """Do jobs whose timed calls take turns: A B C, C B A, A B C, ... Each has a process; one is awake."""
        size = next(iter(jobs.values())).size
        walls: list[list[float]] = [[] for _ in jobs]
        running: list[RunningJob] = []
        failures: list[JobFailed | None] = [None for _ in jobs]

        def step(number: int, work: Callable[[RunningJob], Any]) -> Any:
            try:
                return work(running[number])
            except JobFailed as error:
                failures[number] = error

        for number, (variant, job) in enumerate(jobs.items()):  # one warms up, rests, and only then the next starts
            running.append(self.ready(variant).start(structs.replace(job, turns=True), timeout, on_event))
            step(number, lambda job: job.wait_for(channel.Called))
        turns = 0
        while not all(size.enough(walls[number]) for number in range(len(jobs)) if failures[number] is None):
            for number in range(len(jobs)) if turns % 2 == 0 else reversed(range(len(jobs))):
                if failures[number] is None:  # where others failed it goes on without: it has figures of its own
                    wall = step(number, lambda job: job.call())
                    walls[number] += [wall] if wall is not None else []
            turns += 1
        for number in range(len(running)):
            if failures[number] is None:
                step(number, lambda job: job.finish_turns())  # before the next's: passes beside timing do not overlap
        return [(job.results, failure) for job, failure in zip(running, failures, strict=True)]

    def reference(self, variant: str, timeout: float) -> Reference | None:
        """The reference workload, in a process of its own; None when it fails."""
        job = channel.ReferenceJob(threads=self.threads[variant])
        try:
            with contextlib.ExitStack() as ended:
                elsewhere = self._standalone(variant)  # where there may be no torch to take it with
                if self.can_fork and not elsewhere:
                    worker = self.ready(variant)
                else:
                    make_folder(self.folder / variant)
                    python = sys.executable if elsewhere else self._python(variant)
                    worker = WorkerHandle(self.folder / variant / LOG, self.threads[variant], python)
                    ended.callback(worker.close)
                running = worker.start(job, timeout)
                running.finish()
                return running.reference
        except JobFailed:
            return None

    def _discard(self, variant: str) -> None:
        worker = self._workers.pop(variant, None)
        if worker is not None:
            with contextlib.suppress(OSError):
                worker.close()

    def let_go(self, variant: str) -> None:
        """End the worker of a variant that is not needed any more."""
        self._discard(variant)

    def close(self) -> None:
        """End all workers and what they started."""
        for variant in list(self._workers):
            self._discard(variant)

    def kill_now(self) -> None:
        """For a second Ctrl-C: no waiting, no tidying."""
        for worker in self._workers.values():
            with contextlib.suppress(Exception):
                worker.kill()
