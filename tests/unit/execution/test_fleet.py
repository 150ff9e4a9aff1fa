"""The driver of a fleet, with machines in memory: nothing finished is lost, nothing is measured twice without need."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from profiler.errors import StorageError, UserError
from profiler.execution.fleet import driver as driving
from profiler.execution.fleet import node
from profiler.execution.fleet.driver import MOST_ATTEMPTS, Driver, take_up
from profiler.execution.fleet.engine import State
from profiler.execution.fleet.job import EngineOptions, Fleet, Machine, find_fleet, read_fleet
from profiler.execution.fleet.node import Files, Seen, changed, clean_environment
from profiler.execution.fleet.on_ray import RayEngine
from profiler.report.fleet import differences, job_table, summary, warnings
from tests.helpers.fleets import Clock, MemoryEngine, MemoryJob, fleet_of, machine, results
from tests.helpers.synthetic import Made, make


def driver_of(fleet: Fleet, engine: MemoryEngine, logdir: Path, patience: float = 60.0) -> Driver:
    clock = Clock()
    folder = logdir / "fleets" / fleet.id
    folder.mkdir(parents=True, exist_ok=True)
    return Driver(fleet, folder, logdir, engine, {}, patience, sleep=clock.sleep, clock=clock)


def test_each_machine_has_one_job_and_results_come_home_while_they_are_made(tmp_path: Path) -> None:
    machines = [machine("n1"), machine("n2")]
    engine, fleet = MemoryEngine(*machines), fleet_of("a", "b", "c", machines=machines)
    driver = driver_of(fleet, engine, tmp_path)
    driver.step()
    assert [(job.name, job.machine) for job in engine.placed] == [("a", "n1"), ("b", "n2")]
    engine.placed[0].finish(cells=2)
    driver.step()
    assert fleet.jobs[0].cells == 2
    assert (tmp_path / fleet.jobs[0].run / "results.json").is_file()
    assert fleet.jobs[2].reason == "no machine is free"
    engine.placed[0].end()
    driver.step()
    driver.step()
    assert fleet.jobs[0].status == "done"
    assert engine.placed[2].name == "c"
    assert engine.placed[0].forgotten == 1


def test_two_nodes_of_one_machine_take_turns(tmp_path: Path) -> None:
    machines = [machine("n1", boot="same"), machine("n2", boot="same")]
    engine, fleet = MemoryEngine(*machines), fleet_of("a", "b", machines=machines)
    driver = driver_of(fleet, engine, tmp_path)
    driver.step()
    driver.step()
    assert len(engine.placed) == 1
    engine.placed[0].end()
    driver.step()
    assert [job.name for job in engine.placed] == ["a", "b"]


def test_a_job_whose_node_died_goes_on_where_the_machine_is_the_same(tmp_path: Path) -> None:
    machines = [machine("n1", boot="same"), machine("n2", boot="same")]
    engine, fleet = MemoryEngine(*machines), fleet_of("a", machines=machines)
    driver = driver_of(fleet, engine, tmp_path)
    driver.step()
    engine.placed[0].finish(cells=3)
    driver.step()
    engine.lose("n1")
    driver.step()
    driver.step()
    again = engine.placed[1]
    assert (again.machine, again.spec.resume) == ("n2", engine.placed[0].run)
    assert f"{again.run}/results.json" in again.files, "the node gets what was measured"
    assert fleet.machines["n1"].problem == "is gone"
    assert "n1: n1 is gone" in job_table(fleet).markdown()


def test_on_another_machine_the_recipe_starts_anew_and_what_was_measured_stays(tmp_path: Path) -> None:
    machines = [machine("n1"), machine("n2")]
    engine, fleet = MemoryEngine(*machines), fleet_of("a", machines=machines)
    driver = driver_of(fleet, engine, tmp_path)
    driver.step()
    engine.placed[0].finish(cells=3)
    driver.step()
    first = fleet.jobs[0].run
    engine.lose("n1")
    driver.step()
    driver.step()
    assert engine.placed[1].spec.resume == ""
    engine.placed[1].finish(cells=1)
    driver.step()
    assert fleet.jobs[0].run != first
    assert (tmp_path / first / "results.json").is_file()


def test_a_job_that_loses_every_machine_is_given_up_with_the_reason(tmp_path: Path) -> None:
    machines = [machine(f"n{number}") for number in range(MOST_ATTEMPTS + 1)]
    engine, fleet = MemoryEngine(*machines), fleet_of("a", machines=machines)
    driver = driver_of(fleet, engine, tmp_path)
    for _ in range(3 * MOST_ATTEMPTS):
        driver.step()
        running = [job for job in engine.placed if job.now.state == "running"]
        if running:
            engine.lose(running[0].machine)
    assert fleet.jobs[0].status == "failed"
    assert len(engine.placed) == MOST_ATTEMPTS
    assert "given up after 3 attempts" in fleet.jobs[0].reason


def test_the_end_of_a_time_limit_is_no_failure(tmp_path: Path) -> None:
    machines = [machine("n1")]
    engine, fleet = MemoryEngine(*machines), fleet_of("a", machines=machines)
    driver = driver_of(fleet, engine, tmp_path)
    driver.step()
    engine.placed[0].finish(cells=2)
    driver.step()
    engine.placed[0].end(130, stopped="the time limit of its job")
    driver.step()
    driver.step()
    assert engine.placed[1].spec.resume == engine.placed[0].run


@pytest.mark.parametrize("how", ["stopped", "lost"])
def test_a_recipe_may_need_many_attempts_but_each_has_to_bring_it_further(tmp_path: Path, how: str) -> None:
    machines = [machine("n1")]
    engine, fleet = MemoryEngine(*machines), fleet_of("a", machines=machines)
    driver = driver_of(fleet, engine, tmp_path)
    for number in range(2 * MOST_ATTEMPTS + 1):
        driver.step()
        job = engine.placed[-1]
        further = min(number, MOST_ATTEMPTS) + 1
        made = make(
            Made(id="run", recipe="recipes/a.yaml", grid=tuple((float(cell + 1), 1) for cell in range(further)))
        )
        job.run = "a/run"
        job.files["a/run/results.json"] = made.model_dump_json(by_alias=True).encode()
        driver.step()
        if how == "stopped":
            job.end(130, stopped="its time is over")
        else:
            job.now = State("lost", "its time is over", "n1")
        driver.step()
    assert len(engine.placed) == 2 * MOST_ATTEMPTS + 1
    assert fleet.jobs[0].reason == "given up after 3 attempts that got no further; the last one: its time is over"


def test_a_program_that_fails_is_a_failed_job_with_its_message(tmp_path: Path) -> None:
    machines = [machine("n1")]
    engine, fleet = MemoryEngine(*machines), fleet_of("a", machines=machines)
    driver = driver_of(fleet, engine, tmp_path)
    driver.step()
    engine.placed[0].end(2, log="loading\nprofile.py: the model is not there")
    driver.run()
    assert (fleet.jobs[0].status, fleet.jobs[0].reason) == ("failed", "exit status 2: the model is not there")
    assert summary(fleet) == "1 job on 1 machine: 1 failed; 0 cells."


def test_a_place_in_a_queue_is_waited_for_however_long_it_takes(tmp_path: Path) -> None:
    machines = [machine("n1")]
    engine, fleet = MemoryEngine(*machines), fleet_of("a", machines=machines)
    driver = driver_of(fleet, engine, tmp_path, patience=120.0)
    driver.step()
    engine.placed[0].now = State("waiting", "in SLURM's queue: Resources", queued=True)
    for _ in range(1000):
        driver.step()
        driver.sleep(60.0)
    assert (fleet.jobs[0].status, fleet.jobs[0].reason) == ("waiting", "in SLURM's queue: Resources")
    engine.placed[0].now = State("waiting", "in SLURM's queue: ReqNodeNotAvail")
    driver.run()
    assert fleet.jobs[0].reason == "not placed within 2 min: in SLURM's queue: ReqNodeNotAvail"
    assert engine.placed[0].forgotten == 1


def test_a_node_that_others_use_describes_itself_when_a_job_begins_there(tmp_path: Path) -> None:
    machines = [Machine("n1"), Machine("n2")]
    engine, fleet = MemoryEngine(*machines), fleet_of("a", "b", machines=machines)
    fleet.here = machine("", kind="a kind")
    driver = driver_of(fleet, engine, tmp_path)
    driver.step()
    assert [(job.name, job.machine) for job in engine.placed] == [("a", "n1"), ("b", "n2")]
    described = machine("n1")
    described.commit, described.versions = "abc", {"torch": "2.1"}
    engine.placed[0].now = State("running", machine="n1", node=described)
    driver.step()
    assert fleet.machines["n1"].kind == "a kind"
    lines = differences(fleet.here, driver.met)
    assert lines == ["n1: other versions: torch 2.1 (not here), the profiler's commit abc ( here)"]
    driver.step()
    assert len(driver.met) == 1, "it is said once"


def test_a_node_that_turns_out_unfit_gets_no_other_job(tmp_path: Path) -> None:
    machines = [Machine("n1"), machine("n2")]
    engine, fleet = MemoryEngine(*machines), fleet_of("a", "b", machines=machines)
    driver = driver_of(fleet, engine, tmp_path)
    driver.step()
    unfit = Machine("n1", problem="cannot run the profiler: No module named 'profiler'")
    engine.placed[0].now = State("lost", "No module named 'profiler'", "n1", node=unfit)
    driver.step()
    engine.placed[1].end()
    driver.step()
    driver.step()
    assert [(job.name, job.machine) for job in engine.placed] == [("a", "n1"), ("b", "n2"), ("a", "n2")]
    assert "n1: left out: cannot run the profiler" in "\n".join(warnings(fleet))


def test_what_no_machine_takes_fails_with_the_reason_instead_of_waiting_for_ever(tmp_path: Path) -> None:
    engine, fleet = MemoryEngine(), fleet_of("a", machines=[machine("n1")])
    driver = driver_of(fleet, engine, tmp_path, patience=120.0)
    driver.run()
    assert fleet.jobs[0].status == "failed"
    assert fleet.jobs[0].reason == "not placed within 2 min: no machine that it may run on is there: n1: is gone"


def test_what_failed_is_taken_up_again_too(tmp_path: Path) -> None:
    """When what it lacked is there: a node, a model, memory."""
    engine, fleet = MemoryEngine(), fleet_of("a", "b", machines=[machine("n1")])
    fleet.jobs[1].status = "done"
    driver_of(fleet, engine, tmp_path).run()
    assert [job.status for job in fleet.jobs] == ["failed", "done"]
    take_up(fleet)
    fleet.machines = engine.there = {"n1": machine("n1")}
    driver = driver_of(fleet, engine, tmp_path)
    driver.step()
    engine.placed[0].end()
    driver.run()
    assert [job.status for job in fleet.jobs] == ["done", "done"]
    assert [job.name for job in engine.placed] == ["a"], "what is done stays done"


def test_a_run_that_its_machine_cannot_go_on_with_starts_anew(tmp_path: Path) -> None:
    """As when a node comes back with another system."""
    machines = [machine("n1")]
    engine, fleet = MemoryEngine(*machines), fleet_of("a", machines=machines)
    driver = driver_of(fleet, engine, tmp_path)
    driver.step()
    engine.placed[0].finish(cells=2)
    driver.step()
    first = engine.placed[0].run
    engine.placed[0].end(130, stopped="a preemption")
    driver.step()
    driver.step()
    engine.placed[1].end(2, log=f"profile.py: The run {first} cannot be resumed; this differs:\n  os: 1 then, 2 now")
    driver.step()
    driver.step()
    assert [job.spec.resume for job in engine.placed] == ["", first, ""]
    assert "n1 has changed since the run" in job_table(fleet).markdown()
    assert (tmp_path / first / "results.json").is_file()


def test_a_driver_that_was_killed_finds_its_jobs_again(tmp_path: Path) -> None:
    machines = [machine("n1"), machine("n2")]
    engine, fleet = MemoryEngine(*machines), fleet_of("a", "b", machines=machines)
    driver_of(fleet, engine, tmp_path).step()
    driver = driver_of(fleet, engine, tmp_path)
    driver.step()  # both are marked as running now
    later = read_fleet(tmp_path / "fleets" / fleet.id)
    engine.known = {"handle-a": engine.placed[0]}  # the other one is gone
    again = driver_of(later, engine, tmp_path)
    engine.placed[1].now.state = "lost"
    again._attach()
    again.step()
    assert [job.name for job in engine.placed].count("a") == 1, "it was not started twice"


def test_an_interruption_stops_jobs_in_order_and_the_fleet_can_be_taken_up(tmp_path: Path) -> None:
    machines = [machine("n1")]
    engine, fleet = MemoryEngine(*machines), fleet_of("a", "b", machines=machines)
    driver = driver_of(fleet, engine, tmp_path)

    def interrupt(driver: Driver) -> None:
        if engine.placed and fleet.jobs[0].status == "running":
            engine.placed[0].finish(cells=1)
            raise KeyboardInterrupt

    driver.watch = interrupt
    with pytest.raises(KeyboardInterrupt):
        driver.run()
    assert [job.status for job in fleet.jobs] == ["interrupted", "interrupted"]
    assert engine.placed[0].stops == 1
    assert (tmp_path / fleet.jobs[0].run / "results.json").is_file()
    later = read_fleet(find_fleet("latest", tmp_path))
    take_up(later)
    assert all(job.status == "waiting" for job in later.jobs)


def test_a_driver_may_be_killed_as_often_as_it_likes(tmp_path: Path) -> None:
    machines = [machine("n1")]
    engine, fleet = MemoryEngine(*machines), fleet_of("a", machines=machines)
    for number in range(2 * MOST_ATTEMPTS):
        driver = driver_of(fleet, engine, tmp_path)
        driver._attach()
        driver.step()
        driver.step()
        assert fleet.jobs[0].status == "running", fleet.jobs[0].reason
        assert len(engine.placed) == number + 1
        engine.placed[-1].end()  # with its driver
        take_up(fleet)
    assert [attempt.end for attempt in fleet.jobs[0].attempts[:-1]] == ["the driver ended"] * (2 * MOST_ATTEMPTS - 1)


def test_a_finished_fleet_is_not_taken_up(tmp_path: Path) -> None:
    fleet = fleet_of("a")
    fleet.jobs[0].status = "done"
    with pytest.raises(UserError, match="no job is left to resume"):
        take_up(fleet)


def test_a_journal_that_is_over_leaves_the_copy_too(tmp_path: Path) -> None:
    machines = [machine("n1")]
    engine, fleet = MemoryEngine(*machines), fleet_of("a", machines=machines)
    driver = driver_of(fleet, engine, tmp_path)
    driver.step()
    job = engine.placed[0]
    job.finish(cells=1)
    job.files[f"{job.run}/results.journal"] = b"{}\n"
    driver.step()
    assert (tmp_path / job.run / "results.journal").is_file()
    del job.files[f"{job.run}/results.journal"]
    driver.step()
    assert not (tmp_path / job.run / "results.journal").exists()


def test_a_name_that_leads_out_of_the_log_folder_is_refused(tmp_path: Path) -> None:
    machines = [machine("n1")]
    engine, fleet = MemoryEngine(*machines), fleet_of("a", machines=machines)
    driver = driver_of(fleet, engine, tmp_path / "logs")
    driver.step()
    engine.placed[0].files["../canary"] = b"out"
    driver.step()
    assert fleet.jobs[0].status == "failed"
    assert "leads out" in fleet.jobs[0].reason
    assert not (tmp_path / "canary").exists()


def test_settings_of_an_engine_are_taken_back_and_said() -> None:
    given = {"OMP_NUM_THREADS": "1", "RAY_JOB_ID": "1", "PATH": "/bin"}
    environment, undone = clean_environment(given, {"MKL_NUM_THREADS": "2"})
    assert environment == {"PATH": "/bin", "MKL_NUM_THREADS": "2"}
    assert undone == {"OMP_NUM_THREADS": "1 instead of no setting, taken back"}


def test_what_a_job_may_not_use_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_setaffinity", lambda *given: None)
    monkeypatch.setattr(node, "allowed_cpus", lambda: [0, 1])
    assert node.free_cpus() == {"CPUs": "2 of 64 are given to the job"}


def test_how_far_a_run_is_comes_from_what_it_prints(tmp_path: Path) -> None:
    log = tmp_path / node.LOG
    assert node.progress_in(tmp_path) == ""
    log.write_text("[measuring the noise floor]\n")
    assert node.progress_in(tmp_path) == "measuring the noise floor"
    log.write_text("[starting]\n[3/9, 0:41, about 2:10 left] a 1 s x 4: RTF 0.1\nnote: [x](y)\n[\x1b[2Jodd] line\n")
    assert node.progress_in(tmp_path) == "3/9, 0:41, about 2:10 left"


def test_files_are_read_journal_first_and_only_when_they_changed(tmp_path: Path) -> None:
    run = tmp_path / "recipe" / "run"
    (run / "v" / "cell").mkdir(parents=True)
    for name in ("results.json", "results.journal", "tables.md", "v/cell/trace.json"):
        (run / name).write_text(name)
    files, seen = changed(tmp_path, {}, results_only=True)
    assert list(files) == ["recipe/run/results.journal", "recipe/run/results.json"]
    assert changed(tmp_path, seen, results_only=True)[0] == {}
    assert set(changed(tmp_path, seen, results_only=False)[0]) == {
        "recipe/run/tables.md",
        "recipe/run/v/cell/trace.json",
    }


def test_a_run_of_many_bytes_comes_home_in_portions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "PORTION", 1000)
    there, here = tmp_path / "there", tmp_path / "here"
    run = there / "a" / "run"
    run.mkdir(parents=True)
    (run / "results.json").write_bytes(results("a", 2))
    for number in range(6):
        (run / f"trace-{number}").write_bytes(bytes(600))
    seen: Seen = {}
    sizes = []
    while files := (found := changed(there, seen, results_only=False))[0]:
        sizes.append(sum(map(len, files.values())))
        assert found[1].keys() >= seen.keys(), "what waits for its turn is not taken for deleted"
        seen = found[1]
    assert len(sizes) > 2
    assert max(sizes) < 1000 + 600

    class Spooled(MemoryJob):
        def changed(self, seen: Seen, results_only: bool) -> tuple[Files, Seen]:
            return changed(there, seen, results_only)

    machines = [machine("n1")]
    engine, fleet = MemoryEngine(*machines), fleet_of("a", machines=machines)
    driver = driver_of(fleet, engine, here)
    driver.step()
    engine.placed[0].__class__ = Spooled
    engine.placed[0].end()
    driver.step()
    assert {file.name: file.stat().st_size for file in (here / "a" / "run").iterdir()} == {
        file.name: file.stat().st_size for file in run.iterdir()
    }


def test_a_busy_or_slow_machine_is_named() -> None:
    machines = [machine(f"n{number}") for number in range(3)]
    for each, speed in zip(machines, (100.0, 98.0, 60.0), strict=True):
        each.gflops = speed
    machines[0].load = 1.9
    found = "\n".join(warnings(fleet_of("a", machines=machines)))
    assert "n0: busy before anything of ours ran: load 1.9 of 2 cores" in found
    assert "n2: slow: its reference workload gave 60.0 GFLOP/s, machines of its kind 98.0" in found
    assert "n1" not in found


def test_a_full_disk_here_stops_the_jobs_in_order_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machines = [machine("n1")]
    engine, fleet = MemoryEngine(*machines), fleet_of("a", machines=machines)
    driver = driver_of(fleet, engine, tmp_path)
    driver.step()
    engine.placed[0].finish(cells=1)

    def full(*given: object, **more: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(driving, "replacing", full)
    with pytest.raises(StorageError, match=r"Cannot write .*results.json: No space left on device"):
        driver.run()
    assert engine.placed[0].stops == 1
    assert fleet.jobs[0].status == "interrupted"


def test_a_ray_cluster_of_another_version_is_refused_with_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    def mismatch(**given: object) -> None:
        raise RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 2.50.0\n    Python: 3.12.1")

    monkeypatch.setattr(ray, "init", mismatch)
    with socket.create_server(("127.0.0.1", 0)) as there:
        options = EngineOptions(address=f"127.0.0.1:{there.getsockname()[1]}")
        with pytest.raises(UserError, match=r"--on ray: Version mismatch: The cluster .* Ray: 2.50.0 Python: 3.12.1"):
            RayEngine("cpu", options)


def test_a_ray_cluster_that_was_here_last_and_is_gone_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(UserError, match=r"no Ray cluster answers at \S+:1 .*`ray start --head`"):
        RayEngine("cpu", EngineOptions())
