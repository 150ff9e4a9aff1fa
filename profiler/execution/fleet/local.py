"""The engine that is this very machine: one job after the other."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Collection
from pathlib import Path

from profiler.execution.fleet.engine import Placed, State
from profiler.execution.fleet.job import Machine
from profiler.execution.fleet.node import Files, Program, Seen, Spec, changed, describe


class LocalEngine:
    def __init__(self, folder: Path) -> None:
        self.folder = folder / "spool"
        self.name = socket.gethostname()
        self.running: LocalJob | None = None

    def machines(self, recipes: Collection[tuple[str, str]], alone: Collection[str] = ()) -> list[Machine]:
        machine = describe(recipes)
        machine.name = self.name
        return [machine]

    def alive(self) -> set[str]:
        return {self.name}

    def place(self, name: str, spec: Spec, earlier: Files, allowed: Collection[str] | None) -> Placed | str:
        if self.running is not None and self.running.program.process.poll() is None:
            return "another job runs on this machine"
        self.running = LocalJob(Program(spec, self.folder / name, earlier), self.name)
        return self.running

    def attach(self, handle: str) -> Placed | None:
        return None  # it ended with the driver

    def close(self) -> None:
        if self.running is not None:
            self.running.program.stop()
            self.running.program.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class LocalJob:
    def __init__(self, program: Program, machine: str) -> None:
        self.program, self.machine, self.handle = program, machine, ""

    def state(self) -> State:
        look = self.program.look()
        return State("running" if look.ended is None else "ended", machine=self.machine, look=look)

    def changed(self, seen: Seen, results_only: bool) -> tuple[Files, Seen]:
        return changed(self.program.spool, seen, results_only)

    def stop(self) -> None:
        self.program.stop()

    def forget(self) -> None:
        shutil.rmtree(self.program.spool, ignore_errors=True)
