"""Fleets for real: on this machine, on a Ray cluster of two nodes, on a SLURM of two nodes; with kills in the middle.

Both nodes are this machine, so jobs take turns, and a job whose node died goes on where it was.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from profiler.execution.fleet.job import FILE, Fleet, read_fleet
from tests.helpers import program, slurm

TIMEOUT = 240.0
# Calls of 50 ms and rounds enough to be caught in the middle.
LONGER = "measure: {warmup: 1, min_calls: 1, max_calls: 1, budget: 1, rounds: 40}\ntrace: {breakdown: false}\n"


def recipe(folder: Path, name: str, more: str = program.QUICK, seconds: float = 0.002) -> Path:
    folder = folder / name
    folder.mkdir()
    made = program.module_recipe(folder, "Sleeper", f"{{fixed: {seconds}}}", "[0.1, 0.2]", "[1]", more)
    return made.rename(folder / f"{name}.yaml")


def fleet_in(logdir: Path) -> Fleet:
    (file,) = logdir.glob(f"fleets/*/{FILE}")
    return read_fleet(file.parent)


def wait_for(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not true():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.1)


def measured(logdir: Path) -> list[Path]:
    """Runs that have a figure already."""
    return [file.parent for file in logdir.glob("*/*/results.json") if b'"rtf"' in _all(file.parent)]


def _all(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.glob("results.*"))


def test_recipes_run_one_after_the_other_and_are_ordinary_runs(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    both = [recipe(tmp_path, "one"), recipe(tmp_path, "two")]
    done = program.run("fleet", *both, "rounds=2", "--trust", "--no-doctor", "--logdir", logs, "--quiet")
    assert done.returncode == 0, done.stderr
    assert "2 jobs on 1 machine: 2 done; 4 cells." in done.stdout
    fleet = fleet_in(logs)
    starts = [(job.attempts[0].started, job.attempts[0].ended) for job in fleet.jobs]
    assert starts[0][1] <= starts[1][0], "never side by side"
    for job in fleet.jobs:
        assert program.run("report", job.run.split("/")[1], "--logdir", logs).returncode == 0
        assert (logs / job.run / "report.html").is_file()
        assert not (logs / job.run / "results.journal").exists()


def test_mistakes_are_found_before_anything_is_sent(tmp_path: Path) -> None:
    good, logs = recipe(tmp_path, "good"), tmp_path / "logs"
    bad = recipe(tmp_path, "bad", "measure: {warmup: none}\n")
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


def test_each_variant_can_be_a_job(tmp_path: Path) -> None:
    more = f"{program.QUICK}variants:\n- {{name: a}}\n- {{name: b, threads: 1, baseline: a}}\n"
    logs = tmp_path / "logs"
    done = program.run(
        "fleet", recipe(tmp_path, "one", more), "--split", "variants", "--trust", "--no-doctor", "--logdir", logs
    )
    assert done.returncode == 0, done.stderr
    assert [job.id for job in fleet_in(logs).jobs] == ["one-a", "one-b"]
    runs = [json.loads((logs / job.run / "results.json").read_text()) for job in fleet_in(logs).jobs]
    assert [[model["variant"] for model in results["models"]] for results in runs] == [["a"], ["b"]]


def test_a_driver_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    driver = program.start("fleet", recipe(tmp_path, "one", LONGER, 0.05), "--trust", "--no-doctor", "--logdir", logs)
    wait_for(lambda: bool(measured(logs)), "a first figure at home")
    driver.send_signal(signal.SIGKILL)
    driver.communicate()
    wait_for(lambda: not program.processes_mentioning(str(logs)), "the job to end with its driver")
    (run,) = measured(logs)
    done = program.run("fleet", "--resume", "latest", "--trust", "--no-doctor", "--logdir", logs, "--quiet")
    assert done.returncode == 0, done.stderr
    assert [job.run for job in fleet_in(logs).jobs] == [f"one/{run.name}"], "the same run went on"


def test_ctrl_c_keeps_what_was_measured_and_says_how_to_go_on(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    driver = program.start("fleet", recipe(tmp_path, "one", LONGER, 0.05), "--trust", "--no-doctor", "--logdir", logs)
    wait_for(lambda: bool(measured(logs)), "a first figure at home")
    driver.send_signal(signal.SIGINT)
    _, stderr = driver.communicate(timeout=TIMEOUT)
    assert driver.returncode == 130
    fleet = fleet_in(logs)
    assert f"fleet --resume {fleet.id}" in stderr
    assert json.loads((logs / fleet.jobs[0].run / "results.json").read_text())["run"]["status"] == "interrupted"
    assert not program.processes_mentioning(str(logs))


# -- Ray


CLUSTER = """
import sys
from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
nodes = [cluster.add_node(num_cpus=1), cluster.add_node(num_cpus=1)]
print("address", cluster.address, flush=True)
for line in sys.stdin:
    node = next(node for node in nodes if node.node_id.startswith(line.strip()))
    cluster.remove_node(node, allow_graceful=False)
    print("removed", flush=True)
"""


class RayCluster:
    def __init__(self, folder: Path) -> None:
        script = folder / "cluster.py"
        script.write_text(CLUSTER)
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [sys.executable, str(script)], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
        )
        self.address = self._line("address").split()[1]

    def _line(self, begins: str) -> str:
        assert self.process.stdout
        for line in self.process.stdout:
            if line.startswith(begins):
                return line
        raise AssertionError("the cluster did not start")

    def kill(self, node: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(f"{node}\n")
        self.process.stdin.flush()
        self._line("removed")

    def stop(self) -> None:
        self.process.communicate()


@pytest.fixture(scope="module")
def ray_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayCluster]:
    cluster = RayCluster(tmp_path_factory.mktemp("ray"))
    yield cluster
    cluster.stop()


def test_ray_loses_a_node_and_no_finished_cell(tmp_path: Path, ray_cluster: RayCluster) -> None:
    logs = tmp_path / "logs"
    made = recipe(tmp_path, "one", LONGER, 0.05)
    options = ("--on", "ray", "--address", ray_cluster.address, "--trust", "--no-doctor", "--logdir", logs)
    driver = program.start("fleet", made, *options)
    wait_for(lambda: bool(measured(logs)), "a first figure at home")
    wait_for(lambda: fleet_in(logs).jobs[0].machine != "", "the node's name")
    (run,) = measured(logs)
    before = _rounds(run)
    lost = fleet_in(logs).jobs[0].machine
    ray_cluster.kill(lost.rsplit("-", 1)[1])
    _, stderr = driver.communicate(timeout=TIMEOUT)
    assert driver.returncode == 0, stderr
    (job,) = fleet_in(logs).jobs
    assert job.run == f"one/{run.name}", "the run that was begun went on"
    assert len(job.attempts) == 2
    assert job.attempts[1].machine != lost
    assert _rounds(run).keys() >= before.keys()
    assert all(_rounds(run)[place] >= count for place, count in before.items()), "nothing that was measured is lost"
    undone = job.attempts[1].undone
    assert undone.get("OMP_NUM_THREADS", "").startswith("1 instead of"), "Ray's setting was taken back, and said"
    settings = json.loads((run / "results.json").read_text())["environment"]
    assert settings["threads"] == len(os.sched_getaffinity(0))


def _rounds(run: Path) -> dict[str, int]:
    """cell -> how many rounds its results have."""
    from profiler.results.store import read_results

    return {cell.place: len(cell.latency_s.rounds) for cell in read_results(run).cells if cell.latency_s}


# -- SLURM


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[slurm.Slurm]:
    if not slurm.installed():
        pytest.skip(slurm.MISSING)
    folder = tmp_path_factory.mktemp("slurm").resolve()
    for above in (folder, *folder.parents[:3]):  # munged runs as a user of its own
        above.chmod(above.stat().st_mode | 0o055)
    with slurm.running(folder) as found:
        yield found


def test_slurm_runs_a_fleet_and_its_time_limit_ends_a_job_in_order(tmp_path: Path, cluster: slurm.Slurm) -> None:
    logs = tmp_path / "logs"
    options = ("--on", "slurm", "--time", "30", "--trust", "--no-doctor", "--logdir", logs)
    driver = program.start(
        "fleet", recipe(tmp_path, "one", LONGER, 0.05), *options, env=os.environ | cluster.environment
    )
    wait_for(lambda: bool(measured(logs)), "a first figure at home")
    (job,) = fleet_in(logs).jobs
    cluster.ask("scancel", "--signal=USR2", job.handle.split()[0])  # what SLURM sends before the time limit
    _, stderr = driver.communicate(timeout=TIMEOUT)
    assert driver.returncode == 0, stderr
    (job,) = fleet_in(logs).jobs
    assert [attempt.end for attempt in job.attempts] == ["the time limit of its SLURM job, or a preemption", "done"]
    assert len(list(logs.glob("one/*"))) == 1, "one run, taken up again"


def test_slurm_loses_a_node_and_no_finished_cell(tmp_path: Path, cluster: slurm.Slurm) -> None:
    logs = tmp_path / "logs"
    options = ("--on", "slurm", "--time", "30", "--trust", "--no-doctor", "--logdir", logs)
    driver = program.start(
        "fleet", recipe(tmp_path, "one", LONGER, 0.05), *options, env=os.environ | cluster.environment
    )
    wait_for(lambda: bool(measured(logs)) and fleet_in(logs).jobs[0].machine != "", "a first figure at home")
    (run,) = measured(logs)
    before, lost = _rounds(run), fleet_in(logs).jobs[0].machine
    cluster.kill(lost)
    _, stderr = driver.communicate(timeout=TIMEOUT)
    assert driver.returncode == 0, stderr
    (job,) = fleet_in(logs).jobs
    assert [attempt.machine for attempt in job.attempts] == [lost, "n2" if lost == "n1" else "n1"]
    assert job.run == f"one/{run.name}"
    assert all(_rounds(run)[place] >= count for place, count in before.items()), "nothing that was measured is lost"
