"""What a comparison says: typed, documented, and the same as JSON. Ratios are the other run over the baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from profiler.conditions.differences import Difference
from profiler.metrics import LATENCY, Change
from profiler.units import place_text

if TYPE_CHECKING:
    import pandas

Verdict = Literal["faster", "slower", "same", "unclear", "not judged"]
Interval = tuple[float, float]


class Ratio(BaseModel):
    """A ratio of times (above 1: the other one is slower) and what is made of it."""

    model_config = ConfigDict(extra="forbid")

    verdict: Verdict = "not judged"
    ratio: float | None = None
    ci: Interval | None = None
    confidence: float = 0.95  # of that interval
    detectable: float | None = None  # the smallest ratio above 1 that this comparison could have called slower


class Speed(Ratio):
    """The ratio of the figures of two cells."""

    reason: str = ""
    p: float | None = None
    p_adjusted: float | None = None  # for the number of cells; null where no CI leaves out 1 by enough
    normalised: dict[str, float] = Field(default_factory=dict)  # ratios at equal arithmetic, at equal memory speed
    slow_calls: Ratio | None = None  # of the 90th percentiles of rounds; of two that took turns in one run

    def is_slower(self, over: float) -> bool:
        """Whether the typical call or the slow ones are called slower, by more than so much."""
        return any(
            each.verdict == "slower" and (each.ratio or 0.0) > 1.0 + over for each in (self, self.slow_calls) if each
        )


class CellComparison(BaseModel):
    """One cell in both runs; or one load, and what is compared at it."""

    variants: tuple[str, str]
    seconds: float | None = None  # this and the next: null, of a load
    batch_size: int | None = None
    load: str = ""
    shown: tuple[str, str] | None = None  # figures that are no times, as they are written
    latency_s: tuple[float | None, float | None]  # the figures that `report` shows, and their intervals
    latency_ci95: tuple[Interval | None, Interval | None] = (None, None)
    status: tuple[str, str] = ("ok", "ok")
    speed: Speed = Field(default_factory=Speed)
    other_metrics: list[Change] = Field(default_factory=list)  # memory, energy

    @property
    def place(self) -> tuple[float, int]:
        """Of a cell."""
        return self.seconds or 0.0, self.batch_size or 0

    @property
    def label(self) -> str:
        return self.load or place_text(*self.place)


class VariantComparison(BaseModel):
    """What holds for a variant as a whole: size, parameters, error rate, real-time factor over a data set."""

    variants: tuple[str, str]
    metrics: list[Change] = Field(default_factory=list)


class RunName(BaseModel):
    """What a run is called, and where it comes from."""

    id: str
    recipe: str
    started: str
    status: str
    commit: str | None = None


class RunComparison(BaseModel):
    """One run against the baseline."""

    run: RunName
    same_machine: bool
    judged: bool  # whether speed was judged at all
    paired: bool = False  # whether cells were compared round by round, within one run
    floor: float | None = None  # run-to-run standard deviation of a figure, as a share of it; null within one run
    floor_source: str = ""
    different_models: str = ""  # one sentence, where two models are compared
    differences: list[Difference] = Field(default_factory=list)
    cells: list[CellComparison] = Field(default_factory=list)
    only_in_baseline: list[str] = Field(default_factory=list)
    only_in_other: list[str] = Field(default_factory=list)
    geometric_mean: Speed = Field(default_factory=Speed)
    variants: list[VariantComparison] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)

    @property
    def noun(self) -> str:
        """What is compared one by one."""
        return "figure" if any(cell.load for cell in self.cells) else "cell"

    def called(self, verdict: Verdict) -> list[CellComparison]:
        return [cell for cell in self.cells if cell.speed.verdict == verdict]

    @property
    def newly_failed(self) -> list[CellComparison]:
        """Cells that the baseline has and that fail now: worse than slow."""
        return [cell for cell in self.cells if cell.status[0] == "ok" and cell.status[1] == "failed"]

    def regressions(self, over: float) -> list[CellComparison]:
        """Cells that are slower, or whose slow calls are, by more than so much (0.05 is 5 %); those that fail now."""
        return [cell for cell in self.cells if cell.speed.is_slower(over)] + self.newly_failed


class Settings(BaseModel):
    """How it was decided."""

    threshold: float = 0.0
    alpha: float = 0.0
    across_machines: bool = False


class Comparison(BaseModel):
    """Runs against the first of them."""

    baseline: RunName
    others: list[RunComparison]
    about: dict[str, str] = Field(default_factory=dict)  # of an A/B run: what A and B are
    settings: Settings = Field(default_factory=Settings)

    def regressions(self, over: float) -> list[CellComparison]:
        return [cell for other in self.others for cell in other.regressions(over)]

    def frame(self) -> pandas.DataFrame:
        """One row per cell and run, as a pandas DataFrame (needs the extra `pandas`)."""
        from profiler.results import data_frame

        return data_frame([_row(other, cell) for other in self.others for cell in other.cells])


def _row(other: RunComparison, cell: CellComparison) -> dict[str, Any]:
    low, high = cell.speed.ci or (None, None)
    return {
        "run": other.run.id,
        "baseline_variant": cell.variants[0],
        "variant": cell.variants[1],
        "audio_s": cell.seconds,
        "batch_size": cell.batch_size,
        **({"load": cell.load} if cell.load else {}),
        f"baseline_{LATENCY.column}": cell.latency_s[0],
        LATENCY.column: cell.latency_s[1],
        "ratio": cell.speed.ratio,
        "ratio_ci_low": low,
        "ratio_ci_high": high,
        "smallest_detectable_ratio": cell.speed.detectable,
        "p_adjusted": cell.speed.p_adjusted,
        "verdict": cell.speed.verdict,
        "reason": cell.speed.reason,
        **{f"{change.metric}_ratio": change.ratio for change in cell.other_metrics},
    }
