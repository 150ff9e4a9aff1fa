"""How many calls a cell can afford: how long one call takes, and the time that there is -> which calls are made.

    a call                      timing                                other passes
    short                       rounds with warm-up                   all, each with the calls that it likes
    long                        as many rounds as there is time for,  each with the fewest calls that give a figure;
                                at least one; only the first has      those for which there is no time are left out,
                                a warm-up call, in which memory is    and say so
                                recorded

A call of an eighth of a second may be made a hundred times; of one that takes a minute, each has to be worth it. The
same rule decides before a cell runs, by the predicted length of a call, and in the process that measures it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from profiler.units import many, seconds_text

NO_LIMIT = 1e12  # seconds; infinity has no form in the messages to a worker
LONG_SECONDS = 3.0  # a shorter call is never cut: the rounds of it fit in a minute
# A run lasts as long as the time for so many cells, at least; a single cell may have that for timing, and once more for
# its other passes, before its calls become fewer.
CELLS_AT_LEAST = 6


@dataclass(frozen=True)
class PassCalls:
    """Calls that a pass makes in the first round."""

    usual: int
    fewest: int  # where calls are long
    optional: bool = False  # a cell is measured without it, too
    asked: bool = False  # by a key of the recipe that is for it alone: left out only where the limit would be passed


@dataclass(frozen=True)
class Allowance:
    """What the recipe allows a cell."""

    seconds: float = NO_LIMIT  # for timing, and as much again beside it
    limit: float = NO_LIMIT  # for one round, all passes together
    rounds: int = 1  # that are needed for a 95 % CI, or fewer where fewer were asked for
    min_calls: int = 1
    passes: dict[str, PassCalls] = field(default_factory=dict)  # in the order in which they run

    def long(self, call_s: float | None) -> bool:
        """Whether calls of this length are so long that fewer have to do."""
        if call_s is None or call_s < LONG_SECONDS:
            return False
        others = sum(each.usual for name, each in self.passes.items() if name != "time")
        return call_s * max(self.rounds * (1 + self.min_calls), others) > self.seconds

    def visit_seconds(self, call_s: float | None) -> float:
        """What timing takes in a round after the first."""
        if call_s is None or call_s < LONG_SECONDS or self.seconds >= NO_LIMIT:
            return 0.0  # next to nothing, or of no account
        return call_s * (self.min_calls + (not self.long(call_s)))

    def more_rounds(self, call_s: float | None, spent: float | None) -> int:
        """How many more rounds there is time for after so many seconds of timing; None: before the first one, which a
        cell always has."""
        each = self.visit_seconds(call_s)
        if call_s is None or not each:
            return sys.maxsize
        left = self.seconds - (call_s * (1 + self.min_calls) if spent is None else spent)
        return max(0, int(left / each)) + (spent is None)

    def calls(self, call_s: float | None) -> dict[str, int]:
        """The calls of each pass in the first round; a pass that is left out is not named."""
        if call_s is None or not self.long(call_s):
            return {name: each.usual for name, each in self.passes.items()}
        found = {name: each.fewest for name, each in self.passes.items() if not each.optional}
        optional = [(name, each) for name, each in self.passes.items() if each.optional]
        extra = 0
        for name, each in sorted(optional, key=lambda entry: not entry[1].asked):
            fits = each.asked or not each.fewest or (extra + each.fewest) * call_s <= self.seconds
            if fits and (sum(found.values()) + each.fewest) * call_s <= self.limit:
                found[name] = each.fewest
                extra += each.fewest
        return {name: found[name] for name in self.passes if name in found}

    def left_out(self, name: str, call_s: float | None) -> str | None:
        """Why a pass is not made; None where it is."""
        if call_s is None or name in self.calls(call_s) or name not in self.passes:
            return None
        fewest = self.passes[name].fewest
        if self.passes[name].asked:
            return f"a call takes {seconds_text(call_s)}: with it the cell would pass measure.limit"
        more = (
            f"{many(fewest, 'call')} more would pass the {seconds_text(self.seconds)} that a cell has beside its timing"
        )
        return f"a call takes {seconds_text(call_s)}; {more} ({CELLS_AT_LEAST} x measure.budget)"
