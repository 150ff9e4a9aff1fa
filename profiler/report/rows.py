"""Results as flat rows, one a cell: what results.csv has, and what a data frame is made of. Units are in the names."""

from __future__ import annotations

import statistics
from typing import Any

from profiler.comparison.machine import threads_of
from profiler.report.names import recipe_name
from profiler.report.training import PHASES
from profiler.results.types import CellResult, Model, Results

PERCENTILES = ("p50", "p90", "p95", "p99")
MEMORY = ("process", "tensors", "above_baseline", "device")


def cell_rows(results: Results) -> list[dict[str, Any]]:
    """Every cell with the same columns in the same order; what was not measured is None."""
    return [_row(results, cell) for cell in results.cells]


def columns(results: Results) -> list[str]:
    """Their names, also where a run has no cell yet."""
    return list(_row(results, CellResult(variant="", seconds=1, batch_size=1, status="skipped")))


def _row(results: Results, cell: CellResult) -> dict[str, Any]:
    model = results.model(cell.variant)
    return {
        "run": results.run.id,
        "recipe": recipe_name(results),
        **_model(model),
        "variant": cell.variant,
        "device": results.environment.device,
        "threads": threads_of(results, cell.variant),
        "audio_s": cell.seconds,
        "batch_size": cell.batch_size,
        "status": cell.status,
        "reason": cell.reason,
        **_time(cell),
        **_memory(cell),
        **_energy(cell),
        **_operations(cell),
        **_chunks(cell),
        **_training(cell),
        **_accuracy(results, cell.variant),
        "trace": cell.trace,
    }


def _model(model: Model | None) -> dict[str, Any]:
    return {
        "model": model.source if model else None,
        "interface": model.type if model else None,
        "weights": f"{model.weights} weights" if model and model.weights else None,
        "parameters": model.parameters.total if model else None,
        "size_bytes": model.size_bytes.total if model else None,
    }


def _time(cell: CellResult) -> dict[str, Any]:
    latency = cell.latency_s
    audio = cell.rtf and latency and latency.median / cell.rtf  # seconds of real audio in the batch
    ends = (latency.ci95 if latency else None) or (None, None)
    return {
        "rtf": cell.rtf,
        "rtf_ci95_low": ends[0] / audio if audio and ends[0] is not None else None,
        "rtf_ci95_high": ends[1] / audio if audio and ends[1] is not None else None,
        "rtfx": cell.rtfx,
        "latency_median_s": latency.median if latency else None,
        "latency_ci95_low_s": ends[0],
        "latency_ci95_high_s": ends[1],
        "latency_mean_s": latency.mean if latency else None,
        "latency_std_s": latency.std if latency else None,
        "latency_min_s": latency.min if latency else None,
        **{f"latency_{name}_s": latency.percentiles.get(name) if latency else None for name in PERCENTILES},
        "calls": latency.n if latency else None,
        "stopped_by": latency.stopped_by if latency else None,
        "verdict": cell.verdict,
        "verdict_reasons": " ".join(cell.verdict_reasons) or None,
        "ci95_half_width_fraction": latency.half_width if latency else None,
        "rounds": len(latency.rounds) if latency else None,
        "cpu_time_median_s": statistics.median(latency.cpu) if latency and latency.cpu else None,
        "padding_fraction": cell.input.share_of_padding if cell.input.audio is not None else None,
    }


def _memory(cell: CellResult) -> dict[str, Any]:
    memory = cell.peak_memory_bytes
    return {f"peak_memory_{name}_bytes": getattr(memory, name) if memory else None for name in MEMORY}


def _energy(cell: CellResult) -> dict[str, Any]:
    energy = cell.energy_j
    return {
        "energy_per_call_j": energy.per_call if energy else None,
        "energy_per_call_above_idle_j": energy.per_call_above_idle if energy else None,
        "energy_per_audio_second_j": energy.per_second_of_audio if energy else None,
        "mean_power_w": energy.mean_power_w if energy else None,
        "energy_source": energy.source if energy else None,
        "energy_reason": cell.energy_reason,
    }


def _operations(cell: CellResult) -> dict[str, Any]:
    found = cell.operations
    return {
        "macs": found.macs if found else None,
        "macs_per_audio_second": found.per_second if found else None,
        "achieved_gflop_per_s": found.achieved_gflops if found else None,
        "share_of_peak_fraction": found.share_of_peak if found else None,
        "bound_by": found.bound if found else None,
    }


def _chunks(cell: CellResult) -> dict[str, Any]:
    chunks = cell.chunks
    return {
        "chunk_s": chunks.seconds if chunks else None,
        "chunk_latency_median_s": chunks.median if chunks else None,
        "chunk_latency_max_s": chunks.max if chunks else None,
        "chunks_late_fraction": chunks.over if chunks else None,
    }


def _training(cell: CellResult) -> dict[str, Any]:
    training = cell.training
    phases = (training.phases if training else None) or {}
    return {f"{phase}_median_s": phases[phase].median_s if phase in phases else None for phase in PHASES} | {
        "frames_per_s": training.frames_per_second if training else None
    }


def _accuracy(results: Results, variant: str) -> dict[str, Any]:
    """Of the variant over the data set: the same in all its cells."""
    found = next((each for each in results.accuracy if each.variant == variant), None)
    return {
        "wer_fraction": found.wer.value if found and found.wer else None,
        "cer_fraction": found.cer.value if found and found.cer else None,
    }
