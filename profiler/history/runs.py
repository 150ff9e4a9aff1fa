"""Which runs belong to a recipe's history: those in the log folder, wherever they were made, and those given."""

from __future__ import annotations

from pathlib import Path

from profiler.errors import UserError
from profiler.nearest import nearest
from profiler.opening import open_run
from profiler.results import FILE, Results, read_results

DEPTHS = ("*", "*/*", "*/*/*")  # runs of other machines are dropped in with or without a folder around them


def runs_of(recipe: str, logdir: Path, further: list[str]) -> tuple[list[Results], list[str]]:
    """The recipe's runs, oldest first, and what is wrong with files that cannot be read."""
    name = Path(recipe).name.removesuffix(".yaml")
    files = {file.resolve(): file for depth in DEPTHS for file in sorted(logdir.glob(f"{depth}/{FILE}"))}
    runs, problems, others = [], [], set()
    for file in files.values():
        try:
            results = read_results(file)
        except UserError as error:
            # Whose run it is cannot be read either; its folder tells.
            problems += [str(error)] if file.parent.parent.name == name else []
            continue
        if Path(results.run.recipe).stem == name:
            runs.append(results)
        else:
            others.add(Path(results.run.recipe).stem)
    for given in further:
        try:
            runs += [open_run(name, logdir)[1] for name in _given(given)]
        except UserError as error:
            problems.append(str(error))
    if not runs:
        known = nearest(name, sorted(others)) if others else " `python profile.py RECIPE` makes one."
        raise UserError("\n".join([f"There is no run of `{name}` in {logdir}.{known}", *problems]))
    by_id = {results.run.id: results for results in runs}
    return sorted(by_id.values(), key=lambda results: (results.run.started, results.run.id)), problems


def _given(name: str) -> list[str]:
    """A run, or a folder that holds several."""
    folder = Path(name)
    if folder.is_dir() and not (folder / FILE).is_file():
        found = sorted(str(file.parent) for depth in DEPTHS for file in folder.glob(f"{depth}/{FILE}"))
        if found:
            return found
    return [name]
