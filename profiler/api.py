"""The profiler from Python: run a recipe, open a run, compare runs. What `from profiler import ...` gives.

Nothing here imports torch: models run in worker processes, as they do from the command line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.comparison import compare_results
from profiler.comparison.decide import LEAST
from profiler.comparison.result import Comparison
from profiler.errors import StorageError, UserError
from profiler.opening import open_run
from profiler.results import CellResult, Results, read_results
from profiler.runs import check_logdir

if TYPE_CHECKING:
    import pandas

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
    from rich.console import Console

    from profiler.cli.options import recipe_path
    from profiler.device import check_device_name
    from profiler.execution.display import make_display
    from profiler.execution.run import Execution, Options
    from profiler.recipe.load import load_recipe
    from profiler.report.write import write_views

    check_device_name(device)
    loaded = load_recipe(recipe_path(str(recipe)), overrides, trust)
    check_logdir(Path(logdir))
    display = make_display(quiet, Console(stderr=True))
    options = Options(Path(logdir), device, threads, command=f"profile_recipe({str(recipe)!r})")
    try:
        execution = Execution(loaded, options, display)
        results = execution.execute()
    finally:
        display.close()
    try:
        (execution.folder / "recipe.yaml").write_text(loaded.text, encoding="utf-8")
        write_views(results, execution.folder)
    except OSError as error:
        raise StorageError(f"The results are whole, but their views could not be written: {error}") from error
    return LoadedRun(execution.folder, read_results(execution.folder))  # read again: the file has the raw samples


def compare(
    *runs: LoadedRun | Results | str | Path,
    variants: tuple[str, str] | None = None,
    across_machines: bool = False,
    least: float = LEAST,
    logdir: str | Path = LOGDIR,
) -> Comparison:
    """Runs against the first of them: for each cell faster, slower or no difference, with ratio and interval.

    `variants`: one of the first run against one of the others; with a single run, two of its own. `least`: differences
    below it (0.03 is 3 %) are of no interest. Speed is judged across machines only when asked.
    """
    return compare_results([_results(run, Path(logdir)) for run in runs], variants, across_machines, least)


def _results(run: LoadedRun | Results | str | Path, logdir: Path) -> Results:
    if isinstance(run, LoadedRun):
        return run.results
    return run if isinstance(run, Results) else load_run(run, logdir).results
