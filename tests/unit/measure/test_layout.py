"""A fork with pages of its own: nothing is shared with its parent, nothing else changes."""

from __future__ import annotations

import json
import mmap
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from profiler.measure.layout import can_own_pages, new_pages, own_pages, pages_in_memory

SIZE = 32 << 20
PLENTY = 1 << 40
pytestmark = pytest.mark.skipif(not can_own_pages(), reason="needs Linux 5.14")


def in_fork(work: Callable[[], Any]) -> Any:
    """What it gives in a child, as JSON; the parent goes on holding its memory."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write_end, json.dumps(work()).encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return json.loads(text)


def memory(name: str) -> int:
    """Bytes of this process, by a line of smaps_rollup."""
    found = re.search(rf"(?m)^{name}:\s+(\d+) kB", Path("/proc/self/smaps_rollup").read_text())
    assert found is not None
    return int(found[1]) << 10


def fresh_memory() -> mmap.mmap:
    """Written to, and never part of the heap, which may have room left from before."""
    area = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    area.write(os.urandom(1 << 20) * (SIZE >> 20))
    return area


def test_what_was_shared_with_the_parent_is_the_forks_own_and_has_the_same_values() -> None:
    written = fresh_memory()

    def work() -> tuple[int, bool, int, bool]:
        before = memory("Shared_Dirty")
        same = written[:]
        done = own_pages(pages_in_memory(), PLENTY)
        return before, done, memory("Shared_Dirty"), written[:] == same

    before, done, after, unchanged = in_fork(work)
    assert before >= SIZE, "a fork shares"
    assert done
    assert after < SIZE / 4
    assert unchanged


def test_memory_that_was_never_used_stays_unused() -> None:
    with mmap.mmap(-1, 8 * SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS):
        grown = in_fork(lambda: (memory("Rss"), own_pages(pages_in_memory(), PLENTY), memory("Rss")))
    assert grown[1]
    assert grown[2] - grown[0] < SIZE


def test_where_memory_is_short_nothing_is_copied() -> None:
    written = fresh_memory()
    runs = pages_in_memory()
    done, shared = in_fork(lambda: (own_pages(runs, len(written)), memory("Shared_Dirty")))
    assert not done
    assert shared >= SIZE


def test_what_was_there_before_can_be_left_shared() -> None:
    """As a worker does: only what loading the model has used is copied."""
    older = fresh_memory()
    before = pages_in_memory()
    newer = fresh_memory()
    runs = new_pages(before, pages_in_memory())

    def work() -> tuple[int, bool, int]:
        return memory("Shared_Dirty"), own_pages(runs, PLENTY), memory("Shared_Dirty")

    shared, done, left = in_fork(work)
    assert done
    assert shared - left >= len(newer)
    assert left >= len(older)


def test_new_pages_are_those_that_were_not_there_before() -> None:
    before = [(10, 5), (20, 5)]
    assert new_pages(before, [(10, 5), (20, 5)]) == []
    assert new_pages(before, [(8, 4), (14, 8), (30, 2)]) == [(8, 2), (15, 5), (30, 2)]
    assert new_pages(before, [(0, 100)]) == [(0, 10), (15, 5), (25, 75)]
    assert new_pages([], [(3, 3)]) == [(3, 3)]
    assert new_pages(before, [(12, 1), (22, 10)]) == [(25, 7)]
