"""The fixture `speech_profile` in test files of users, run by a pytest of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from profiler.pytest_plugin import Figure, Measured, SpeechProfile, SpeechProfileUnclear
from tests.helpers.program import ROOT
from tests.helpers.synthetic import Made, make, save

WORK = """
import torch

def work(size=200):
    return torch.ones(size, size) @ torch.ones(size, size)
"""


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """As a user types it, in a folder of its own; the plugin is found as an installed one, or named."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "profiler.pytest_plugin"]
    environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    environment |= {"HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
    return subprocess.run(
        [*command, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )


def test_functions_are_profiled_decided_and_summed_up(tmp_path: Path) -> None:
    """One line per profile; a failure says the figure; a baseline is made, then held against; the page is left."""
    (tmp_path / "test_speed.py").write_text(
        WORK
        + """
def test_fast(speech_profile):
    found = speech_profile(work, seconds=10)
    found.assert_faster_than(0.5, "rtf")
    found.assert_less_memory_than(1e12)
    found.assert_not_slower("main", threshold=1e6)
    assert found.latency.ci95[0] <= found.latency.value <= found.latency.ci95[1]

def test_slow(speech_profile):
    speech_profile(work, seconds=1e-9).assert_faster_than(0.5, "rtf")

def test_no_audio(speech_profile):
    speech_profile(work).assert_faster_than(0.5, "rtf")
"""
    )
    first = run_pytest(tmp_path, "--speech-profile-report", "pages")
    assert "2 failed, 1 passed" in first.stdout, first.stdout + first.stderr
    lines = [line for line in first.stdout.splitlines() if line.startswith("test_speed.py::")]
    assert [line.split()[0].split("::")[1] for line in lines] == ["test_fast", "test_slow", "test_no_audio"]
    assert "faster than 0.500: yes; " in lines[0]
    assert lines[0].endswith("kept as main")
    assert "AssertionError: work: 1e-09 s x 1 RTF" in first.stdout
    assert "has no figure `rtf`. Give seconds=" in first.stdout
    assert len(list((tmp_path / "pages" / "work").glob("*/report.html"))) == 3
    (baseline,) = (tmp_path / ".speech-profile").glob("*/main/*.json")
    assert json.loads(baseline.read_text())["run"]["recipe"] == "work"
    (tmp_path / "test_more.py").write_text(
        WORK
        + """
def test_twice(speech_profile):
    for size in (20, 400):  # another amount of work is no change of the first
        speech_profile(work, size, seconds=10).assert_not_slower("main")

def items():
    yield work()

def test_items(speech_profile):
    speech_profile(items)
"""
    )
    again = run_pytest(tmp_path, "test_speed.py::test_fast", "test_more.py")
    assert "1 failed, 2 passed" in again.stdout, again.stdout
    assert "against main, ratio" in again.stdout
    assert "A call of items does nothing yet" in again.stdout
    assert len(list((tmp_path / ".speech-profile").glob("*/main/*test_twice*.json"))) == 2


def test_workers_of_xdist_profile_one_at_a_time_and_report(tmp_path: Path) -> None:
    (tmp_path / "test_turns.py").write_text(
        """
import os, pathlib, time
import pytest

@pytest.mark.parametrize("number", range(2))
def test_alone(speech_profile, number):
    def span():
        start = time.monotonic()
        time.sleep(0.02)
        return start, time.monotonic()
    spans = []
    speech_profile(lambda: spans.append(span()), name=f"span{number}")
    pathlib.Path(f"{number}.txt").write_text(f"{spans[0][0]} {spans[-1][1]} {os.getpid()}")
"""
    )
    done = run_pytest(tmp_path, "-p", "xdist", "-n", "2", "--dist", "load")
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("test_turns.py::test_alone[") == 2
    (start, end, one), (later, last, two) = sorted(
        tuple(map(float, (tmp_path / f"{number}.txt").read_text().split())) for number in range(2)
    )
    assert one != two
    assert start < end <= later < last


def test_without_a_profile_nothing_is_said_and_nothing_heavy_is_imported(tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text(
        "import sys\n\ndef test_nothing():\n    assert not {'torch', 'numpy', 'pydantic'} & set(sys.modules)\n"
    )
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout
    assert "speech profiles" not in done.stdout


def test_it_is_installed_with_the_package() -> None:
    from importlib.metadata import entry_points

    (found,) = [each for each in entry_points(group="pytest11") if each.name == "speech_profile"]
    assert found.value == "profiler.pytest_plugin"


class Node:
    """As much of a test as the figures need."""

    nodeid = "test_speed.py::test_it"

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, warning: Warning) -> None:
        assert isinstance(warning, SpeechProfileUnclear)
        self.warnings.append(str(warning))


def measured(tmp_path: Path, strict: bool = False, factor: float = 1.0, id: str = "one") -> Measured:
    """A run whose figures are made, with a known interval."""
    from profiler import load_run

    folder = save(make(Made(1, id=id, factors={"float32": factor})), tmp_path / id)
    return Measured(load_run(folder), SpeechProfile(Node(), tmp_path, False, tmp_path / "kept", strict, False), "made")


def test_an_interval_on_both_sides_is_unclear_and_fails_only_when_asked(tmp_path: Path) -> None:
    found = measured(tmp_path)
    low, high = found.latency.ci95 or (0.0, 0.0)
    inside = (low + high) / 2
    found.assert_faster_than(inside, "latency")
    node: Any = found._of.node
    assert any("latency" in text and text.endswith("unclear") for text in node.warnings)
    with pytest.raises(AssertionError, match=r"unclear \(--speech-profile-strict\)"):
        measured(tmp_path, strict=True, id="two").assert_faster_than(inside, "latency")


def test_slower_than_the_baseline_fails(tmp_path: Path) -> None:
    measured(tmp_path).assert_not_slower()
    with pytest.raises(AssertionError, match="slower against baseline, ratio 2"):
        measured(tmp_path, factor=2.0, id="two").assert_not_slower()


def test_a_figure_is_written_with_its_interval(tmp_path: Path) -> None:
    from profiler.metrics import LATENCY

    assert Figure(0.2, (0.1, 0.3), "call").text(LATENCY) == "call latency 200 ms [100, 300]"
