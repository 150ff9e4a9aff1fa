"""The noise floor: kept for a machine and a number of threads, recorded in runs, found again by a comparison."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from profiler.conditions import floor as floors
from profiler.conditions.floor import ASSUMED, floor_of, keep_floor, read_floor, record_floor
from profiler.errors import StorageError
from profiler.results.types import NoiseFloor, Results, Run

ROOT = Path(__file__).resolve().parents[3]
HERE = {"host": "lab-3", "cpu": "AMD EPYC", "cores": 2}
DAY = "2026-11-17T10:00:00+00:00"


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A made-up machine whose state folder is empty."""
    monkeypatch.setenv(floors.STATE, str(tmp_path / "state"))
    monkeypatch.setattr(floors, "_this_machine", lambda: HERE)
    return tmp_path


def results(**environment: Any) -> Results:
    run = Run(id="1", recipe="a.yaml", recipe_sha256="", command="", started="")
    return Results(run=run, environment={**HERE, "threads": 2, **environment})


def keep(value: float, threads: int = 2, level: float = 0.04, software: str = "torch 2.13.0") -> floors.Floor:
    return keep_floor(threads, value, level, software, DAY)


def test_without_doctor_there_is_no_floor_and_three_per_cent_are_assumed() -> None:
    assert read_floor() is None
    assert record_floor(2) is None
    assert floor_of(results(), results()) == floors.Floor(ASSUMED, "assumed")


def test_a_floor_is_kept_for_its_number_of_threads() -> None:
    keep(0.01, threads=1)
    kept = keep(0.02, threads=2)
    assert kept == floors.Floor(0.02, "measured by doctor on 2026-11-17")
    assert read_floor(2) == kept
    assert read_floor(1) == floors.Floor(0.01, kept.source)
    assert read_floor(4) is None
    assert read_floor() == kept, "of any number of threads: the largest"


def test_a_run_records_it() -> None:
    keep(0.02)
    assert record_floor(2) == NoiseFloor(value=0.02, threads=2, measured=DAY)
    assert record_floor(1) is None


def test_the_largest_floor_recorded_in_the_runs_counts() -> None:
    keep(0.5)
    recorded = [{"value": value, "threads": 2, "measured": DAY} for value in (0.01, 0.04)]
    found = floor_of(*(results(noise_floor=one) for one in recorded))
    assert found == floors.Floor(0.04, "measured by doctor on 2026-11-17")


def test_runs_without_a_record_use_the_floor_of_this_machine_if_they_were_made_here() -> None:
    keep(0.02)
    assert floor_of(results(), results()).value == 0.02
    assert floor_of(results(threads=1)).source == "assumed"
    assert floor_of(results(host="elsewhere"), results(host="elsewhere")).source == "assumed"


def test_another_machine_on_the_same_state_folder_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    keep(0.02)
    monkeypatch.setattr(floors, "_this_machine", lambda: HERE | {"host": "lab-4"})
    assert read_floor() is None
    keep(0.05)
    monkeypatch.setattr(floors, "_this_machine", lambda: HERE)
    assert read_floor(2) == floors.Floor(0.02, "measured by doctor on 2026-11-17")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"lab-3 | AMD EPYC | 2": []}',
        '{"lab-3 | AMD EPYC | 2": {"2": 5}}',
        '{"lab-3 | AMD EPYC | 2": {"2": {"value": "much", "trials": [1, {"level_s": -1}]}}}',
        '{"lab-3 | AMD EPYC | 2": {"2": {"value": NaN}}}',
    ],
)
def test_a_damaged_file_is_as_good_as_none_and_is_replaced(machine: Path, text: str) -> None:
    file = floors.state_file()
    file.parent.mkdir()
    file.write_text(text)
    assert read_floor(2) is None
    assert record_floor(2) is None
    keep(0.02)
    assert json.loads(file.read_text())[floors.machine_key(HERE)]["2"]["value"] == 0.02


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_a_record_that_makes_no_sense_is_passed_over(value: float) -> None:
    assert floor_of(results(noise_floor=NoiseFloor(value=value))).source == "assumed"


def test_trials_on_other_days_that_differ_more_raise_the_floor() -> None:
    keep(0.01, level=0.040)
    assert keep(0.01, level=0.0402).value == 0.01
    raised = keep(0.01, level=0.044)
    assert raised.value == pytest.approx(0.0537, abs=5e-4)
    assert read_floor(2) == raised


def test_trials_of_other_software_say_nothing_of_this_one() -> None:
    keep(0.01, level=0.040)
    assert keep(0.01, level=0.080, software="torch 2.14.0").value == 0.01


def test_the_level_of_a_disturbed_trial_is_not_remembered() -> None:
    keep(0.01, level=0.040)
    assert keep_floor(2, 0.08, 0.120, "torch 2.13.0", DAY, undisturbed=False).value == 0.08
    assert keep(0.01, level=0.0401).value == 0.01


def test_old_trials_are_dropped() -> None:
    for _ in range(floors.KEPT_TRIALS + 5):
        keep(0.01)
    assert len(floors.earlier_trials(2)) == floors.KEPT_TRIALS


def test_a_state_folder_that_cannot_be_written_is_said(machine: Path) -> None:
    (machine / "state").write_text("a file")
    with pytest.raises(StorageError, match="state"):
        keep(0.02)


def test_the_state_folder_of_the_user_is_the_default(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(floors.STATE)
    monkeypatch.setenv("XDG_STATE_HOME", str(machine))
    if sys.platform == "linux":
        assert floors.state_file() == machine / "speech-profiler" / floors.FILE


def test_importing_it_is_light() -> None:
    heavy = {"torch", "numpy", "scipy", "pydantic"}
    code = f"import sys, profiler.conditions.floor; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
