"""Cost over duration and batch size, fitted: for predicting cells, and for reading a table at a glance.

The form is what speech models have: a fixed part, one that grows with the audio, and a quadratic one from attention.
All coefficients are held at zero or above, which keeps predictions for larger cells sane.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

POINTS_TO_PREDICT_FROM = 100
QUADRATIC_SHARE = 0.1  # the quadratic part "matters" from where it is a tenth of the rest


@dataclass(frozen=True)
class DurationFit:
    """value = fixed + per_second x s + per_second_squared x s^2, for one batch size."""

    batch_size: int
    fixed: float
    per_second: float
    per_second_squared: float | None  # None: too few durations to tell
    points: int

    def value(self, seconds: float) -> float:
        return self.fixed + self.per_second * seconds + (self.per_second_squared or 0.0) * seconds**2

    @property
    def quadratic_from(self) -> float | None:
        """Seconds from which the quadratic part is a tenth of the rest; None where it never is, or is not known."""
        squared = self.per_second_squared
        if not squared:
            return None
        # squared s^2 = share (fixed + per_second s)
        linear = QUADRATIC_SHARE * self.per_second
        return float((linear + np.sqrt(linear**2 + 4 * squared * QUADRATIC_SHARE * self.fixed)) / (2 * squared))


def fit_durations(batch_size: int, seconds: Sequence[float], values: Sequence[float]) -> DurationFit | None:
    """Fit one column of a table; None with fewer than two durations."""
    distinct = len(set(seconds))
    if distinct < 2:
        return None
    columns = [np.ones(len(seconds)), np.asarray(seconds, float)]
    if distinct >= 4:  # three unknowns and at least one point to spare
        columns.append(np.asarray(seconds, float) ** 2)
    solution = _nonnegative(np.stack(columns, axis=1), np.asarray(values, float))
    squared = float(solution[2]) if len(solution) > 2 else None
    return DurationFit(batch_size, float(solution[0]), float(solution[1]), squared, len(seconds))


@dataclass(frozen=True)
class SurfaceFit:
    """value = fixed + batch x (per_row + per_second x s + per_second_squared x s^2), over a whole table."""

    fixed: float
    per_row: float
    per_second: float
    per_second_squared: float

    def value(self, seconds: float, batch_size: float) -> float:
        row = self.per_row + self.per_second * seconds + self.per_second_squared * seconds**2
        return self.fixed + batch_size * row

    def longest(self, limit: float, batch_size: int) -> float | None:
        """Seconds at which the value reaches the limit; None where it never does."""
        left = (limit - self.fixed) / batch_size - self.per_row
        if left <= 0:
            return 0.0
        if self.per_second_squared > 0:
            b, c = self.per_second, self.per_second_squared
            return float((-b + np.sqrt(b**2 + 4 * c * left)) / (2 * c))
        return left / self.per_second if self.per_second > 0 else None

    def largest_batch(self, limit: float, seconds: float) -> int | None:
        """The largest batch whose value stays within the limit; None where none exceeds it."""
        row = self.value(seconds, 1) - self.fixed
        return int((limit - self.fixed) / row) if row > 0 else None


Point = tuple[float, int, float]  # seconds, batch size, value


def fit_surface(points: Sequence[Point]) -> SurfaceFit | None:
    """Fit a whole table; None with fewer than 4 points or 2 durations."""
    if len(points) < 4 or len({seconds for seconds, _, _ in points}) < 2:
        return None
    seconds, batch, values = (np.asarray(column, float) for column in zip(*points, strict=True))
    squared = batch * seconds**2 if len(np.unique(seconds)) >= 3 else np.zeros(len(points))
    solution = _nonnegative(np.stack([np.ones(len(points)), batch, batch * seconds, squared], axis=1), values)
    return SurfaceFit(*(float(value) for value in solution))


class Predictor:
    """What a cell will cost, from other cells: by the fit, or in proportion to the audio where points are few.

    The largest cells are kept, however many a run has: what is predicted is larger still.
    """

    def __init__(self, points: Iterable[Point] = ()) -> None:
        self._values: dict[tuple[float, int], float] = {}
        for point in points:
            self.put(*point)

    def put(self, seconds: float, batch_size: int, value: float) -> None:
        self._values[seconds, batch_size] = value
        self.__dict__.pop("_fit", None)
        if len(self._values) > POINTS_TO_PREDICT_FROM:
            del self._values[min(self._values, key=math.prod)]

    @functools.cached_property
    def _fit(self) -> SurfaceFit | None:
        return fit_surface([(*place, value) for place, value in self._values.items()])

    def value(self, seconds: float, batch_size: int) -> float | None:
        """The predicted value; None when nothing was measured."""
        if self._fit is not None:
            return self._fit.value(seconds, batch_size)
        if not self._values:
            return None
        largest = max(self._values, key=math.prod)
        return self._values[largest] * (seconds * batch_size) / math.prod(largest)


def _nonnegative(matrix: npt.NDArray[np.float64], values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Least squares of relative errors with coefficients >= 0: the best of all subsets of the few columns."""
    weights = 1.0 / np.maximum(np.abs(values), 1e-12)
    weighted, target = matrix * weights[:, None], values * weights
    count = matrix.shape[1]
    best, best_error = np.zeros(count), float(np.sum(target**2))
    for size in range(1, count + 1):
        for columns in itertools.combinations(range(count), size):
            chosen = list(columns)
            solution, *_ = np.linalg.lstsq(weighted[:, chosen], target, rcond=None)
            if (solution < 0).any():
                continue
            error = float(np.sum((weighted[:, chosen] @ solution - target) ** 2))
            if error < best_error * (1 - 1e-9):
                best, best_error = np.zeros(count), error
                best[chosen] = solution
    return best
