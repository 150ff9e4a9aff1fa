"""A data set in tables: each variant over all its batches and by length, and its error rates with their intervals."""

from __future__ import annotations

from collections.abc import Callable

from profiler.accuracy.normalise import SENTENCES
from profiler.metrics import BATCH, CER, DATASET_RTF, WER
from profiler.report.table import Table
from profiler.results.metric import UNSTABLE_MARK
from profiler.results.statistics import SAMPLES_NEEDED
from profiler.results.types import Accuracy, DatasetResult, ErrorRate, Results
from profiler.units import seconds_text, significant

SHOWN = 5  # failed batches that are named
WIDTH = 0.03  # where a recipe does not say how far rounds may lie apart
NAMED = 5  # reasons that are told
LONGEST_REASON = 60  # characters, in the place of a figure


def dataset_tables(results: Results, name: str) -> list[Table]:
    """One row per variant, and one per quarter of the lengths; nothing where there is no data set."""
    found = results.datasets
    if not found:
        return []
    width = width_of(results)
    title = f"Data set {found[0].dataset}, {found[0].batching} - {name}"
    header = ["variant", "utterances", "batches", "audio", "padding", DATASET_RTF.head, "RTF, padding as audio"]
    header += [BATCH.head, f"longest batch, {BATCH.shown.name}"]
    table = Table(title, header, [_row(result, width) for result in found])
    table.remarks = _remarks(found, width)
    tables = [table, *_percentiles(found, f"Data set {found[0].dataset}, RTF of single utterances - {name}")]
    rows = [[result.variant, *row] for result in found for row in _quarters(result)]
    if not rows:
        return tables
    header = ["variant", "batches", "utterances last", "audio", "padding", DATASET_RTF.head, BATCH.head]
    return [*tables, Table(f"Data set {found[0].dataset}, by length - {name}", header, rows)]


def width_of(results: Results) -> float:
    """How far the rounds of a run may lie apart before its figures are marked."""
    return float(results.run.resolved.get("measure", {}).get("width", WIDTH))


def rtf_text(result: DatasetResult, width: float) -> str:
    """The RTF over the whole set, as its place in a table shows it."""
    return "n/a" if result.rtf is None else _rtf(result, result.rtf, width)


def _row(result: DatasetResult, width: float) -> list[str]:
    if result.rtf is None or result.rtf_padded is None or result.latency_s is None or result.seconds_of_audio is None:
        return [result.variant, "0", "0", *["not yet" if result.status == "ok" else result.status] * 6]
    wanted = result.drawn.batches
    return [
        result.variant,
        f"{result.utterances:,}",
        f"{result.batches:,}" + (f" of {wanted:,}" if result.batches < wanted else ""),
        seconds_text(result.seconds_of_audio),
        f"{result.share_of_padding:.1%}",
        rtf_text(result, width),
        _rtf(result, result.rtf_padded, width),
        BATCH.number(result.latency_s.median),
        BATCH.number(result.latency_s.max),
    ]


def _rtf(result: DatasetResult, value: float, width: float) -> str:
    """The digits that the rounds support; marked where they lie farther apart than wanted."""
    spread = result.spread or 0.0
    text = DATASET_RTF.number(value, spread)
    return f"{text} {UNSTABLE_MARK}{spread:.0%}" if spread > width else text


def _percentiles(found: list[DatasetResult], title: str) -> list[Table]:
    """RTF over utterances, as far as their number supports it."""
    names = list(dict.fromkeys(name for result in found for name in result.rtf_percentiles))
    if not names:
        return []
    rows = [
        [result.variant, *(DATASET_RTF.number(result.rtf_percentiles.get(name)) for name in names)]
        for result in found
        if result.rtf_percentiles
    ]
    more = [f"p{percent} {needed}" for percent, needed in SAMPLES_NEEDED.items() if f"p{percent}" not in names]
    remarks = [f"Percentiles that need more utterances are left out: {', '.join(more)}."] if more else []
    return [Table(title, ["variant", *names], rows, remarks)]


def _quarters(result: DatasetResult) -> list[list[str]]:
    return [
        [
            f"{row.batches_of} ({row.batches})",
            f"{significant(row.seconds[0], 3)} to {significant(row.seconds[1], 3)} s",
            seconds_text(row.seconds_of_audio),
            f"{row.share_of_padding:.1%}",
            DATASET_RTF.number(row.rtf),
            BATCH.number(row.latency_s),
        ]
        for row in result.by_length
    ]


def _remarks(found: list[DatasetResult], width: float) -> list[str]:
    first = found[0]
    remarks = [
        f"RTF: all time over all real audio. Lengths of the set: {significant(first.seconds.min, 3)} to "
        f"{significant(first.seconds.max, 3)} s, mean {significant(first.seconds.mean, 3)} s. Audio: "
        f"{first.audio}."
    ]
    drawn = first.drawn
    if drawn.batches < drawn.of_batches:
        remarks.append(
            f"Drawn: {drawn.batches:,} of {drawn.of_batches:,} batches ({drawn.utterances:,} of "
            f"{drawn.of_utterances:,} utterances), spread evenly over the lengths of all batches, "
            f"which have {first.share_of_padding_in_set:.1%} padding."
        )
    if any((result.spread or 0.0) > width for result in found):
        remarks.append(f"{UNSTABLE_MARK} marks an RTF whose rounds lie so far from it.")
    if any(result.rtf is not None and result.spread is None for result in found):
        remarks.append("Each batch was timed once: how far an RTF may be off is not known (dataset.rounds: 2 tells).")
    several = len(found) > 1
    for result in found:
        whose = f"{result.variant}, " if several else ""
        for what, batches in (("failed", result.failed), ("skipped", result.skipped)):
            remarks += [
                f"- {whose}batch {batch.batch} ({batch.utterances} utterances, the longest {batch.longest} of "
                f"{significant(batch.longest_s, 3)} s): {what}, {batch.reason}"
                for batch in batches[:SHOWN]
            ]
            if len(batches) > SHOWN:
                remarks.append(f"- {whose}and {len(batches) - SHOWN} batches more {what}.")
        if result.reason:
            remarks.append(f"- {whose}{result.status}: {result.reason}")
    return remarks + list(dict.fromkeys(note for result in found for note in result.notes))


def accuracy_tables(results: Results, name: str) -> list[Table]:
    """Nothing where the data set has no transcripts, or there is no data set."""
    found = results.accuracy
    if not found:
        return []
    compared = next((record.difference.to for record in found if record.difference), None)
    header = ["variant", WER.head, CER.head, "substitutions", "insertions", "deletions", "words", "utterances"]
    header += [f"{WER.short} less that of {compared}"] if compared else []
    table = Table(f"Error rates, data set {found[0].dataset} - {name}", header, [])
    table.rows = [_accuracy_row(record, compared) for record in found]
    table.remarks = _accuracy_remarks(found)
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


def _accuracy_row(record: Accuracy, compared: str | None) -> list[str]:
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


def _accuracy_remarks(found: list[Accuracy]) -> list[str]:
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
