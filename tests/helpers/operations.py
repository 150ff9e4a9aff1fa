"""The operations of any call, without a pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from profiler.measure.operations.count import count_call
from profiler.measure.passes.operations import by_component
from profiler.results.types import Operations

if TYPE_CHECKING:
    from profiler.training.step import TrainingStep


def count_operations(
    run: Callable[[Any], Any],
    value: Any,
    components: dict[str, torch.nn.Module],
    seconds_of_audio: float,
    step: TrainingStep | None = None,
) -> Operations:
    """Without data-dependent code the model may live on the meta device: same count, no work."""
    return by_component(count_call(run, value, components, step), components, seconds_of_audio)
