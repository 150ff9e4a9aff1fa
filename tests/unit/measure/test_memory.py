"""Peak memory of modules whose live tensors are known by construction."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.helpers.known_memory import MB, MODULES
from tests.helpers.program import ROOT

PAGE = os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(scope="module")
def measured() -> dict[str, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.helpers.known_memory"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("name", MODULES)
def test_the_tensor_peak_is_exact(measured: dict[str, Any], name: str) -> None:
    assert measured[name]["tensors"] == MODULES[name].peak


@pytest.mark.parametrize("name", MODULES)
def test_the_process_peak_is_that_of_the_tensors(measured: dict[str, Any], name: str) -> None:
    assert measured[name]["above_baseline"] == pytest.approx(MODULES[name].peak, rel=0.02, abs=PAGE)


def test_the_process_figure_includes_the_weights_and_the_tensors_figure_does_not(measured: dict[str, Any]) -> None:
    found = measured["WithWeights"]
    assert found["tensors"] == 50 * MB
    assert found["process"] - found["above_baseline"] > 50 * MB
    assert found["device"] is None, "there is no device memory on a CPU"
