"""The operations pass: multiply-accumulates of a call, counted under measure/operations/."""

from __future__ import annotations

from dataclasses import asdict

from profiler.measure.passes.base import Absent, Pass, Work
from profiler.recipe.schema import Recipe
from profiler.results.types import Operations


class OperationsPass(Pass[Operations, Operations]):
    name = "operations"
    result = Operations
    field = "operations"

    def wanted(self, recipe: Recipe) -> bool:
        return recipe.measure.operations

    def measure(self, work: Work) -> Operations | Absent:
        from profiler.measure.operations import CONVENTION, count_operations

        try:
            counted = count_operations(
                work.run, work.inputs[0], work.model.components, work.seconds_of_audio, work.step
            )
        except (MemoryError, KeyboardInterrupt):
            raise
        except Exception as error:  # whatever a model does that the counter cannot follow; the other passes go on
            return Absent(f"the model does not run under the counter ({type(error).__name__}: {error})")
        return Operations(**asdict(counted), flops=counted.flops, convention=CONVENTION)
