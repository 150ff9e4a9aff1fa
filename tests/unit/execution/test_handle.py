"""Worker processes that lie at the same addresses, so that where code lies cannot make one side faster."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from profiler.execution.workers import same_addresses


def code_at() -> str:
    """Where a new process has its libraries."""
    text = "print([line.split('-')[0] for line in open('/proc/self/maps') if 'libc.so' in line][0])"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def randomised() -> bool:
    setting = Path("/proc/sys/kernel/randomize_va_space")
    return setting.exists() and setting.read_text().strip() != "0"


@pytest.mark.skipif(not randomised(), reason="this system puts all processes at the same addresses")
def test_processes_lie_at_the_same_addresses_while_it_is_wanted_and_only_then() -> None:
    with same_addresses() as fixed:
        alike = {code_at() for _ in range(4)}
    assert (len(alike) == 1) == fixed
    with same_addresses(wanted=False) as fixed:
        assert not fixed
        assert len({code_at() for _ in range(4)}) > 1
    assert len({code_at() for _ in range(4)}) > 1
