"""CSV and TSV with a header: SpeechBrain's (ID, duration, wav, wrd), Common Voice's (path, sentence), and the like."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from profiler.dataset.checks import Entry, take
from profiler.dataset.columns import entry_of, expected, fields_in, usable
from profiler.dataset.items import DatasetError, Problem, Reading
from profiler.dataset.lines import bounded_lines, open_text

LARGEST_FIELD = 1 << 24


def read(source: Path, reading: Reading) -> Reading:
    return take(_entries(source), reading, source.parent)


def _entries(source: Path) -> Iterator[Entry | Problem]:
    csv.field_size_limit(LARGEST_FIELD)
    with open_text(source) as file:
        if source.suffix.lower() == ".tsv":
            # Tab-separated files of speech corpora quote nothing: a quotation mark is a part of the transcript.
            rows = csv.reader(bounded_lines(file, source), delimiter="\t", quoting=csv.QUOTE_NONE)
        else:
            rows = csv.reader(bounded_lines(file, source), skipinitialspace=True)
        try:
            header = next(rows, [])
            fields = fields_in(header)
            if not usable(fields):
                seen = ", ".join(header) or "nothing"
                raise DatasetError(f"{source}, line 1: expected {expected()}, found {seen}.")
            for row in rows:
                place = f"line {rows.line_num}"
                if not any(row):
                    continue
                if len(row) != len(header):
                    yield Problem(place, f"has {len(row)} fields, the header {len(header)}")
                    continue
                yield entry_of(place, dict(zip(header, row, strict=True)), fields)
        except csv.Error as error:
            raise DatasetError(f"{source}, line {rows.line_num}: is not CSV ({error}).") from None
