"""What a terminal shows of a fleet: fits its width and height, with the reason why a job waits."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from profiler.execution.fleet.job import Attempt, Fleet
from profiler.report.fleet_progress import FleetTable
from tests.helpers.fleets import fleet_of

REASON = "in SLURM's queue: Resources, which is a long way to say that all nodes are taken"


def shown(fleet: Fleet, width: int, height: int = 24) -> list[str]:
    """The lines of the terminal."""
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    table = FleetTable(console)
    driver: Any = SimpleNamespace(fleet=fleet)
    table(driver)
    plain = Console(file=io.StringIO(), width=width, color_system=None)
    plain.print(table.live.renderable)
    table.close()
    return [line.rstrip() for line in plain.file.getvalue().splitlines()]  # type: ignore[attr-defined]


@pytest.fixture
def fleet() -> Fleet:
    fleet = fleet_of(*(f"quantization-accuracy-lstm-hybrid-{number}" for number in range(40)))
    fleet.jobs[7].status, fleet.jobs[7].cells = "running", 12
    fleet.jobs[7].attempts = [Attempt("a-node-with-a-long-name.of.a.cluster-4f3a2b", "2026-11-18")]
    for job in fleet.jobs:
        job.reason = REASON if job.status == "waiting" else ""
    return fleet


@pytest.mark.parametrize("width", [80, 100, 200])
def test_lines_fit_and_each_column_is_there(fleet: Fleet, width: int) -> None:
    lines = shown(fleet, width)
    assert all(len(line) <= width for line in lines)
    assert lines[0].split() == ["job", "machine", "status", "cells", "what", "it", "waits", "for"]
    assert "running" in lines[1]
    assert " 12" in lines[1]
    assert "in SLURM's queue" in lines[2]
    assert lines[-1].startswith("0 of 40 jobs")


def test_a_low_terminal_shows_fewer_jobs(fleet: Fleet) -> None:
    lines = shown(fleet, 80, height=12)
    assert len(lines) <= 12
    assert lines[-2] == "and 32 more"
