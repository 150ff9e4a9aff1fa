"""Manifests with named columns: CSV, JSON lines, and data sets that Hugging Face's `datasets` saved to disk.

CSV and TSV have a header: SpeechBrain's (ID, duration, wav, wrd), Common Voice's (path, sentence), and the like. JSON
lines are an object each: NeMo's (audio_filepath, duration, offset, text), Hugging Face's metadata.jsonl. A data set on
disk is read by its library, without decoding: its audio is files, or bytes in the table itself, which are named by
their row and read when they are needed.
"""

from __future__ import annotations

import csv
import functools
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from profiler.dataset.checks import ManifestEntry, Refused, entries_of, length_of, take
from profiler.dataset.items import DatasetError, Problem, Reading, bounded_lines, numbered_lines, open_text

NAMES: dict[str, tuple[str, ...]] = {
    "id": ("id", "utt_id", "utterance_id", "utt", "key"),
    "audio": ("audio", "audio_filepath", "audio_path", "audio_file", "wav", "path", "file", "file_name", "filename"),
    "offset": ("offset", "start"),
    "seconds": ("seconds", "duration", "dur", "length"),
    "end": ("end",),
    "text": ("text", "transcript", "transcription", "sentence", "wrd", "words"),
    "target": ("target", "target_tokens", "target_length", "tokens"),
}
LARGEST_FIELD = 1 << 24
SPLITS, TABLE, DESCRIPTION = "dataset_dict.json", "state.json", "dataset_info.json"
INSTALL = 'pip install "speech-profiler[datasets]"'


def _fields(names: list[str]) -> dict[str, str]:
    """{'audio': 'wav', ...}: which of the names is which field of an entry; upper case does not matter.

    Raises Refused without audio, and without a length that could stand for it.
    """
    lower = {name.strip().lower(): name for name in reversed(names)}
    found = {field: next((lower[name] for name in known if name in lower), None) for field, known in NAMES.items()}
    fields = {field: name for field, name in found.items() if name is not None}
    if not fields.keys() & {"audio", "seconds", "end"}:
        wanted = f"a column with the audio ({', '.join(NAMES['audio'])}) or its length ({', '.join(NAMES['seconds'])})"
        raise Refused(f"expected {wanted}, found {', '.join(names) or 'nothing'}")
    return fields


def _fields_of_all(names: list[str], where: str) -> dict[str, str]:
    try:
        return _fields(names)
    except Refused as error:
        raise DatasetError(f"{where}: {error}.") from None


def _entry(place: str, values: Mapping[str, Any], fields: Mapping[str, str]) -> ManifestEntry:
    found: dict[str, Any] = {field: values.get(name) for field, name in fields.items()}
    audio = found.get("audio")
    if isinstance(audio, dict):  # {"path": ..., "bytes": ...}, as Hugging Face writes it
        found["audio"] = audio.get("path")
    return ManifestEntry(place, **found)


def read_csv(source: Path, reading: Reading) -> Reading:
    return take(_rows(source), reading, source.parent)


def _rows(source: Path) -> Iterator[ManifestEntry | Problem]:
    csv.field_size_limit(LARGEST_FIELD)
    with open_text(source) as file:
        if source.suffix.lower() == ".tsv":
            # Tab-separated files of speech corpora quote nothing: a quotation mark is a part of the transcript.
            rows = csv.reader(bounded_lines(file, source), delimiter="\t", quoting=csv.QUOTE_NONE)
        else:
            rows = csv.reader(bounded_lines(file, source), skipinitialspace=True)
        try:
            header = next(rows, [])
            fields = _fields_of_all(header, f"{source}, line 1")
            for row in rows:
                place = f"line {rows.line_num}"
                if any(row) and len(row) != len(header):
                    yield Problem(place, f"has {len(row)} fields, the header {len(header)}")
                elif any(row):
                    yield _entry(place, dict(zip(header, row, strict=True)), fields)
        except csv.Error as error:
            raise DatasetError(f"{source}, line {rows.line_num}: is not CSV ({error}).") from None


def read_jsonl(source: Path, reading: Reading) -> Reading:
    def entry(place: str, value: dict[str, object]) -> ManifestEntry:
        try:
            return _entry(place, value, _fields(list(value)))
        except Refused as error:
            raise Refused(str(error).replace("a column", "a key")) from None

    return take(entries_of(objects(source), entry), reading, source.parent)


def objects(source: Path) -> Iterator[tuple[str, dict[str, object] | Problem]]:
    """('line 1', {...}), ...; what is no JSON object comes as a problem."""
    for number, line in numbered_lines(source):
        place = f"line {number}"
        try:
            value = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            yield place, Problem(place, f"is not JSON ({getattr(error, 'msg', 'nested too deep')})")
            continue
        yield place, value if isinstance(value, dict) else Problem(place, "is not a JSON object")


# -- Hugging Face's data sets on disk


def is_on_disk(folder: Path) -> bool:
    return any((folder / name).is_file() for name in (SPLITS, TABLE, DESCRIPTION))


def read_huggingface(source: Path, reading: Reading) -> Reading:
    folder = _one_split(source)
    table = _table(folder)
    fields = _fields_of_all(list(table.features), str(folder))

    def entry(place: str, row: dict[str, object]) -> ManifestEntry:
        found = _entry(place, row, fields)
        audio = row.get(fields.get("audio", ""))
        if isinstance(audio, dict) and "array" in audio:
            raise Refused("holds decoded samples; cast the column to Audio, or to the path of a file")
        if isinstance(audio, dict) and audio.get("bytes"):
            number = int(place.removeprefix("row "))
            path = audio.get("path")
            name = Path(path).stem if isinstance(path, str) and path else f"row-{number}"
            found.id = found.id if found.id not in (None, "") else name
            found.audio, found.row = folder, number
            found.length = length_of(io.BytesIO(audio["bytes"]), f"its audio, {name},")
        return found

    rows = ((f"row {number}", row) for number, row in enumerate(table))
    return take(entries_of(rows, entry), reading, folder)


def audio_of(folder: Path, row: int) -> io.BytesIO:
    """The audio that a row holds, as it was encoded."""
    table = _table(folder)
    return io.BytesIO(table[row][_fields(list(table.features))["audio"]]["bytes"])


def _one_split(folder: Path) -> Path:
    if not (folder / SPLITS).is_file():
        return folder
    splits = sorted(path.parent for path in folder.glob(f"*/{TABLE}"))
    if len(splits) != 1:
        named = ", ".join(str(path) for path in splits)
        raise DatasetError(f"{folder} holds {len(splits)} splits; name one of them: {named or 'there is none'}.")
    return splits[0]


@functools.cache
def _table(folder: Path) -> Any:
    """The table, with its audio left as it is."""
    try:
        import datasets  # type: ignore[import-untyped]
    except ImportError:
        raise DatasetError(f"{folder} is a Hugging Face data set on disk; to read it: {INSTALL}") from None

    datasets.disable_progress_bars()
    try:
        table = datasets.load_from_disk(str(folder))
        for name, kind in table.features.items():
            if isinstance(kind, datasets.Audio):
                table = table.cast_column(name, datasets.Audio(decode=False))
    except Exception as error:  # whatever pyarrow and the library below it make of a damaged file
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise DatasetError(f"{folder} cannot be read as a data set on disk: {reason}.") from None
    return table
