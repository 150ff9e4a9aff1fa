"""The metrics of a run, one line each: what a figure is called, its unit, where its value stands, how it is written.

Every view takes titles, units and digits from here: tables, CSV and data frames, plots, history, compare, the tab.
`Metric.number` and `Metric.text` write a value, `cell_number` and `cell_text` what stands in the place of a cell. So a
figure has one name, one unit and the same digits wherever it is read. A new metric is a line in one of the groups.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import BaseModel

from profiler.errors import UserError, did_you_mean
from profiler.results.types import Accuracy, CellResult, DatasetResult, Results
from profiler.units import UNITS, Unit

UNSTABLE_MARK = "~"
BELOW_1 = "below 1 is faster than real time"
PHASES = ("forward", "loss", "backward", "optimizer")  # of a training step
Interval = tuple[float, float]


@dataclass(frozen=True)
class Metric:
    """A figure of a cell, or of a variant as a whole."""

    key: str  # as commands and JSON name it
    title: str
    short: str  # in a sentence, and at the head of a column
    unit: str = ""  # of the value in results.json; profiler/units.py says how that is written
    column: str = ""  # in results.csv and data frames; empty: in neither
    of_cell: Callable[[CellResult], Any] | None = None
    of_variant: Callable[[Results, str], Any] | None = None
    ci95: Callable[[CellResult], Interval | None] | None = None
    better: str = "lower"
    time: bool = False  # follows the time of a call, and so the machine's noise
    detail: bool = False  # for the CSV and the table of its pass; compare does not show it
    hint: str = ""  # said in the title of its table

    @property
    def shown(self) -> Unit:
        """The unit that people read, in every view."""
        return UNITS.get(self.unit) or Unit(self.unit)

    @property
    def head(self) -> str:
        """Of a column: 'latency, ms', 'J per s of audio'."""
        return _with_unit(self.short, self.shown.name)

    @property
    def axis(self) -> str:
        """'Latency of one call, ms'."""
        return _with_unit(self.title, self.shown.name)

    @property
    def heading(self) -> str:
        """Of a table whose cells are numbers: 'Latency of one call, in ms'."""
        hint = f" ({self.hint})" if self.hint else ""
        return self.title + hint + (f", in {self.shown.name}" if self.shown.name else "")

    def number(self, value: float | None, half_width: float | None = None, absent: str = "n/a") -> str:
        """For a column whose head has the unit; the digits are those that the 95 % CI supports, at most three."""
        return absent if value is None else self.shown.number(value, half_width)

    def text(self, value: float | None, half_width: float | None = None, absent: str = "n/a") -> str:
        """With the unit."""
        return absent if value is None else self.shown.text(value, half_width)

    def in_cell(self, cell: CellResult | None) -> Any:
        """The figure of a cell; None where it was not measured."""
        return self.of_cell(cell) if self.of_cell and cell is not None else None

    def value(self, results: Results, variant: str, cell: CellResult | None = None) -> Any:
        """Of the variant, or of its cell."""
        return self.of_variant(results, variant) if self.of_variant else self.in_cell(cell)

    def half_width(self, cell: CellResult) -> float | None:
        """Of the 95 % CI, as a share of the figure: that of the latency, which the figure is made from."""
        return cell.latency_s.half_width if self.ci95 and cell.latency_s else None

    def cell_number(self, cell: CellResult) -> str:
        """'330', '330 ~12%' where the figure is unstable, or why there is none: 'skipped'."""
        return self._in_place(cell, self.number)

    def cell_text(self, cell: CellResult) -> str:
        """The same with the unit: '330 ms ~12%'."""
        return self._in_place(cell, self.text)

    def _in_place(self, cell: CellResult, write: Callable[[float, float | None], str]) -> str:
        value, half = self.in_cell(cell), self.half_width(cell)
        if value is None:
            return "n/a" if cell.status == "ok" else cell.status
        if not self.ci95 or cell.verdict != "unstable":
            return write(value, half)
        return f"{write(value, half)} {UNSTABLE_MARK}" + ("" if half is None else f"{half:.0%}")


def _with_unit(name: str, unit: str) -> str:
    return name if not unit or unit in name.split() else f"{name}, {unit}"


def follow(found: Any, *path: str) -> Any:
    """Attributes or keys, one after another; None where one is missing."""
    for name in path:
        found = found.get(name) if isinstance(found, dict) else getattr(found, name, None)
    return found


def of(*path: str) -> Callable[[CellResult], Any]:
    """A figure of a cell, by its place in results.json."""
    return lambda cell: follow(cell, *path)


def detail(key: str, short: str, unit: str, column: str, of_cell: Callable[[CellResult], Any], **more: Any) -> Metric:
    """A metric that only the CSV and the table of its pass show; `short` is all that it is called."""
    more = {"time": unit == "s"} | more
    return Metric(key, short[0].upper() + short[1:], short, unit, column, of_cell, detail=True, **more)


def accuracy_of(results: Results, variant: str) -> Accuracy | None:
    return next((entry for entry in results.accuracy if entry.variant == variant), None)


def _model(part: str) -> Callable[[Results, str], Any]:
    return lambda results, variant: follow(results.model(variant), part, "total")


def _rate(part: str) -> Callable[[Results, str], Any]:
    return lambda results, variant: follow(accuracy_of(results, variant), part, "value")


def dataset_of(results: Results, variant: str) -> DatasetResult | None:
    return next((entry for entry in results.datasets if entry.variant == variant), None)


def _dataset(*path: str) -> Callable[[Results, str], Any]:
    return lambda results, variant: follow(dataset_of(results, variant), *path)


def _rtf_ci95(cell: CellResult) -> Interval | None:
    ends = follow(cell, "latency_s", "ci95")
    if ends is None or not cell.rtf or cell.latency_s is None:
        return None
    audio = cell.latency_s.median / cell.rtf  # seconds of real audio in the batch
    return ends[0] / audio, ends[1] / audio


def _rtfx_ci95(cell: CellResult) -> Interval | None:
    """The ends change places."""
    ends = _rtf_ci95(cell)
    return (1 / ends[1], 1 / ends[0]) if ends and ends[0] > 0 else None


def _cpu_time(cell: CellResult) -> float | None:
    return statistics.median(cell.latency_s.cpu) if cell.latency_s and cell.latency_s.cpu else None


def _rounds(cell: CellResult) -> int | None:
    return len(cell.latency_s.rounds) if cell.latency_s else None


def _padding(cell: CellResult) -> float | None:
    return cell.input.share_of_padding if cell.input.audio is not None else None


def _gflop(cell: CellResult) -> float | None:
    macs = follow(cell, "operations", "macs")
    return None if macs is None else 2 * macs / 1e9


def _chunk_rtf(cell: CellResult) -> float | None:
    return cell.chunks.median / cell.chunks.seconds if cell.chunks else None


def _delay(cell: CellResult) -> float | None:
    """From the first sound of a chunk to its result."""
    chunks = cell.chunks
    return chunks.seconds + chunks.lookahead_s + chunks.median if chunks else None


def _peak(key: str, title: str, short: str, part: str, detail: bool = False) -> Metric:
    of_cell = of("peak_memory_bytes", part)
    return Metric(key, title, short, "bytes", f"peak_memory_{part}_bytes", of_cell, detail=detail)


HIGHER = {"better": "higher", "time": True}
_time = partial(of, "latency_s")
_median, _ci95 = _time("median"), _time("ci95")
RTF = Metric("rtf", "Real-time factor", "RTF", "", "rtf", of("rtf"), ci95=_rtf_ci95, time=True, hint=BELOW_1)
RTFX = Metric("rtfx", "Seconds of audio per second", "RTFx", "", "rtfx", of("rtfx"), None, _rtfx_ci95, "higher", True)
LATENCY = Metric("latency", "Latency of one call", "latency", "s", "latency_median_s", _median, ci95=_ci95, time=True)
DEVICE_RTF = detail("device_rtf", "RTF, time on the device only", "", "", of("device_time_s", "rtf"), time=True)
# Over all timed calls of a cell. None of them is its latency, which is the median of the rounds' medians.
CALLS = (
    detail("mean", "mean of calls", "s", "latency_mean_s", _time("mean")),
    detail("std", "standard deviation of calls", "s", "latency_std_s", _time("std")),
    detail("min", "shortest call", "s", "latency_min_s", _time("min")),
    *(detail(p, f"{p} of calls", "s", f"latency_{p}_s", _time("percentiles", p)) for p in ("p90", "p95", "p99")),
    detail("calls", "timed calls", "count", "calls", _time("n")),
    detail("rounds", "rounds", "count", "rounds", _rounds),
    detail("cpu_time", "CPU time of a call", "s", "cpu_time_median_s", _cpu_time),
    detail("padding", "padding", "share", "padding_fraction", _padding),
)
PEAK = _peak("memory", "Peak memory of the process", "peak memory", "process")
MEMORY = (
    PEAK,
    _peak("tensors", "Peak memory of the call's tensors", "peak of tensors", "tensors"),
    _peak("above_baseline", "Peak memory above baseline", "peak above baseline", "above_baseline", detail=True),
    _peak("device", "Peak memory on the device", "peak on device", "device"),
)
_energy = partial(of, "energy_j")
ENERGY = (
    Metric("energy", "Energy of one call", "energy", "J", "energy_per_call_j", _energy("per_call")),
    detail("energy_above_idle", "J above idle", "J", "energy_per_call_above_idle_j", _energy("per_call_above_idle")),
    detail("energy_per_second", "J per s of audio", "J", "energy_per_audio_second_j", _energy("per_second_of_audio")),
    detail("energy_per_hour", "Wh per h of audio", "Wh", "", _energy("watt_hours_per_hour_of_audio")),
    detail("power", "mean W", "W", "mean_power_w", _energy("mean_power_w")),
    detail("idle_power", "idle W", "W", "", _energy("idle_power_w")),
)
_operations = partial(of, "operations")
OPERATIONS = (
    Metric("macs", "Operations of one call", "GMAC per call", "MAC", "macs", _operations("macs"), detail=True),
    detail("gflop", "GFLOP per call", "GFLOP", "", _gflop),
    detail("macs_per_second", "GMAC per s of audio", "MAC", "macs_per_audio_second", _operations("per_second")),
    detail("achieved", "GFLOP/s", "GFLOP/s", "achieved_gflop_per_s", _operations("achieved_gflops"), **HIGHER),
    detail("of_peak", "of peak", "share", "share_of_peak_fraction", _operations("share_of_peak"), **HIGHER),
)
_chunk = partial(of, "chunks")
CHUNKS = (
    detail("chunk", "chunk", "s", "chunk_s", _chunk("seconds")),
    detail("lookahead", "lookahead", "s", "", _chunk("lookahead_s")),
    detail("chunk_median", "median", "s", "chunk_latency_median_s", _chunk("median")),
    detail("chunk_p90", "p90", "s", "", _chunk("percentiles", "p90")),
    detail("chunk_p99", "p99", "s", "", _chunk("percentiles", "p99")),
    detail("chunk_max", "max", "s", "chunk_latency_max_s", _chunk("max")),
    detail("chunk_rtf", "RTF of a chunk", "", "", _chunk_rtf, time=True),
    detail("chunks_late", "late", "share", "chunks_late_fraction", _chunk("over")),
    detail("chunk_delay", "delay", "s", "", _delay),
)
_training = partial(of, "training")
TRAINING = (
    *(detail(p, p, "s", f"{p}_median_s", _training("phases", p, "median_s")) for p in PHASES),
    detail("frames", "frames per s", "", "frames_per_s", _training("frames_per_second"), **HIGHER),
)
SIZE = Metric("size", "Size of the saved state", "size", "bytes", "size_bytes", None, _model("size_bytes"))
PARAMETERS = Metric("parameters", "Parameters", "parameters", "count", "parameters", None, _model("parameters"))
WER = Metric("wer", "Word error rate", "WER", "fraction", "wer_fraction", None, _rate("wer"))
CER = Metric("cer", "Character error rate", "CER", "fraction", "cer_fraction", None, _rate("cer"))
DATASET_RTF = Metric("dataset_rtf", "RTF over the data set", "RTF", "", "", None, _dataset("rtf"), time=True)
_batch = _dataset("latency_s", "median")
BATCH = Metric("batch", "Median batch of the data set", "median batch", "s", "", None, _batch, detail=True)

METRICS = {
    metric.key: metric
    for metric in (
        *(RTF, RTFX, LATENCY, DEVICE_RTF, *CALLS, *MEMORY, *ENERGY, *OPERATIONS, *CHUNKS, *TRAINING),
        *(SIZE, PARAMETERS, WER, CER, DATASET_RTF, BATCH),
    )
}
# What has a table of its own, seconds by batch sizes, in reading order. ALWAYS: also where every cell failed.
GRIDS = (RTF, DEVICE_RTF, LATENCY, *(metric for metric in MEMORY if not metric.detail))
ALWAYS = (RTF, LATENCY, PEAK)


def grids_of(cells: Iterable[CellResult]) -> list[Metric]:
    """Those that some cell has a figure for."""
    found = list(cells)
    return [metric for metric in GRIDS if metric in ALWAYS or any(metric.in_cell(cell) is not None for cell in found)]


def find_metric(key: str) -> Metric:
    if key not in METRICS:
        raise UserError(f"There is no figure `{key}`.{did_you_mean(key, list(METRICS))}")
    return METRICS[key]


class Change(BaseModel):
    """A metric in one run and in another; null where it was not measured."""

    metric: str
    title: str
    unit: str = ""
    before: float | None = None
    after: float | None = None
    ratio: float | None = None
    before_ci95: tuple[float, float] | None = None
    after_ci95: tuple[float, float] | None = None
    remark: str = ""


def cell_changes(first: CellResult, second: CellResult) -> list[Change]:
    """Of memory and energy of a cell, where one of the two has them."""
    changes = [
        _change(metric, metric.in_cell(first), metric.in_cell(second))
        for metric in METRICS.values()
        if metric.of_cell and not metric.time and not metric.detail
    ]
    sources = [follow(cell, "energy_j", "source") for cell in (first, second)]
    for change in changes:
        if change.metric == "energy" and all(sources) and sources[0] != sources[1]:
            change.remark = f"from {sources[0]} and from {sources[1]}"
    return _measured(changes)


def variant_changes(first: Results, second: Results, variants: tuple[str, str]) -> list[Change]:
    """Of size, parameters, error rates and the real-time factor over a data set, where one of the two has them."""
    sides, changes = ((first, variants[0]), (second, variants[1])), []
    for metric in METRICS.values():
        if metric.of_variant is None or metric.detail:
            continue
        change = _change(metric, *(metric.of_variant(*side) for side in sides))
        if metric in (WER, CER):
            entries = [accuracy_of(*side) for side in sides]
            rates = [getattr(entry, metric.key, None) for entry in entries]
            change.before_ci95, change.after_ci95 = (rate.ci95 if rate else None for rate in rates)
            sets = [entry.dataset if entry else "no data set" for entry in entries]
            change.remark = f"of {sets[0]} and of {sets[1]}" if sets[0] != sets[1] else ""
        changes.append(change)
    return _measured(changes)


def _change(metric: Metric, before: Any, after: Any) -> Change:
    one, two = (float(value) if isinstance(value, (int, float)) else None for value in (before, after))
    ratio = two / one if one and two is not None else None
    return Change(metric=metric.key, title=metric.title, unit=metric.unit, before=one, after=two, ratio=ratio)


def _measured(changes: list[Change]) -> list[Change]:
    return [change for change in changes if change.before is not None or change.after is not None]
