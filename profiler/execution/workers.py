"""The worker processes of a run: one per variant, started when needed, replaced when it died."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
from msgspec import structs

from profiler.device import Device
from profiler.environment import available_memory
from profiler.execution.channel import AnyJob, CellJob, Load, Loaded, PassDone, Ready, ReferenceJob
from profiler.execution.handle import JobFailed, OnEvent, RunningJob, WorkerHandle
from profiler.models.model import ModelRequest
from profiler.models.request import model_request
from profiler.recipe.load import LoadedRecipe
from profiler.recipe.schema import Variant
from profiler.results.runs import make_folder
from profiler.results.types import Reference

Outcome = tuple[dict[str, PassDone], JobFailed | None]
LOADING_SECONDS = 3600.0  # a large model over a slow network; a hang is noticed all the same
LOG = "worker.log"
ROOM = 0.5  # of the machine's memory stays free while models of other variants are kept


class Workers:
    """Hands out a loaded worker for a variant. Idle workers keep their model; they sleep."""

    def __init__(self, loaded: LoadedRecipe, folder: Path, device: str, threads: dict[str, int]) -> None:
        self.loaded = loaded
        self.folder = folder
        self.device = Device(device)
        self.threads = threads
        self.before_load: Callable[[str], None] = lambda variant: None
        self.on_load: Callable[[str, Loaded, float], None] = lambda variant, model, seconds: None
        self._workers: dict[str, WorkerHandle] = {}
        self._made_room = False
        # Whether variants take turns: all are needed at once, none is let go for another, their processes are alike.
        self.together = False
        self._used = False  # whether a process has done a job in itself

    @property
    def crowded(self) -> bool:
        """Whether the models of all variants were too large to be held at once."""
        return self._made_room

    @property
    def can_fork(self) -> bool:
        return self.device.can_fork and sys.platform == "linux"

    def ready(self, variant: str) -> WorkerHandle:
        """A worker with the variant's model loaded."""
        worker = self._workers.get(variant)
        if worker is not None and worker.alive:
            return worker
        if worker is not None:
            self._discard(variant)
        self.before_load(variant)
        self._make_room()
        recipe = self.loaded.by_variant[variant]
        audio = recipe.profiling_dimensions.example_audio
        make_folder(self.folder / variant)
        start = time.perf_counter()
        settings = self._settings(variant)
        log, python = self.folder / variant / LOG, self._python(variant)
        worker = WorkerHandle(log, self.threads[variant], python, self.together, self.loaded.trust)
        self._workers[variant] = worker
        try:
            request = Load(
                model=self._request(variant),
                variant=settings,
                audio=self.loaded.path_of(variant, audio) if audio else None,
                fork=self.can_fork,
                traced=recipe.profiling_dimensions.export_logs,
                labels=recipe.trace.labels,
                training=recipe.training if recipe.mode == "training" else None,
                turns=self.together,
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
            self._made_room = True
            self.close()

    def _settings(self, name: str) -> Variant:
        return next(variant for variant in self.loaded.recipe.variants if variant.name == name)

    def _request(self, variant: str) -> ModelRequest:
        """Code comes from the variant's own folder, where it names one; all other paths are the recipe's."""
        base, code = self.loaded.folder_of(variant), self._settings(variant).path
        request = model_request(self.loaded.by_variant[variant], base, self.device.name, self.loaded.trust)
        return request if code is None else replace(request, base=self.loaded.path_of(variant, code), base_first=True)

    def _python(self, variant: str) -> str:
        given = self._settings(variant).python
        return sys.executable if given is None else os.path.normpath(self.loaded.folder_of(variant) / given)

    def begin_round(self) -> None:
        """Where jobs cannot run in forks, each round has new processes; within a round they serve one cell after
        another, for loading a model on a GPU takes longer than a round of most cells."""
        if not self.can_fork and self._used:
            self.close()

    def do(self, variant: str, job: AnyJob, timeout: float, on_event: OnEvent) -> dict[str, PassDone]:
        """Do a job in a fork of the loaded worker, or in the worker itself. Raises JobFailed."""
        self._used = True
        try:
            return self.ready(variant).run(job, self.can_fork, timeout, on_event)
        except JobFailed:
            if not self.can_fork:
                self._discard(variant)
            raise

    def run(self, jobs: dict[str, CellJob], timeout: float, on_event: OnEvent) -> Outcome:
        """Do one job: {pass: result} of what was done, and why the rest was not."""
        ((variant, job),) = jobs.items()
        try:
            return self.do(variant, job, timeout, on_event), None
        except JobFailed as error:
            return error.results, error

    def take_turns(self, jobs: dict[str, CellJob], timeout: float, on_event: OnEvent) -> list[Outcome]:
        """Do two jobs whose timed calls take turns: A B, B A, A B, ... Each has a process of its own; one sleeps."""
        size = next(iter(jobs.values())).size
        walls: list[list[float]] = [[] for _ in jobs]
        running: list[RunningJob] = []
        failures: list[JobFailed | None] = [None for _ in jobs]

        def step(number: int, work: Callable[[RunningJob], Any]) -> Any:
            try:
                return work(running[number])
            except JobFailed as error:
                failures[number] = error

        for number, (variant, job) in enumerate(jobs.items()):  # one warms up, rests, and only then the other starts
            running.append(
                self.ready(variant).start(structs.replace(job, turns=True), self.can_fork, timeout, on_event)
            )
            step(number, lambda job: job.wait_for(Ready))
        turns = 0
        while not all(size.enough(walls[number]) for number in range(len(jobs)) if failures[number] is None):
            for number in (0, 1) if turns % 2 == 0 else (1, 0):
                if failures[number] is None:  # a side whose other side failed goes on alone: it has figures of its own
                    wall = step(number, lambda job: job.call())
                    walls[number] += [wall] if wall is not None else []
            turns += 1
        for number in range(len(running)):
            if failures[number] is None:
                step(number, lambda job: job.enough())
                step(number, lambda job: job.finish())  # before the other's: passes beside timing do not overlap
        return [(job.results, failure) for job, failure in zip(running, failures, strict=True)]

    def reference(self, variant: str, timeout: float) -> Reference | None:
        """The reference workload, in a process of its own; None when it fails."""
        job = ReferenceJob(threads=self.threads[variant])
        try:
            if self.can_fork:
                return self._reference(self.ready(variant), job, timeout)
            make_folder(self.folder / variant)
            worker = WorkerHandle(self.folder / variant / LOG, self.threads[variant], self._python(variant))
            try:
                return self._reference(worker, job, timeout)
            finally:
                worker.close()
        except JobFailed:
            return None

    def _reference(self, worker: WorkerHandle, job: ReferenceJob, timeout: float) -> Reference | None:
        running = worker.start(job, self.can_fork, timeout)
        running.finish()
        return running.reference

    def _discard(self, variant: str) -> None:
        worker = self._workers.pop(variant, None)
        if worker is not None:
            with contextlib.suppress(OSError):
                worker.close()

    def close(self) -> None:
        """End all workers and what they started."""
        for variant in list(self._workers):
            self._discard(variant)

    def kill_now(self) -> None:
        """For a second Ctrl-C: no waiting, no tidying."""
        for worker in self._workers.values():
            with contextlib.suppress(Exception):
                worker.kill()
