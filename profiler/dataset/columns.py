"""What manifests call things: the names under which CSV columns and JSON keys are looked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from profiler.dataset.checks import Entry

NAMES: dict[str, tuple[str, ...]] = {
    "id": ("id", "utt_id", "utterance_id", "utt", "key"),
    "audio": ("audio", "audio_filepath", "audio_path", "audio_file", "wav", "path", "file", "file_name", "filename"),
    "offset": ("offset", "start"),
    "seconds": ("seconds", "duration", "dur", "length"),
    "end": ("end",),
    "text": ("text", "transcript", "transcription", "sentence", "wrd", "words"),
    "target": ("target", "target_tokens", "target_length", "tokens"),
}


def fields_in(names: list[str]) -> dict[str, str]:
    """{'audio': 'wav', ...}: which of the names is which field of an entry; upper case does not matter."""
    lower = {name.strip().lower(): name for name in reversed(names)}
    return {
        field: lower[known]
        for field, candidates in NAMES.items()
        for known in [next((candidate for candidate in candidates if candidate in lower), None)]
        if known is not None
    }


def usable(fields: Mapping[str, str]) -> bool:
    """A length is needed, or audio to take it from."""
    return "audio" in fields or "seconds" in fields or "end" in fields


def expected() -> str:
    return f"a column with the audio ({', '.join(NAMES['audio'])}) or its length ({', '.join(NAMES['seconds'])})"


def entry_of(place: str, values: Mapping[str, Any], fields: Mapping[str, str]) -> Entry:
    found: dict[str, Any] = {field: values.get(name) for field, name in fields.items()}
    audio = found.get("audio")
    if isinstance(audio, dict):  # {"path": ..., "bytes": ...}, as Hugging Face writes it
        found["audio"] = audio.get("path")
    return Entry(place, **found)
