"""A data set that Hugging Face's `datasets` saved to disk (`save_to_disk`), read by that library, without decoding.

Its audio is files, or bytes in the table itself; the latter are named by their row and read when they are needed.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from profiler.dataset.checks import Entry, take
from profiler.dataset.columns import entry_of, expected, fields_in, usable
from profiler.dataset.durations import length_of
from profiler.dataset.items import DatasetError, Problem, Reading

SPLITS, TABLE, DESCRIPTION = "dataset_dict.json", "state.json", "dataset_info.json"
INSTALL = 'pip install "speech-profiler[datasets]"'


def is_on_disk(folder: Path) -> bool:
    return any((folder / name).is_file() for name in (SPLITS, TABLE, DESCRIPTION))


def read(source: Path, reading: Reading) -> Reading:
    folder = _one_split(source)
    table = _table(folder)
    fields = fields_in(list(table.features))
    if not usable(fields):
        raise DatasetError(f"{folder}: expected {expected()}, found {', '.join(table.features) or 'nothing'}.")
    return take(_entries(folder, table, fields), reading, folder)


def audio_of(folder: Path, row: int) -> io.BytesIO:
    """The audio that a row holds, as it was encoded."""
    table = _table(folder)
    return io.BytesIO(table[row][fields_in(list(table.features))["audio"]]["bytes"])


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


def _entries(folder: Path, table: Any, fields: dict[str, str]) -> Iterator[Entry | Problem]:
    for number, row in enumerate(table):
        place = f"row {number}"
        entry = entry_of(place, row, fields)
        audio = row.get(fields.get("audio", ""))
        if isinstance(audio, dict) and "array" in audio:
            yield Problem(place, "holds decoded samples; cast the column to Audio, or to the path of a file")
            continue
        if isinstance(audio, dict) and audio.get("bytes"):
            entry.id = entry.id if entry.id not in (None, "") else _name(entry.audio, number)
            entry.audio, entry.row = folder, number
            entry.length = length_of(io.BytesIO(audio["bytes"]), f"its audio, {_name(audio.get('path'), number)},")
        yield entry


def _name(path: Any, number: int) -> str:
    return Path(path).stem if isinstance(path, str) and path else f"row-{number}"
