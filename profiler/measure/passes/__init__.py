"""The passes, one file each, in the order in which they run.

The order keeps instruments from disturbing one another: time comes first, with nothing switched on; then memory; then
what watches the calls, up to the trace, whose profiler would raise both.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from profiler.measure.passes.base import Absent, Pass, Work

__all__ = ["PASSES", "Absent", "Pass", "Work"]

ORDER = ("time", "memory", "decoding", "energy", "operations", "breakdown", "trace")
PASSES: dict[str, Pass[Any, Any]] = {name: import_module(f"{__name__}.{name}").PASS for name in ORDER}
