"""Error rates in a table: one row per variant, with intervals, the kinds of errors, and the difference to the first."""

from __future__ import annotations

from collections.abc import Callable

from profiler.accuracy.normalise import SENTENCES
from profiler.metrics import CER, WER
from profiler.report.table import Table
from profiler.results.types import Accuracy, ErrorRate, Results

NAMED = 5  # reasons that are told
LONGEST_REASON = 60  # characters, in the place of a figure


def accuracy_tables(results: Results, name: str) -> list[Table]:
    """Nothing where the data set has no transcripts, or there is no data set."""
    found = results.accuracy
    if not found:
        return []
    compared = next((record.difference.to for record in found if record.difference), None)
    header = ["variant", WER.head, CER.head, "substitutions", "insertions", "deletions", "words", "utterances"]
    header += [f"{WER.short} less that of {compared}"] if compared else []
    table = Table(f"Error rates, data set {found[0].dataset} - {name}", header, [])
    table.rows = [_row(record, compared) for record in found]
    table.remarks = _remarks(found)
    return [table]


def rate_text(rate: ErrorRate | None) -> str:
    """'4.21 [3.05, 5.40]': per cent, with the 95 % interval where there is one."""
    if rate is None:
        return "none"
    return WER.number(rate.value) + (f" {_interval(rate.ci95)}" if rate.ci95 else "")


def wer_text(record: Accuracy) -> str:
    """The rate, or in its place why there is none; a long reason stands below the table."""
    if record.wer or not record.reason or len(record.reason) > LONGEST_REASON:
        return rate_text(record.wer)
    return record.reason


def _interval(interval: tuple[float, float] | list[float], write: Callable[[float], str] = WER.number) -> str:
    return f"[{write(interval[0])}, {write(interval[1])}]"


def _signed(value: float) -> str:
    return f"{'+' if value >= 0 else ''}{WER.number(value)}"


def _row(record: Accuracy, compared: str | None) -> list[str]:
    some = f" of {record.of_utterances:,}" if record.utterances < record.of_utterances else ""
    row = [record.variant, wer_text(record)]
    if record.wer is None or record.cer is None:
        row += [""] * 5 + [f"{record.utterances:,}{some}"]
    else:
        row.append(rate_text(record.cer))
        row += [f"{count:,}" for count in (record.wer.substitutions, record.wer.insertions, record.wer.deletions)]
        row += [f"{record.wer.units:,}", f"{record.utterances:,}{some}"]
    return [*row, _difference(record)] if compared else row


def _difference(record: Accuracy) -> str:
    if record.difference is None:
        return ""
    interval = record.difference.ci95
    return _signed(record.difference.value) + (f" {_interval(interval, _signed)}" if interval else "")


def _remarks(found: list[Accuracy]) -> list[str]:
    remarks = []
    for normalisation in dict.fromkeys(record.normalisation for record in found if record.wer):
        first = next(record for record in found if record.wer and record.normalisation == normalisation)
        how = SENTENCES.get(normalisation, "not known here")
        by = ", ".join(part for part in (first.scorer, first.normaliser) if part)
        remarks.append(
            f"Texts normalised: {normalisation} ({how}). Scored by {by}. In brackets: 95 % of "
            f"{first.bootstrap.resamples:,} sets of utterances drawn anew from this one."
        )
    if any(record.difference for record in found):
        remarks.append("A difference whose interval has 0 in it may be chance.")
    if any(record.reason == "random weights" for record in found):
        remarks.append("Random weights are untrained: an error rate of theirs would mean nothing.")
    several = len(found) > 1
    for record in found:
        whose = f"{record.variant}, " if several else ""
        if record.wer is None and record.reason and wer_text(record) != record.reason:
            remarks.append(f"- {whose}no error rate: {record.reason}")
        if record.wer is not None and record.wer.value == 0 and record.utterances > 0:
            most = 1.0 - 0.05 ** (1.0 / record.utterances)
            remarks.append(
                f"- {whose}no error was seen, which the interval cannot see beyond; with 95 % confidence at most "
                f"{most:.1%} of such utterances have one"
            )
        for entry in record.left_out[:NAMED]:
            names = ", ".join(entry.ids) + (", ..." if entry.utterances > len(entry.ids) else "")
            remarks.append(f"- {whose}{entry.utterances} not scored ({names}): {entry.reason}")
        if len(record.left_out) > NAMED:
            remarks.append(f"- {whose}and others, for {len(record.left_out) - NAMED} reasons more")
        if record.changed_texts:
            remarks.append(
                f"- {whose}{record.changed_texts} utterances got another text in a later round: the model is not "
                "repeatable; the first one counts"
            )
    return remarks
