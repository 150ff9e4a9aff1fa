"""Numbers as people read them. Memory is in decimal units (1 GB = 10^9 bytes), as in published tables.

A metric has one unit wherever it stands, so that the figures of a column, and those of two views, can be compared by
eye: `UNITS`. Texts whose unit follows their size (`bytes_text`, `seconds_text`) are for all that is no metric: the
memory of a machine, the length of a data set, the size of a file.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

KB, MB, GB = 1e3, 1e6, 1e9


@dataclass(frozen=True)
class Unit:
    """How values that have one unit in results.json are written."""

    name: str  # what a person reads
    scale: float = 1.0  # one of these, in the unit of results.json
    digits: int = 3  # significant ones; fewer where a CI supports fewer
    decimals: int | None = None  # instead of these

    def number(self, value: float, half_width: float | None = None) -> str:
        """1.2345 s -> '1,230' (ms); `half_width`: of the 95 % CI, as a share of the value."""
        shown = value / self.scale
        if self.decimals is not None:
            return f"{shown:,.{self.decimals}f}"
        half = abs(shown) * (half_width or 0.0)
        text = rounded_to_interval(shown, shown - half, shown + half, self.digits)
        return f"{float(text):,.0f}" if abs(shown) >= 999.5 else text

    def text(self, value: float, half_width: float | None = None) -> str:
        """The number with its unit: '1,230 ms'."""
        return f"{self.number(value, half_width)} {self.name}".strip()


# By the unit of results.json; what is not here is written as it stands there.
UNITS = {
    "s": Unit("ms", 1e-3),
    "bytes": Unit("MB", MB),
    "fraction": Unit("%", 0.01, decimals=2),  # of an error rate
    "share": Unit("%", 0.01, digits=2),
    "count": Unit("", decimals=0),
    "MAC": Unit("GMAC", 1e9),
}


def bytes_text(count: float) -> str:
    """1234567890 -> '1.23 GB'."""
    for unit, name in ((GB, "GB"), (MB, "MB"), (KB, "kB")):
        if count >= unit * 0.9995:
            return f"{significant(count / unit, 3)} {name}"
    return f"{count:.0f} B"


def parse_bytes(size: str | int) -> int:
    """'8 GB' -> 8000000000; a plain number is bytes. Raises ValueError."""
    if isinstance(size, int):
        value, unit = float(size), "b"
    else:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?b?)\s*", size.lower())
        if match is None:
            raise ValueError(f"expected a memory size such as '8 GB' or '512 MB', got '{size}'")
        value, unit = float(match[1]), match[2]
    base = 1024 if "i" in unit else 1000
    bytes_ = int(value * base ** "bkmgt".index((unit or "b")[0]))
    if bytes_ <= 0:
        raise ValueError("expected a memory size greater than 0")
    return bytes_


def seconds_text(seconds: float) -> str:
    """0.0123 -> '12.3 ms', 95 -> '95 s', 600 -> '10 min'."""
    if seconds < 0.9995e-3:
        return f"{significant(seconds * 1e6, 3)} µs"
    if seconds < 0.9995:
        return f"{significant(seconds * 1e3, 3)} ms"
    if seconds < 120:
        return f"{significant(seconds, 3)} s"
    if seconds < 5400:
        return f"{significant(seconds / 60, 2)} min"
    return f"{significant(seconds / 3600, 2)} h"


def many(count: object, thing: str) -> str:
    """1, 'thread' -> '1 thread'; 2, 'thread' -> '2 threads'."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def place_text(seconds: float, batch_size: int) -> str:
    """A cell of the grid, as tables name it."""
    return f"{length_text(seconds)} x {batch_size}" if seconds or batch_size > 1 else length_text(seconds)


def length_text(seconds: float) -> str:
    """A row of the grid; one's own code may say no length of audio."""
    return f"{seconds:g} s" if seconds else "call"


def clock_text(seconds: float) -> str:
    """75 -> '1:15'."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


def significant(value: float, digits: int) -> str:
    """A plain decimal with so many significant digits: 0.01234 -> '0.0123', 1234 -> '1230' with 3."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, decimals)
    if abs(rounded) >= 10.0 ** (digits - decimals):  # 9.999 became 10.00: a digit more before the point
        decimals -= 1
    return f"{rounded:.{max(0, decimals)}f}"


FEWEST_DIGITS = 2  # however wide the interval is: of one digit, 0.0146 and 0.0097 would look alike


def rounded_to_interval(value: float, low: float, high: float, most: int = 3) -> str:
    """The digits that an interval supports, two at least: the last one shown is of the size of the interval's half
    width."""
    half = max(high - value, value - low)
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    magnitude = math.floor(math.log10(abs(value)))
    supported = most if half <= 0 else magnitude - math.floor(math.log10(half)) + 1
    return significant(value, min(most, max(FEWEST_DIGITS, supported)))
