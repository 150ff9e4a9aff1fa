"""The rank test and the correction for many cells give what scipy gives, and do not need it."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest
from scipy.stats import false_discovery_control, mannwhitneyu

from profiler.comparison.ranks import corrected, rank_test


@pytest.mark.parametrize("sizes", [(9, 9), (30, 12), (100, 100), (5, 40), (3, 3), (1, 20)])
@pytest.mark.parametrize("shift", [0.0, 0.3, 3.0, -1.0])
@pytest.mark.parametrize("digits", [12, 1])  # with one digit there are many ties
def test_it_is_scipys_rank_test(sizes: tuple[int, int], shift: float, digits: int) -> None:
    rng = random.Random(f"{sizes} {shift} {digits}")
    first = [round(rng.gauss(10.0, 1.0), digits) for _ in range(sizes[0])]
    second = [round(rng.gauss(10.0 + shift, 1.0), digits) for _ in range(sizes[1])]
    assert rank_test(first, second) == pytest.approx(mannwhitneyu(first, second).pvalue, rel=1e-9)


def test_equal_samples_are_no_evidence() -> None:
    assert rank_test([1.0] * 20, [1.0] * 20) == 1.0


@pytest.mark.parametrize("seed", range(5))
def test_it_is_scipys_correction(seed: int) -> None:
    rng = random.Random(seed)
    probabilities = [rng.choice([rng.random(), rng.random() / 1000, 0.5]) for _ in range(1 + 7 * seed)]
    assert corrected(probabilities) == pytest.approx(false_discovery_control(probabilities, method="bh"))


def test_usual_runs_are_compared_without_what_takes_long_to_import() -> None:
    code = (
        "import sys\n"
        "from profiler import compare\n"
        "from tests.synthetic import Made, make\n"
        "compare(make(Made(seed=1)), make(Made(seed=2)))\n"
        "print([name for name in ('scipy', 'numpy', 'torch') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
