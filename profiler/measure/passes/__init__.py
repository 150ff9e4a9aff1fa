"""The passes, one file each, in the order in which they run.

The order keeps instruments from disturbing one another: time comes first, with nothing switched on; then memory; then
what watches the calls, up to the trace, whose profiler would raise both.
"""

from __future__ import annotations

from typing import Any

from profiler.measure.passes.base import Absent, Pass, Turns, Work
from profiler.measure.passes.breakdown import BreakdownPass
from profiler.measure.passes.energy import EnergyPass
from profiler.measure.passes.memory import MemoryPass
from profiler.measure.passes.operations import OperationsPass
from profiler.measure.passes.time import TimePass
from profiler.measure.passes.trace import TracePass

__all__ = ["PASSES", "Absent", "Pass", "Turns", "Work"]

PASSES: dict[str, Pass[Any, Any]] = {
    each.name: each for each in (TimePass(), MemoryPass(), EnergyPass(), OperationsPass(), BreakdownPass(), TracePass())
}
