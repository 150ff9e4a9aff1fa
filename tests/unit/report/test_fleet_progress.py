"""What a terminal shows of a fleet: fits its width and height, with the reason why a job waits."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from profiler.execution.fleet.job import Attempt, Fleet
from profiler.report import fleet_progress
from profiler.report.fleet_progress import FleetLines, FleetTable, seconds_left
from profiler.results.runs import now
from tests.helpers.fleets import fleet_of, machine

REASON = "in SLURM's queue: Resources, which is a long way to say that all nodes are taken"


def shown(fleet: Fleet, width: int, height: int = 24) -> list[str]:
    """The lines of the terminal."""
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    table = FleetTable(console)
    driver: Any = SimpleNamespace(fleet=fleet, met=[])
    table(driver)
    plain = Console(file=io.StringIO(), width=width, color_system=None)
    plain.print(table.live.renderable)
    table.close()
    return [line.rstrip() for line in plain.file.getvalue().splitlines()]  # type: ignore[attr-defined]


@pytest.fixture
def fleet() -> Fleet:
    fleet = fleet_of(*(f"quantization-accuracy-lstm-hybrid-{number}" for number in range(40)))
    fleet.jobs[7].status, fleet.jobs[7].cells = "running", 12
    fleet.jobs[7].progress = "3/9, 0:41, about 2:10 left"
    fleet.jobs[7].attempts = [Attempt("a-node-with-a-long-name.of.a.cluster-4f3a2b", "2026-11-18")]
    for job in fleet.jobs:
        job.reason = REASON if job.status == "waiting" else ""
    return fleet


@pytest.mark.parametrize("width", [80, 100, 200])
def test_lines_fit_and_each_column_is_there(fleet: Fleet, width: int) -> None:
    lines = shown(fleet, width)
    assert all(len(line) <= width for line in lines)
    assert lines[0].split() == ["job", "machine", "status", "cells", "progress", "or", "reason"]
    assert "running" in lines[1]
    assert " 12" in lines[1]
    assert "3/9, 0:41" in lines[1]
    assert "in SLURM's queue" in lines[2]
    assert lines[-1].startswith("0 of 40 jobs")


def test_a_low_terminal_shows_fewer_jobs(fleet: Fleet) -> None:
    lines = shown(fleet, 80, height=12)
    assert len(lines) <= 12
    assert lines[-2] == "and 32 more"


def test_the_time_left_is_that_of_jobs_that_ended_on_as_many_machines_as_work() -> None:
    fleet = fleet_of(*(f"job-{number}" for number in range(7)))
    for number, job in enumerate(fleet.jobs[:3]):
        job.status = "done"
        job.attempts = [Attempt("n1", "2026-11-18T10:00:00+00:00", f"2026-11-18T10:0{number + 1}:00+00:00")]
    assert seconds_left(fleet.jobs) == 4 * 120, "four jobs of two minutes each"
    for job in fleet.jobs[3:5]:
        job.status, job.attempts = "running", [Attempt("n1", now())]
    assert seconds_left(fleet.jobs) == pytest.approx(2 * 120, abs=30), "on two machines"
    for job in fleet.jobs[3:]:
        job.status = "failed"
    assert seconds_left(fleet.jobs) is None
    assert seconds_left(fleet.jobs[3:]) is None


def test_lines_tell_changes_notes_and_now_and_then_how_far_jobs_are(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_progress, "PROGRESS_SECONDS", -1.0)
    console = Console(file=io.StringIO(), width=80)
    lines = FleetLines(console)
    met = machine("n9")
    met.commit = "abc"
    fleet.jobs[8].status, fleet.jobs[8].reason = "failed", "a node says \x1b[2J<b>"
    fleet.here = machine("")
    driver: Any = SimpleNamespace(fleet=fleet, met=[met])
    lines(driver)
    first = console.file.getvalue()  # type: ignore[attr-defined]
    assert "note: n9: other versions: the profiler's commit abc ( here)" in first
    assert [line for line in first.splitlines() if REASON in line] == [f"[0:00] 38 jobs waiting: {REASON}"]
    assert "quantization-accuracy-lstm-hybrid-8: failed, a node says \N{REPLACEMENT CHARACTER}[2J<b>" in first
    assert "quantization-accuracy-lstm-hybrid-7: running on a-node-with-a-long-name.of.a.cluster-4f3a2b" in first
    assert "\x1b" not in first
    last = "1 of 40 jobs, 0:00. quantization-accuracy-lstm-hybrid-7 3/9, 0:41, about 2:10 left"
    assert first.splitlines()[-1] == last
    lines(driver)
    assert console.file.getvalue().splitlines()[len(first.splitlines()) :] == [last]  # type: ignore[attr-defined]
