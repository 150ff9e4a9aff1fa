"""Two recipes, or one with two settings -> one recipe whose variants are the sides A and B of a comparison."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from profiler.errors import UserError
from profiler.git import worktree
from profiler.models.own.adapter_file import HOW_TO_RUN_ELSEWHERE, is_adapter_file
from profiler.recipe.load import LoadedRecipe, load_recipe
from profiler.recipe.schema import ProfilingDimensions, Recipe, Serving, Variant
from profiler.user_path import user_path

# Off while two sides take turns, whatever the recipes say: they are no part of the question, and take its time.
ONLY_TIME_AND_MEMORY = {
    "measure.operations": False,
    "measure.energy": False,
    "trace.breakdown": False,
    "profiling_dimensions.export_logs": False,
    "dataset": None,
}


@dataclass(frozen=True)
class Side:
    """One of the two things to compare."""

    recipe: Path
    about: str  # what it is called in the report
    overrides: Mapping[str, object] = field(default_factory=dict)
    python: str | None = None
    path: Path | None = None

    def load(self, trust: bool) -> LoadedRecipe:
        loaded = load_recipe(self.recipe, {**ONLY_TIME_AND_MEMORY, **self.overrides}, trust)
        if loaded.recipe.mode == "serving":  # whose requests a data set gives
            changes = {key: value for key, value in ONLY_TIME_AND_MEMORY.items() if key != "dataset"}
            loaded = load_recipe(self.recipe, {**changes, **self.overrides}, trust)
        return loaded

    def variant(self, given: Variant, name: str, baseline: str | None) -> Variant:
        changes = {
            "name": name,
            "baseline": baseline,
            "python": self.python or given.python,
            "path": str(self.path or given.path or "") or None,
        }
        return given.model_copy(update=changes)


@contextmanager
def make_sides(
    a: Path,
    other: Path | None,
    common: Mapping[str, object],
    changed: Mapping[str, object],
    rev: str | None,
    repo: str | Path | None,
    python: str | None,
) -> Iterator[tuple[Side, Side]]:
    """A and B, by the one thing that differs. The code of a revision is there for as long as this lasts."""
    if other is not None:
        yield Side(a, str(a), common), Side(other, str(other), common)
    elif rev is not None:
        with worktree(rev, Path(repo) if repo is not None else a.resolve().parent) as tree:
            old = Side(a, f"{a}, code at {rev} ({tree.commit[:10]})", common, path=tree.folder)
            yield old, Side(a, f"{a}, code as it is here", common)
    elif python is not None:
        interpreter = find_python(python)
        yield Side(a, f"{a} with {python}", common, interpreter), Side(a, f"{a} with this Python", common)
    else:
        settings = ", ".join(f"{key}={value}" for key, value in changed.items())
        yield Side(a, str(a), common), Side(a, f"{a} with {settings}" if settings else str(a), {**common, **changed})


def find_python(given: str) -> str:
    """The interpreter of another environment. Raises UserError."""
    path = shutil.which(str(user_path(given)))
    if path is None:
        raise UserError(f"--python {given}: there is no such interpreter.")
    return str(Path(path).absolute())


def require_worker(python: str) -> None:
    """Raise UserError where a worker of the profiler's cannot run with this interpreter."""
    root = str(Path(__file__).resolve().parents[2])
    command = [python, "-c", f"import sys; sys.path.insert(0, {root!r}); import profiler.execution.worker, torch"]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/")
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["it ended without a word"])[-1]
        advice = HOW_TO_RUN_ELSEWHERE.format(python)
        raise UserError(f"--python {python}: a worker cannot run in that environment ({said}). {advice}")


@dataclass(frozen=True)
class Pair:
    """The variants that take turns."""

    a: str
    b: str


def load_sides(a: Side, b: Side, trust: bool = False) -> tuple[LoadedRecipe, list[Pair]]:
    """Raises UserError where the two have nothing to compare."""
    first, second = a.load(trust), b.load(trust)
    modes = first.recipe.mode, second.recipe.mode
    if "serving" in modes:
        if modes[0] != modes[1]:
            raise UserError(f"A is mode: {modes[0]} and B is mode: {modes[1]}: they have nothing in common.")
        _check_loads(first.recipe.serving, second.recipe.serving)
    if a.python is not None and not is_adapter_file(first.recipe.pretrained_model.type):
        require_worker(a.python)
    grid = _common_grid(first.recipe.profiling_dimensions, second.recipe.profiling_dimensions)
    pairs = _common_variants(first.recipe, second.recipe)
    variants, by_variant, paths = [], {}, {}
    for letter, side, loaded in (("A", a, first), ("B", b, second)):
        given = {variant.name: variant for variant in loaded.recipe.variants}
        for pair, suffix in pairs:
            common, called = pair.a if letter == "A" else pair.b, f"{letter}{suffix}"
            variants.append(side.variant(given[common], called, f"A{suffix}" if letter == "B" else None))
            by_variant[called] = loaded.by_variant[common].model_copy(update={"profiling_dimensions": grid})
            paths[called] = loaded.path
    recipe = first.recipe.model_copy(update={"profiling_dimensions": grid, "variants": variants})
    text = first.text if first.text == second.text else f"# A\n{first.text}\n---\n# B\n{second.text}"
    title = first.name if first.name == second.name else f"{first.name}-vs-{second.name}"
    made = LoadedRecipe(second.path, text, recipe, by_variant, paths, title, trust)
    return made, [Pair(f"A{suffix}", f"B{suffix}") for _, suffix in pairs]


def _check_loads(a: Serving, b: Serving) -> None:
    """Raise UserError unless both can be put under the same load."""
    for name in ("scenarios", "loads", "streams"):
        ours, theirs = getattr(a, name), getattr(b, name)
        if ours != theirs:
            raise UserError(
                f"A has serving.{name}: {ours}, B {theirs}. Both are put under the same load: give both one."
            )


def _common_grid(a: ProfilingDimensions, b: ProfilingDimensions) -> ProfilingDimensions:
    seconds = [value for value in a.audio_mockup_secs if value in b.audio_mockup_secs]
    batches = [value for value in a.batch_sizes if value in b.batch_sizes]
    if not seconds or not batches:
        raise UserError(
            f"A and B have no cell in common: A has {a.audio_mockup_secs} s x {a.batch_sizes}, B has "
            f"{b.audio_mockup_secs} s x {b.batch_sizes}. Give both the same audio_mockup_secs and batch_sizes."
        )
    skips = a.triangle_only or b.triangle_only
    return a.model_copy(update={"audio_mockup_secs": seconds, "batch_sizes": batches, "triangle_only": skips})


def _common_variants(a: Recipe, b: Recipe) -> list[tuple[Pair, str]]:
    """Variants of the same name belong together; where each side has one alone, these. With a suffix for names."""
    ours, theirs = ([variant.name for variant in recipe.variants] for recipe in (a, b))
    if len(ours) == len(theirs) == 1:
        return [(Pair(ours[0], theirs[0]), "")]
    common = [(Pair(name, name), f".{name}") for name in ours if name in theirs]
    if not common:
        raise UserError(f"A and B have no variant in common: A has {', '.join(ours)}; B has {', '.join(theirs)}.")
    return common
