"""lhotse's manifests, JSON lines: cuts, or recordings with the supervisions beside them. Read without lhotse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from profiler.dataset.checks import Entry, take
from profiler.dataset.items import DatasetError, Problem, Reading
from profiler.dataset.jsonl import objects

SUFFIXES = (".jsonl", ".jsonl.gz")


def read(source: Path, reading: Reading) -> Reading:
    manifest = _in_folder(source) if source.is_dir() else source
    kind = kind_of(manifest)
    base = manifest.parent
    if kind == "cuts":
        return take(_cuts(manifest), reading, base)
    if kind == "recordings":
        supervisions = _partner(manifest, "recordings", "supervisions")
        if supervisions is None:
            reading.notes.append("There are no supervisions beside the recordings: no transcripts.")
            return take(_recordings(manifest), reading, base)
        return take(_supervised(manifest, supervisions), reading, base)
    if kind == "supervisions":
        recordings = _partner(manifest, "supervisions", "recordings")
        if recordings is None:
            raise DatasetError(
                f"{manifest} holds supervisions; the recordings are looked for beside it, and not there."
            )
        return take(_supervised(recordings, manifest), reading, base)
    raise DatasetError(f"{manifest} does not look like cuts, recordings or supervisions of lhotse.")


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


def _partner(manifest: Path, word: str, other: str) -> Path | None:
    partner = manifest.with_name(manifest.name.replace(word, other))
    return partner if partner != manifest and partner.is_file() else None


def _cuts(manifest: Path) -> Iterator[Entry | Problem]:
    for place, cut in objects(manifest):
        if isinstance(cut, Problem):
            yield cut
            continue
        if "tracks" in cut or cut.get("type") == "PaddingCut":
            yield Problem(place, f"is a {cut.get('type', 'MixedCut')}; only cuts of one recording can be read")
            continue
        recording = cut.get("recording")
        audio = _source(recording, place) if isinstance(recording, dict) else None
        if isinstance(audio, Problem):
            yield audio
            continue
        texts = [part.get("text") for part in cut.get("supervisions") or [] if isinstance(part, dict)]
        said = [text for text in texts if isinstance(text, str)]
        start = cut.get("start") if audio is not None else None  # without audio the length is all there is
        yield Entry(place, cut.get("id"), audio, start, cut.get("duration"), text=" ".join(said) if said else None)


def _recordings(manifest: Path) -> Iterator[Entry | Problem]:
    for place, recording in objects(manifest):
        audio = recording if isinstance(recording, Problem) else _source(recording, place)
        if isinstance(recording, Problem) or isinstance(audio, Problem):
            yield recording if isinstance(recording, Problem) else audio  # type: ignore[misc]
        else:
            yield Entry(place, recording.get("id"), audio, seconds=recording.get("duration"))


def _supervised(recordings: Path, supervisions: Path) -> Iterator[Entry | Problem]:
    """A supervision is an utterance: a piece of its recording, with what is said there."""
    by_id: dict[Any, str] = {}
    for place, recording in objects(recordings):
        where = f"{recordings.name} {place}"
        if isinstance(recording, Problem):
            yield Problem(where, recording.message)
            continue
        audio = _source(recording, where)
        if isinstance(audio, Problem):
            yield audio
        else:
            by_id[recording.get("id")] = audio
    heard = set()
    for place, part in objects(supervisions):
        where = f"{supervisions.name} {place}"
        if isinstance(part, Problem):
            yield Problem(where, part.message)
            continue
        wanted = part.get("recording_id")
        heard.add(wanted)
        if wanted not in by_id:
            yield Problem(where, f"there is no recording {wanted} for this transcript")
            continue
        yield Entry(
            where, part.get("id"), by_id[wanted], part.get("start"), part.get("duration"), text=part.get("text")
        )
    for name in by_id:
        if name not in heard:
            yield Problem(recordings.name, f"the recording {name} has no supervision")


def _source(recording: dict[str, Any], place: str) -> str | Problem:
    """The file of a recording; there are recordings that are commands, addresses or bytes."""
    sources = recording.get("sources")
    first = sources[0] if isinstance(sources, list) and sources and isinstance(sources[0], dict) else {}
    if first.get("type") != "file" or not isinstance(first.get("source"), str):
        return Problem(place, f"its audio is not a file but of the type {first.get('type')}; only files are read")
    return str(first["source"])
