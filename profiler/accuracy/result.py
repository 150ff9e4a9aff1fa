"""Scores -> the entries of results.json, at the end of a pass and whenever a run is scored again."""

from __future__ import annotations

from pathlib import Path

from profiler.accuracy.normalise import NORMALISATIONS, made_by
from profiler.accuracy.score import RESAMPLES, Errors, Score, difference, interval, score, scorer
from profiler.accuracy.transcripts import read
from profiler.errors import UserError
from profiler.results.types import Accuracy, Bootstrap, ErrorRate, LeftOut, Results
from profiler.results.untrusted import inside

EMPTY = "nothing is left of the reference after normalisation"
NAMED = 5  # ids that are kept of the utterances left out for one reason


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


def put_differences(records: list[Accuracy], scores: dict[str, Score], seed: int) -> None:
    """Each variant against the first that was scored, on the utterances that both transcribed."""
    scored = [record for record in records if record.variant in scores]
    for record in scored[1:]:
        record.difference = difference(scored[0].variant, scores[scored[0].variant], scores[record.variant], seed)


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
    put_differences(kept, scores, kept[0].bootstrap.seed)


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
