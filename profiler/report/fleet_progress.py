"""What a person sees while a fleet runs: a table of all jobs that stays in its place, or lines where nobody watches."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from profiler.report.terminal import RED
from profiler.units import clock_text

if TYPE_CHECKING:
    from profiler.execution.fleet.driver import Driver
    from profiler.execution.fleet.job import Job

MOST_ROWS = 20  # jobs that are shown at once, those that run first
STYLES = {"running": "green", "failed": RED, "waiting": "dim"}
ORDER = ("running", "failed", "waiting", "interrupted", "done")


class FleetLines:
    """A line whenever a job changes."""

    def __init__(self, console: Console) -> None:
        self.console, self.started = console, time.monotonic()
        self.before: dict[str, tuple[str, str, str]] = {}

    def __call__(self, driver: Driver) -> None:
        for job in driver.fleet.jobs:
            now = (job.status, job.machine, job.reason if job.status != "waiting" or job.attempts else "")
            if self.before.get(job.id) != now:
                self.before[job.id] = now
                text = f"[{clock_text(time.monotonic() - self.started)}] {job.id}: {job.status}"
                text += f" on {job.machine}" if job.machine else ""
                text += f", {job.reason}" if job.reason else ""
                self.console.print(Text(text, STYLES.get(job.status, "")), soft_wrap=True)

    def left(self, driver: Driver) -> float | None:
        """Seconds, from how long finished jobs took; None before there is one."""
        jobs = driver.fleet.jobs
        done, still = [job for job in jobs if not job.open], [job for job in jobs if job.open]
        if not done or not still:
            return None
        return (time.monotonic() - self.started) / len(done) * len(still)

    def close(self) -> None:
        pass


class FleetTable(FleetLines):
    """In a terminal."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.live = Live(console=console, auto_refresh=False, transient=True)
        self.live.start()

    def __call__(self, driver: Driver) -> None:
        jobs = sorted(driver.fleet.jobs, key=lambda job: ORDER.index(job.status))
        table = Table(box=None, pad_edge=False, header_style="dim")
        for head in ("job", "machine", "status", "cells", "what it waits for"):
            table.add_column(head, no_wrap=True, overflow="ellipsis")
        for job in jobs[:MOST_ROWS]:
            table.add_row(*_row(job), style=STYLES.get(job.status, ""))
        more = [Text(f"and {len(jobs) - MOST_ROWS} more", "dim")] if len(jobs) > MOST_ROWS else []
        done = sum(not job.open for job in jobs)
        left = self.left(driver)
        text = f"{done} of {len(jobs)} jobs, {clock_text(time.monotonic() - self.started)}"
        text += f", about {clock_text(left)} left" if left else ""
        self.live.update(Group(table, *more, Text(text)), refresh=True)

    def close(self) -> None:
        self.live.stop()


class NoProgress(FleetLines):
    def __call__(self, driver: Driver) -> None:
        pass


def _row(job: Job) -> tuple[str, ...]:
    return job.id, job.machine, job.status, str(job.cells or ""), job.reason


def make_progress(quiet: bool) -> FleetLines:
    console = Console(stderr=True, highlight=False)
    if quiet:
        return NoProgress(console)
    return FleetTable(console) if console.is_terminal else FleetLines(console)
