"""How this suite is spread over processes: what shares a run shares a process, with any pytest and pytest-xdist."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import group_of
from tests.helpers.program import ROOT

TESTS = """
import os
import pathlib
import time
import pytest

@pytest.mark.parametrize("number", range(6))
def test_where(number):
    time.sleep(0.02)
    with pathlib.Path(__file__).with_suffix(".txt").open("a") as file:
        file.write(os.environ["PYTEST_XDIST_WORKER"] + "\\n")
"""


@pytest.mark.slow
def test_the_tests_of_a_file_run_in_one_process(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_xdist_make_scheduler\n")
    for name in "abcd":
        (tmp_path / f"test_{name}.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-n", "2", "-q", "--rootdir", str(tmp_path), str(tmp_path)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    places = [file.read_text().split() for file in sorted(tmp_path.glob("*.txt"))]
    assert [len(names) for names in places] == [6] * 4
    assert [len(set(names)) for names in places] == [1] * 4
    assert {names[0] for names in places} == {"gw0", "gw1"}


def test_one_shipped_recipe_is_a_group_and_so_is_a_test_that_shares_nothing() -> None:
    shipped = "tests/integration/test_shipped_recipes.py"
    assert group_of(f"{shipped}::test_a[crdnn]") == group_of(f"{shipped}::test_b[crdnn]")
    assert group_of(f"{shipped}::test_a[crdnn]") != group_of(f"{shipped}::test_a[wav2vec2]")
    guides = "tests/integration/test_guides.py"
    assert group_of(f"{guides}::test_a") != group_of(f"{guides}::test_b")
