"""How long an audio file is, from its header: nothing is decoded."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from profiler.errors import AudioError


class Durations:
    """Looks into each file once: pieces of one recording share it."""

    def __init__(self) -> None:
        self._known: dict[Path, float | str] = {}

    def of(self, path: Path) -> float | str:
        """Seconds; or the sentence that says why the file cannot be used."""
        if path not in self._known:
            self._known[path] = _look(path)
        return self._known[path]


def _look(path: Path) -> float | str:
    try:
        if path.is_dir():
            return f"{path} is a folder, not an audio file"
        if not path.exists():
            return f"there is no audio file {path}"
        if path.stat().st_size == 0:
            return f"{path} is empty"
    except OSError as error:
        return f"{path} cannot be read as audio ({error.strerror})"
    return length_of(path, str(path))


def length_of(source: Path | BinaryIO, name: str) -> float | str:
    """Seconds of what soundfile reads from a file or from memory; or why it cannot be used, by name."""
    import soundfile

    from profiler.audio import declared_frames, refuse_unusual

    try:
        with soundfile.SoundFile(source) as file:
            refuse_unusual(file, name)
            frames, declared, rate = int(file.frames), declared_frames(file), int(file.samplerate)
    except AudioError as error:
        return str(error)
    except (soundfile.LibsndfileError, RuntimeError, OSError) as error:
        reason = str(getattr(error, "error_string", "") or getattr(error, "strerror", "") or error).strip().rstrip(".")
        return f"{name} cannot be read as audio ({reason})"
    if frames <= 0:
        return f"{name} holds no samples"
    if frames < declared:
        return f"{name} is cut off: {frames} of {declared} samples are there"
    return frames / rate
