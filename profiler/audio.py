"""Sample speech -> batches of an exact length.

Takes any file that soundfile reads, at any rate, mono or not; gives float32 rows at the model's rate, cut or repeated
to the exact number of samples. No more of a file is read than its first minutes, or as much as the longest cell. Rows
of a batch are different pieces of the recording, chosen by a seed. Without a file the rows are random data, which is
labelled as such: decoders may take other paths on it than on speech.
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
USED_SECONDS = 600.0  # of a recording; a longer cell uses as much as its own length
SLOWEST, FASTEST = 1_000, 1_000_000  # samples a second; what is outside was written by mistake, or to do harm
MOST_CHANNELS = 256  # large arrays of microphones have fewer
LONGEST_TRANSCRIPT = 1 << 20  # characters; ten minutes have a hundredth of it
NOISE_LEVEL = 0.1  # about -20 dBFS, the level of speech


@dataclass(frozen=True)
class Batch:
    """Rows of equal length; `lengths` says how many samples of each row are audio, the rest is padding."""

    waveforms: Samples
    lengths: npt.NDArray[np.int64]
    rate: int
    texts: tuple[str, ...] = ()  # what is said in each row, where a transcript stands beside the recording

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
            refuse_unusual(file, str(path))
            declared = declared_frames(file)
            limit = math.ceil(USED_SECONDS * int(file.samplerate))
            samples = _mono(file, limit)
            frames = int(file.frames) if len(samples) >= limit else len(samples)
    except (soundfile.LibsndfileError, RuntimeError, OSError) as error:
        reason = str(getattr(error, "error_string", error)).strip().rstrip(".")
        raise AudioError(
            f"{path} cannot be read as audio ({reason}); convert it to WAV or FLAC, for example with sox or ffmpeg"
        ) from None
    if frames == 0:
        raise AudioError(f"{path} holds no samples; name a file with audio in it")
    if frames < declared:
        raise AudioError(f"{path} is cut off: {frames} of {declared} samples can be read; copy or convert it again")
    _refuse_no_numbers(samples, str(path))


def declared_frames(file: soundfile.SoundFile) -> int:
    """How long the file says it is. For a truncated WAV libsndfile tells how much is left, and the rest in its log."""
    log = re.search(r"^data\s*: (\d+) \(should be (\d+)\)", file.extra_info, re.MULTILINE)
    if log and int(log[2]) < int(log[1]) < UNKNOWN_SIZE:
        return math.ceil(int(file.frames) * int(log[1]) / max(1, int(log[2])))
    return int(file.frames)


def read_mono(
    source: Path | BinaryIO, rate: int, offset: float = 0.0, seconds: float | None = None, or_less: bool = False
) -> Samples:
    """A file, or `seconds` of it from `offset`, as one channel at `rate`; `or_less` where the file may be shorter."""
    name = str(source) if isinstance(source, Path) else "its audio"
    with soundfile.SoundFile(source) as file:
        refuse_unusual(file, name)
        file_rate = int(file.samplerate)
        if offset:
            file.seek(round(offset * file_rate))
        wanted = None if seconds is None else round(seconds * file_rate)
        mono = _mono(file, wanted)
    if wanted is not None and not or_less and len(mono) < wanted - ROUNDING_SECONDS * file_rate:
        raise AudioError(f"{name} is cut off: {len(mono)} of {wanted} samples can be read")
    _refuse_no_numbers(mono, name)
    if file_rate != rate:
        import soxr

        mono = soxr.resample(mono, file_rate, rate)
    return np.ascontiguousarray(mono, dtype=np.float32)


def refuse_unusual(file: soundfile.SoundFile, name: str) -> None:
    """Raise AudioError where a file says of itself what no recording is: it would become gigabytes, or nothing."""
    rate, channels = int(file.samplerate), int(file.channels)
    if not SLOWEST <= rate <= FASTEST:
        raise AudioError(f"{name} has a sample rate of {rate:,} Hz; expected {SLOWEST:,} to {FASTEST:,}")
    if channels > MOST_CHANNELS:
        raise AudioError(f"{name} has {channels:,} channels; expected at most {MOST_CHANNELS}")


def _mono(file: soundfile.SoundFile, frames: int | None) -> Samples:
    """So many frames, or all that are left, as one channel; read block by block, so that many channels take no room."""
    block, blocks = max(1, BLOCK // int(file.channels)), [np.empty(0, np.float32)]
    left = math.inf if frames is None else frames
    while left > 0:
        read = file.read(int(min(block, left)), dtype="float32", always_2d=True)
        if not len(read):
            break
        blocks.append(read.mean(axis=1))
        left -= len(read)
    return np.concatenate(blocks)


def _refuse_no_numbers(samples: Samples, name: str) -> None:
    wrong = len(samples) - int(np.isfinite(samples).sum())
    if wrong:
        raise AudioError(f"{name} has {wrong:,} samples that are not numbers (NaN or infinite); convert it again")


class Speech:
    """A source of batches: pieces of one recording, or random data."""

    def __init__(self, path: Path | None, rate: int) -> None:
        self.rate = rate
        self._path, self._seconds = path, USED_SECONDS
        self._held = read_mono(path, rate, seconds=USED_SECONDS, or_less=True) if path else None
        self._words = read_transcript(path) if path else []

    def _recording(self, seconds: float) -> Samples | None:
        """What rows of this length are taken from, whatever was asked for before."""
        if self._path is None or self._held is None:
            return None
        used = max(USED_SECONDS, seconds)
        if used > self._seconds:
            self._held, self._seconds = read_mono(self._path, self.rate, seconds=used, or_less=True), used
        return self._held[: math.ceil(used * self.rate)]

    def whole(self) -> Samples | None:
        """The recording, from its start; None where there is none."""
        return self._recording(0.0)

    def batch(self, seconds: float, batch_size: int, seed: int, padding: float = 0.0) -> Batch:
        """Rows of exactly `seconds`; another seed takes other pieces."""
        length = max(1, round(seconds * self.rate))
        chance = np.random.default_rng(seed)
        rows = np.empty((batch_size, length), dtype=np.float32)
        recording = self._recording(seconds)
        starts = _starts(recording, batch_size, chance)
        for row, start in zip(rows, starts, strict=True):
            if recording is None:
                row[:] = chance.standard_normal(length, dtype=np.float32) * NOISE_LEVEL
            else:
                _repeat_into(row, recording, start)
        lengths = np.full(batch_size, length, dtype=np.int64)
        if padding and batch_size > 1:
            # The first row stays full, so that the batch has the length that the cell names.
            shares = 1.0 - padding * chance.random(batch_size - 1)
            lengths[1:] = np.maximum(1, np.round(length * shares)).astype(np.int64)
            for row, used in zip(rows, lengths, strict=True):
                row[used:] = 0.0
        return Batch(rows, lengths, self.rate, self._texts(starts, lengths, recording))

    def _texts(self, starts: list[int], lengths: npt.NDArray[np.int64], recording: Samples | None) -> tuple[str, ...]:
        """The words of each row: as many of the transcript as its share of the recording, from where it begins."""
        if recording is None or not self._words:
            return ()
        each = len(self._words) / len(recording)
        return tuple(
            " ".join(
                self._words[(int(start * each) + number) % len(self._words)]
                for number in range(max(1, round(int(length) * each)))
            )
            for start, length in zip(starts, lengths, strict=True)
        )


def read_transcript(audio: Path) -> list[str]:
    """The words said in a recording: of the file beside it that ends in .txt, or in .tsv with a column `text`."""
    for file in (audio.with_suffix(".tsv"), audio.with_suffix(".txt")):
        try:
            with file.open(encoding="utf-8") as opened:
                text = opened.read(LONGEST_TRANSCRIPT)
        except (OSError, UnicodeDecodeError):
            continue
        if file.suffix == ".txt":
            return text.split()
        head, *lines = (line.split("\t") for line in text.splitlines() if line.strip())
        if "text" in head:
            column = head.index("text")
            return " ".join(line[column] for line in lines if len(line) > column).split()
    return []


def _starts(recording: Samples | None, count: int, chance: np.random.Generator) -> list[int]:
    """Where each row begins: spread evenly over the recording from a random first place."""
    if recording is None:
        return [0] * count
    size = len(recording)
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
