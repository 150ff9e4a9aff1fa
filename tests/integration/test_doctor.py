"""`profile.py doctor` for real: the trial runs in workers, the answer is whole, the floor is found by a comparison."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from profiler.conditions import floor as floors
from profiler.conditions.floor import floor_of
from profiler.environment import allowed_cpus, cpu_name
from profiler.results.types import Results, Run
from tests.helpers import program


@pytest.mark.slow
def test_the_machine_is_looked_at_and_its_floor_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(floors.STATE, str(tmp_path))
    done = program.run("doctor", "--json", "--threads", "1", "--logdir", tmp_path)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["answer"] in ("fit", "care", "unfit")
    assert answer["threads"] == 1
    assert answer["noise"]["runs"] >= 3
    assert answer["smallest_change"].keys() == {"compare", "rounds"}
    names = {check["name"] for check in answer["checks"]}
    assert {"noise floor", "governor", "turbo", "load", "steal", "CPU limit", "thread spinning", "memory"} <= names
    assert any(name.startswith("GPU") for name in names)
    assert "A/A trial" in done.stderr
    assert [file.name for file in tmp_path.iterdir()] == [floors.FILE], "nothing else is left behind"

    here = {"host": os.uname().nodename, "cpu": cpu_name(), "cores": len(allowed_cpus()), "threads": 1}
    run = Run(id="1", recipe="a.yaml", recipe_sha256="", command="", started="")
    kept = floor_of(Results(run=run, environment=here))
    assert kept == floors.Floor(**answer["floor"])
    recorded = floors.record_floor(1)
    assert floor_of(Results(run=run, environment={"noise_floor": recorded})) == kept
