"""Faster, slower or no difference: the verdict on each pair of cells.

A cell is called different when all of this holds:
- a rank test on the raw samples (Mann-Whitney) tells the two apart,
- so does a test on the rounds, which knows that calls of one minute are alike (see noise.py),
- both still do after correction for the number of cells (Benjamini-Hochberg), so that no more than 1 cell of 100 that
  did not change is called different,
- the times differ by at least the least ratio,
- and by more than the machine's own change explains (see machine.py).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from profiler.comparison.levels import Levels, times_of
from profiler.comparison.noise import Shift, beside_others, mean_shift, shifts
from profiler.comparison.ranks import corrected, rank_test
from profiler.comparison.result import Speed, Verdict
from profiler.results import CellResult

LEVEL = 0.01  # of cells that did not change may be called different
LEAST = 0.03  # differences below 3 % are of no interest, however sure
MANY_ROUNDS = 5  # from here on more rounds help little


@dataclass(frozen=True)
class Allowance:
    """The range of logarithms of ratios that the machine's own change may explain; 0 lies in it. And why."""

    low: float = 0.0
    high: float = 0.0
    reason: str = ""

    def __add__(self, other: Allowance) -> Allowance:
        reasons = [reason for reason in (self.reason, other.reason) if reason]
        return Allowance(self.low + other.low, self.high + other.high, " and ".join(reasons))


@dataclass(frozen=True)
class Timed:
    """Two cells with usable samples, in rounds: those that are compared, and which of all rounds these are."""

    first: list[list[float]]
    second: list[list[float]]
    paired: bool
    whole: Allowance  # what changed for all cells of the run alike
    own: Allowance  # what changed for this cell
    numbers: tuple[tuple[int, ...], tuple[int, ...]]

    @property
    def allowance(self) -> Allowance:
        return self.whole + self.own

    @property
    def times(self) -> tuple[float, float]:
        """What is compared, in seconds."""
        return times_of(self.first, self.second)


@dataclass(frozen=True)
class Seen:
    """A shift, what the machine may explain of it, its probability by chance, and what all cells had in common where
    that was taken off it."""

    shift: Shift
    allowance: Allowance
    chance: float
    common: float = 0.0

    @classmethod
    def of(cls, shift: Shift, allowance: Allowance, common: float = 0.0) -> Seen:
        return cls(shift, allowance, shift.probability(allowance.low, allowance.high), common)


def rounds_of(cell: CellResult) -> list[list[float]] | str:
    """The samples of each round; or why there are none to judge by."""
    if cell.status != "ok":
        return f"{cell.status}: {cell.reason or 'no reason given'}"
    latency = cell.latency_s
    if latency is None or not latency.samples:
        return "raw samples are missing"
    if not all(math.isfinite(sample) and sample > 0 for sample in latency.samples):
        return "raw samples are damaged: not all are times above 0"
    counts = [count for count in latency.rounds if count > 0]
    if sum(counts) != len(latency.samples):
        return "raw samples are damaged: they do not fit the rounds"
    rounds, start = [], 0
    for count in counts:
        rounds.append(list(latency.samples[start : start + count]))
        start += count
    return rounds


def judge(cells: Sequence[Timed], least: float = LEAST) -> tuple[list[Speed], Speed]:
    """The verdict on each cell, and on the geometric mean over them; needs at least one."""
    levels = [Levels.of(cell.first, cell.second, cell.paired, cell.numbers) for cell in cells]
    found, looks = _by_rounds(levels, cells, least)
    ranks = [_rank_test(cell, seen.common) for cell, seen in zip(cells, found, strict=True)]
    probabilities = [max(rank, seen.chance) for rank, seen in zip(ranks, found, strict=True)]
    adjusted = corrected(probabilities)
    speeds = []
    for number, cell in enumerate(cells):
        reachable = _orders(cell) >= 2.0 * len(cells) / LEVEL
        seen = found[number]
        speed = _speed(seen, probabilities[number], adjusted[number], least, looks * len(cells))
        speed.reason = _why(speed, seen, least) or _why_not(speed, seen, cell, ranks[number], reachable)
        speeds.append(speed)
    whole = _whole(levels, cells)  # has no samples of its own, hence no rank test: rounds alone decide
    return speeds, _speed(whole, whole.chance, whole.chance, least, 1)


def _by_rounds(levels: Sequence[Levels], cells: Sequence[Timed], least: float) -> tuple[list[Seen], int]:
    """The shift of each cell and its probability by chance, and how many looks were taken at it.

    Unless the cells as a whole shifted for sure, a cell is looked at as it is and beside the others; the smaller chance
    counts twice then.
    """
    alone = [Seen.of(shift, cell.allowance) for shift, cell in zip(shifts(levels), cells, strict=True)]
    beside = beside_others(levels)
    if beside is None:
        return alone, 1
    relative, common = beside
    if abs(common) >= math.log1p(least) and _whole(levels, cells).chance <= LEVEL:
        return alone, 1
    found = []
    for first, shift, cell in zip(alone, shifts(relative, lasting=0.0), cells, strict=True):
        second = Seen.of(shift, cell.own, common)
        agree = shift.value * first.shift.value > 0.0  # else it only stayed where it was while others moved
        best = second if second.chance < first.chance and agree else first
        found.append(replace(best, chance=min(1.0, 2.0 * best.chance)))
    return found, 2


def _speed(seen: Seen, probability: float, adjusted: float, least: float, tests: int) -> Speed:
    shift, allowance = seen.shift, seen.allowance
    low, high = shift.interval()
    beyond = shift.value > allowance.high or shift.value < allowance.low
    far = abs(shift.value) >= math.log1p(least)
    verdict: Verdict = "no difference"
    if adjusted <= LEVEL and far and beyond:
        verdict = "slower" if shift.value > 0 else "faster"
    return Speed(
        verdict=verdict,
        ratio=math.exp(shift.value),
        ci95=(math.exp(low), math.exp(high)),
        p=probability,
        p_adjusted=adjusted,
        detectable=math.exp(max(math.log1p(least), allowance.high + shift.least(LEVEL / tests))),
        by_machine=(math.exp(allowance.low), math.exp(allowance.high)),
    )


def _why(speed: Speed, seen: Seen, least: float) -> str:
    """What a reader must know of a cell that is called different by how it stands beside the others."""
    if speed.verdict == "no difference" or abs(seen.common) < math.log1p(least):
        return ""
    how = f"{abs(math.expm1(seen.common)):.0%} {'slower' if seen.common > 0 else 'faster'}"
    return f"beside the other cells, which were {how} in this run, perhaps by chance"


def _why_not(speed: Speed, seen: Seen, cell: Timed, rank: float, reachable: bool) -> str:
    """What a reader would ask of a cell whose interval leaves out 1 and that is not called different."""
    low, high = speed.ci95 or (1.0, 1.0)
    if speed.verdict != "no difference" or low <= 1.0 <= high:
        return ""
    if not reachable:
        return "too few calls for a rank test over so many cells"
    allowance = seen.allowance
    if allowance.low <= seen.shift.value <= allowance.high and allowance.reason:
        return allowance.reason
    if speed.p_adjusted is not None and speed.p_adjusted <= LEVEL:
        return "less than the least ratio"
    if rank > LEVEL:
        return "single calls overlap"
    if allowance.reason and allowance.low < allowance.high:
        return f"not sure enough, considering that {allowance.reason}"
    few = min(len(cell.first), len(cell.second)) < MANY_ROUNDS
    return "not sure enough" + ("; more rounds would tell" if few else "")


def _whole(levels: Sequence[Levels], cells: Sequence[Timed]) -> Seen:
    """All cells together: the geometric mean of their ratios."""
    count = len(cells)
    allowance = Allowance(
        sum(cell.allowance.low for cell in cells) / count,
        sum(cell.allowance.high for cell in cells) / count,
        next((cell.allowance.reason for cell in cells if cell.allowance.reason), ""),
    )
    return Seen.of(mean_shift(levels), allowance)


def _rank_test(cell: Timed, common: float) -> float:
    """Mann-Whitney. Rounds that both went through side by side are brought to one level first, and runs where the cell
    is seen beside the others (aligned ranks)."""
    levels = [1.0] * max(len(cell.first), len(cell.second))
    if cell.paired:
        pairs = zip(cell.first, cell.second, strict=True)
        levels = [math.sqrt(statistics.median(one) * statistics.median(two)) for one, two in pairs]
    first, second = (
        [sample / level for values, level in zip(rounds, levels, strict=False) for sample in values]
        for rounds in (cell.first, cell.second)
    )
    return rank_test(first, [sample * math.exp(-common) for sample in second])


def _orders(cell: Timed) -> int:
    """In how many orders samples could have come; the rank test cannot give less than two of them a probability."""
    first, second = (sum(len(values) for values in rounds) for rounds in (cell.first, cell.second))
    return math.comb(first + second, first)
