"""Sample speech -> batches of an exact length.

Takes any file that soundfile reads, at any rate, mono or not; gives float32 rows at the model's rate, cut or repeated
to the exact number of samples. Rows of a batch are different pieces of the recording, chosen by a seed. Without a file
the rows are random data, which is labelled as such: decoders may take other paths on it than on speech.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import soundfile

from profiler.errors import AudioError

Samples = npt.NDArray[np.float32]
BLOCK = 1 << 20  # samples read at once
UNKNOWN_SIZE = 0x7FFFF000  # programs that write WAV to a pipe put the largest number where the size belongs
ROUNDING_SECONDS = 0.05  # manifests round lengths; so far beyond the end of a file is still its end
NOISE_LEVEL = 0.1  # about -20 dBFS, the level of speech


@dataclass(frozen=True)
class Batch:
    """Rows of equal length; `lengths` says how many samples of each row are audio, the rest is padding."""

    waveforms: Samples
    lengths: npt.NDArray[np.int64]
    rate: int

    @property
    def seconds_of_audio(self) -> float:
        return float(self.lengths.sum()) / self.rate

    @property
    def share_of_padding(self) -> float:
        return 1.0 - float(self.lengths.sum()) / self.waveforms.size


def pad(rows: list[Samples], rate: int) -> Batch:
    """A batch of rows of different lengths: each is followed by silence up to the longest."""
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    waveforms = np.zeros((len(rows), int(lengths.max())), dtype=np.float32)
    for target, row in zip(waveforms, rows, strict=True):
        target[: len(row)] = row
    return Batch(waveforms, lengths, rate)


def check_audio(path: Path) -> None:
    """Raise AudioError unless the whole file can be read and holds audio."""
    if not path.exists():
        raise AudioError(f"there is no audio file {path}")
    if path.is_dir():
        raise AudioError(f"{path} is a folder; name one audio file")
    if path.stat().st_size == 0:
        raise AudioError(f"{path} is empty; name a file with audio in it")
    try:
        with soundfile.SoundFile(path) as file:
            frames, declared = 0, declared_frames(file)
            while read := len(file.read(BLOCK, dtype="float32")):
                frames += read
    except (soundfile.LibsndfileError, RuntimeError, OSError) as error:
        reason = str(getattr(error, "error_string", error)).strip().rstrip(".")
        raise AudioError(
            f"{path} cannot be read as audio ({reason}); convert it to WAV or FLAC, for example with sox or ffmpeg"
        ) from None
    if frames == 0:
        raise AudioError(f"{path} holds no samples; name a file with audio in it")
    if frames < declared:
        raise AudioError(f"{path} is cut off: {frames} of {declared} samples can be read; copy or convert it again")


def declared_frames(file: soundfile.SoundFile) -> int:
    """How long the file says it is. For a truncated WAV libsndfile tells how much is left, and the rest in its log."""
    log = re.search(r"^data\s*: (\d+) \(should be (\d+)\)", file.extra_info, re.MULTILINE)
    if log and int(log[2]) < int(log[1]) < UNKNOWN_SIZE:
        return math.ceil(int(file.frames) * int(log[1]) / max(1, int(log[2])))
    return int(file.frames)


def read_mono(source: Path | BinaryIO, rate: int, offset: float = 0.0, seconds: float | None = None) -> Samples:
    """A file, or `seconds` of it from `offset`, as one channel at `rate`."""
    with soundfile.SoundFile(source) as file:
        file_rate = int(file.samplerate)
        if offset:
            file.seek(round(offset * file_rate))
        wanted = -1 if seconds is None else round(seconds * file_rate)
        mono = file.read(wanted, dtype="float32", always_2d=True).mean(axis=1)
    if len(mono) < wanted - ROUNDING_SECONDS * file_rate:
        name = source if isinstance(source, Path) else "its audio"
        raise AudioError(f"{name} is cut off: {len(mono)} of {wanted} samples can be read")
    if file_rate != rate:
        import soxr

        mono = soxr.resample(mono, file_rate, rate)
    return np.ascontiguousarray(mono, dtype=np.float32)


class Speech:
    """A source of batches: pieces of one recording, or random data."""

    def __init__(self, path: Path | None, rate: int) -> None:
        self.rate = rate
        self.recording = read_mono(path, rate) if path else None

    def batch(self, seconds: float, batch_size: int, seed: int, padding: float = 0.0) -> Batch:
        """Rows of exactly `seconds`; another seed takes other pieces."""
        length = max(1, round(seconds * self.rate))
        chance = np.random.default_rng(seed)
        rows = np.empty((batch_size, length), dtype=np.float32)
        for row, start in zip(rows, self._starts(batch_size, chance), strict=True):
            if self.recording is None:
                row[:] = chance.standard_normal(length, dtype=np.float32) * NOISE_LEVEL
            else:
                _repeat_into(row, self.recording, start)
        lengths = np.full(batch_size, length, dtype=np.int64)
        if padding and batch_size > 1:
            # The first row stays full, so that the batch has the length that the cell names.
            shares = 1.0 - padding * chance.random(batch_size - 1)
            lengths[1:] = np.maximum(1, np.round(length * shares)).astype(np.int64)
            for row, used in zip(rows, lengths, strict=True):
                row[used:] = 0.0
        return Batch(rows, lengths, self.rate)

    def _starts(self, count: int, chance: np.random.Generator) -> list[int]:
        """Where each row begins: spread evenly over the recording from a random first place."""
        if self.recording is None:
            return [0] * count
        size = len(self.recording)
        first = int(chance.integers(size))
        return [(first + index * size // count) % size for index in range(count)]


def _repeat_into(row: Samples, recording: Samples, start: int) -> None:
    """Fill a row from `start`, beginning anew at the end of the recording."""
    filled = 0
    while filled < len(row):
        piece = recording[start : start + len(row) - filled]
        row[filled : filled + len(piece)] = piece
        filled += len(piece)
        start = 0
