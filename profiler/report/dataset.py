"""A data set in tables: each variant over all its batches, and by length."""

from __future__ import annotations

from profiler.metrics import BATCH, DATASET_RTF
from profiler.report.table import Table
from profiler.results.metric import UNSTABLE_MARK
from profiler.results.statistics import SAMPLES_NEEDED
from profiler.results.types import DatasetResult, Results
from profiler.units import seconds_text, significant

SHOWN = 5  # failed batches that are named
WIDTH = 0.03  # where a recipe does not say how far rounds may lie apart


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
