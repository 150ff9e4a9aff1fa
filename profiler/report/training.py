"""Training steps in tables: time and memory by phase, speed, and what was trained how. Needs no torch."""

from __future__ import annotations

from profiler.metrics import LATENCY, METRICS, PEAK, RTFX
from profiler.report.table import PLACE, Table
from profiler.results.types import PHASES, CellResult, Loss, ModelResult, PeakMemory, Phase, Results, TrainingSetup
from profiler.units import significant

FRAMES = METRICS["frames"]
PHASE = (
    f"Of each phase the median in {LATENCY.shown.name} and its share of the mean step. Frames: those that the encoder "
    "gives the loss, padding not counted."
)
MEMORY = (
    "Tensors: the most that a step held in the phase at one time, above the weights and the optimizer's state; what an "
    "earlier phase left for a later one is in it. Process: the kernel's high-water mark in the phase."
)


def training_tables(results: Results, name: str) -> list[Table]:
    """Time and memory by phase, one row per cell, and the phases over a data set; nothing in inference."""
    trained = [cell for cell in results.cells if cell.training]
    tables = []
    several = len(results.variants) > 1
    if trained:
        times = _time_table(f"Training step by phase - {name}", trained, several)
        times.remarks = [PHASE, *_how(results.models)]
        tables.append(times)
        if any(cell.training and cell.training.peak_memory_bytes for cell in trained):
            tables.append(_memory_table(f"Peak memory by phase, in {PEAK.shown.name} - {name}", trained, several))
    over = _dataset_table(f"Training over the data set - {name}", results)
    return tables + ([over] if over else [])


def _place(cell: CellResult, several: bool) -> list[str]:
    return [cell.variant, cell.place] if several else [cell.place]


def _time_table(title: str, cells: list[CellResult], several: bool) -> Table:
    """The latency of a call is that of a step here."""
    names = phase_names(cells)
    header = ["variant"] * several + [PLACE, f"step, {LATENCY.shown.name}", *names, RTFX.head, FRAMES.head]
    header.append("loss, first to last")
    rows = []
    for cell in cells:
        found = cell.training
        assert found is not None
        phases = found.phases or {}
        row = [*_place(cell, several), LATENCY.cell_number(cell)]
        row += [_phase(phases[name]) if name in phases else "n/a" for name in names]
        row += [RTFX.number(RTFX.in_cell(cell)), FRAMES.number(FRAMES.in_cell(cell))]
        rows.append([*row, _loss(found.loss)])
    return Table(title, header, rows)


def _memory_table(title: str, cells: list[CellResult], several: bool) -> Table:
    device = any(peaks.device is not None for cell in cells for peaks in _peaks(cell).values())
    kinds = ["tensors"] * (not device) + ["process"] + ["device"] * device
    header = ["variant"] * several + [PLACE, *(f"{phase}, {kind}" for kind in kinds for phase in PHASES)]
    rows = []
    for cell in cells:
        peaks = _peaks(cell)
        row = [PEAK.number(getattr(peaks.get(phase), kind, None)) for kind in kinds for phase in PHASES]
        rows.append([*_place(cell, several), *row])
    table = Table(title, header, rows, [MEMORY])
    states = {cell.variant: cell.training.state_bytes if cell.training else {} for cell in cells}
    for variant, state in states.items():
        if state:
            kept = ", ".join(f"{name} {PEAK.text(count)}" for name, count in state.items())
            table.remarks.append(f"- {variant}: what training holds besides: {kept}.")
    return table


def _peaks(cell: CellResult) -> dict[str, PeakMemory]:
    return (cell.training.peak_memory_bytes if cell.training else None) or {}


def _dataset_table(title: str, results: Results) -> Table | None:
    found = [(each.variant, each.training) for each in results.datasets if each.training]
    if not found:
        return None
    header = ["variant", RTFX.head, FRAMES.head, "tokens per s", "tokens", *PHASES]
    rows = []
    for variant, training in found:
        speeds = [training.seconds_of_audio_per_second, training.frames_per_second, training.tokens_per_second]
        shares = [f"{training.phases[name].share:.1%}" if training.phases else "n/a" for name in PHASES]
        rows.append([variant, *map(RTFX.number, speeds), f"{training.tokens:,}", *shares])
    return Table(
        title, header, rows, ["Speeds are of real audio and targets, padding not counted; phases: of all time."]
    )


def _how(models: list[ModelResult]) -> list[str]:
    """One line for each distinct way of training."""
    ways: dict[str, list[str]] = {}
    for model in models:
        if model.training:
            ways.setdefault(_sentence(model.training), []).append(model.variant)
    several = len(models) > 1
    return [f"- {', '.join(variants)}: {way}" if several else f"- {way}" for way, variants in ways.items()]


def _sentence(way: TrainingSetup) -> str:
    clip = f", gradients clipped to norm {way.clip_norm:g}" if way.clip_norm is not None else ""
    return (
        f"Loss: {way.loss} ({way.loss_library}). Optimizer: {way.optimizer}, learning rate "
        f"{way.learning_rate:g}{clip}; {way.trained_parameters:,} parameters are trained, in {way.precision}."
    )


def phase_names(cells: list[CellResult]) -> list[str]:
    """Of a step of the profiler's own; a loop of one's own has others."""
    found = [name for cell in cells for name in (cell.training.phases if cell.training else None) or PHASES]
    return list(dict.fromkeys(found))


def _phase(phase: Phase) -> str:
    return f"{LATENCY.number(phase.median_s)} ({phase.share:.0%})"


def _loss(loss: Loss | None) -> str:
    """Of the first step and of the last one, in the first round."""
    if loss is None:
        return "n/a"
    first, last = ("not finite" if value is None else significant(value, 3) for value in (loss.first, loss.last))
    return f"{first} to {last}"
