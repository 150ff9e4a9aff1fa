"""What a model wrote, as a file of JSON lines in the run: an utterance each, with its reference and its time.

A line is written as soon as the call that made it is over, so that whatever ends the program loses nothing that was
finished. A later line about an utterance replaces the earlier one.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from profiler.errors import StorageError, UserError
from profiler.results.untrusted import read_bytes

FILE = "transcripts.jsonl"


class Transcript(msgspec.Struct, frozen=True):
    """One utterance: what was said, what the model wrote, and how long the call took."""

    id: str
    reference: str
    hypothesis: str
    seconds: float  # of audio
    latency_s: float  # of the call, whatever else was in the batch
    batch: int  # its number in the plan
    batch_size: int  # rows of the call


def append(path: Path, transcripts: Iterable[Transcript]) -> None:
    lines = b"".join(msgspec.json.format(msgspec.json.encode(each), indent=0) + b"\n" for each in transcripts)
    try:
        _end_last_line(path)
        with path.open("ab") as file:
            file.write(lines)
    except OSError as error:
        raise StorageError(f"Cannot write {path}: {error.strerror}. The run's results are whole.") from error


def read(path: Path) -> dict[str, Transcript]:
    """All utterances by id. A last line that was cut off is no utterance; any other damage is an error."""
    try:
        text = read_bytes(path).decode("utf-8")
    except FileNotFoundError:
        raise UserError(
            f"There is no {path}: the run did not keep what its model wrote, so that it cannot be scored."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"Cannot read {path}: {getattr(error, 'strerror', None) or 'it is not in UTF-8'}.") from None
    *lines, _ = text.split("\n")
    found: dict[str, Transcript] = {}
    for number, line in enumerate(lines, 1):
        try:
            transcript = msgspec.json.decode(line, type=Transcript) if line else None
        except (msgspec.MsgspecError, RecursionError):
            raise UserError(
                f"{path}, line {number}: is damaged; expected a JSON object with id, reference, hypothesis, seconds "
                "and latency_s. Was it edited, or copied only in part?"
            ) from None
        if transcript:
            found[transcript.id] = transcript
    return found


def _end_last_line(path: Path) -> None:
    """Take away the half of a line that a kill may have left, so that the next one stands alone."""
    if not path.exists():
        return
    with path.open("rb+") as file:
        size = file.seek(0, 2)
        if not size:
            return
        file.seek(-1, 2)
        if file.read(1) != b"\n":
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
