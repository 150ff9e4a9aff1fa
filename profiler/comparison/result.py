"""What a comparison says: typed, documented, and the same as JSON. Ratios are the other run over the baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, Field

if TYPE_CHECKING:
    import pandas

Verdict = Literal["faster", "slower", "no difference", "not judged"]


class Change(BaseModel):
    """A figure in the baseline and in the other run; null where it was not measured."""

    name: str
    unit: str = ""
    before: float | None = None
    after: float | None = None
    ratio: float | None = None
    before_ci95: tuple[float, float] | None = None
    after_ci95: tuple[float, float] | None = None
    remark: str = ""


class Speed(BaseModel):
    """A ratio of times (above 1: the other run is slower) and what is made of it."""

    verdict: Verdict = "not judged"
    reason: str = ""
    ratio: float | None = None
    ci95: tuple[float, float] | None = None
    p: float | None = None  # the larger one of the rank test on raw samples and of the test on rounds
    p_adjusted: float | None = None  # for the number of cells
    detectable: float | None = None  # the smallest ratio above 1 that would have been called slower
    by_machine: tuple[float, float] = (1.0, 1.0)  # ratios that the machine's own change may explain
    normalised: dict[str, float] = Field(default_factory=dict)  # ratios at equal arithmetic, at equal memory speed


class CellComparison(BaseModel):
    """One cell in both runs."""

    variants: tuple[str, str]
    seconds: float
    batch_size: int
    # Of the faster half of the calls in the quieter half of the rounds that are compared (see comparison/levels.py);
    # medians where a cell could not be judged.
    latency_s: tuple[float | None, float | None]
    status: tuple[str, str] = ("ok", "ok")
    speed: Speed = Field(default_factory=Speed)
    beside: list[Change] = Field(default_factory=list)  # memory, energy

    @property
    def label(self) -> str:
        return f"{self.seconds:g} s x {self.batch_size}"


class VariantComparison(BaseModel):
    """What holds for a variant as a whole: size, parameters, error rate, real-time factor over a data set."""

    variants: tuple[str, str]
    figures: list[Change] = Field(default_factory=list)


class Difference(BaseModel):
    """Something that is not the same in both runs."""

    kind: Literal["recipe", "versions", "threads", "machine", "weights", "code"]
    name: str
    before: Any = None
    after: Any = None


class RunName(BaseModel):
    """A run, as it is spoken of."""

    id: str
    recipe: str
    started: str
    status: str
    commit: str | None = None
    variants: list[str] = Field(default_factory=list)


class RunComparison(BaseModel):
    """One run against the baseline."""

    run: RunName
    same_machine: bool
    judged: bool  # whether speed was judged at all
    differences: list[Difference] = Field(default_factory=list)
    cells: list[CellComparison] = Field(default_factory=list)
    only_in_baseline: list[str] = Field(default_factory=list)
    only_in_other: list[str] = Field(default_factory=list)
    geometric_mean: Speed = Field(default_factory=Speed)
    variants: list[VariantComparison] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)

    def called(self, verdict: Verdict) -> list[CellComparison]:
        return [cell for cell in self.cells if cell.speed.verdict == verdict]

    @property
    def newly_failed(self) -> list[CellComparison]:
        """Cells that the baseline has and that fail now: worse than slow."""
        return [cell for cell in self.cells if cell.status[0] == "ok" and cell.status[1] == "failed"]

    def regressions(self, over: float) -> list[CellComparison]:
        """Cells that are slower by more than so much (0.05 is 5 %), significantly; and those that fail now."""
        slower = [cell for cell in self.called("slower") if (cell.speed.ratio or 0.0) > 1.0 + over]
        return slower + self.newly_failed


class Comparison(BaseModel):
    """Runs against the first of them."""

    baseline: RunName
    others: list[RunComparison]
    settings: dict[str, Any] = Field(default_factory=dict)  # least ratio, level, tests: how it was decided

    def regressions(self, over: float) -> list[CellComparison]:
        return [cell for other in self.others for cell in other.regressions(over)]

    def frame(self) -> pandas.DataFrame:
        """A row a cell and run, as a pandas DataFrame (needs the extra `pandas`)."""
        from profiler.frames import data_frame

        return data_frame([_row(other, cell) for other in self.others for cell in other.cells])


def _row(other: RunComparison, cell: CellComparison) -> dict[str, Any]:
    low, high = cell.speed.ci95 or (None, None)
    row: dict[str, Any] = {
        "run": other.run.id,
        "baseline_variant": cell.variants[0],
        "variant": cell.variants[1],
        "audio_s": cell.seconds,
        "batch_size": cell.batch_size,
        "baseline_latency_s": cell.latency_s[0],
        "latency_s": cell.latency_s[1],
        "ratio": cell.speed.ratio,
        "ratio_ci95_low": low,
        "ratio_ci95_high": high,
        "p_adjusted": cell.speed.p_adjusted,
        "verdict": cell.speed.verdict,
        "reason": cell.speed.reason,
    }
    return row | {f"{change.name}_ratio".replace(" ", "_"): change.ratio for change in cell.beside}
