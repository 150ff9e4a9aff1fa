"""Cells measured at the same time on several devices. Two names of the CPU take the place of two GPUs: the processes,
the channels and the threads of the parent are real.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler.device import check_device_names
from profiler.errors import ModelError, UserError
from profiler.execution.display import Display
from profiler.execution.lanes import check_equal, divide
from profiler.execution.run import Execution, Options
from profiler.plan import Cell
from profiler.recipe.load import load_recipe
from profiler.report.rows import cell_rows
from profiler.results.store import read_results
from profiler.results.types import CellResult, DeviceFacts, Results
from tests.helpers import program

TWO = "cpu:0,cpu:1"
VARIANTS = "variants: [{name: one}, {name: two, threads: 1}]\n"
QUICK = "measure: {rounds: 2, warmup: 1, max_calls: 2, budget: 0.2, operations: false}\ntrace: {breakdown: false}\n"


class Watching(Display):
    """Counts the cells that are being measured at a time."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.running = self.most = self.done = 0
        self.stop_at = stop_at
        self.notes: list[str] = []

    def cell(self, cell: Cell, number: int, left: float | None) -> None:
        self.running += 1
        self.most = max(self.most, self.running)

    def cell_done(self, result: CellResult, number: int, left: float | None = None, to_come: int | None = None) -> None:
        self.running -= 1
        self.done += 1
        if self.done == self.stop_at:
            raise KeyboardInterrupt

    def note(self, text: str) -> None:
        self.notes.append(text)


def execution(
    folder: Path, display: Display, device: str = TWO, resume: Path | None = None, more: str = ""
) -> Execution:
    recipe = folder / "recipe.yaml"
    if not recipe.exists():
        grid = "  export_logs: false\n"
        program.module_recipe(folder, "Sleeper", "{fixed: 0.03}", "[1, 2, 4]", "[1]", QUICK + more, grid)
    return Execution(load_recipe(recipe, trust=True), Options(folder / "logs", device, 1, resume=resume), display)


@pytest.mark.slow
def test_cells_are_measured_at_the_same_time_and_each_stays_on_its_device(tmp_path: Path) -> None:
    watching = Watching()
    (tmp_path / "set.shapes.tsv").write_text("id\tseconds\na\t1.0\nb\t2.0\n")
    data = "dataset: {source: set.shapes.tsv, batch_size: 2, rounds: 1}\n"
    results = execution(tmp_path, watching, more=VARIANTS + data).execute()
    assert watching.most == 2
    assert results.run.status == "complete"
    assert all(cell.latency_s is not None and len(cell.latency_s.rounds) == 2 for cell in results.cells)
    devices = {(cell.variant, cell.seconds): cell.device for cell in results.cells}
    assert set(devices.values()) == {"cpu:0", "cpu:1"}
    assert all(devices["one", seconds] == devices["two", seconds] for seconds in (1, 2, 4)), "ratios are of one device"
    assert [row["device"] for row in cell_rows(results)] == [cell.device for cell in results.cells]
    (said,) = [note for note in watching.notes if "at the same time" in note]
    assert "2 equal devices (cpu:0, cpu:1)" in said
    assert "The data set is measured on cpu:0 alone: one device gives the figures of all variants." in watching.notes


@pytest.mark.slow
def test_an_interrupted_run_blames_no_cell_and_goes_on_where_each_was(tmp_path: Path) -> None:
    first = execution(tmp_path, Watching(stop_at=4))
    with pytest.raises(KeyboardInterrupt):
        first.execute()
    begun = read_results(first.folder)
    assert begun.run.status == "interrupted"
    assert not begun.failed
    done = execution(tmp_path, Display(), resume=first.folder).execute()
    assert done.run.status == "complete"
    assert _devices(begun).items() <= _devices(done).items()
    with pytest.raises(UserError, match=r"was measured on cpu:1 before, which is not among cpu:0, cpu:2"):
        execution(tmp_path, Display(), "cpu:0,cpu:2", first.folder)


def _devices(results: Results) -> dict[tuple[str, float], str | None]:
    return {(cell.variant, cell.seconds): cell.device for cell in results.cells if cell.device}


def test_the_work_is_divided_evenly() -> None:
    cells = [Cell("a", seconds, 1) for seconds in (1, 2, 5, 8)]
    assert divide(cells, ["x", "y"]) == {(8, 1): "x", (5, 1): "y", (2, 1): "y", (1, 1): "y"}


def test_unequal_devices_are_refused_by_name_and_memory() -> None:
    large, small = (DeviceFacts(place="", name="A100", memory_bytes=size * 10**9) for size in (80, 40))
    check_equal({"cuda:0": large, "cuda:1": large})
    with pytest.raises(ModelError, match=r"these differ: cuda:0 is A100 with 80.* GB, cuda:1 is A100 with 40.* GB"):
        check_equal({"cuda:0": large, "cuda:1": small})


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("cuda:0,cuda:0", "names a device twice"),
        ("cuda:0,xpu:0", "must be of one kind"),
        ("cuda,cuda:1", "each with its number"),
        ("cpu,cuda:1", "must be of one kind"),
        ("cuda:0,", "Unknown device"),
    ],
)
def test_what_devices_may_be_asked_for(names: str, said: str) -> None:
    assert check_device_names("cuda:0,cuda:1") == "cuda:0,cuda:1"
    with pytest.raises(UserError, match=said):
        check_device_names(names)
