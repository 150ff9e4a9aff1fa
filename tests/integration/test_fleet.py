"""Fleets for real: on this machine, on a Ray cluster of two nodes, on a SLURM of two nodes; with kills in the middle.

Both nodes are this machine, so jobs take turns, and a job whose node died goes on where it was. What is to be caught in
the middle is a model that stands still after some calls, so that no test waits for rounds to pass.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from profiler import compare, load_run
from profiler.execution.fleet.job import FILE, Fleet, Job, read_fleet
from profiler.results.store import read_results
from tests.helpers import program, ray_cluster, slurm

TIMEOUT = 240.0
NODES = ("n1", "n2")
# Many short rounds, so that after some calls each cell has a figure and some rounds are left.
ROUNDS = "measure: {warmup: 1, min_calls: 1, max_calls: 1, budget: 1, rounds: 30, operations: false}\n"
ROUNDS += "trace: {breakdown: false}\n"


class Running:
    """A fleet of one recipe whose model stands still when it has made enough calls."""

    def __init__(self, folder: Path, *options: str | Path, environment: dict[str, str] | None = None) -> None:
        self.folder, self.logs = folder, folder / "logs"
        self.environment = os.environ | (environment or {})
        self.go_on(40)
        recipe = program.module_recipe(folder, "Held", f"{{folder: {folder}}}", "[0.1, 0.2]", "[1]", ROUNDS)
        self.options = ("--trust", "--no-doctor", "--logdir", self.logs)
        self.driver = self._start(recipe.rename(folder / "one.yaml"), *options)

    def _start(self, *words: str | Path) -> subprocess.Popen[str]:
        self.driver = program.start("fleet", *words, *self.options, env=self.environment)
        return self.driver

    def resume(self) -> None:
        self._start("--resume", "latest")

    def go_on(self, calls: int) -> None:
        """Until so many calls have been made in all."""
        part = self.folder / "most.part"
        part.write_text(str(calls))
        part.rename(self.folder / "most")

    def finish(self) -> tuple[str, Job]:
        self.go_on(10**9)
        _, stderr = self.driver.communicate(timeout=TIMEOUT)
        assert self.driver.returncode == 0, stderr
        return stderr, self.job

    def is_like_a_local_run(self, run: Path) -> None:
        """The same recipe as a person would run it here: equal machine, settings and cells, by `compare`."""
        logs = self.folder / "local"
        done = program.run(self.folder / "one.yaml", "--trust", "--quiet", "--logdir", logs)
        assert done.returncode == 0, done.stderr
        local = load_run(program.run_folder(logs)).results
        fleet = load_run(run).results
        assert fleet.run.status == local.run.status == "complete"
        (found,) = compare(local, fleet).others
        assert found.same_machine
        assert found.judged
        assert found.differences == []
        assert found.only_in_baseline == found.only_in_other == []
        assert [cell.status for cell in found.cells] == [("ok", "ok")] * 2
        assert fleet.environment.threads == local.environment.threads
        assert fleet.environment.settings == local.environment.settings

    @property
    def job(self) -> Job:
        (job,) = fleet_in(self.logs).jobs
        return job

    def stands_still(self) -> tuple[Path, dict[str, int]]:
        """When it does: its run, and how many rounds each cell has in the copy at home."""
        calls, most = self.folder / "calls", int((self.folder / "most").read_text())
        wait_for(lambda: calls.is_file() and calls.stat().st_size > most, "the model to stand still")
        wait_for(lambda: len(self._rounds()) == 2 and bool(self.job.machine), "figures at home")
        (run,) = self.logs.glob("one/*")
        return run, self._rounds()

    def _rounds(self) -> dict[str, int]:
        return next((rounds_of(run) for run in self.logs.glob("one/*") if (run / "results.json").is_file()), {})


Start = Callable[..., Running]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Start]:
    """Starts such a fleet; no driver outlives its test."""
    made: list[Running] = []

    def start(*options: str | Path, environment: dict[str, str] | None = None) -> Running:
        made.append(Running(tmp_path, *options, environment=environment))
        return made[-1]

    yield start
    for each in made:
        each.driver.kill()
        each.driver.wait()


def rounds_of(run: Path) -> dict[str, int]:
    """cell -> how many rounds its results have."""
    return {cell.place: len(cell.latency_s.rounds) for cell in read_results(run).cells if cell.latency_s}


def has_all(run: Path, before: dict[str, int]) -> bool:
    """Nothing that was measured is lost."""
    after = rounds_of(run)
    return all(after.get(place, 0) >= count for place, count in before.items())


def fleet_in(logdir: Path) -> Fleet:
    (file,) = logdir.glob(f"fleets/*/{FILE}")
    return read_fleet(file.parent)


def wait_for(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not true():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.1)


def test_each_variant_is_a_job_one_after_the_other_and_an_ordinary_run(tmp_path: Path) -> None:
    more = f"{program.QUICK}variants:\n- {{name: a}}\n- {{name: b, threads: 1, baseline: a}}\n"
    recipe, logs = program.module_recipe(tmp_path, "Nothing", batches="[1]", more=more), tmp_path / "logs"
    options = ("--trust", "--no-doctor", "--logdir", logs, "--quiet")
    done = program.run("fleet", recipe, "--split", "variants", "rounds=1", *options)
    assert done.returncode == 0, done.stderr
    assert "2 jobs on 1 machine: 2 done; 4 cells." in done.stdout
    jobs = fleet_in(logs).jobs
    assert [job.id for job in jobs] == ["recipe-a", "recipe-b"]
    assert jobs[0].attempts[0].ended <= jobs[1].attempts[0].started, "never side by side"
    for job, variant in zip(jobs, "ab", strict=True):
        assert program.run("report", job.run.split("/")[1], "--logdir", logs).returncode == 0
        assert (logs / job.run / "report.html").is_file()
        assert not (logs / job.run / "results.journal").exists()
        assert read_results(logs / job.run).variants == [variant]


def test_mistakes_are_found_before_anything_is_sent(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    good = program.module_recipe(tmp_path, "Nothing")
    (tmp_path / "worse").mkdir()
    bad = program.module_recipe(tmp_path / "worse", "Nothing", more="measure: {warmup: none}\n")
    for arguments, expected in (
        ((good, bad), "warmup"),
        ((), "which recipes?"),
        ((good, "--partition", "cpu"), "--partition is for --on slurm"),
        ((good, "--on", "ray", "--address", "127.0.0.1:1"), "no Ray cluster answers"),
        (("--resume", "nothing"), "there is no fleet"),
    ):
        done = program.run("fleet", *arguments, "--trust", "--logdir", logs, fresh="ray" in arguments)
        assert done.returncode == 2, done.stderr
        assert expected in done.stderr
        assert "Traceback" not in done.stderr
    assert not list(logs.glob("*/*/results.json"))


def test_a_driver_that_is_killed_or_interrupted_loses_nothing(running: Start) -> None:
    found = running()
    run, before = found.stands_still()
    second = program.run("fleet", "--resume", "latest", *found.options)
    assert second.returncode == 2
    assert "is still going on in another process" in second.stderr
    found.driver.send_signal(signal.SIGKILL)
    found.driver.communicate()
    wait_for(lambda: not program.processes_mentioning(str(found.logs)), "the job to end with its driver")
    assert has_all(run, before)

    found.go_on(60)
    found.resume()
    same, before = found.stands_still()
    assert same == run, "the same run went on"
    found.driver.send_signal(signal.SIGINT)
    _, stderr = found.driver.communicate(timeout=TIMEOUT)
    assert found.driver.returncode == 130
    assert f"fleet --resume {fleet_in(found.logs).id}" in stderr
    assert json.loads((run / "results.json").read_text())["run"]["status"] == "interrupted"
    assert not program.processes_mentioning(str(found.logs))

    found.resume()
    _, job = found.finish()
    assert job.run == f"one/{run.name}"
    assert has_all(run, before)


@pytest.fixture(scope="module")
def ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ray_cluster.RayCluster]:
    with ray_cluster.running(tmp_path_factory.mktemp("ray")) as found:
        yield found


def test_ray_has_nodes_that_others_use_left_alone_and_says_so(tmp_path: Path, ray: ray_cluster.RayCluster) -> None:
    recipe = program.module_recipe(tmp_path, "Nothing", "{}", "[0.1]", "[1]")
    options = ("--on", "ray", "--address", ray.address, "--patience", "0.1", "--trust", "--no-doctor", "--quiet")
    with ray.used():
        done = program.run("fleet", recipe, *options, "--logdir", tmp_path / "logs", fresh=True)
    assert done.returncode == 1, done.stderr
    (job,) = fleet_in(tmp_path / "logs").jobs
    assert job.reason.startswith("not placed within 0.1 min: ")
    assert job.reason.endswith(" has 0 CPU free of the 1 that a job takes")


def test_ray_loses_a_node_and_no_finished_cell(running: Start, ray: ray_cluster.RayCluster) -> None:
    found = running("--on", "ray", "--address", ray.address)
    run, before = found.stands_still()
    lost = found.job.machine
    ray.kill(lost.rsplit("-", 1)[1])
    _, job = found.finish()
    assert job.run == f"one/{run.name}", "the run that was begun went on"
    assert len(job.attempts) == 2
    assert job.attempts[1].machine != lost
    assert has_all(run, before)
    found.is_like_a_local_run(run)
    undone = job.attempts[1].undone
    assert undone.get("OMP_NUM_THREADS", "").startswith("1 instead of"), "Ray's setting was taken back, and said"
    settings = json.loads((run / "results.json").read_text())["environment"]
    assert settings["threads"] == len(os.sched_getaffinity(0))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[slurm.Slurm]:
    if not slurm.installed():
        pytest.skip(slurm.MISSING)
    with slurm.running(tmp_path_factory.mktemp("slurm")) as found:
        yield found


def test_slurm_says_why_a_job_cannot_be_placed(tmp_path: Path, cluster: slurm.Slurm) -> None:
    recipe, environment = program.module_recipe(tmp_path, "Nothing"), os.environ | cluster.environment
    options = ("--on", "slurm", "--constraint", "gpu", "--trust", "--logdir", tmp_path / "logs")
    done = program.run("fleet", recipe, *options, env=environment)
    assert done.returncode == 2
    assert "No machine can run these recipes:\n  n1: sbatch refuses a job: " in done.stderr
    assert "Traceback" not in done.stderr
    options = ("--on", "slurm", "--time", "90", "--trust", "--logdir", tmp_path / "logs")
    done = program.run("fleet", recipe, *options, env=environment)
    assert done.returncode == 2
    assert "--time 90: a job may take 60 minutes at most in this partition." in done.stderr


def test_slurm_has_jobs_wait_for_their_turn_and_a_killed_driver_finds_them_in_the_queue(
    running: Start, cluster: slurm.Slurm
) -> None:
    options = ("--parsable", "--exclusive", "--output", "/dev/null", "--wrap", "sleep 600")
    others = [cluster.ask("sbatch", "-w", node, *options) for node in NODES]
    wait_for(lambda: cluster.ask("sinfo", "-h", "-o", "%T").split() == ["allocated"], "others to use all nodes")
    found = running("--on", "slurm", "--patience", "0.01", environment=cluster.environment)
    wait_for(lambda: any(found.logs.glob(f"fleets/*/{FILE}")) and bool(found.job.handle), "a place in the queue")
    wait_for(lambda: "SLURM's queue" in found.job.reason, "the reason why it waits")
    handle = found.job.handle
    assert found.job.reason.endswith(("Resources", "Priority", "None"))
    found.driver.send_signal(signal.SIGKILL)
    _, stderr = found.driver.communicate()
    assert "note: n1, n2: used by others: versions are compared when a job begins there" in stderr
    found.resume()
    time.sleep(5.0)
    assert (found.driver.poll(), found.job.handle) == (None, handle), "it waits, and is not there twice"
    for other in others:
        cluster.ask("scancel", other.strip())
    run, _ = found.stands_still()
    assert fleet_in(found.logs).machines[found.job.machine].kind, "it has described itself"
    _, job = found.finish()
    assert len(job.attempts) == 1
    assert load_run(found.logs / job.run).folder == run


def test_slurm_ends_a_job_in_order_then_loses_a_node_and_no_finished_cell(running: Start, cluster: slurm.Slurm) -> None:
    found = running("--on", "slurm", "--time", "30", environment=cluster.environment)
    run, before = found.stands_still()
    cluster.ask("scancel", "--signal=USR2", found.job.handle.split()[0])  # what SLURM sends before the time limit
    wait_for(lambda: bool(found.job.attempts[0].end), "the end of the first attempt")
    found.go_on(60)
    wait_for(lambda: len(found.job.attempts) == 2, "the next attempt")
    same, after = found.stands_still()
    assert same == run, "one run, taken up again"
    assert has_all(run, before)
    lost = found.job.machine
    cluster.kill(lost)
    _, job = found.finish()
    ends = [attempt.end for attempt in job.attempts]
    assert ends[0] == "the time limit of its SLURM job (--time), or a preemption"
    assert "SLURM ended it, or lost its node" in ends[1]
    assert ends[2] == "done"
    assert [attempt.machine for attempt in job.attempts[1:]] == [lost, "n2" if lost == "n1" else "n1"]
    assert list(found.logs.glob("one/*")) == [run]
    assert has_all(run, after)
    found.is_like_a_local_run(run)
