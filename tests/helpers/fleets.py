"""Engines for tests of the driver: machines that exist in memory, with jobs that end when a test says so."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from profiler.execution.fleet.engine import Placed, State
from profiler.execution.fleet.job import Fleet, Job, Machine
from profiler.execution.fleet.node import Files, Look, Seen, Spec


class Clock:
    """Seconds that pass when the driver sleeps."""

    now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def results(recipe: str, cells: int, status: str = "running") -> bytes:
    """As much of results.json as a fleet looks at."""
    found = [{"variant": "v", "seconds": float(number + 1), "batch_size": 1, "status": "ok"} for number in range(cells)]
    return json.dumps({"run": {"recipe": recipe, "started": "2026-11-18", "status": status}, "cells": found}).encode()


class MemoryJob:
    def __init__(self, engine: MemoryEngine, name: str, spec: Spec, earlier: Files, machine: str) -> None:
        self.engine, self.name, self.spec, self.machine, self.handle = engine, name, spec, machine, f"handle-{name}"
        self.now = State("running", machine=machine)
        self.files: Files = dict(earlier)
        self.stops = self.forgotten = 0
        self.run = spec.resume or f"{name}/run-{len(engine.placed)}"

    def finish(self, cells: int) -> None:
        """So many cells stand in its results now."""
        self.files[f"{self.run}/results.json"] = results(self.name, cells)

    def end(self, status: int = 0, stopped: str = "", log: str = "") -> None:
        self.now = State("ended", machine=self.machine, look=Look(status, log, stopped))

    def state(self) -> State:
        return self.now

    def changed(self, seen: Seen, results_only: bool) -> tuple[Files, Seen]:
        now = {name: (hash(content), len(content)) for name, content in self.files.items()}
        return {name: self.files[name] for name in now if seen.get(name) != now[name]}, now

    def stop(self) -> None:
        self.stops += 1
        self.end(130, "it was asked to stop")

    def forget(self) -> None:
        self.forgotten += 1


class MemoryEngine:
    """One job per machine at a time, as Ray has it."""

    def __init__(self, *machines: Machine) -> None:
        self.there = {machine.name: machine for machine in machines}
        self.placed: list[MemoryJob] = []
        self.asked: list[str] = []  # who described themselves last
        self.known: dict[str, MemoryJob] = {}  # that a new driver finds again

    def machines(self, recipes: Collection[tuple[str, str]], alone: Collection[str] = ()) -> list[Machine]:
        self.asked = [name for name in self.there if name not in alone]
        return [Machine(name) if name in alone else machine for name, machine in self.there.items()]

    def alive(self) -> set[str]:
        return set(self.there)

    def place(self, name: str, spec: Spec, earlier: Files, allowed: Collection[str] | None) -> Placed | str:
        busy = {job.machine for job in self.placed if job.now.state == "running"}
        free = [machine for machine in allowed or () if machine in self.there and machine not in busy]
        if not free:
            return "no machine is free"
        self.placed.append(MemoryJob(self, name, spec, earlier, free[0]))
        return self.placed[-1]

    def attach(self, handle: str) -> Placed | None:
        return self.known.get(handle)

    def lose(self, machine: str) -> None:
        """The node is gone, and with it what runs there."""
        del self.there[machine]
        for job in self.placed:
            if job.machine == machine and job.now.state == "running":
                job.now = State("lost", f"{machine} is gone", machine)

    def close(self) -> None:
        pass


def machine(name: str, boot: str = "", kind: str = "a kind") -> Machine:
    return Machine(name, kind, boot or f"boot-{name}", cores=2)


def fleet_of(*names: str, machines: Collection[Machine] = (), folder: Path = Path("/nowhere")) -> Fleet:
    jobs = [Job(name, str(folder / f"{name}.yaml"), "0" * 64) for name in names]
    return Fleet("a-fleet", "local", "2026-11-18", jobs=jobs, machines={each.name: each for each in machines})
