"""The breakdown pass: time, memory and operations by label, module and operator, measured in measure/breakdown/."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from profiler.measure.passes.base import Absent, Pass, Work
from profiler.results.types import Breakdown

if TYPE_CHECKING:
    from profiler.measure.operations.count import Count
    from profiler.recipe.schema import Recipe
    from profiler.results.types import OperatorPart

BARE_CALLS = 2  # which are labelled and profiled as often as the trace has steps


class BreakdownPass(Pass[Breakdown, Breakdown]):
    name = "breakdown"
    result = Breakdown
    field = "breakdown"

    def wanted(self, recipe: Recipe) -> bool:
        return recipe.trace.breakdown

    def calls(self, recipe: Recipe) -> int:
        steps = recipe.trace.schedule
        profiled = steps.active * steps.repeat
        return BARE_CALLS + max(BARE_CALLS, profiled) + profiled

    def fewest(self, recipe: Recipe) -> int:
        return 2 * recipe.trace.schedule.active * recipe.trace.schedule.repeat

    def measure(self, work: Work) -> Breakdown | Absent:
        from profiler.measure.breakdown import COMPILED, RECORDED, find_parts, measure_breakdown

        parts = find_parts(work.model, work.trace.labels)
        if parts is None:
            return Absent(COMPILED if work.model.graph is None else RECORDED)
        steps = work.trace.schedule.active * work.trace.schedule.repeat
        runtime = work.model.runtime
        count: bool | Count = work.counted and runtime is None
        if count:
            with contextlib.suppress(Exception):  # the operations pass said why
                count = work.count
        own: list[OperatorPart] = []
        if runtime is not None:
            from profiler.runtimes.profile import operators

            own = operators(runtime, work.run, work.inputs[0], work.seconds_of_audio)
        folder, turns = work.folder / work.place, not work.long
        found = measure_breakdown(work.labelled(parts), work.seconds_of_audio, folder, count, steps, turns, own)
        if runtime is not None:
            found.notes.append(runtime.about_operators)
        found.file = f"{work.place}/{found.file}"
        return found


PASS = BreakdownPass()
