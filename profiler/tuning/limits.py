"""'memory 1 GB, wer +0.5' -> limits that a candidate has to keep, and whether its figures do.

A quick look is not exact: what it finds a little over a limit is `unclear` and stays until it was measured properly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from profiler.errors import UserError, did_you_mean
from profiler.metrics import METRICS
from profiler.results.metric import Metric
from profiler.results.types import Accuracy, ErrorRate
from profiler.units import bytes_text, parse_bytes, seconds_text, significant

FIGURES: dict[str, Metric] = {
    name: METRICS[key]
    for name, key in {
        "rtf": "rtf",
        "latency": "latency",
        "memory": "memory",
        "energy": "energy_per_second",
        "size": "size",
        "wer": "wer",
        "cer": "cer",
    }.items()
}
RATES = ("wer", "cer")
GOALS = ("rtf", "latency", "memory", "energy", "size")
HOW = {
    "rtf": "rtf 0.1",
    "latency": "latency 200 ms",
    "memory": "memory 1 GB",
    "energy": "energy 2 J (for a second of audio)",
    "size": "size 100 MB",
    "wer": "wer +0.5 (percentage points over the first variant), wer 12 (percent)",
    "cer": "cer +0.5, cer 5",
}
# How far the figure of a quick look may be from the true one: calls of a busy machine are stretched, memory hardly is.
LOOK_MARGIN = {"rtf": 0.5, "latency": 0.5, "energy": 0.5, "memory": 0.1, "size": 0.0}
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}
Verdict = Literal["kept", "unclear", "over", "unknown"]


@dataclass(frozen=True)
class Rate:
    """An error rate as a fraction, and its difference to that of the first variant."""

    value: float
    ci95: tuple[float, float] | None = None
    difference: float | None = None
    difference_ci95: tuple[float, float] | None = None


Figures = Mapping[str, "float | Rate | None"]


@dataclass(frozen=True)
class Limit:
    """A figure may be at most `most`, in the unit of results.json; `relative`: over that of the first variant."""

    figure: str
    most: float
    relative: bool = False

    @property
    def text(self) -> str:
        """'memory 1.00 GB', 'WER +0.5 points'."""
        name, points = FIGURES[self.figure].short, f"{self.most * 100:g}"
        if self.figure in RATES:
            return f"{name} +{points} points" if self.relative else f"{name} {points} %"
        if self.figure in ("memory", "size"):
            return f"{self.figure} {bytes_text(self.most)}"
        if self.figure == "latency":
            return f"latency {seconds_text(self.most)}"
        return f"{name} {significant(self.most, 3)}" if self.figure == "rtf" else f"energy {self.most:g} J per s"

    def verdict(self, figures: Figures, look: bool = False) -> Verdict:
        """`look`: the figures are of one or two rounds."""
        value = figures.get(self.figure)
        if value is None:
            return "unknown"
        if isinstance(value, Rate):
            return self._of_rate(value)
        if value <= self.most:
            return "kept"
        return "unclear" if look and value <= self.most * (1.0 + LOOK_MARGIN[self.figure]) else "over"

    def shown(self, figures: Figures) -> str:
        """The figure that is judged: '1.20 GB', '+0.8 points'."""
        value = figures.get(self.figure)
        if isinstance(value, Rate):
            if self.relative:
                return "n/a" if value.difference is None else f"{value.difference * 100:+.2f} points"
            return f"{value.value:.2%}"
        return FIGURES[self.figure].text(value)

    def _of_rate(self, rate: Rate) -> Verdict:
        """By the 95 % CI: over where all of it is, unclear where the limit lies within it and the figure is over."""
        value, ci = (rate.difference, rate.difference_ci95) if self.relative else (rate.value, rate.ci95)
        if value is None:
            return "unknown"
        if value <= self.most:
            return "kept"
        return "unclear" if ci is not None and ci[0] <= self.most else "over"


def rate_of(entry: Accuracy | None, first: Accuracy | None, name: str) -> Rate | None:
    """With the difference to the first variant; its interval is known of words alone."""
    found: ErrorRate | None = getattr(entry, name, None)
    before: ErrorRate | None = getattr(first, name, None)
    if entry is None or found is None:
        return None
    if entry is first:
        return Rate(found.value, found.ci95, 0.0, (0.0, 0.0))
    gap = found.value - before.value if before is not None else None
    paired = entry.difference if name == "wer" and first is not None else None
    if paired is not None and first is not None and paired.to == first.variant:
        return Rate(found.value, found.ci95, paired.value, paired.ci95)
    return Rate(found.value, found.ci95, gap)


def parse_limits(text: str) -> list[Limit]:
    """Raises UserError that says what is known."""
    found = [_limit(part.strip()) for part in text.split(",") if part.strip()]
    names = [limit.figure for limit in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UserError(f"--under: `{twice[0]}` is limited twice; keep one.")
    return found


def _limit(part: str) -> Limit:
    match = re.fullmatch(r"([A-Za-z]+)\s*(?:<=|[<:=])?\s*(\+?)\s*(.*)", part)
    name = match[1].lower() if match else part
    if match is None or name not in FIGURES:
        known = "; ".join(HOW.values())
        meant = did_you_mean(name, list(FIGURES)) if name not in FIGURES else ""
        raise UserError(f"--under `{part}`: expected a figure and its limit.{meant} Known: {known}.")
    sign, value = match[2], match[3].strip()
    if not value:
        raise UserError(f"--under `{part}`: the limit is missing; write {HOW[name]}.")
    if sign and name not in RATES:
        raise UserError(f"--under `{part}`: only error rates are limited by a difference; write {HOW[name]}.")
    try:
        most = _value(name, value)
    except ValueError:
        raise UserError(f"--under `{part}`: `{value}` is no limit for {name}; write {HOW[name]}.") from None
    if not 0.0 <= most < float("inf") or (most == 0.0 and not sign):
        raise UserError(f"--under `{part}`: expected a number greater than 0.")
    return Limit(name, most, bool(sign))


def _value(name: str, text: str) -> float:
    if name in ("memory", "size"):
        return float(parse_bytes(text))
    if name in RATES:
        return float(re.sub(r"\s*(%|points?|pp)$", "", text)) / 100.0
    if name == "latency":
        match = re.fullmatch(r"([\d.]+)\s*(s|ms|us|µs)", text)
        if match is None:
            raise ValueError(text)
        return float(match[1]) * SECONDS[match[2]]
    return float(re.sub(r"\s*(J|J per s|J/s)$", "", text) if name == "energy" else text)
