"""The profiler from Python: run a recipe, open a run, compare runs. What `from profiler import ...` gives.

Nothing here imports torch: models run in worker processes, as they do from the command line.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from profiler.comparison.compare import compare_results, compare_sides
from profiler.comparison.judge import THRESHOLD
from profiler.comparison.result import Comparison
from profiler.errors import Interrupted, StorageError, UserError
from profiler.results import LOGDIR
from profiler.results.runs import check_logdir, find_run, list_runs, open_run
from profiler.results.store import read_results
from profiler.results.types import CellResult, Results
from profiler.units import place_text

if TYPE_CHECKING:
    import pandas

    from profiler.execution.ab import Question
    from profiler.execution.display import Display
    from profiler.execution.run import Execution, Options
    from profiler.recipe.load import LoadedRecipe
    from profiler.tuning.choice import Choice
    from profiler.tuning.halving import Selection
    from profiler.tuning.look import Search
    from profiler.tuning.search import Tuning

AB_SECONDS = 40.0  # for each cell: 3 % more work is found within it on a shared machine (benchmarks/README.md)


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
            known = ", ".join(f"{cell.variant} {cell.place}" for cell in self.cells[:12])
            asked = f"{chosen} {place_text(seconds, batch_size)}"
            raise UserError(f"The run {self.id} has no cell {asked}. It has {known}.")
        return found

    def frame(self) -> pandas.DataFrame:
        """One row per cell, as a pandas DataFrame with units in the names of columns (needs the extra `pandas`)."""
        from profiler.report.rows import cell_rows, columns
        from profiler.results import data_frame

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
    from profiler.device import check_device_names
    from profiler.execution.run import Options
    from profiler.recipe.load import load_recipe
    from profiler.shipped import recipe_path

    check_device_names(device)
    loaded = load_recipe(recipe_path(str(recipe)), overrides, trust)
    check_logdir(Path(logdir))
    options = Options(Path(logdir), device, threads, command=f"profile_recipe({str(recipe)!r})")
    return _measured(run_recipe(loaded, options, quiet))


def _measured(done: Outcome) -> LoadedRun:
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
    from profiler.execution.ab import Question
    from profiler.execution.run import Options
    from profiler.recipe.sides import load_sides, make_sides

    check_device_name(device)
    check_logdir(Path(logdir))
    if rev is not None and not trust:
        raise UserError(f"--rev {rev} runs the code of another revision; if you trust it, add --trust.")
    with make_sides(Path(a), Path(other) if other else None, overrides or {}, b or {}, rev, repo, python) as sides:
        loaded, pairs = load_sides(*sides, trust)
        question = Question({"A": sides[0].about, "B": sides[1].about}, pairs, threshold, seconds)
        options = Options(Path(logdir), device, threads, command=f"ab({str(a)!r})")
        done = _measured(run_recipe(loaded, options, quiet, signals, question))
    return AbRun(done.folder, done.results, compare_sides(done.results))


@dataclass(frozen=True)
class TunedRun:
    """What `tune` found: its two runs, who left and why, the choice, and the recipe that was written."""

    look: LoadedRun | None  # of the candidates; None where they were few enough to be finalists
    final: LoadedRun | None  # None where nobody was left
    selection: Selection
    choice: Choice | None
    recipe: Path | None
    plot: Path | None = None  # of the Pareto front


def tune(
    tuning: Tuning,
    target: Path,
    options: Options,
    quiet: bool = True,
    signals: bool = False,
    resume: bool = False,
) -> TunedRun:
    """Look at all candidates, measure the finalists turn by turn, choose, and write the recipe to `target`.

    `resume`: take up the runs of an interrupted call with the same settings.
    """
    from profiler.report.plots.front import draw_front
    from profiler.tuning.choice import choose
    from profiler.tuning.keep import write_recipe_text
    from profiler.tuning.look import Search

    look, selection = None, tuning.all()
    if tuning.needs_look:
        search, loaded = Search(tuning.aim, tuning.candidates.computes), tuning.look()
        where = find_run("latest", options.logdir, loaded.name) if resume else None
        look = _measured(run_recipe(loaded, replace(options, resume=where), quiet, signals, search))
        selection = search.selection(look.results)
    if not selection.left:
        return TunedRun(look, None, selection, None, None)
    loaded = tuning.final(selection)
    where = _begun(loaded, options.logdir, look) if resume else None
    final = _measured(run_recipe(loaded, replace(options, resume=where), quiet, signals, "finalists"))
    choice = choose(final.results, tuning.aim)
    drawn = draw_front(choice, final.results, final.folder)
    plot = drawn.files[0] if drawn is not None else None
    if choice.pick is None:
        return TunedRun(look, final, selection, choice, None, plot)
    write_recipe_text(tuning.kept(choice, final.results, target), target, tuning.loaded.trust)
    return TunedRun(look, final, selection, choice, target, plot)


def _begun(loaded: LoadedRecipe, logdir: Path, look: LoadedRun | None) -> Path | None:
    """The finalists' run that was made after this look, if one was begun."""
    runs = list_runs(logdir, loaded.name)
    return runs[-1] if runs and (look is None or runs[-1].name > look.id) else None


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


@dataclass(frozen=True)
class Outcome:
    """What a run left behind."""

    folder: Path
    results: Results
    interrupted: bool
    problem: StorageError | None  # why views could not be written; the results are whole all the same


def run_recipe(
    loaded: LoadedRecipe,
    options: Options,
    quiet: bool,
    signals: bool = False,
    question: Question | Search | Literal["finalists"] | None = None,
) -> Outcome:
    """Measure, then write recipe and views: the one road of the command line and of Python.

    `signals`: Ctrl-C and SIGTERM end the run in order, as a program wants. `question`: what is asked of A and B, or of
    candidates; finalists take turns.
    """
    from rich.console import Console

    from profiler.processes import stopping
    from profiler.report.progress import make_display
    from profiler.report.write import write_views

    display = make_display(quiet, Console(stderr=True))
    try:
        execution = _execution(loaded, options, display, question)
        interrupted = False
        try:
            with stopping(execution.lanes.kill_now) if signals else contextlib.nullcontext():
                results = execution.execute()
        except KeyboardInterrupt:
            interrupted, results = True, read_results(execution.folder)
    finally:
        with contextlib.suppress(OSError):  # the terminal may be gone
            display.close()
    problem = None
    try:
        _look_at_gpu(results, execution.folder)
        (execution.folder / "recipe.yaml").write_text(execution.loaded.text, encoding="utf-8")
        write_views(results, execution.folder)
    except (OSError, StorageError) as error:
        problem = StorageError(f"The results are whole, but their views could not be written: {error}")
    return Outcome(execution.folder, results, interrupted, problem)


def _execution(
    loaded: LoadedRecipe,
    options: Options,
    display: Display,
    question: Question | Search | Literal["finalists"] | None,
) -> Execution:
    from profiler.execution.ab import AbExecution, Question
    from profiler.execution.run import Execution
    from profiler.execution.tune import FinalExecution, TuneExecution

    if question is None:
        return Execution(loaded, options, display)
    if question == "finalists":
        return FinalExecution(loaded, options, display)
    if isinstance(question, Question):
        return AbExecution(loaded, options, display, question)
    return TuneExecution(loaded, options, display, question)


def _look_at_gpu(results: Results, folder: Path) -> None:
    """What the traces tell of the GPU stands in the results too."""
    if (results.environment.device or "cpu") == "cpu":
        return
    from profiler.results.store import ResultsFile
    from profiler.tensorboard_plugin.gpu_use import add_gpu_use

    if add_gpu_use(results, folder):
        file = ResultsFile(folder, results)
        file.write()
        file.close()
