"""The int8 engine of torch: the library whose kernels run quantised layers."""

from __future__ import annotations

from profiler.errors import NotSupported


def use_engine(wanted: str | None) -> str:
    """Set the engine of this process, and so of its forks, and give its name; without a wish torch's own choice stays.

    Weights are packed in the layout of the engine that is set, so this comes before any conversion.
    """
    import torch

    quantized = torch.backends.quantized
    there = [name for name in quantized.supported_engines if name != "none"]
    if wanted is None:
        wanted = quantized.engine
        if wanted not in there:
            raise NotSupported("this build of torch has no engine for int8 on this machine")
    elif wanted not in there:
        raise NotSupported(f"the engine {wanted} is not there: torch has {', '.join(sorted(there)) or 'none'} here")
    quantized.engine = wanted
    return str(wanted)
