"""Texts -> errors: counted by jiwer for each utterance, summed to rates, with intervals from the bootstrap.

The bootstrap draws utterances, with replacement, because errors within one utterance come together. Two variants that
transcribed the same utterances are drawn together: their difference is known far better than either rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from profiler.accuracy.normalise import NORMALISATIONS, made_by, normaliser
from profiler.accuracy.transcripts import Transcript, read
from profiler.errors import UserError
from profiler.results.types import Accuracy, Bootstrap, ErrorRate, LeftOut, RateDifference, Results
from profiler.results.untrusted import inside

RESAMPLES = 2000
CHUNK = 1 << 22  # drawn numbers that are held at once
INTERVAL_NEEDS = 10  # utterances; from fewer, drawing anew says little about others of the kind
PERCENT = (2.5, 97.5)

Counts = npt.NDArray[np.int64]
EMPTY = "nothing is left of the reference after normalisation"
NAMED = 5  # ids that are kept of the utterances left out for one reason


@dataclass(frozen=True)
class Errors:
    """Of words, or of characters: an entry for each utterance."""

    substitutions: Counts
    insertions: Counts
    deletions: Counts
    units: Counts  # of the reference

    @property
    def all(self) -> Counts:
        return self.substitutions + self.insertions + self.deletions

    @property
    def rate(self) -> float:
        return float(self.all.sum() / self.units.sum())

    def at(self, places: list[int]) -> Errors:
        parts = (self.substitutions, self.insertions, self.deletions, self.units)
        return Errors(*(part[places] for part in parts))


@dataclass(frozen=True)
class Score:
    """All utterances of a variant that could be scored, and the ids of those of whose reference nothing was left."""

    ids: list[str]
    words: Errors
    characters: Errors
    empty: list[str] = field(default_factory=list)


def scorer() -> str:
    return f"jiwer {version('jiwer')}"


def score(transcripts: Iterable[Transcript], normalise: str) -> Score | None:
    """None where there is nothing to score."""
    import jiwer

    clean = normaliser(normalise)
    ids, references, hypotheses, empty = [], [], [], []
    for transcript in transcripts:
        reference = clean(transcript.reference)
        if not reference:
            empty.append(transcript.id)
            continue
        ids.append(transcript.id)
        references.append(reference)
        hypotheses.append(clean(transcript.hypothesis))
    if not ids:
        return None
    words = _errors(jiwer.process_words(references, hypotheses))
    return Score(ids, words, _errors(jiwer.process_characters(references, hypotheses)), empty)


def interval(errors: Errors, seed: int) -> tuple[float, float] | None:
    """Where 95 % of the rates of drawn sets lie; None with too few utterances."""
    if len(errors.units) < INTERVAL_NEEDS:
        return None
    made, said = _drawn(np.stack([errors.all, errors.units], axis=1), seed).T
    return _middle(made / said)


def difference(to: str, first: Score, other: Score, seed: int) -> RateDifference | None:
    """The word error rate of `other` less that of `first`, the variant `to`, on what both transcribed."""
    places = {name: place for place, name in enumerate(first.ids)}
    common = [(places[name], place) for place, name in enumerate(other.ids) if name in places]
    if not common:
        return None
    one = first.words.at([pair[0] for pair in common])
    two = other.words.at([pair[1] for pair in common])
    found = RateDifference(to=to, value=two.rate - one.rate, utterances=len(common))
    if len(common) >= INTERVAL_NEEDS:
        drawn = _drawn(np.stack([one.all, one.units, two.all, two.units], axis=1), seed)
        found.ci95 = _middle(drawn[:, 2] / drawn[:, 3] - drawn[:, 0] / drawn[:, 1])
    return found


def _errors(output: Any) -> Errors:
    """jiwer's alignment of each sentence, counted."""
    counts = np.zeros((len(output.alignments), 4), dtype=np.int64)
    columns = {"substitute": 0, "insert": 1, "delete": 2}
    for row, chunks in zip(counts, output.alignments, strict=True):
        for chunk in chunks:
            in_reference = chunk.ref_end_idx - chunk.ref_start_idx
            if chunk.type in columns:
                row[columns[chunk.type]] += in_reference or chunk.hyp_end_idx - chunk.hyp_start_idx
            row[3] += in_reference
    return Errors(*counts.T)


def _drawn(values: Counts, seed: int) -> npt.NDArray[np.float64]:
    """The sums of the columns over utterances that were drawn anew: a row for each of the resamples."""
    chance = np.random.default_rng(seed)
    size = len(values)
    sums = np.empty((RESAMPLES, values.shape[1]))
    step = max(1, CHUNK // size)
    for start in range(0, RESAMPLES, step):
        places = chance.integers(size, size=(min(step, RESAMPLES - start), size))
        for column in range(values.shape[1]):
            sums[start : start + step, column] = values[:, column].take(places).sum(axis=1)
    return sums


def _middle(values: npt.NDArray[np.float64]) -> tuple[float, float]:
    low, high = np.percentile(values, PERCENT)
    return float(low), float(high)


def put_rates(record: Accuracy, found: Score | None, normalise: str, seed: int) -> None:
    """Error rates and intervals of a variant, and which utterances had nothing to be compared with."""
    record.normalisation, record.normaliser, record.scorer = normalise, made_by(normalise), scorer()
    record.bootstrap = Bootstrap(resamples=RESAMPLES, seed=seed)
    record.left_out = [entry for entry in record.left_out if entry.reason != EMPTY]
    record.wer = record.cer = record.difference = None
    record.utterances = len(found.ids) if found else 0
    if found is None:
        record.reason = EMPTY
        return
    record.reason = None
    record.wer, record.cer = _rate(found.words, seed), _rate(found.characters, seed)
    record.left_out += left_out(dict.fromkeys(found.empty, EMPTY))


def put_differences(
    records: list[Accuracy], scores: dict[str, Score], baselines: Mapping[str, str | None], seed: int
) -> None:
    """Each variant against its baseline, or the first that was scored, on the utterances that both transcribed."""
    scored = [record for record in records if record.variant in scores]
    for record in scored:
        named = baselines.get(record.variant)
        base = named if named in scores else scored[0].variant
        if base != record.variant:
            record.difference = difference(base, scores[base], scores[record.variant], seed)


def left_out(reasons: dict[str, str]) -> list[LeftOut]:
    """{id: reason} -> one row per reason, with how many and the first of them."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        by_reason.setdefault(reason, []).append(name)
    return [LeftOut(reason=reason, utterances=len(names), ids=names[:NAMED]) for reason, names in by_reason.items()]


def rescore(results: Results, folder: Path, normalise: str | None) -> None:
    """Replace the error rates of a run by those of its kept texts; with another normalisation where one is named."""
    kept = [record for record in results.accuracy if record.transcripts]
    if not kept:
        raise UserError(f"{folder} has nothing to score: {_why_nothing(results)}.")
    scores: dict[str, Score] = {}
    for record in kept:
        chosen, seed = normalise or record.normalisation, record.bootstrap.seed
        if chosen not in NORMALISATIONS:
            raise UserError(f"{folder} was scored with a normalisation not known here; choose one with --normalise.")
        found = score(read(inside(folder, str(record.transcripts))).values(), chosen)
        put_rates(record, found, chosen, seed)
        if found:
            scores[record.variant] = found
    put_differences(kept, scores, {model.variant: model.baseline for model in results.models}, kept[0].bootstrap.seed)


def _why_nothing(results: Results) -> str:
    if any(record.wer for record in results.accuracy):
        return "what its models wrote was left out when it was exported (export --with-transcripts keeps it)"
    reasons = dict.fromkeys(record.reason for record in results.accuracy if record.reason)
    return "; ".join(reasons) if reasons else "it was run without transcripts (dataset)"


def _rate(errors: Errors, seed: int) -> ErrorRate:
    return ErrorRate(
        value=errors.rate,
        ci95=interval(errors, seed),
        substitutions=int(errors.substitutions.sum()),
        insertions=int(errors.insertions.sum()),
        deletions=int(errors.deletions.sum()),
        units=int(errors.units.sum()),
    )
