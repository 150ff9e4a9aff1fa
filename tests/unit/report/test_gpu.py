"""The report of a run that was made on a GPU says what the GPU did, from the run's traces.

No GPU is here: a run in the shape of a real one gets traces written by hand, whose sums traces.py draws.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler import api
from profiler.report.tables import build_tables
from profiler.results.store import ResultsFile, read_results
from profiler.results.types import Results
from tests.helpers.synthetic import Made, make
from tests.unit.tensorboard_plugin.traces import CALL, LAUNCHES, STEPS, write


def run_on_gpu(folder: Path, device: str = "cuda:0") -> Results:
    """Three cells: one waits for data, one for launches, the trace of one is damaged."""
    results = make(Made(grid=((1.0, 1), (2.0, 1), (4.0, 1))))
    results.environment.device = device
    for cell, events in zip(results.cells, (LAUNCHES, STEPS, None), strict=True):
        cell.trace = f"{cell.variant}/{cell.label}/a.pt.trace.json.gz"
        write(folder / cell.trace, events or CALL)
        if events is None:
            (folder / cell.trace).write_bytes(b"damaged")
    file = ResultsFile(folder, results)
    file.write()
    file.close()
    return results


def test_the_report_says_what_the_gpu_did(tmp_path: Path) -> None:
    api._look_at_gpu(run_on_gpu(tmp_path), tmp_path)
    results = read_results(tmp_path)  # what is on disk
    launches, steps, damaged = (cell.gpu for cell in results.cells)
    assert damaged is None
    assert launches is not None
    assert launches.launch_bound
    assert steps is not None
    assert not steps.launch_bound
    assert (steps.idle, steps.copying) == (pytest.approx(75 / 225), pytest.approx(10 / 225))
    assert steps.copies_s == pytest.approx(10e-6)
    assert [(one.name, one.calls) for one in steps.kernels] == [("gemm<float, 4>", 2), ("backward<float>", 2)]
    (table,) = [table for table in build_tables(results) if table.title.startswith("What the GPU does")]
    assert table.rows[0][1:4] == ["25.1%", "74.9%", "yes"]
    assert table.rows[1][1:] == ["62.2%", "33.3%", "no", "4.4% (10.0 µs)", "gemm<float, 4> 57%, backward<float> 43%"]
    assert any("waits for the DataLoader" in line for line in table.remarks)


def test_a_run_on_a_cpu_has_no_such_table_and_its_traces_are_not_read(tmp_path: Path) -> None:
    results = run_on_gpu(tmp_path, "cpu")
    api._look_at_gpu(results, tmp_path)
    assert all(cell.gpu is None for cell in results.cells)
    assert not any(table.title.startswith("What the GPU does") for table in build_tables(results))
