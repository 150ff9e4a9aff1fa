"""The peak of a run, and a cell's share of it."""

from __future__ import annotations

import pytest

from profiler.measure.reference import higher_peak, relate_to_peak
from profiler.results.types import Operations, Reference

START = Reference(gflops=100.0, gb_per_s=8.0, threads=2)
END = Reference(gflops=80.0, gb_per_s=10.0, threads=2)
BEST = Reference(gflops=100.0, gb_per_s=10.0, threads=2)


def related(latency: float, reference: Reference | None, moved: int = 1_000_000_000) -> Operations:
    """Ten GMAC of a call that took so long."""
    work = Operations(macs=10_000_000_000, per_second=1.0, bytes_moved=moved)
    relate_to_peak(work, latency, reference)
    return work


def test_the_peak_is_the_best_that_was_seen() -> None:
    assert higher_peak(None, START) == START
    assert higher_peak(START, END) == BEST
    assert higher_peak(END, START) == BEST


def test_a_share_is_what_the_peak_would_have_needed() -> None:
    found = related(0.4, START)
    assert found.achieved_gflops == pytest.approx(50.0)
    assert found.share_of_peak == pytest.approx(0.5)
    assert found.intensity == pytest.approx(20.0)
    assert found.bound == "compute"


def test_memory_binds_where_moving_takes_longer_than_arithmetic() -> None:
    assert related(0.6, START, moved=4_000_000_000).bound == "memory"


def test_a_call_far_from_both_is_overhead() -> None:
    assert related(10.0, START).bound == "overhead"


def test_without_a_peak_there_is_no_share() -> None:
    found = related(0.4, None)
    assert (found.achieved_gflops, found.intensity) == (pytest.approx(50.0), pytest.approx(20.0))
    assert (found.share_of_peak, found.bound, found.peak_gflops) == (None, None, None)
