"""Order of weights in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from profiler.errors import NotSupported
from profiler.processes import TrialFailed, run_all, trial
from profiler.variants.layers import all_modules
from profiler.variants.step import Step

if TYPE_CHECKING:
    from profiler.models.model import Model


def to_channels_last(model: Model, inputs: list[Any]) -> Step:
    """Two-dimensional convolutions with the channels of a weight side by side; activations follow."""
    import torch

    kinds = (torch.nn.Conv2d, torch.nn.ConvTranspose2d)
    found = [module for module in all_modules(model) if isinstance(module, kinds) and "weight" in module._parameters]
    # With one channel, or a kernel of one, both orders are the same.
    changed = [conv for conv in found if not conv.weight.is_contiguous(memory_format=torch.channels_last)]
    if not changed:
        raise NotSupported("the model has no two-dimensional convolution that channels_last would change")
    for conv in changed:
        conv.weight.data = conv.weight.data.to(memory_format=torch.channels_last)
    try:
        trial(model, lambda: run_all(model, inputs))
    except TrialFailed as error:
        raise NotSupported(f"the model does not run with channels_last: {error}") from error
    return Step("channels_last", changed, sum(conv.weight.numel() for conv in changed))
