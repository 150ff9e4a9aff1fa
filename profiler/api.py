"""The profiler from Python: run a recipe, open a run, compare runs. What `from profiler import ...` gives.

Nothing here imports torch: models run in worker processes, as they do from the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.comparison import compare_results, compare_sides
from profiler.comparison.judge import THRESHOLD
from profiler.comparison.result import Comparison
from profiler.errors import Interrupted, UserError
from profiler.opening import open_run
from profiler.results import CellResult, Results
from profiler.runs import check_logdir

if TYPE_CHECKING:
    import pandas

    from profiler.execution.display import Display
    from profiler.execution.run import Execution

AB_SECONDS = 40.0  # for each cell: 3 % more work is found within it on a shared machine (benchmarks/README.md)
LOGDIR = Path("logs")


@dataclass(frozen=True)
class LoadedRun:
    """A run that was opened: where it is, and all that it measured."""

    folder: Path
    results: Results

    @property
    def id(self) -> str:
        return self.results.run.id

    @property
    def cells(self) -> list[CellResult]:
        return self.results.cells

    def cell(self, seconds: float, batch_size: int, variant: str | None = None) -> CellResult:
        """One cell; of the first variant, where none is named."""
        chosen = variant or next(iter(self.results.variants), "")
        found = self.results.cell(chosen, seconds, batch_size)
        if found is None:
            known = ", ".join(f"{cell.variant} {cell.seconds:g} s x {cell.batch_size}" for cell in self.cells[:12])
            raise UserError(f"The run {self.id} has no cell {chosen} {seconds:g} s x {batch_size}. It has {known}.")
        return found

    def frame(self) -> pandas.DataFrame:
        """A row a cell, as a pandas DataFrame with units in the names of columns (needs the extra `pandas`)."""
        from profiler.frames import data_frame
        from profiler.report.rows import cell_rows, columns

        return data_frame(cell_rows(self.results), columns(self.results))


def load_run(run: str | Path, logdir: str | Path = LOGDIR) -> LoadedRun:
    """Open a run: its folder, its id, `latest`, or an exported zip file. Raises UserError where it cannot be read."""
    return LoadedRun(*open_run(str(run), Path(logdir)))


def profile_recipe(
    recipe: str | Path,
    overrides: Mapping[str, Any] | None = None,
    *,
    logdir: str | Path = LOGDIR,
    device: str = "cpu",
    threads: int | None = None,
    trust: bool = False,
    quiet: bool = True,
) -> LoadedRun:
    """Run a recipe (a file, or the name of a shipped one) and give its results; the same as `profile.py RECIPE`.

    `overrides` sets dotted keys: {"measure.rounds": 5}. `trust` allows code that the recipe names. Cells that fail are
    in the results with their reason; what makes a run impossible raises an error of profiler.errors.
    """
    from profiler.cli.options import recipe_path
    from profiler.device import check_device_name
    from profiler.execution.run import Execution, Options
    from profiler.recipe.load import load_recipe

    check_device_name(device)
    loaded = load_recipe(recipe_path(str(recipe)), overrides, trust)
    check_logdir(Path(logdir))
    options = Options(Path(logdir), device, threads, command=f"profile_recipe({str(recipe)!r})")
    return _measured(lambda display: Execution(loaded, options, display), quiet)


def _measured(make: Callable[[Display], Execution], quiet: bool, signals: bool = False) -> LoadedRun:
    from profiler.execution.carry_out import carry_out

    done = carry_out(make, quiet, signals)
    if done.interrupted:
        raise Interrupted(f"interrupted; what was measured is in {done.folder}")
    if done.problem is not None:
        raise done.problem
    return LoadedRun(done.folder, done.results)


@dataclass(frozen=True)
class AbRun(LoadedRun):
    """An A/B run: an ordinary run with two variants, and what it says of them."""

    comparison: Comparison


def ab(
    a: str | Path,
    other: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    *,
    b: Mapping[str, Any] | None = None,
    rev: str | None = None,
    repo: str | Path | None = None,
    python: str | None = None,
    threshold: float = THRESHOLD,
    seconds: float = AB_SECONDS,
    logdir: str | Path = LOGDIR,
    device: str = "cpu",
    threads: int | None = None,
    trust: bool = False,
    quiet: bool = True,
    signals: bool = False,
) -> AbRun:
    """Measure two things turn by turn and say for each cell whether B is faster, slower or the same as A.

    B is `other`, another recipe; or recipe `a` with the settings `b`. With `rev` A is the model's code at a git
    revision, with `python` A runs in another environment, and B is what is here. `overrides` hold for both. Stops as
    soon as every cell is decided, or after `seconds` for each cell.
    """
    from profiler.device import check_device_name
    from profiler.execution.ab import AbExecution, Question
    from profiler.execution.run import Options
    from profiler.recipe.sides import load_sides, make_sides

    check_device_name(device)
    check_logdir(Path(logdir))
    with make_sides(Path(a), Path(other) if other else None, overrides or {}, b or {}, rev, repo, python) as sides:
        loaded, pairs = load_sides(*sides, trust)
        question = Question({"A": sides[0].about, "B": sides[1].about}, pairs, threshold, seconds)
        options = Options(Path(logdir), device, threads, command=f"ab({str(a)!r})")
        done = _measured(lambda display: AbExecution(loaded, options, display, question), quiet, signals)
    return AbRun(done.folder, done.results, compare_sides(done.results))


def compare(
    *runs: LoadedRun | Results | str | Path,
    variants: tuple[str, str] | None = None,
    across_machines: bool = False,
    threshold: float = THRESHOLD,
    logdir: str | Path = LOGDIR,
) -> Comparison:
    """Runs against the first of them: for each cell faster, slower, same or unclear, with the ratio and its 95 % CI.

    `variants`: one of the first run against one of the others; with a single run, two of its own. `threshold`: the
    smallest change of interest (0.02 is 2 %). Speed is judged across machines only when asked.
    """
    return compare_results([_results(run, Path(logdir)) for run in runs], variants, across_machines, threshold)


def _results(run: LoadedRun | Results | str | Path, logdir: Path) -> Results:
    if isinstance(run, LoadedRun):
        return run.results
    return run if isinstance(run, Results) else load_run(run, logdir).results
