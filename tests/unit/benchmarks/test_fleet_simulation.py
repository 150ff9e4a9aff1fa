"""A small simulated fleet with the real driver: jobs begin in order, dying nodes lose nothing, memory does not grow."""

from __future__ import annotations

import tracemalloc
from typing import NamedTuple

import pytest

from benchmarks.fleet_simulation import CELLS, Simulated, simulate, table_of

SHORT = (2.0, 10.0)  # seconds of a cell


class Traced(NamedTuple):
    """A simulation, and the most bytes that Python held while it went on."""

    found: Simulated
    most: int


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Traced:
    folder = tmp_path_factory.mktemp("logs")
    simulate(folder / "first", recipes=2, nodes=2, deaths=0, cell_seconds=SHORT)  # what is made once
    tracemalloc.start()
    try:
        found = simulate(folder / "logs", recipes=60, nodes=8, deaths=4, cell_seconds=SHORT)
        return Traced(found, tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


def test_jobs_begin_in_the_order_in_which_they_were_given(traced: Traced) -> None:
    assert traced.found.in_order
    assert all(job.status == "done" for job in traced.found.fleet.jobs)
    assert "| yes |" in " ".join(table_of(traced.found, 0.0).markdown().split())


def test_nodes_that_die_lose_no_finished_cell(traced: Traced) -> None:
    found = traced.found
    assert found.engine.died == 4
    again = [job for job in found.fleet.jobs if len(job.attempts) > 1]
    assert again, "some jobs were on these nodes"
    assert found.lost == 0
    assert all(job.cells == CELLS == found.engine.home[job.run] for job in found.fleet.jobs)


def test_the_driver_holds_no_results(traced: Traced) -> None:
    stored = sum(file.stat().st_size for file in traced.found.logdir.rglob("results.json"))
    assert traced.most < stored / 2
