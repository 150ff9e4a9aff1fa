"""A fleet as tables: its jobs, and its machines with what is suspicious about them. From fleet.json alone."""

from __future__ import annotations

import statistics
from collections import defaultdict

from profiler.execution.fleet.job import Fleet, Job, Machine
from profiler.report.table import Table
from profiler.units import many, significant

SLOW = 0.9  # of the median speed of machines of its kind


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
        found += [(attempt.machine, f"{name}: {what}, taken back") for name, what in attempt.undone.items()]
    return found


def machine_table(fleet: Fleet) -> Table:
    rows = []
    for machine in fleet.machines.values():
        speed = significant(machine.gflops, 3) if machine.gflops else "-"
        floor = f"{100 * machine.floor:.1f} %" if machine.floor else "-"
        torch = machine.versions.get("torch", "-")
        rows.append([machine.name, machine.kind, f"{machine.load:.1f}", speed, floor, torch, machine.commit[:8]])
    head = ["machine", "kind", "load", "GFLOP/s", "noise floor", "torch", "commit"]
    return Table("Machines", head, rows, [f"- {warning}" for warning in warnings(fleet)])


def warnings(fleet: Fleet) -> list[str]:
    """What makes figures of the machines of a fleet hard to compare."""
    found = [f"{each.name} is left out: {each.problem}." for each in fleet.machines.values() if each.problem]
    used = [machine for machine in fleet.machines.values() if not machine.problem]
    found += [
        f"{each.name} was busy before the fleet began: load {each.load:.1f} of {each.cores} cores."
        for each in used
        if each.busy
    ]
    by_kind: dict[str, list[Machine]] = defaultdict(list)
    for machine in used:
        if machine.gflops:
            by_kind[machine.kind].append(machine)
    for machines in by_kind.values():
        usual = statistics.median(machine.gflops or 0.0 for machine in machines)
        found += [
            f"{each.name} is slow: its reference workload gave {significant(each.gflops, 3)} GFLOP/s, machines of its "
            f"kind {significant(usual, 3)}."
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
