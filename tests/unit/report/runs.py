"""Results that have everything a report can show, made by hand: no model is run."""

from __future__ import annotations

from typing import Any

from profiler.measure.energy.sensor import energy_of
from profiler.results.types import Breakdown, CellResult, LabelOverhead, ModelResult, Operations, Part, Results
from tests.unit.report.test_tables import ok, results

LABELS = (("front end", 0.3), ("encoder", 0.6), ("(rest)", 0.1))


def full(*variants: str, weights: str = "random", source: str = "a/b") -> Results:
    """Lengths 1, 2, 5 s by batches 1, 4 for each variant; every variant takes half the time of the one before."""
    made = results(weights=weights)
    here = {"host": "a-host", "memory_bytes": 8_000_000_000, "device": "cpu", "python": "3.11.7"}
    made.environment = made.environment.model_copy(update=here)
    made.run.resolved = {
        "measure": {"rounds": 10, "warmup": 2, "min_calls": 1, "max_calls": 5, "width": 0.03, "budget": 10.0}
    }
    names = variants or ("float32",)
    made.models = [_model(name, number, weights, source) for number, name in enumerate(names)]
    made.cells = [
        _cell(name, number, seconds, batch)
        for number, name in enumerate(names)
        for seconds in (1, 2, 5)
        for batch in (1, 4)
    ]
    return made


def _model(variant: str, number: int, weights: str, source: str) -> ModelResult:
    data: dict[str, Any] = {"variant": variant, "source": source, "type": "AutoModel", "weights": weights}
    return ModelResult.model_validate(
        data
        | {
            "parameters": {"total": 1_000_000, "components": {"encoder": 1_000_000}},
            "size_bytes": {"total": 4_000_000 // 2**number, "components": {"encoder": 4_000_000 // 2**number}},
        }
    )


def _cell(variant: str, number: int, seconds: float, batch: int) -> CellResult:
    cell = ok(seconds, batch, 0.1 / 2**number, 0.02, memory=10**9 + int(10**7 * batch * seconds))
    assert cell.latency_s is not None
    whole = cell.latency_s.median
    rows = [
        {"name": name, "phase": "forward", "calls": 1.0, "total_s": share * whole, "own_s": share * whole}
        | {"share": share, "own_share": share, "s_per_second_of_audio": share * whole, "memory_bytes": 1000, "macs": 10}
        for name, share in LABELS
    ]
    rows.append(rows[0] | {"name": "(whole call)", "total_s": whole, "share": 1.0})
    cell.variant = variant
    cell.operations = Operations(
        macs=10**9,
        per_second=10**9 / seconds,
        intensity=10.0 + seconds,
        achieved_gflops=20.0 + batch,
        peak_gflops=100.0,
        peak_gb_per_s=20.0,
        share_of_peak=0.2,
        bound="compute",
        convention="1 MAC = 2 FLOPs.",
    )
    cell.energy_j = energy_of(
        10 * whole,
        whole * 5,
        None,
        mean_power_w=5.0,
        kind="given",
        source="given",
        sensor="meter",
        covers="all",
        above_idle_reason="no idle power",
    )
    cell.breakdown = Breakdown(
        labels=[Part.model_validate(row) for row in rows],
        calls=10,
        profiled_calls=3,
        overhead=LabelOverhead(known=0.01, measured=0.01, hook_s=1e-6, module_calls=5),
        file="x.json",
    )
    return cell
