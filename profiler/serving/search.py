"""Which load comes next: the highest that keeps the limit, in few steps.

look      up from what one worker should carry, or down, then between the highest that held and the lowest that did
          not, until they are near each other: a few requests each
prove     the highest that held, with as many requests as the percentile needs; if it fails, the next lower one
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from profiler.results.types import ServingStep

UP = 1.5
SHARE_AT_START = 0.7  # of what the workers could do if requests came evenly
STEPS_TO_PROVE = 2  # that are kept for the end
GOOD = ("holds", "not proven")


@dataclass
class Search:
    """Of requests a second; of whole streams, with `whole`."""

    start: float
    steps: int
    precision: float
    whole: bool = False
    most: float = math.inf  # load that may be made
    tried: list[tuple[float, bool, str]] = field(default_factory=list)  # load, whether it was to prove, what came of it

    def __post_init__(self) -> None:
        self.start = self._load(min(self.start, self.most))

    @property
    def best(self) -> float | None:
        """The highest load that was proven."""
        return max((load for load, _, status in self.tried if status == "holds"), default=None)

    def learn(self, step: ServingStep, percent: float) -> None:
        """A look with too many late requests counts as one that failed, though so few requests prove nothing."""
        late = step.requests.late > (1 - percent / 100) * step.requests.sent
        status = "exceeds" if late and step.status == "not proven" else step.status
        self.tried.append((step.load or 0.0, step.proof, status))

    def next(self, hurry: bool = False) -> tuple[float, bool] | None:
        """(load, whether it is to be proven); None when there is no more to find out. `hurry`: time is left for the
        proof alone."""
        left = self.steps - len(self.tried)
        if left <= 0:
            return None
        bad = min((load for load, proof, status in self.tried if self._failed(proof, status)), default=None)
        fine = [load for load, proof, status in self.tried if not self._failed(proof, status)]
        good = max((load for load in fine if bad is None or load < bad), default=None)
        if good is not None and self.best == good and bad is not None and self._near(good, bad):
            return None
        if any(proof for _, proof, _ in self.tried):  # the proof failed: what is lower is to be proven at once
            if self.best is not None:
                return None
            lower = self._lower(good, bad)
            return (lower, True) if lower is not None else None
        full = good is not None and good >= self.most
        if good is not None and (
            full or hurry or left <= STEPS_TO_PROVE or (bad is not None and self._near(good, bad))
        ):
            return (good, True) if self.best != good else None
        if good is None and bad is None:
            return self.start, False
        if bad is None:
            assert good is not None
            return self._load(min(max(good * UP, good + 1 if self.whole else 0.0), self.most)), False
        if good is None:
            lower = self._load(bad / 2)
            return (lower, False) if 0 < lower < bad else None
        return self._load((good + bad) / 2 if self.whole else (good * bad) ** 0.5), False

    def _failed(self, proof: bool, status: str) -> bool:
        return status not in GOOD or (proof and status != "holds")

    def _near(self, good: float, bad: float) -> bool:
        return bad - good <= 1 if self.whole else bad / good < 1 + self.precision

    def _lower(self, good: float | None, bad: float | None) -> float | None:
        """Below a load whose proof failed."""
        if bad is None:
            return None
        step = self._load(bad - 1 if self.whole else bad / (1 + self.precision))
        lower = max(step, good or 0.0)
        return lower if 0 < lower < bad else None

    def _load(self, value: float) -> float:
        """As it is written: whole streams, requests a second to three digits."""
        return float(int(value)) if self.whole else float(f"{value:.3g}")
