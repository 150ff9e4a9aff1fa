"""Mistakes in a recipe: collected, then shown all at once with file and line."""

from __future__ import annotations

from dataclasses import dataclass

from profiler.errors import UserError

SHOWN = 100  # mistakes; whoever has more will look again
LONGEST = 1_000  # characters of one, which may quote what was written


@dataclass(frozen=True)
class Mistake:
    """One thing to fix: where it stands, the key, and a sentence on what was expected."""

    message: str
    key: str = ""
    file: str = ""
    line: int | None = None

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return ": ".join(part for part in (place, _short(self.key), _short(self.message)) if part)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


class RecipeError(UserError):
    """A recipe with one mistake or more."""

    def __init__(self, recipe: str, mistakes: list[Mistake]) -> None:
        self.mistakes = sorted(mistakes, key=lambda mistake: mistake.line or 0)
        count = "a mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        lines = "\n".join(f"  {mistake}" for mistake in self.mistakes[:SHOWN])
        more = f"\n  ... and {len(mistakes) - SHOWN:,} more" if len(mistakes) > SHOWN else ""
        super().__init__(f"{recipe} has {count}; nothing was run.\n{lines}{more}")
