"""Sums of parts -> rows of figures, per call: labels, modules with repeated layers folded, operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from profiler.measure.breakdown.labels import Chains, fold
from profiler.measure.breakdown.profiled import Profiled
from profiler.measure.breakdown.watch import Sums
from profiler.results.types import OperatorPart, Part

if TYPE_CHECKING:
    from profiler.measure.operations.count import Count, Where

REST = "(rest)"
OPTIMIZER = "(optimizer)"
WHOLE = "(whole call)"
LEVELS = 3  # of the module tree that are always kept
SHARE = 0.01  # of the call: what takes less is left out below them
NS = 1e9


@dataclass
class Rows:
    """Makes rows of one phase. What was not measured is None."""

    chains: Chains
    sums: Sequence[Sums]
    calls: int
    wall_s: float
    audio: float  # seconds
    memory: Mapping[int, int] | None = None
    count: Count | None = None
    phase: str = "forward"

    def __post_init__(self) -> None:
        self.macs: Counter[int] = Counter()  # by part: those that are computed while it is at work, as its time is
        self.own_macs: Counter[int] = Counter()
        for where, operators in self.count.macs.items() if self.count else ():
            if where.backward == (self.phase == "backward"):
                parts = self._parts(where)
                self.macs.update(dict.fromkeys(parts, operators.total()))
                self.own_macs.update(dict.fromkeys(self.chains.innermost(parts), operators.total()))

    def _parts(self, where: Where) -> list[int]:
        place_of = self.chains.tree.index
        return self.chains.at_work(tuple(place_of[module] for module in where.modules if module in place_of))

    def labels(self) -> list[Part]:
        """One for each label, in their order."""
        size = len(self.chains.tree)
        return [
            self._row(name, [size + number], len(roots))
            for number, (name, roots) in enumerate(self.chains.labels.roots.items())
        ]

    def last(self, labelled_ns: int, peak: int | None, optimizer_s: float | None = None) -> list[Part]:
        """What is in no label, and the whole. `labelled_ns` is the time of all calls in which some label was at work.

        In training the phase of the optimizer, which works on all parameters at once, has a row of its own.
        """
        macs = unlabelled = None
        if self.count is not None:
            macs, is_label = self.count.by_operator.total(), self.chains.is_label
            unlabelled = sum(
                operators.total()
                for where, operators in self.count.macs.items()
                if not any(is_label(part) for part in self._parts(where))
            )
        rest = max(0.0, self.wall_s - labelled_ns / self.calls / NS - (optimizer_s or 0.0))
        rows = [self._made(REST, None, rest, rest, None, unlabelled, own_macs=unlabelled)]
        if optimizer_s is not None:
            rows.append(self._made(OPTIMIZER, 1.0, optimizer_s, optimizer_s, None, None))
        rows.append(self._made(WHOLE, 1.0, self.wall_s, rest, peak, macs, own_macs=unlabelled))
        for row in rows if optimizer_s is not None else ():
            row.phase = "step"
        return rows

    def modules(self, folded: bool) -> list[Part]:
        """The tree in its order: the upper levels, and below them what takes its share."""
        groups: dict[str, list[int]] = {}
        for place in range(len(self.chains.tree)):
            name = self.chains.tree.shown(place)
            groups.setdefault(fold(name) if folded else name, []).append(place)
        rows = [self._row(name, places, len(places)) for name, places in groups.items()]
        return [row for row in rows if row.calls and (row.name.count(".") < LEVELS or row.share >= SHARE)]

    def _row(self, name: str, parts: Iterable[int], modules: int) -> Part:
        sums = [self.sums[part] for part in parts]
        memory = [self.memory.get(part, 0) for part in parts] if self.memory is not None else []
        return self._made(
            name,
            sum(one.calls for one in sums) / self.calls,
            sum(one.total for one in sums) / self.calls / NS,
            sum(one.own for one in sums) / self.calls / NS,
            max(memory) if memory else None,
            sum(self.macs[part] for part in parts) if self.count else None,
            own_macs=sum(self.own_macs[part] for part in parts) if self.count else None,
            modules=modules,
        )

    def _made(
        self,
        name: str,
        calls: float | None,
        total: float,
        own: float,
        memory: int | None,
        macs: int | None,
        **more: Any,
    ) -> Part:
        return Part(
            name=name,
            phase=self.phase,
            calls=calls,
            **times(total, own, self.wall_s or 1.0, self.audio),
            memory_bytes=memory,
            macs=macs,
            macs_per_second_of_audio=macs / self.audio if macs is not None else None,
            **more,
        )


def times(total: float, own: float, whole: float, audio: float | None) -> dict[str, float | None]:
    return {
        "total_s": total,
        "own_s": own,
        "share": total / whole,
        "own_share": own / whole,
        "s_per_second_of_audio": total / audio if audio else None,
    }


def operator_rows(profiled: Profiled, count: Count | None, seconds_of_audio: float | None) -> list[OperatorPart]:
    """Most time of its own first. Times are under the profiler; `share` is of the call under it."""
    macs, calls = count.by_operator if count else Counter(), profiled.calls
    whole = profiled.wall_ns / calls / NS or 1.0
    rows = [
        OperatorPart(
            name=name,
            calls=operator.calls / calls,
            **times(operator.total_ns / calls / NS, operator.own_ns / calls / NS, whole, seconds_of_audio),
            device_s=operator.device_ns / calls / NS or None,
            memory_bytes=operator.allocated // calls,
            macs=macs.get(name),
        )
        for name, operator in profiled.operators.items()
    ]
    return sorted(rows, key=lambda row: -row.own_s)
