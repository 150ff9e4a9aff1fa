"""What the machine can do at most, with each number of threads: the best of all that the reference workload gave."""

from __future__ import annotations

from profiler.execution.workers import Workers
from profiler.measure.peak import higher_peak
from profiler.results.types import Environment, Reference

SECONDS = 60.0  # for the reference workload: more is a hang


class Peaks:
    """Peaks of a run, kept in its environment as `references`. A resumed run knows those of the first part."""

    def __init__(self, workers: Workers, environment: Environment) -> None:
        self._workers = workers
        self._found = environment.references

    def of(self, threads: int) -> Reference | None:
        return self._found.get(str(threads))

    def measure(self, variant: str, threads: int) -> Reference | None:
        """What the machine does now, in the variant's process; a disturbance lowers it, so the best is the peak."""
        now = self._workers.reference(variant, SECONDS)
        if now is not None:
            self._found[str(threads)] = higher_peak(self.of(threads), now)
        return now
