"""What a run measures of a data set: read, checked as a whole, batched and drawn before anything heavy starts."""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from profiler.dataset.batching import Batch, draw, make_batches, seconds_at_most, share_of_padding
from profiler.dataset.items import DatasetError, Problem, Reading, Utterance
from profiler.dataset.manifest import read_dataset
from profiler.models.registry import speaks
from profiler.recipe.load import LoadedRecipe
from profiler.recipe.schema import Dataset
from profiler.results.types import Drawn, Spread
from profiler.units import seconds_text

LENGTHS_ALONE = "the set has transcripts, but lengths in the place of audio"
SPOKEN = "a variant of the run makes speech of the transcripts"
ADVICE = "Fix them, or leave such entries out with dataset.on_error: skip."
WITHOUT_SCORES = "To measure no error rates: dataset.transcripts: ignore."
NAMED = 3  # skipped entries that the notes name


@dataclass(frozen=True)
class DatasetPlan:
    """The batches of a run, and the set they were drawn from."""

    name: str
    format: str
    settings: Dataset
    utterances: list[Utterance]  # of the whole set
    all_batches: list[Batch]
    batches: list[Batch]  # to be measured
    skipped: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    scored: bool = False  # every utterance has audio and a transcript
    unscored_reason: str | None = None  # where there are transcripts all the same
    spoken: bool = False  # a model makes speech of the transcripts

    @property
    def references(self) -> str | None:
        """What the error rates are of; runs with the same can be compared."""
        return (
            references_fingerprint(utterance for batch in self.batches for utterance in batch) if self.scored else None
        )

    @property
    def drawn(self) -> Drawn:
        """How much of the set is measured."""
        return Drawn(
            utterances=sum(map(len, self.batches)),
            of_utterances=len(self.utterances),
            batches=len(self.batches),
            of_batches=len(self.all_batches),
        )

    @property
    def batching(self) -> str:
        """'batches of 30 in corpus order'."""
        settings, most = self.settings, seconds_at_most(self.settings)
        size = f"batches of {settings.batch_size or 1}"
        if settings.batch_frames is not None:
            size = f"batches of up to {settings.batch_frames:,} frames (at {settings.frames_per_second:g} per second)"
        elif most is not None:
            size = f"batches of up to {most:g} s"
        order = {"corpus": "in corpus order", "sorted": "sorted by length", "shuffled": "shuffled"}[settings.order]
        return f"{size}, {order}" if settings.order != "corpus" else f"{size} {order}"

    @property
    def fingerprint(self) -> str:
        """Another one when other batches would be measured: a run is not taken up with those."""
        content: list[Any] = [[[u.id, u.seconds, str(u.audio), u.offset] for u in batch] for batch in self.batches]
        if self.scored:
            content.append(self.references)
        return hashlib.sha256(json.dumps(content).encode("utf-8", "surrogateescape")).hexdigest()[:16]

    def summary(self) -> dict[str, Any]:
        """What can be said of the set without a model, for `show` and the results."""
        targets = [u.target_tokens for u in self.utterances if u.target_tokens is not None]
        return {
            "dataset": self.name,
            "format": self.format,
            "order": self.settings.order,
            "batching": self.batching,
            "drawn": self.drawn,
            "seconds": spread([utterance.seconds for utterance in self.utterances]),
            "targets": spread([float(count) for count in targets]) if targets else None,
            "expected_share_of_padding": share_of_padding(self.batches),
            "share_of_padding_in_set": share_of_padding(self.all_batches),
            "scored": self.scored,
        }

    def line(self) -> str:
        """'Data set x.csv: 1,000 utterances, 3.5 h; 34 batches of 30 in corpus order; 28.1 % padding expected.'"""
        drawn = self.drawn
        total = sum(utterance.seconds for utterance in self.utterances)
        some = ""
        if drawn.batches < drawn.of_batches:
            some = f", {drawn.batches:,} of them drawn over all lengths ({drawn.utterances:,} utterances)"
        scored = f" Error rates are measured, texts normalised: {self.settings.normalise}." if self.scored else ""
        return (
            f"Data set {self.name}: {drawn.of_utterances:,} utterances, {seconds_text(total)} of audio; "
            f"{drawn.of_batches:,} {self.batching}{some}; {share_of_padding(self.batches):.1%} padding expected."
            f"{scored}"
        )


def plan_dataset(loaded: LoadedRecipe) -> DatasetPlan | None:
    """The plan of a recipe's data set; raises DatasetError with all its problems. None where there is no data set."""
    settings = loaded.recipe.dataset
    if settings is None:
        return None
    reading = read_dataset(loaded.resolve_path(settings.source), settings.format)
    # In training, texts are what the model learns from; it writes none that could be scored.
    training = loaded.recipe.mode == "training"
    spoken = [speaks(recipe.pretrained_model.type) for recipe in loaded.by_variant.values()]
    scoring = Scorable(False, reading.utterances) if training else check_transcripts(reading, settings)
    if any(spoken):
        scoring = to_be_spoken(reading.utterances, None if all(spoken) else SPOKEN)
    reading.utterances = scoring.utterances
    reading.problems += scoring.problems
    if reading.problems and settings.on_error == "fail":
        advice = f"{ADVICE} {WITHOUT_SCORES}" if scoring.problems and not any(spoken) else ADVICE
        raise DatasetError.of(reading.source, reading.problems, "nothing was run", advice)
    if not reading.utterances:
        first = f" The first problem, {reading.problems[0]}." if reading.problems else ""
        raise DatasetError(f"{reading.source} holds no utterance that can be used.{first}")
    batches = make_batches(reading.utterances, settings)
    drawn = draw(batches, settings.limit)
    return DatasetPlan(
        name=Path(settings.source).name or settings.source,
        format=reading.format,
        settings=settings,
        utterances=reading.utterances,
        all_batches=batches,
        batches=drawn,
        skipped=reading.problems,
        notes=_notes(reading, settings, drawn),
        scored=scoring.scored,
        unscored_reason=scoring.reason,
        spoken=any(spoken),
    )


@dataclass(frozen=True)
class Scorable:
    """Whether a set is scored, with which utterances, and what stands against others. `reason`: why it is not."""

    scored: bool
    utterances: list[Utterance]
    problems: list[Problem] = field(default_factory=list)
    reason: str | None = None


def check_transcripts(reading: Reading, settings: Dataset) -> Scorable:
    """A set without any transcript is timed and no more; in one that has some, each utterance needs its own."""
    everything = reading.utterances
    if settings.transcripts == "ignore" or len(reading.without_text) == len(everything):
        return Scorable(False, everything)
    if len(reading.without_audio) == len(everything):
        return Scorable(False, everything, reason=LENGTHS_ALONE)
    kept: list[Utterance] = []
    problems: list[Problem] = []
    for utterance in everything:
        message = _problem(utterance, settings.normalise)
        if message is None:
            kept.append(utterance)
        else:
            problems.append(Problem(utterance.id, message))
    return Scorable(True, kept, problems)


def to_be_spoken(utterances: list[Utterance], reason: str | None) -> Scorable:
    """For a model that makes speech: its text is the transcript, which each utterance then needs."""
    problems = [
        Problem(utterance.id, "has no transcript, which is what the model would say")
        for utterance in utterances
        if not (utterance.text or "").strip()
    ]
    return Scorable(False, [each for each in utterances if (each.text or "").strip()], problems, reason)


def references_fingerprint(utterances: Iterable[Utterance]) -> str:
    """The same for the same utterances with the same references, in whatever order and from whatever folder."""
    content = sorted((utterance.id, utterance.text) for utterance in utterances)
    return hashlib.sha256(json.dumps(content).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _problem(utterance: Utterance, normalise: str) -> str | None:
    if utterance.text is None:
        return "has no transcript"
    if utterance.audio is None:
        return "has a transcript, but no audio"
    if not utterance.text.strip():
        return "its transcript is empty"
    from profiler.accuracy.normalise import normaliser

    if not normaliser(normalise)(utterance.text):
        return f"nothing is left of its transcript, '{utterance.text}', after the normalisation {normalise}"
    return None


def spread(values: list[float]) -> Spread:
    """Where a distribution lies, of all its values."""
    ordered = sorted(values)

    def at(share: float) -> float:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    return Spread(
        min=ordered[0],
        p10=at(0.1),
        median=statistics.median(ordered),
        mean=statistics.fmean(ordered),
        p90=at(0.9),
        max=ordered[-1],
    )


def _notes(reading: Reading, settings: Dataset, batches: list[Batch]) -> list[str]:
    notes = list(reading.notes)
    if reading.problems:
        total = len(reading.utterances) + len(reading.problems)
        named = "; ".join(str(problem) for problem in reading.problems[:NAMED])
        more = f"; and {len(reading.problems) - NAMED} more" if len(reading.problems) > NAMED else ""
        notes.append(f"Skipped {len(reading.problems)} of {total} entries: {named}{more}.")
    lengths_only = len(reading.without_audio)
    if lengths_only:
        whose = "The" if lengths_only == len(reading.utterances) else f"{lengths_only} of {len(reading.utterances)}"
        notes.append(f"{whose} utterances are lengths alone: the sample audio is cut or repeated to them.")
    most = seconds_at_most(settings)
    if most is not None:
        long = sum(len(batch) == 1 and batch[0].seconds > most + 1e-9 for batch in batches)
        if long:
            notes.append(f"{long} utterances are longer than a batch may be ({most:g} s); each has one of its own.")
    if settings.limit is not None and sum(map(len, batches)) > settings.limit:
        notes.append(f"A single batch holds more utterances than dataset.limit ({settings.limit}); it was drawn.")
    return notes
