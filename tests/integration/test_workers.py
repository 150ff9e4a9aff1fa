"""Workers: each job has a process of its own, and what happens to one does not reach the next. Real processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from msgspec import structs

from profiler.execution.channel import BeginPass, CellJob, Event, PassDone
from profiler.execution.workers import JobFailed, Workers
from profiler.measure.latency import RoundSize, Timing
from profiler.measure.passes.time import Round
from profiler.recipe.load import load_recipe
from tests.helpers import program

pytestmark = pytest.mark.slow

SIZE = RoundSize(warmup=1, max_calls=2)
GOOD = CellJob(threads=1, passes=("time", "memory"), seconds=0.1, batch_size=1, size=SIZE)
BAD = structs.replace(GOOD, seconds=0.2)
NAME = "float32"


def silent(event: Event) -> None:
    pass


def start(folder: Path, name: str, arguments: str = "{}") -> Workers:
    recipe = program.module_recipe(folder, name, arguments)
    return Workers(load_recipe(recipe, trust=True), folder, "cpu", {NAME: 1})


@pytest.fixture(scope="module")
def sleepers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    """Of a model whose calls take a fifth of a second."""
    workers = start(tmp_path_factory.mktemp("sleepers"), "Sleeper", "{fixed: 0.2}")
    yield workers
    workers.close()


def times(results: dict[str, PassDone]) -> Timing:
    found: Round = results["time"].result
    return found.timing


@pytest.mark.parametrize("what", ["SIGSEGV", "SIGABRT"])
def test_a_crash_is_told_with_its_signal_and_the_next_job_works(tmp_path: Path, what: str) -> None:
    workers = start(tmp_path, "Trouble", f"{{what: {what}, at: 0.2}}")
    try:
        pid = workers.ready(NAME).pid
        results, failure = workers.run({NAME: BAD}, 60, silent)
        assert results == {}
        assert failure is not None
        assert str(failure) == f"killed by {what}"
        assert failure.during == "time"
        for _ in range(2):
            results, failure = workers.run({NAME: GOOD}, 60, silent)
            assert failure is None
            assert list(results) == ["time", "memory"]
            assert len(times(results).samples) == len(times(results).cpu) == 2
        assert workers.ready(NAME).pid == pid, "the model was not loaded again"
    finally:
        workers.close()


def test_passes_before_a_crash_are_kept(sleepers: Workers) -> None:
    worker = sleepers.ready(NAME)

    def kill_in_memory_pass(event: Event) -> None:
        if event == BeginPass("memory"):  # one of a job before may still be leaving
            newest = max(psutil.Process(worker.pid).children(), key=lambda child: child.create_time())
            newest.send_signal(signal.SIGKILL)

    results, failure = sleepers.run({NAME: GOOD}, 60, kill_in_memory_pass)
    assert failure is not None
    assert failure.during == "memory"
    assert str(failure) == "killed by SIGKILL; out of memory is the usual cause"
    assert min(times(results).samples) >= 0.2


def test_a_worker_that_dies_itself_is_replaced(sleepers: Workers) -> None:
    first = sleepers.ready(NAME).pid

    def kill_worker(event: Event) -> None:
        os.kill(first, signal.SIGKILL)

    with pytest.raises(JobFailed, match="killed by SIGKILL"):
        sleepers.do(NAME, GOOD, 60, kill_worker)
    assert "time" in sleepers.do(NAME, GOOD, 60, silent)
    assert sleepers.ready(NAME).pid != first


def test_a_job_over_its_time_is_ended_and_the_next_one_works(tmp_path: Path) -> None:
    workers = start(tmp_path, "Trouble", "{what: hang, at: 0.2}")
    try:
        with pytest.raises(JobFailed, match=r"no result within 1 s \(measure.limit\)"):
            workers.do(NAME, BAD, 1, silent)
        assert "time" in workers.do(NAME, GOOD, 60, silent)
    finally:
        workers.close()


def test_every_job_has_a_process_of_its_own_and_none_is_left(sleepers: Workers) -> None:
    worker = psutil.Process(sleepers.ready(NAME).pid)
    seen: set[int] = set()

    def note(event: Event) -> None:
        seen.update(child.pid for child in worker.children() if child.status() != psutil.STATUS_ZOMBIE)

    for _ in range(6):
        sleepers.do(NAME, GOOD, 60, note)
    assert len(seen) >= 6
    assert len(worker.children()) <= 2, "the last ones may still be leaving"
    sleepers.close()
    assert not any(psutil.pid_exists(pid) and psutil.Process(pid).ppid() == worker.pid for pid in seen)
