"""How attention is computed: by torch's fused kernels, by the same function without them, or step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from profiler.errors import NotSupported
from profiler.processes import TrialFailed, run_all, trial
from profiler.variants.layers import all_modules
from profiler.variants.step import Step

if TYPE_CHECKING:
    from profiler.models.model import Model


def set_attention(model: Model, inputs: list[Any], wanted: str) -> Step:
    """Set it in this process, and so in its forks, and prove it by counting calls."""
    import torch

    before = _fused_calls(model, inputs)
    chosen = [module for module in all_modules(model) if _can_choose(module)]
    for module in chosen:
        module.set_attn_implementation("eager" if wanted == "eager" else "sdpa")
    if wanted == "math":
        torch.backends.cuda.enable_flash_sdp(False)
        torch.backends.cuda.enable_mem_efficient_sdp(False)
        torch.backends.cuda.enable_cudnn_sdp(False)
        torch.backends.cuda.enable_math_sdp(True)
    after = _fused_calls(model, inputs)
    if wanted == "eager" and (after or not before):
        raise NotSupported(
            "the model's library has no attention to choose from"
            if after
            else "the model never calls torch's scaled_dot_product_attention: it is eager as it is"
        )
    if wanted != "eager" and not after:
        raise NotSupported("the model never calls torch's scaled_dot_product_attention: its attention is its own")
    notes = [f"Calls of scaled_dot_product_attention in the sample run: {before} before, {after} after."]
    if wanted == "sdpa" and before == after:
        notes.append("sdpa is what the model uses by itself.")
    return Step(f"attention {wanted}", notes=notes)


def _can_choose(module: Any) -> bool:
    return hasattr(module, "set_attn_implementation") and hasattr(module, "config")


def _fused_calls(model: Model, inputs: list[Any]) -> int:
    """How often the model calls scaled_dot_product_attention."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Count(TorchFunctionMode):  # type: ignore[misc]
        calls = 0

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.nn.functional.scaled_dot_product_attention:
                self.calls += 1
            return func(*args, **(kwargs or {}))

    def work() -> int:
        with Count() as count:
            run_all(model, inputs)
        return int(count.calls)

    try:
        return trial(model, work)
    except TrialFailed as error:
        raise NotSupported(f"the model does not run with this attention: {error}") from error
