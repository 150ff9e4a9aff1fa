"""`--each kind` where machines differ: two kinds of nodes that exist in memory alone, the whole command otherwise."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from profiler.cli import fleet as command
from profiler.cli import main
from profiler.execution.fleet import driver
from profiler.execution.fleet.engine import Placed
from profiler.execution.fleet.job import Attempt, Machine, find_fleet, read_fleet
from profiler.execution.fleet.node import Files, Spec
from tests.helpers.fleets import MemoryEngine, MemoryJob, fleet_of, machine
from tests.helpers.program import ROOT
from tests.helpers.synthetic import Made, make, save

CPUS = {"n1": "AMD EPYC", "n2": "AMD EPYC", "n3": "Intel Xeon"}


class TwoKinds(MemoryEngine):
    """Each job is over at once; its results say which processor its node has."""

    def place(self, name: str, spec: Spec, earlier: Files, allowed: Collection[str] | None) -> Placed | str:
        placed = super().place(name, spec, earlier, allowed)
        if isinstance(placed, MemoryJob):
            recipe = Path(spec.recipe)
            cpu = CPUS[placed.machine]
            made = make(Made(id=f"run-{placed.machine}", recipe=str(recipe), environment={"cpu": cpu}))
            placed.run = f"{recipe.stem}/{made.run.id}"
            placed.files[f"{placed.run}/results.json"] = made.model_dump_json(by_alias=True).encode()
            placed.end()
        return placed


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryEngine]:
    made = TwoKinds(*(machine(name, kind=f"{cpu}, 2 cores") for name, cpu in CPUS.items()))
    monkeypatch.setattr(command, "make_engine", lambda *given: made)
    monkeypatch.setattr(driver, "POLL_SECONDS", 0.0)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield made
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_every_recipe_runs_once_on_each_kind_and_the_runs_open_side_by_side(
    tmp_path: Path, engine: MemoryEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = tmp_path / "logs"
    assert main(["fleet", "tera", "--each", "kind", "--logdir", str(logs), "--quiet"]) == 0
    fleet = read_fleet(find_fleet("latest", logs))
    assert [(job.id, job.machine) for job in fleet.jobs] == [("tera@n1", "n1"), ("tera@n3", "n3")]
    said = re.search(r"Side by side: python profile.py (.*)", capsys.readouterr().out)
    assert said
    assert main(shlex.split(said[1])) == 0
    tables = capsys.readouterr().out
    head = next(line for line in tables.splitlines() if "audio" in line)
    assert [part.strip() for part in head.split("|")[2:-1] if part.strip()] == [
        "AMD EPYC, 2 threads",
        "Intel Xeon, 2 threads",
    ]


def test_a_node_whose_kind_nobody_knows_gets_no_job_of_each_kind(
    tmp_path: Path, engine: MemoryEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.there["n4"] = Machine("n4")
    words = ["fleet", "tera", "--each", "kind", "--logdir", str(tmp_path), "--quiet"]
    assert main(words) == 0
    assert [job.machine for job in engine.placed] == ["n1", "n3"]
    assert "note: n4: used by others: versions are compared when a job begins there" in capsys.readouterr().err
    engine.there = {"n4": Machine("n4")}
    assert main(words) == 2
    assert "all nodes are used by others" in capsys.readouterr().err


def test_a_node_where_a_job_may_be_running_is_left_alone_and_known_from_before(
    tmp_path: Path, engine: MemoryEngine
) -> None:
    fleet = fleet_of("tera", machines=[machine("n1", boot="boot-n1")], folder=ROOT / "recipes")
    fleet.jobs[0].status, fleet.jobs[0].run, fleet.jobs[0].handle = "running", "tera/begun", "of a queue"
    fleet.jobs[0].attempts = [Attempt("n1", "2026-01-01", "2026-01-01")]
    save(make(Made(id="begun", recipe="recipes/tera.yaml")), tmp_path)
    folder = tmp_path / "fleets" / fleet.id
    folder.mkdir(parents=True)
    fleet.write(folder)
    assert main(["fleet", "--resume", "latest", "--logdir", str(tmp_path), "--quiet"]) == 0
    assert engine.asked == ["n2", "n3"]
    assert [(placed.machine, placed.spec.resume) for placed in engine.placed] == [("n1", "tera/begun")]


def test_settings_that_a_fleet_was_started_with_cannot_change(
    tmp_path: Path, engine: MemoryEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, expected in (
        (["--resume", "latest", "--each", "kind"], "leave out --each"),
        (["--resume", "latest", "tera"], "leave out recipes"),
        (["--rebuild", "latest"], "goes with --gallery FILE alone"),
        (["tera", "--gallery", str(tmp_path / "page.md"), "--split", "variants"], "leave out --split"),
        (["tera", "--on", "slurm", "--time", "0"], "--time 0: expected a whole number greater than 0"),
    ):
        assert main(["fleet", *words, "--logdir", str(tmp_path)]) == 2
        assert expected in capsys.readouterr().err
    assert not engine.placed


def test_a_gallery_is_written_by_the_fleet_and_again_from_its_runs(
    tmp_path: Path, engine: MemoryEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    page, logs = tmp_path / "page.md", tmp_path / "logs"
    words = ["fleet", "--gallery", str(page), "--logdir", str(logs), "--quiet"]
    assert main([*words, "tera", "wav2vec2"]) == 0
    first = page.read_text()
    assert all("there is no cell of 5 s x 1 in its run" in line for line in first.splitlines() if "- tera:" in line)
    assert "- wav2vec2:" in first
    placed = len(engine.placed)
    page.unlink()
    assert main([*words, "--rebuild", "latest"]) == 0
    assert page.read_text() == first
    assert len(engine.placed) == placed, "nothing ran"
    assert "Wrote" in capsys.readouterr().err


def test_a_run_goes_on_where_its_machine_has_another_name_now(tmp_path: Path, engine: MemoryEngine) -> None:
    """As when a Ray cluster was started anew: nodes of one host are told apart by ids."""
    old = machine("n1-4f3a", boot="boot-n3")
    fleet = fleet_of("tera", machines=[old], folder=ROOT / "recipes")
    job = fleet.jobs[0]
    job.status, job.run, job.attempts = "interrupted", "tera/begun", [Attempt(old.name, "2026-01-01", "2026-01-01")]
    save(make(Made(id="begun", recipe="recipes/tera.yaml")), tmp_path)
    folder = tmp_path / "fleets" / fleet.id
    folder.mkdir(parents=True)
    fleet.write(folder)
    assert main(["fleet", "--resume", "latest", "--logdir", str(tmp_path), "--quiet"]) == 0
    assert [(placed.machine, placed.spec.resume) for placed in engine.placed] == [("n3", "tera/begun")]
