"""A fork with pages of its own: nothing is shared with its parent, nothing else changes."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from profiler.measure.layout import can_own_pages, fit, new_pages, own_pages, pages_in_memory

SIZE = 32 << 20
LIBC = ctypes.CDLL(None)
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


def pages_of(area: mmap.mmap) -> list[tuple[int, int]]:
    address = ctypes.addressof(ctypes.c_char.from_buffer(area))
    return [(address // mmap.PAGESIZE, len(area) // mmap.PAGESIZE)]


def test_what_was_shared_with_the_parent_is_the_forks_own_and_has_the_same_values() -> None:
    written = fresh_memory()
    runs = pages_in_memory()

    def work() -> tuple[int, int, bool]:
        before = memory("Shared_Dirty")
        same = written[:]
        own_pages(runs)
        return before, memory("Shared_Dirty"), written[:] == same

    before, after, unchanged = in_fork(work)
    assert before - after >= SIZE
    assert unchanged


def test_memory_that_was_never_used_stays_unused() -> None:
    with mmap.mmap(-1, 8 * SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS):
        runs = pages_in_memory()

        def work() -> tuple[int, int]:
            before = memory("Rss")
            own_pages(runs)
            return before, memory("Rss")

        before, after = in_fork(work)
    assert after - before < 4 * SIZE


def test_of_a_file_only_what_this_process_has_used_is_copied(tmp_path: Path) -> None:
    """Libraries for CUDA hold hundreds of MB of data that is in memory because someone else has read the file."""
    (tmp_path / "library").write_bytes(bytes(SIZE))
    with (tmp_path / "library").open("r+b") as file:
        area = mmap.mmap(file.fileno(), SIZE, access=mmap.ACCESS_COPY)
    ((start, count),) = pages_of(area)
    assert new_pages(pages_in_memory(), [(start, count)]) == [(start, count)]
    area[0] = 1
    assert new_pages(pages_in_memory(), [(start, 1)]) == []


def test_memory_that_was_given_back_meanwhile_is_passed_over() -> None:
    """As that of the list of mappings itself, which goes once it was read."""
    written = fresh_memory()
    ((start, count),) = pages_of(written)

    def work() -> tuple[int, int]:
        before = memory("Shared_Dirty")
        LIBC.munmap(ctypes.c_void_p((start + count // 3) * mmap.PAGESIZE), ctypes.c_size_t(mmap.PAGESIZE))
        own_pages([(start, count)])
        return before, memory("Shared_Dirty")

    before, after = in_fork(work)
    assert before - after >= SIZE - mmap.PAGESIZE


def test_a_copy_takes_no_more_than_a_part_of_the_memory_that_is_free() -> None:
    runs = [(0, 50), (100, 50)]
    assert fit(runs, 400 * mmap.PAGESIZE)
    assert not fit(runs, 399 * mmap.PAGESIZE)


def test_what_was_there_before_can_be_left_shared() -> None:
    """As a worker does: only what loading the model has used is copied."""
    older = fresh_memory()
    before = pages_in_memory()
    newer = fresh_memory()
    runs = new_pages(before, pages_in_memory())

    def work() -> tuple[int, int]:
        shared = memory("Shared_Dirty")
        own_pages(runs)
        return shared, memory("Shared_Dirty")

    shared, left = in_fork(work)
    assert shared - left >= len(newer)
    assert left >= len(older)


def test_new_pages_are_those_that_were_not_there_before() -> None:
    before = [(10, 5), (20, 5)]
    assert new_pages(before, [(10, 5), (20, 5)]) == []
    assert new_pages(before, [(8, 4), (14, 8), (30, 2)]) == [(8, 2), (15, 5), (30, 2)]
    assert new_pages(before, [(0, 100)]) == [(0, 10), (15, 5), (25, 75)]
    assert new_pages([], [(3, 3)]) == [(3, 3)]
    assert new_pages(before, [(12, 1), (22, 10)]) == [(25, 7)]
