"""What a person sees while a fleet runs: a table of all jobs that stays in its place, or lines where nobody watches."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from profiler.report.fleet import differences
from profiler.report.terminal import RED, paragraph
from profiler.results.runs import now
from profiler.units import clock_text, many

if TYPE_CHECKING:
    from profiler.execution.fleet.driver import Driver
    from profiler.execution.fleet.job import Attempt, Job

MOST_ROWS = 20  # jobs that are shown at once, those that run first
AROUND = 4  # lines of the terminal that are not for jobs
HEADS = ("job", "machine", "status", "cells", "progress or reason")
PROGRESS_SECONDS = 60.0  # between two lines of how far jobs are, where nobody watches
JOB_SHARE, MACHINE_SHARE = 0.3, 0.2  # of the width, at most
GAP = 2
STYLES = {"running": "green", "failed": RED, "waiting": "dim"}
ORDER = ("running", "failed", "waiting", "interrupted", "done")


class FleetLines:
    """A line whenever a job changes, one for each reason why jobs wait, and now and then one of all that run."""

    def __init__(self, console: Console) -> None:
        self.console, self.started = console, time.monotonic()
        self.printed_at = self.started
        self.before: dict[str, tuple[str, str, str]] = {}
        self.reasons: set[str] = set()  # why jobs wait that have not begun
        self.met = 0  # machines of which was told

    def __call__(self, driver: Driver) -> None:
        self.notes(driver)
        jobs = driver.fleet.jobs
        to_begin = Counter(job.reason for job in jobs if job.status == "waiting" and not job.attempts and job.reason)
        for reason in to_begin.keys() - self.reasons:
            self._print(f"[{self._clock()}] {many(to_begin[reason], 'job')} waiting: {reason}", STYLES["waiting"])
        self.reasons = set(to_begin)
        for job in jobs:
            now = (job.status, job.machine, job.reason)
            if self.before.get(job.id) != now and (job.attempts or job.status != "waiting"):
                self.before[job.id] = now
                text = f"[{self._clock()}] {job.id}: {job.status}"
                text += f" on {job.machine}" if job.machine else ""
                text += f", {job.reason}" if job.reason else ""
                self._print(text, STYLES.get(job.status, ""))
        running = [f"{job.id} {job.progress}" for job in jobs if job.progress]
        if running and time.monotonic() - self.printed_at > PROGRESS_SECONDS:
            self._print(f"{self.summary(driver)}. {'; '.join(running[:MOST_ROWS])}")

    def _print(self, text: str, style: str = "") -> None:
        self.console.print(paragraph(text, style), soft_wrap=True)
        self.printed_at = time.monotonic()

    def notes(self, driver: Driver) -> None:
        """What is different on machines that described themselves just now."""
        for line in differences(driver.fleet.here, driver.met[self.met :]):
            self._print(f"note: {line}", "yellow")
        self.met = len(driver.met)

    def summary(self, driver: Driver) -> str:
        """'3 of 20 jobs, 0:41, about 2:10 left'."""
        jobs = driver.fleet.jobs
        left = seconds_left(jobs)
        text = f"{sum(not job.open for job in jobs)} of {len(jobs)} jobs, {self._clock()}"
        return text + (f", about {clock_text(left)} left" if left else "")

    def _clock(self) -> str:
        return clock_text(time.monotonic() - self.started)

    def close(self) -> None:
        pass


class FleetTable(FleetLines):
    """In a terminal."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.live = Live(console=console, auto_refresh=False, transient=True)
        self.live.start()

    def __call__(self, driver: Driver) -> None:
        self.notes(driver)
        jobs = sorted(driver.fleet.jobs, key=lambda job: ORDER.index(job.status))
        most = max(1, min(MOST_ROWS, self.console.height - AROUND))
        rows = [_row(job) for job in jobs[:most]]
        table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
        for head, width in zip(HEADS, _widths(rows, self.console.width), strict=True):
            table.add_column(head, no_wrap=True, overflow="ellipsis", width=width)
        for job, row in zip(jobs, rows, strict=False):
            table.add_row(*map(paragraph, row), style=STYLES.get(job.status, ""))
        more = [Text(f"and {len(jobs) - most} more", "dim")] if len(jobs) > most else []
        self.live.update(Group(table, *more, Text(self.summary(driver))), refresh=True)

    def close(self) -> None:
        self.live.stop()


class NoProgress(FleetLines):
    def __call__(self, driver: Driver) -> None:
        pass


def seconds_left(jobs: Sequence[Job]) -> float | None:
    """From how long finished jobs took, on as many machines as work now; None before there is one."""
    took = [_seconds(job.attempts[-1]) for job in jobs if job.status == "done" and job.attempts]
    still = [job for job in jobs if job.open]
    if not took or not still:
        return None
    usual = statistics.fmean(took)
    running = [min(usual, _seconds(job.attempts[-1])) for job in still if job.status == "running"]
    return (usual * len(still) - sum(running)) / max(1, len(running))


def _seconds(attempt: Attempt) -> float:
    """So far, while it goes on."""
    begin, end = map(datetime.fromisoformat, (attempt.started, attempt.ended or now()))
    return (end - begin).total_seconds()


def _row(job: Job) -> tuple[str, ...]:
    return job.id, job.machine, job.status, str(job.cells or ""), job.progress or job.reason


def _widths(rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Names as long as they are, up to a share of the terminal; progress has what is left."""
    columns = list(zip(HEADS, *rows, strict=True))
    needs = [max(map(len, column)) for column in columns[:-1]]
    needs[0], needs[1] = min(needs[0], int(JOB_SHARE * width)), min(needs[1], int(MACHINE_SHARE * width))
    return [*needs, max(1, width - sum(needs) - GAP * len(HEADS))]


def make_progress(quiet: bool) -> FleetLines:
    console = Console(stderr=True, highlight=False)
    if quiet:
        return NoProgress(console)
    return FleetTable(console) if console.is_terminal else FleetLines(console)
