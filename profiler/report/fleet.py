"""A fleet as tables: its jobs, and its machines with what is suspicious about them. From fleet.json alone."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable

from profiler.execution.fleet.job import Fleet, Job, Machine
from profiler.report.table import Table
from profiler.units import many, significant

SLOW = 0.9  # of the median speed of machines of its kind
MOST_NAMED = 5  # machines in a note


def job_table(fleet: Fleet) -> Table:
    rows = [[job.id, job.machine, job.status, str(job.cells or ""), job.run] for job in fleet.jobs]
    remarks = [f"- {job.id}: {job.reason}" for job in fleet.jobs if job.reason]
    remarks += [f"- {job.id}, {place}: {how}" for job in fleet.jobs for place, how in _detours(job)]
    return Table(
        f"Jobs of the fleet {fleet.id} on {fleet.engine}", ["job", "machine", "status", "cells", "run"], rows, remarks
    )


def _detours(job: Job) -> list[tuple[str, str]]:
    """Attempts that did not end it, and what of the engine's settings was taken back."""
    found = [(attempt.machine, attempt.end) for attempt in job.attempts[:-1]]
    for attempt in job.attempts[-1:]:
        found += [(attempt.machine, f"{name}: {what}") for name, what in attempt.undone.items()]
    return found


def machine_table(fleet: Fleet) -> Table:
    rows = []
    for machine in fleet.machines.values():
        speed = significant(machine.gflops, 3) if machine.gflops else "-"
        floor = f"{100 * machine.floor:.1f} %" if machine.floor else "-"
        torch = machine.versions.get("torch", "-")
        load = f"{machine.load:.1f}" if machine.described else "-"
        commit = f"{machine.commit[:8]}{'+' * machine.commit.endswith('+')}" or "-"
        rows.append([machine.name, machine.kind or "-", load, speed, floor, torch, commit])
    head = ["machine", "kind", "load", "GFLOP/s", "noise floor", "torch", "commit"]
    return Table("Machines", head, rows, [f"- {warning}" for warning in warnings(fleet)])


def differences(here: Machine | None, machines: Iterable[Machine]) -> list[str]:
    """What is not the same on the machines as here, and keeps nodes out or busy; what several have, once."""
    found: dict[str, list[str]] = defaultdict(list)
    for machine in machines:
        if machine.problem:
            found[f"left out: {machine.problem}"].append(machine.name)
        elif not machine.described:
            found["used by others: versions are compared when a job begins there"].append(machine.name)
        elif here is not None and (differing := list(_differing(here, machine))):
            found[f"other versions: {', '.join(differing)}"].append(machine.name)
        if machine.busy and not machine.problem:
            found[f"busy before anything of ours ran: load {machine.load:.1f} of {machine.cores} cores"].append(
                machine.name
            )
    return [f"{_several(names)}: {what}" for what, names in found.items()]


def _differing(here: Machine, machine: Machine) -> Iterable[str]:
    for name in sorted({*here.versions, *machine.versions}):
        theirs, ours = machine.versions.get(name, "not there"), here.versions.get(name, "not")
        if theirs != ours:
            yield f"{name} {theirs} ({ours} here)"
    if machine.commit != here.commit:
        yield f"the profiler's commit {machine.commit[:9]} ({here.commit[:9]} here)"


def _several(names: list[str]) -> str:
    """'n1, n2, n3 and 97 more'."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def warnings(fleet: Fleet) -> list[str]:
    """What makes figures of the machines of a fleet hard to compare."""
    found = differences(fleet.here, fleet.machines.values())
    by_kind: dict[str, list[Machine]] = defaultdict(list)
    for machine in fleet.machines.values():
        if machine.gflops and not machine.problem:
            by_kind[machine.kind].append(machine)
    for machines in by_kind.values():
        usual = statistics.median(machine.gflops or 0.0 for machine in machines)
        found += [
            f"{each.name}: slow: its reference workload gave {significant(each.gflops, 3)} GFLOP/s, machines of its "
            f"kind {significant(usual, 3)}"
            for each in machines
            if each.gflops and each.gflops < SLOW * usual
        ]
    return found


def summary(fleet: Fleet) -> str:
    """One sentence."""
    counts = {status: sum(job.status == status for job in fleet.jobs) for status in ("done", "failed", "interrupted")}
    parts = [f"{count} {status}" for status, count in counts.items() if count]
    machines = {job.machine for job in fleet.jobs if job.machine}
    cells = sum(job.cells for job in fleet.jobs)
    jobs = f"{many(len(fleet.jobs), 'job')} on {many(len(machines), 'machine')}"
    return f"{jobs}: {', '.join(parts)}; {many(cells, 'cell')}."
