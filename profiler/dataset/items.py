"""What a data set is made of, whatever it was read from: utterances, and what is wrong with the other entries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from profiler.errors import UserError

SHOWN = 20  # problems that are listed; the others are counted


@dataclass(frozen=True, slots=True)
class Utterance:
    """One recording, or a piece of one, with its target. Without audio only its length is known."""

    id: str
    seconds: float
    audio: Path | None = None
    offset: float = 0.0  # seconds from the start of the file
    text: str | None = None  # None: there is no transcript; "": there is an empty one
    target_tokens: int | None = None
    row: int | None = None  # of the table that `audio` is, where the audio is kept in one


@dataclass(frozen=True)
class Problem:
    """Why an entry cannot be used, and where it stands."""

    place: str  # 'line 4', 'segments line 2', or the name of a file
    message: str

    def __str__(self) -> str:
        # The name of a file may be no text at all; it is shown as far as it goes.
        return f"{self.place}: {self.message}".encode("utf-8", "backslashreplace").decode()


@dataclass
class Reading:
    """All that a source holds, in its own order: nothing is left out without a word."""

    source: Path
    format: str
    utterances: list[Utterance] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    progress: Callable[[int], None] = lambda entries: None

    @property
    def without_text(self) -> list[Utterance]:
        return [utterance for utterance in self.utterances if utterance.text is None]

    @property
    def without_audio(self) -> list[Utterance]:
        return [utterance for utterance in self.utterances if utterance.audio is None]


class DatasetError(UserError):
    """A source that cannot be read at all, or that has entries which cannot be used."""

    @classmethod
    def of(cls, source: Path, problems: list[Problem], so: str, advice: str) -> DatasetError:
        count = "an entry that cannot be used" if len(problems) == 1 else f"{len(problems)} entries that cannot be used"
        return cls(f"{source} has {count}; {so}.\n{listed(problems)}\n{advice}")


def listed(problems: list[Problem], most: int = SHOWN) -> str:
    """A line each, and how many more there are."""
    lines = [f"  {problem}" for problem in problems[:most]]
    if len(problems) > most:
        lines.append(f"  and {len(problems) - most} more")
    return "\n".join(lines)
