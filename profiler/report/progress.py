"""What a person sees while a run goes on: a live line in a terminal, plain lines elsewhere, nothing with --quiet.

The display only moves when something happened: it must not take CPU time from the cell. While a model is being loaded
nothing is measured, and a spinner shows that the program is at work.
"""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Column

from profiler.execution import channel
from profiler.execution.display import Display
from profiler.metrics import DATASET_RTF, LATENCY, PARAMETERS, PEAK, RTF
from profiler.plan import Cell
from profiler.report.dataset import wer_text
from profiler.report.serving import load_text, verdict_text
from profiler.report.terminal import RED
from profiler.results.statistics import INTERVAL_NEEDS
from profiler.results.types import Accuracy, CellResult, DatasetResult, ModelResult, ServingResult, ServingStep
from profiler.units import clock_text, many

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
SPINNER_SECONDS = 0.1
LEFT_WIDTH = 10  # columns, so that the text behind it stays in its place
FAILED = "FAILED"  # stands out without colours, too
ROUND_LINE_SECONDS = 10.0  # rounds of small models take no time: no line for each


class Lines(Display):
    """One line for each thing that happened."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.started = time.monotonic()
        self.steps = self.done = 0
        self.printed_at = 0.0
        self.left: float | None = None
        self.failed_variants: set[str] = set()  # which said so

    def _print(self, text: str, style: str | None = None) -> None:
        self.console.print(text, style=style, highlight=False, markup=False, soft_wrap=not self.console.is_terminal)
        self.printed_at = time.monotonic()

    def begin(self, steps: int) -> None:
        self.steps = steps

    def model(self, model: ModelResult) -> None:
        total = PARAMETERS.text(model.parameters.total)
        self._print(f"{model.variant}: {model.source} ({model.type}), {total} parameters, {model.weights} weights")

    def note(self, text: str) -> None:
        self._print(f"note: {text}", "yellow")

    def cell(self, cell: Cell, number: int, left: float | None) -> None:
        self.left = left

    def cell_done(self, result: CellResult, number: int, left: float | None = None, to_come: int | None = None) -> None:
        """Each cell once, when it has its first figure; and when it fails."""
        self.done += 1
        if to_come is not None:
            self.left = left
            if self.done <= self.steps:  # rounds that were not planned have no number
                self.steps = min(self.steps, self.done + to_come)
        failed = result.status == "failed"
        if result.variant in self.failed_variants and failed:
            return
        if number == 0 or failed:
            self._print(f"{self._place()} {describe(result, number)}", RED if failed else None)

    def variant_failed(self, variant: str, cells: int, reason: str) -> None:
        if variant not in self.failed_variants:
            self.failed_variants.add(variant)
            self._print(f"{self._place()} {variant}: {FAILED}, {many(cells, 'cell')}: {reason}", RED)

    def round_done(self, number: int, wanted: int, progress: str) -> None:
        if number + 1 >= INTERVAL_NEEDS and time.monotonic() - self.printed_at > ROUND_LINE_SECONDS:
            of = f" of {wanted}" if number < wanted else ""
            self._print(f"{self._place()} round {number + 1}{of}: {progress}")

    def _place(self) -> str:
        left = f", about {clock_text(self.left)} left" if self.left else ""
        steps = f"{self.done}/{self.steps}, " if self.done <= self.steps and self.steps else ""
        return f"[{steps}{clock_text(time.monotonic() - self.started)}{left}]"

    def dataset_done(self, result: DatasetResult, number: int, accuracy: Accuracy | None = None) -> None:
        whole = result.status == "ok" and not result.failed
        scored = f", {describe_accuracy(accuracy)}" if accuracy else ""
        self._print(f"{describe_dataset(result)}{scored} (round {number + 1})", None if whole else RED)

    def serving_step(self, result: ServingResult, step: ServingStep) -> None:
        failed = step.status == "failed"
        self._print(f"{self._place()} {result.variant}, {describe_load(step)}", RED if failed else None)


class Live(Lines):
    """A progress bar below the lines: cell, calls so far, figure so far, time left."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        text = TextColumn("{task.description}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"))
        left = TextColumn("{task.fields[left]}", table_column=Column(min_width=LEFT_WIDTH, no_wrap=True))
        columns = (BarColumn(bar_width=24), MofNCompleteColumn(), left, text)
        self.bar = Progress(*columns, console=console, auto_refresh=False, transient=True, expand=True)
        self.task = self.bar.add_task("starting", total=None, left="")
        self.current = ""
        self.loaded = threading.Event()
        self.bar.start()

    def loading(self, source: str) -> None:
        """Moves by itself, for nothing is measured meanwhile."""
        self._stop_waiting()
        self.loaded = threading.Event()
        threading.Thread(target=self._wait, args=(source, self.loaded), daemon=True).start()

    def _wait(self, source: str, loaded: threading.Event) -> None:
        start, frames = time.monotonic(), itertools.cycle(SPINNER)
        while not loaded.is_set():
            text = f"{next(frames)} loading {source}, {clock_text(time.monotonic() - start)}"
            self.bar.update(self.task, description=text, refresh=True)
            loaded.wait(SPINNER_SECONDS)

    def _stop_waiting(self) -> None:
        self.loaded.set()

    def _print(self, text: str, style: str | None = None) -> None:
        self._stop_waiting()
        super()._print(text, style)

    def begin(self, steps: int) -> None:
        super().begin(steps)
        self._show("", total=steps)

    def status(self, text: str) -> None:
        self._show(f"{self.current}  {text}".strip())

    def cell(self, cell: Cell, number: int, left: float | None) -> None:
        super().cell(cell, number, left)
        self.current = f"{cell.variant} {cell.place}, round {number + 1}"
        self._show(self.current)

    def event(self, event: channel.Event) -> None:
        if isinstance(event, channel.BeginPass):
            self.status("warming up" if event.name == "time" else event.name)
        elif isinstance(event, channel.Progress) and event.calls:
            self.status(f"{many(event.calls, 'call')}, {LATENCY.text(event.latency)} per call")

    def cell_done(self, result: CellResult, number: int, left: float | None = None, to_come: int | None = None) -> None:
        super().cell_done(result, number, left, to_come)
        self.current = ""
        self.bar.update(self.task, completed=self.done, total=max(self.done, self.steps), refresh=False)
        self._show("")

    def close(self) -> None:
        self._stop_waiting()
        self.bar.stop()

    def _show(self, text: str, **changes: Any) -> None:
        self._stop_waiting()
        left = f"{clock_text(self.left)} left" if self.left else ""
        self.bar.update(self.task, description=text, left=left, **changes)
        self.bar.refresh()


def describe(result: CellResult, number: int) -> str:
    """'float32 1 s x 4: RTF 0.107, 428 ms per call (10 calls), 950 MB'."""
    place = f"{result.variant} {result.place}"
    if result.status != "ok":
        return f"{place}: {FAILED if result.status == 'failed' else result.status}, {result.reason}"
    assert result.latency_s is not None
    parts = [
        f"{RTF.short} {RTF.cell_text(result)}",
        f"{LATENCY.cell_text(result)} per call ({many(result.latency_s.n, 'call')})",
    ]
    if number == 0 and result.peak_memory_bytes is not None:
        parts.append(PEAK.cell_text(result))
    return f"{place}: {', '.join(parts)}"


def describe_dataset(result: DatasetResult) -> str:
    """'float32 data set dev.csv: RTF 0.107, 34 batches, 28 % padding'."""
    place = f"{result.variant} data set {result.dataset}"
    if result.rtf is None or result.share_of_padding is None:
        return f"{place}: {result.status}, {result.reason}"
    parts = [
        f"{DATASET_RTF.short} {DATASET_RTF.text(result.rtf)}",
        f"{result.batches} batches",
        f"{result.share_of_padding:.0%} padding",
    ]
    for what, batches in (("failed", result.failed), ("skipped", result.skipped)):
        if batches:
            parts.append(f"{len(batches)} {what}, such as batch {batches[0].batch}: {batches[0].reason}")
    return f"{place}: {', '.join(parts)}"


def describe_load(step: ServingStep) -> str:
    """'12.5 requests/s: median 31 ms, 662 sent, 1 late: holds'"""
    took = f"median {LATENCY.text(step.latency_s.median)}, " if step.latency_s else ""
    why = f" ({step.reason})" if step.reason else ""
    return f"{load_text(step)}: {took}{step.requests.sent} sent, {step.requests.late} late: {verdict_text(step)}{why}"


def describe_accuracy(accuracy: Accuracy) -> str:
    """'WER 4.21 [3.05, 5.40] %', or why there is none."""
    return f"WER {wer_text(accuracy)} %" if accuracy.wer else f"no error rate: {accuracy.reason}"


def make_display(quiet: bool, console: Console) -> Display:
    if quiet:
        return Display()
    return Live(console) if console.is_terminal else Lines(console)
