"""A plan as a table, with what its cells are expected to take: predicted from the latest run of the same recipe."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from profiler.plan import Cell, Plan
from profiler.recipe.load import LoadedRecipe
from profiler.recipe.schema import Recipe
from profiler.report.table import Table, grid, stacked
from profiler.results.runs import list_runs
from profiler.results.store import read_results
from profiler.results.types import Results
from profiler.units import seconds_text

if TYPE_CHECKING:
    from profiler.execution.predict import Forecast

NO_RUN = "No estimates: there is no earlier run of this recipe to predict from."
UNKNOWN = "to measure"


def plan_tables(loaded: LoadedRecipe, plan: Plan, logdir: Path) -> list[Table]:
    """The cells of all variants, and the total below; or the steps of a load."""
    if loaded.recipe.mode == "serving":
        return [_load_table(loaded)]
    earlier = latest_complete(loaded, logdir)
    by_variant: dict[str, Table] = {}
    total = 0.0
    for variant in loaded.recipe.variants:
        recipe = loaded.by_variant[variant.name]
        forecast = _forecast(variant.name, recipe, earlier) if earlier else None
        cells = [Cell(variant.name, each.seconds, each.batch_size) for each in plan.cells]
        texts = {
            (cell.seconds, cell.batch_size): "skipped" if cell in plan.skipped else _estimate(cell, forecast)
            for cell in cells
        }
        if forecast is not None:
            for cell in set(cells) - plan.skipped.keys():
                total += sum(forecast.round_seconds(cell, number) or 0.0 for number in range(recipe.measure.rounds))
        title = f"Plan - {len(plan.to_measure)} cells to measure"
        by_variant[variant.name] = grid(title, texts)
    tables = stacked(by_variant, several=len(by_variant) > 1)
    if earlier is None:
        tables[-1].remarks.append(NO_RUN)
    else:
        tables[-1].remarks.append(
            f"Estimates (time per call, memory above the loaded model) are from the run {earlier.run.id}; "
            f"in all about {seconds_text(total)}."
        )
    skipped = sorted(set(plan.skipped.values()))
    tables[-1].remarks += [f"skipped: {reason}" for reason in skipped]
    return tables


def _load_table(loaded: LoadedRecipe) -> Table:
    """What each variant is put under."""
    rows = []
    for name, recipe in loaded.by_variant.items():
        serving = recipe.serving
        for scenario in serving.scenarios:
            asked: dict[str, Sequence[float] | None] = {"server": serving.loads, "streams": serving.streams}
            given = asked.get(scenario)
            loads = ", ".join(f"{load:g}" for load in given) if given else "searched for" if given == [] else "1 step"
            rows.append([name, scenario, loads, f"{serving.workers} x {serving.batch.size}"])
    limit = f"p{loaded.recipe.serving.percentile} < {loaded.recipe.serving.latency:g} s"
    total = sum(recipe.serving.most_seconds for recipe in loaded.by_variant.values())
    most = f"Limit: {limit}. A step lasts {seconds_text(loaded.recipe.serving.seconds)} at most, all of them "
    most += f"{seconds_text(total)} at most."
    return Table("Plan - load", ["variant", "scenario", "loads", "workers x batch"], rows, [most])


def latest_complete(loaded: LoadedRecipe, logdir: Path) -> Results | None:
    """The newest finished run of this recipe with the same model; None where there is none."""
    wanted = loaded.recipe.pretrained_model.model_dump(mode="json")
    for folder in reversed(list_runs(logdir, loaded.name)):
        results = read_results(folder)
        if results.run.is_finished and results.run.resolved.get("pretrained_model") == wanted:
            return results
    return None


def _forecast(variant: str, recipe: Recipe, earlier: Results) -> Forecast:
    from profiler.execution.cell import CellState  # needs numpy, which a plan without estimates can do without
    from profiler.execution.predict import Forecast

    forecast = Forecast(recipe)
    for cell in earlier.cells:
        if cell.variant == variant:
            forecast.learn(CellState.from_result(Cell(cell.variant, cell.seconds, cell.batch_size), cell))
    return forecast


def _estimate(cell: Cell, forecast: Forecast | None) -> str:
    if forecast is None:
        return UNKNOWN
    from profiler.metrics import LATENCY, PEAK

    latency, memory = forecast.latency(cell), forecast.memory(cell)
    parts = [LATENCY.text(latency) if latency else "", PEAK.text(memory) if memory else ""]
    return ", ".join(part for part in parts if part) or UNKNOWN
