"""Static int8, one layer at a time: the engine's kernels give what the same integers give in exact arithmetic."""

from __future__ import annotations

import pytest
import torch

from profiler.variants.quantize import observer_of, static_layer


@pytest.mark.parametrize("engine", sorted(set(torch.backends.quantized.supported_engines) - {"none"}))
def test_no_product_overflows(engine: str) -> None:
    torch.backends.quantized.engine = engine
    torch.manual_seed(0)
    layer = torch.nn.Linear(160, 64)
    value = torch.randn(50, 160)
    before, after = (observed(engine, tensor) for tensor in (value, layer(value)))
    quantise, linear, _ = made = static_layer(layer, before, after, engine)

    weight, bias = linear.weight().dequantize(), linear.bias()
    exact = torch.nn.functional.linear(quantise(value).dequantize(), weight, bias)

    step = after[0]
    inside = (exact - exact.mean()).abs() < 3 * exact.std()  # what lies farther out may be cut off at the largest int8
    assert inside.float().mean() > 0.9
    assert ((made(value) - exact).abs()[inside].max() / step).item() < 1.5


def observed(engine: str, value: torch.Tensor) -> tuple[float, int]:
    observer = observer_of(engine)()
    observer(value)
    scale, zero_point = observer.calculate_qparams()
    return float(scale), int(zero_point)
