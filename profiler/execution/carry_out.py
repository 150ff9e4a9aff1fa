"""A run from its start to its views on disk: one road for the command line and for Python."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from rich.console import Console

from profiler.errors import StorageError
from profiler.execution.display import Display, make_display
from profiler.execution.run import Execution
from profiler.execution.workers import Workers
from profiler.report.write import write_views
from profiler.results import Results, read_results


@dataclass(frozen=True)
class Outcome:
    """What a run left behind."""

    folder: Path
    results: Results
    interrupted: bool
    problem: StorageError | None  # why views could not be written; the results are whole all the same


def carry_out(make: Callable[[Display], Execution], quiet: bool, signals: bool) -> Outcome:
    """Measure, then write recipe and views. `signals`: Ctrl-C and SIGTERM end the run in order, as a program wants."""
    display = make_display(quiet, Console(stderr=True))
    try:
        execution = make(display)
        interrupted = False
        try:
            with _stopping(execution.workers) if signals else _nothing():
                results = execution.execute()
        except KeyboardInterrupt:
            interrupted, results = True, read_results(execution.folder)
    finally:
        display.close()
    problem = None
    try:
        (execution.folder / "recipe.yaml").write_text(execution.loaded.text, encoding="utf-8")
        write_views(results, execution.folder)
    except (OSError, StorageError) as error:
        problem = StorageError(f"The results are whole, but their views could not be written: {error}")
    return Outcome(execution.folder, results, interrupted, problem)


@contextmanager
def _stopping(workers: Workers) -> Iterator[None]:
    """First Ctrl-C (or SIGTERM): end in order. Second: end at once, leaving no worker behind."""
    seen = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal seen
        if seen:
            workers.kill_now()
            os._exit(130)
        seen = True
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    yield


@contextmanager
def _nothing() -> Iterator[None]:
    yield
