"""What a person sees while a fleet runs: a table of all jobs that stays in its place, or lines where nobody watches."""

from __future__ import annotations

import time
from collections.abc import Sequence
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
AROUND = 4  # lines of the terminal that are not for jobs
HEADS = ("job", "machine", "status", "cells", "what it waits for")
JOB_SHARE, MACHINE_SHARE = 0.3, 0.2  # of the width, at most
GAP = 2
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
        most = max(1, min(MOST_ROWS, self.console.height - AROUND))
        rows = [_row(job) for job in jobs[:most]]
        table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
        for head, width in zip(HEADS, _widths(rows, self.console.width), strict=True):
            table.add_column(head, no_wrap=True, overflow="ellipsis", width=width)
        for job, row in zip(jobs, rows, strict=False):
            table.add_row(*row, style=STYLES.get(job.status, ""))
        more = [Text(f"and {len(jobs) - most} more", "dim")] if len(jobs) > most else []
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


def _widths(rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Names as long as they are, up to a share of the terminal; the reason has what is left."""
    columns = list(zip(HEADS, *rows, strict=True))
    needs = [max(map(len, column)) for column in columns[:-1]]
    needs[0], needs[1] = min(needs[0], int(JOB_SHARE * width)), min(needs[1], int(MACHINE_SHARE * width))
    return [*needs, max(1, width - sum(needs) - GAP * len(HEADS))]


def make_progress(quiet: bool) -> FleetLines:
    console = Console(stderr=True, highlight=False)
    if quiet:
        return NoProgress(console)
    return FleetTable(console) if console.is_terminal else FleetLines(console)
