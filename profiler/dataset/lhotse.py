"""lhotse's manifests, JSON lines: cuts, or recordings with the supervisions beside them. Read without lhotse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from profiler.dataset.checks import ManifestEntry, Refused, entries_of, take
from profiler.dataset.items import DatasetError, Problem, Reading
from profiler.dataset.tables import objects

SUFFIXES = (".jsonl", ".jsonl.gz")


def read_lhotse(source: Path, reading: Reading) -> Reading:
    manifest = _in_folder(source) if source.is_dir() else source
    kind = kind_of(manifest)
    if kind == "cuts":
        return take(entries_of(objects(manifest), _cut), reading, manifest.parent)
    if kind is None:
        raise DatasetError(f"{manifest} does not look like cuts, recordings or supervisions of lhotse.")
    other = "supervisions" if kind == "recordings" else "recordings"
    partner = manifest.with_name(manifest.name.replace(kind, other))
    if partner == manifest or not partner.is_file():
        if kind == "supervisions":
            raise DatasetError(
                f"{manifest} holds supervisions; the recordings are looked for beside it, and not there."
            )
        reading.notes.append("There are no supervisions beside the recordings: no transcripts.")
        return take(entries_of(objects(manifest), _recording), reading, manifest.parent)
    pair = (manifest, partner) if kind == "recordings" else (partner, manifest)
    return take(_supervised(*pair), reading, manifest.parent)


def kind_of(manifest: Path) -> str | None:
    """What the first object of a file is."""
    first = next((value for _, value in objects(manifest)), None)
    if not isinstance(first, dict):
        return None
    if "sources" in first:
        return "recordings"
    if "recording_id" in first and "supervisions" not in first:
        return "supervisions"
    if "supervisions" in first or "recording" in first or str(first.get("type", "")).endswith("Cut"):
        return "cuts"
    return None


def manifests_in(folder: Path) -> list[Path]:
    """The manifests of a folder, those that hold most first: cuts, then recordings."""
    files = [file for suffix in SUFFIXES for file in sorted(folder.glob(f"*{suffix}"))]
    return [file for word in ("cuts", "recordings") for file in files if word in file.name]


def _in_folder(folder: Path) -> Path:
    found = manifests_in(folder)
    if not found:
        raise DatasetError(f"{folder} holds no lhotse manifest: no *cuts*.jsonl(.gz) and no *recordings*.jsonl(.gz).")
    same = [file.name for file in found if ("cuts" in file.name) == ("cuts" in found[0].name)]
    if len(same) > 1:
        raise DatasetError(f"{folder} holds several manifests ({', '.join(same[:5])}); name one of them.")
    return found[0]


def _cut(place: str, cut: dict[str, object]) -> ManifestEntry:
    if "tracks" in cut or cut.get("type") == "PaddingCut":
        raise Refused(f"is a {cut.get('type', 'MixedCut')}; only cuts of one recording can be read")
    recording = cut.get("recording")
    audio = _source(recording) if isinstance(recording, dict) else None
    parts = cut.get("supervisions")
    texts = [part.get("text") for part in (parts if isinstance(parts, list) else []) if isinstance(part, dict)]
    said = [text for text in texts if isinstance(text, str)]
    start = cut.get("start") if audio is not None else None  # without audio the length is all there is
    return ManifestEntry(place, cut.get("id"), audio, start, cut.get("duration"), text=" ".join(said) if said else None)


def _recording(place: str, recording: dict[str, object]) -> ManifestEntry:
    return ManifestEntry(place, recording.get("id"), _source(recording), seconds=recording.get("duration"))


def _supervised(recordings: Path, supervisions: Path) -> Iterator[ManifestEntry | Problem]:
    """A supervision is an utterance: a piece of its recording, with what is said there."""
    by_id: dict[str, Any] = {}
    for found in entries_of(_named(recordings), _recording):
        if isinstance(found, Problem):
            yield found
        else:
            by_id[str(found.id)] = found.audio
    heard = set()

    def supervision(place: str, part: dict[str, object]) -> ManifestEntry:
        wanted = str(part.get("recording_id"))  # whatever stands there
        heard.add(wanted)
        if wanted not in by_id:
            raise Refused(f"there is no recording {wanted} for this transcript")
        return ManifestEntry(
            place, part.get("id"), by_id[wanted], part.get("start"), part.get("duration"), text=part.get("text")
        )

    yield from entries_of(_named(supervisions), supervision)
    for name in by_id:
        if name not in heard:
            yield Problem(recordings.name, f"the recording {name} has no supervision")


def _named(manifest: Path) -> Iterator[tuple[str, dict[str, object] | Problem]]:
    """The objects of one of two files: their places name it."""
    for place, value in objects(manifest):
        where = f"{manifest.name} {place}"
        yield where, Problem(where, value.message) if isinstance(value, Problem) else value


def _source(recording: dict[str, object]) -> str:
    """The file of a recording; there are recordings that are commands, addresses or bytes."""
    sources = recording.get("sources")
    first = sources[0] if isinstance(sources, list) and sources and isinstance(sources[0], dict) else {}
    if first.get("type") != "file" or not isinstance(first.get("source"), str):
        raise Refused(f"its audio is not a file but of the type {first.get('type')}; only files are read")
    return str(first["source"])
