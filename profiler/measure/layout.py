"""Memory at a place of its own, for a process that was forked.

A fork shares the pages of the process that loaded the model until it writes to them. Where these pages lie in physical
memory, hence which sets of the caches they share, makes the same code about a per cent faster or slower for as long as
that process lives. Two equal sides of an A/B run would differ by that in all rounds alike, which no number of rounds
averages out. With pages of its own in every round it is one of the things that differ from round to round, which the
interval knows of.
"""

from __future__ import annotations

import ctypes
import mmap
import re
import sys
from collections.abc import Iterator
from pathlib import Path

MADV_POPULATE_WRITE = 23  # Linux 5.14: as if each page were written to
MOST = 0.25  # of the memory that is available: the pages of the other process stay beside the copy
PRESENT = bytes(value & 1 for value in range(256))  # the other bits that mincore(2) gives mean nothing
LIBC = ctypes.CDLL(None)


def can_own_pages() -> bool:
    """Whether the system can do it."""
    if sys.platform != "linux":
        return False
    with mmap.mmap(-1, mmap.PAGESIZE) as page:
        return _populate(ctypes.addressof(ctypes.c_char.from_buffer(page)), mmap.PAGESIZE)


def own_pages(available: int) -> bool:
    """Copy all memory that this process shares with the one it was forked from; gives whether it was done.

    `available`: bytes that are free on the machine; a copy that would take too much of them is not made.
    """
    if not can_own_pages():
        return False
    runs = [run for area in _writable() for run in _present(*area)]
    return sum(length for _, length in runs) <= MOST * available and all(_populate(*run) for run in runs)


def _writable() -> list[tuple[int, int]]:
    """Start and end of each private area that can be written to."""
    found = re.finditer(r"(?m)^([0-9a-f]+)-([0-9a-f]+) rw.p ", Path("/proc/self/maps").read_text())
    return [(int(area[1], 16), int(area[2], 16)) for area in found]


def _present(start: int, end: int) -> Iterator[tuple[int, int]]:
    """Start and length of each run of pages that are in memory; others were never used."""
    there = ctypes.create_string_buffer((end - start) // mmap.PAGESIZE)
    LIBC.mincore(ctypes.c_void_p(start), ctypes.c_size_t(end - start), there)
    for run in re.finditer(b"\x01+", there.raw.translate(PRESENT)):
        yield start + run.start() * mmap.PAGESIZE, len(run[0]) * mmap.PAGESIZE


def _populate(start: int, length: int) -> bool:
    return bool(LIBC.madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), MADV_POPULATE_WRITE) == 0)
