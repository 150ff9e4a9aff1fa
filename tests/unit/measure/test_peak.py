"""The peak of a run, and a cell's share of it."""

from __future__ import annotations

import pytest

from profiler.measure.peak import higher_peak, relate_to_peak

START = {"gflops": 100.0, "gb_per_s": 8.0, "threads": 2}
END = {"gflops": 80.0, "gb_per_s": 10.0, "threads": 2}
WORK = {"macs": 10_000_000_000, "bytes_moved": 1_000_000_000}


def test_the_peak_is_the_best_that_was_seen() -> None:
    assert higher_peak(None, START) == START
    assert higher_peak(START, END) == {"gflops": 100.0, "gb_per_s": 10.0, "threads": 2}
    assert higher_peak(END, START) == {"gflops": 100.0, "gb_per_s": 10.0, "threads": 2}


def test_a_share_is_what_the_peak_would_have_needed() -> None:
    found = relate_to_peak(WORK, latency=0.4, reference=START)
    assert found["achieved_gflops"] == pytest.approx(50.0)
    assert found["share_of_peak"] == pytest.approx(0.5)
    assert found["intensity"] == pytest.approx(20.0)
    assert found["bound"] == "compute"


def test_memory_binds_where_moving_takes_longer_than_arithmetic() -> None:
    assert relate_to_peak(WORK | {"bytes_moved": 4_000_000_000}, 0.6, START)["bound"] == "memory"


def test_a_call_far_from_both_is_overhead() -> None:
    assert relate_to_peak(WORK, 10.0, START)["bound"] == "overhead"


def test_without_a_peak_there_is_no_share() -> None:
    found = relate_to_peak(WORK, 0.4, None)
    assert found == {"achieved_gflops": pytest.approx(50.0), "intensity": pytest.approx(20.0)}
