"""Counts the parameters of every shipped recipe, in every variant, into counts.json: make counts."""

from __future__ import annotations

import json

from profiler.measure.parameters import Counts, count_now, counts_file, model_key
from profiler.recipe.load import load_recipe
from profiler.shipped import shipped_recipes


def main() -> None:
    entries = []
    known: dict[str, Counts] = {}  # variants of one model are counted once
    for name, path in shipped_recipes().items():
        loaded = load_recipe(path, read_audio=False)
        for variant, recipe in loaded.by_variant.items():
            key = json.dumps(model_key(recipe), sort_keys=True)
            counts = known[key] = known.get(key) or count_now(recipe, path.parent)
            entries.append(
                {
                    "recipe": name,
                    "variant": variant,
                    "model": model_key(recipe),
                    "parameters": counts.parameters.model_dump(),
                    "size_bytes": counts.size_bytes.model_dump(),
                }
            )
            print(f"{name}, {variant}: {counts.parameters.total:,}")
    counts_file().write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
