"""A recipe and an aim -> the runs of `tune`, as they are to be made: first the candidates, then the finalists.

Nothing is measured here: profiler/api.py makes the runs, and hands their results back.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiler.dataset.plan import plan_dataset
from profiler.errors import UserError
from profiler.plan import Cell
from profiler.recipe.load import LoadedRecipe
from profiler.recipe.schema import Variant
from profiler.results.types import Results
from profiler.tuning.candidates import Candidates, as_run, final_sections, look_sections
from profiler.tuning.choice import Choice
from profiler.tuning.halving import Aim, Selection
from profiler.tuning.keep import recipe_text
from profiler.units import many, place_text


@dataclass(frozen=True)
class Tuning:
    """What is tuned, and for what."""

    loaded: LoadedRecipe
    settings: Mapping[str, Any]  # of the command line
    candidates: Candidates
    aim: Aim
    seconds: float
    budget: float | None = None  # seconds of timing for the finalists, all together

    @property
    def names(self) -> list[str]:
        return [variant.name for variant in self.candidates.variants]

    @property
    def needs_look(self) -> bool:
        """Few variants are measured properly at once."""
        return len(self.names) > self.aim.finalists

    def check(self) -> None:
        """Whether error rates can decide where they are to. Raises UserError."""
        if self.loaded.recipe.mode != "inference":
            raise UserError("tune looks for settings of inference; the recipe has mode: training.")
        rates = [limit.figure for limit in self.aim.limits if limit.figure in ("wer", "cer")]
        if not rates:
            return
        data = plan_dataset(self.loaded)
        if data is None:
            reason = "the recipe names no data set (dataset.source)"
        elif not data.scored:
            reason = data.unscored_reason or "its data set has no transcripts"
        else:
            random = self.loaded.recipe.pretrained_model.weights == "random"
            reason = "a model with random weights has no accuracy" if random else ""
        if reason:
            raise UserError(f"`{rates[0]}` cannot be limited: {reason}.")

    def all(self) -> Selection:
        """Where there is no look: every candidate is a finalist."""
        batches = self.loaded.recipe.profiling_dimensions.batch_sizes
        return Selection([Cell(name, self.seconds, batch) for name in self.names for batch in batches])

    def look(self) -> LoadedRecipe:
        """All candidates, at one length."""
        energy = self.aim.goal == "energy" or any(limit.figure == "energy" for limit in self.aim.limits)
        sections = look_sections(self.loaded.recipe, [self.seconds], energy, self.aim.rates)
        return self._run(self.names, sections, "candidates")

    def final(self, left: Selection) -> LoadedRecipe:
        """The first variant and the finalists, at the batch sizes that are left."""
        names = {self.names[0], *(cell.variant for cell in left.left)}
        batches = sorted({cell.batch_size for cell in left.left})
        budget = self.loaded.recipe.measure.budget
        if self.budget is not None:
            budget = self.budget / (len(names) * len(batches))
        sections = final_sections(self.loaded.recipe, [self.seconds], batches, budget)
        return self._run([name for name in self.names if name in names], sections, "finalists")

    def _run(self, names: Sequence[str], sections: dict[str, Any], stage: str) -> LoadedRecipe:
        name = f"{self.loaded.name}-{stage}"
        made = as_run(self.loaded, self.candidates, names, sections, name, "")
        head = f"# The {stage} of `profile.py tune {self.loaded.path}`. Paths are relative to that recipe."
        changed = {
            key: section.model_dump(mode="json", exclude_defaults=True)
            for key, section in sections.items()
            if key in ("profiling_dimensions", "measure") and section is not None
        }
        text = recipe_text(self.loaded, self.settings, made.recipe.variants, changed, head)
        return as_run(self.loaded, self.candidates, names, sections, name, text)

    def kept(self, choice: Choice, final: Results, target: Path) -> str:
        """The recipe to keep: the first variant and the pick, with what was found in its first lines."""
        assert choice.pick is not None
        pick, first = choice.pick.cell, self.candidates.variants[0]
        variants: list[Variant] = [first]
        if pick.variant != first.name:
            chosen = next(variant for variant in self.candidates.variants if variant.name == pick.variant)
            variants.append(chosen.model_copy(update={"baseline": None}))
        limits = ", ".join(limit.text for limit in self.aim.limits) or "no limit"
        here = final.environment
        lines = [
            f"{self.loaded.name}, tuned: {pick.variant} with batches of {pick.batch_size}.",
            "",
            f"    python profile.py {target}{' --trust' if self.loaded.trust else ''}",
            "",
            f"Written by `tune`, for {self.aim.goal}, under {limits}, measured at {place_text(*pick.key[1:])}",
            f"on {here.cpu or 'an unknown processor'}, {many(here.cores or 0, 'core')}. Run {final.run.id}.",
            *_wrapped(f"The pick: {choice.why}"),
            "The first variant is what the pick is compared with.",
        ]
        head = "\n".join(f"# {line}".rstrip() for line in lines) + "\n"
        sections = {"profiling_dimensions": {"batch_sizes": [pick.batch_size]}}
        return recipe_text(self.loaded, self.settings, variants, sections, head, target.parent)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 110)
