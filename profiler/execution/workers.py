"""The worker processes of a run: one a variant, started when needed, replaced when it died."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from profiler.device import Device
from profiler.environment import available_memory
from profiler.execution.channel import Message
from profiler.execution.handle import JobFailed, OnEvent, WorkerHandle
from profiler.execution.job import Job
from profiler.execution.worker import request_to_message
from profiler.models.request import model_request
from profiler.recipe.load import LoadedRecipe
from profiler.runs import make_folder

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
        self.on_load: Callable[[str, Message], None] = lambda variant, model: None
        self._workers: dict[str, WorkerHandle] = {}

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
        self._make_room()
        recipe = self.loaded.by_variant[variant]
        audio = recipe.profiling_dimensions.example_audio
        make_folder(self.folder / variant)
        start = time.perf_counter()
        worker = WorkerHandle(self.folder / variant / LOG, self.threads[variant])
        self._workers[variant] = worker
        try:
            model = worker.load(
                request_to_message(model_request(recipe, self.loaded.path.parent, self.device.name)),
                self._variant(variant),
                self.loaded.resolve_path(audio) if audio else None,
                LOADING_SECONDS,
                self.can_fork,
                recipe.profiling_dimensions.export_logs,
                recipe.trace.labels,
                recipe.training.model_dump() if recipe.mode == "training" else None,
            )
        except BaseException:
            self._discard(variant)
            raise
        self.on_load(variant, {**model, "loading_s": time.perf_counter() - start})
        return worker

    def _make_room(self) -> None:
        """Idle models are let go where a new one could find too little memory; they are loaded again when needed."""
        if self._workers and available_memory() < ROOM * psutil.virtual_memory().total:
            self.close()

    def _variant(self, name: str) -> Message:
        found = next(variant for variant in self.loaded.recipe.variants if variant.name == name)
        return found.model_dump(mode="json")

    def run(self, variant: str, job: Job, timeout: float, on_event: OnEvent) -> dict[str, Any]:
        """Do a job in a process of its own: a fork of the loaded worker, or a fresh worker."""
        worker = self.ready(variant)
        if self.can_fork:
            return worker.run(job, True, timeout, on_event)
        try:
            return worker.run(job, False, timeout, on_event)
        finally:
            self._discard(variant)

    def reference(self, variant: str, timeout: float) -> dict[str, Any] | None:
        """The reference workload, in a process of its own; None when it fails."""
        job = Job(self.threads[variant])
        try:
            if self.can_fork:
                return dict(self.ready(variant).run(job, True, timeout)["reference"])
            make_folder(self.folder / variant)
            worker = WorkerHandle(self.folder / variant / LOG, self.threads[variant])
            try:
                return dict(worker.run(job, False, timeout)["reference"])
            finally:
                worker.close()
        except JobFailed:
            return None

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
