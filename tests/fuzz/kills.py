"""Runs that are killed at random moments and taken up again: nothing that was finished is lost.

    python -m tests.fuzz.kills --kills 30 --seed 7

Each kill is SIGKILL, of the program itself or of one of its workers. Meanwhile, and after each, results.json is read as
`report` reads it, and every cell that was finished before is compared sample by sample. Processes must not stay.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from profiler.errors import UserError
from profiler.results.store import read_results
from tests.helpers import program

RECIPE = "measure: {warmup: 1, budget: 0.3, rounds: 2}\n"
LONGEST_WAIT = 6.0  # seconds before the next kill
GRACE_S = 20.0  # for workers to end after their parent
START_S = 120.0


class Killed:
    """One recipe that is run again and again, and what was seen of it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.random = folder, random.Random(seed)
        self.recipe = program.module_recipe(folder, "Sleeper", "{per_second: 0.5}", "[0.1, 0.2, 0.3]", "[1, 2]", RECIPE)
        self.logs = folder / "logs-0"
        self.finished: dict[tuple[str, float, int], list[float]] = {}
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []

    def kill(self, times: int) -> None:
        while self.counts["kills"] < times:
            process = self._start()
            while process.poll() is None and self.counts["kills"] < times:
                self._watch(process, self.random.uniform(0.0, LONGEST_WAIT))
                self._kill_one(process)
            if process.poll() is None:
                process.kill()
            errors = process.communicate()[1]
            if "Traceback" in errors:
                self.problems.append(errors.strip().splitlines()[-1])
            self._check_nothing_left()
            self._look()
            if process.returncode >= 0 and any(self.logs.glob("*/*/report.html")):
                self.counts["runs completed"] += 1
                self.logs, self.finished = self.folder / f"logs-{self.counts['runs completed']}", {}

    def _start(self) -> subprocess.Popen[str]:
        """Take the run up, where there is one."""
        resume = ["--resume", "latest"] if self._run() else []
        self.counts["resumes"] += bool(resume)
        environment = {**os.environ, "PROFILER_TEST": str(self.folder)}
        process = program.start(self.recipe, "--trust", "--logdir", self.logs, "--quiet", *resume, env=environment)
        deadline = time.monotonic() + START_S
        while process.poll() is None and self._run() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        return process

    def _run(self) -> Path | None:
        return next((file.parent for file in self.logs.glob("*/*/results.json")), None)

    def _watch(self, process: subprocess.Popen[str], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < deadline:
            self._look()
            time.sleep(0.02)

    def _kill_one(self, process: subprocess.Popen[str]) -> None:
        workers = [pid for pid in self._processes() if pid != process.pid]
        victim = self.random.choice([process.pid, *workers[:1], *workers[-1:]])
        if process.poll() is None:
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                return
            self.counts["kills"] += 1
            self.counts["of the program" if victim == process.pid else "of a worker"] += 1
            if victim == process.pid:
                process.wait()

    def _look(self) -> None:
        folder = self._run()
        if folder is None:
            return
        try:
            cells = {cell.key: cell for cell in read_results(folder).cells}
        except UserError as error:
            self.problems.append(f"results.json cannot be read: {error}")
            return
        self.counts["reads"] += 1
        for key in [key for key in self.finished if key in cells and cells[key].status == "failed"]:
            del self.finished[key]  # a later round of it died with the worker; such a cell starts anew
            self.counts["cells failed by a kill"] += 1
        for key, samples in self.finished.items():
            latency = cells[key].latency_s if key in cells else None
            if latency is None or latency.samples[: len(samples)] != samples:
                now = cells.get(key)
                said = f"{now.status}, {now.reason}, {len(latency.samples) if latency else 0} calls" if now else "gone"
                self.problems.append(f"{key} was lost or changed: {len(samples)} calls before, now {said}")
        for key, cell in cells.items():
            if cell.status == "ok" and cell.latency_s is not None:
                self.counts["cells finished"] += key not in self.finished
                self.finished[key] = list(cell.latency_s.samples)

    def _processes(self) -> list[int]:
        return sorted(program.processes_mentioning(f"PROFILER_TEST={self.folder}"))

    def _check_nothing_left(self) -> None:
        deadline = time.monotonic() + GRACE_S
        while self._processes():
            if time.monotonic() > deadline:
                self.problems.append(f"processes were left behind: {self._processes()}")
                return
            time.sleep(0.1)


def run() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="speech-profiler-fuzz-") as folder:
        killed = Killed(Path(folder), given.seed)
        killed.kill(given.kills)
    for problem in dict.fromkeys(killed.problems):
        print(problem)
    print(", ".join(f"{name} {count}" for name, count in killed.counts.items()) + f", problems {len(killed.problems)}")
    return 1 if killed.problems else 0


if __name__ == "__main__":
    sys.exit(run())
