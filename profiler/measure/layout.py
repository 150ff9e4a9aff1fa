"""Memory at a place of its own, for a process that was forked.

A fork shares the pages of the process that loaded the model until it writes to them. Where these pages lie in physical
memory, hence which sets of the caches they share, makes the same code about a per cent faster or slower for as long as
that process lives. Two equal sides of an A/B run would differ by that in all rounds alike, which no number of rounds
averages out. With pages of its own in every round it is one of the things that differ from round to round, which the
interval knows of.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

MADV_POPULATE_WRITE = 23  # Linux 5.14: as if each page were written to
MOST = 0.25  # of the memory that is available: the pages of the other process stay beside the copy
PRESENT = bytes(value >> 7 for value in range(256))  # the highest bit of an entry in pagemap, see proc(5)
ENTRY = 8  # bytes of one, the lowest first
LIBC = ctypes.CDLL(None, use_errno=True)

Run = tuple[int, int]  # pages that follow each other: number of the first, how many


def can_own_pages() -> bool:
    """Whether the system can do it."""
    if sys.platform != "linux":
        return False
    with mmap.mmap(-1, mmap.PAGESIZE) as page:
        return _populate((ctypes.addressof(ctypes.c_char.from_buffer(page)) // mmap.PAGESIZE, 1))


def pages_in_memory() -> list[Run]:
    """The pages that this process has used, of those that are private and can be written to, in order."""
    if not can_own_pages():
        return []
    areas = re.finditer(r"(?m)^([0-9a-f]+)-([0-9a-f]+) rw.p ", Path("/proc/self/maps").read_text())
    return [run for area in areas for run in _used(int(area[1], 16), int(area[2], 16))]


def new_pages(before: Sequence[Run], after: Sequence[Run]) -> list[Run]:
    """What was not there before; both are in order."""
    new = []
    for start, count in after:
        end = start + count
        for known, size in before:
            if start < known + size and known < end:
                new.append((start, known - start))
                start = known + size
        new.append((start, end - start))
    return [run for run in new if run[1] > 0]


def fit(runs: Sequence[Run], available: int) -> bool:
    """Whether a copy of these pages takes no more than a part of the bytes that are free on the machine."""
    return sum(count for _, count in runs) * mmap.PAGESIZE <= MOST * available


def own_pages(runs: Sequence[Run]) -> None:
    """Copy these pages, which this process shares with the one it was forked from. A run of pages in which some were
    given back to the system since it was found is copied around the gap."""
    left = list(runs)
    while left:
        start, count = run = left.pop()
        if not _populate(run) and ctypes.get_errno() == errno.ENOMEM and count > 1:
            left += [(start, count // 2), (start + count // 2, count - count // 2)]


def _used(start: int, end: int) -> Iterator[Run]:
    """Not by mincore(2): of a library's file it names pages too that only other processes have used."""
    with Path("/proc/self/pagemap").open("rb") as file:
        file.seek(start // mmap.PAGESIZE * ENTRY)
        entries = file.read((end - start) // mmap.PAGESIZE * ENTRY)
    for run in re.finditer(b"\x01+", entries[ENTRY - 1 :: ENTRY].translate(PRESENT)):
        yield start // mmap.PAGESIZE + run.start(), len(run[0])


def _populate(run: Run) -> bool:
    start, length = (number * mmap.PAGESIZE for number in run)
    return bool(LIBC.madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), MADV_POPULATE_WRITE) == 0)
