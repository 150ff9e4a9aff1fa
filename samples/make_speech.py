"""Make the sample speech: espeak-ng reads the sentences of sentences.tsv, one after the other.

    python samples/make_speech.py                    writes speech.flac and speech.tsv here
    python samples/make_speech.py --output FOLDER    writes them somewhere else, to compare

The same sentences and the same espeak-ng, soxr and numpy give the same samples: the only random
part, the pauses and the background noise, comes from a generator with a fixed seed.
"""

from __future__ import annotations

import argparse
import csv
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

Waveform = npt.NDArray[np.float64]

HERE = Path(__file__).resolve().parent
SAMPLE_RATE = 16_000  # what nearly every speech model expects
SPEECH_DBFS = -23.0  # rms of each sentence
NOISE_DBFS = -60.0  # rms of the noise under the whole file, so that no pause is digital silence
PEAK_LIMIT = 0.9
PAUSE_SECONDS = (0.2, 0.4)  # shortest and longest pause around the sentences
FADE_SECONDS = 0.005  # keeps the trimmed edges free of clicks
SEED = 20

INSTALL_HINT = """\
make_speech.py: espeak-ng was not found, and it is what makes the speech. To install it:
  Debian, Ubuntu  sudo apt-get install espeak-ng
  Fedora          sudo dnf install espeak-ng
  macOS           brew install espeak-ng
(speech.flac is part of the repository: this script is only needed to make it again.)"""


@dataclass(frozen=True)
class Sentence:
    """One row of sentences.tsv."""

    id: str
    voice: str  # espeak-ng voice, with an optional variant: en-us+f2
    speed: int  # words per minute
    pitch: int  # 0 to 99
    text: str


@dataclass(frozen=True)
class Segment:
    """Where a sentence is in the finished file, in samples."""

    sentence: Sentence
    start: int
    end: int


def read_sentences(path: Path) -> list[Sentence]:
    with path.open(encoding="ascii", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [Sentence(row["id"], row["voice"], int(row["speed"]), int(row["pitch"]), row["text"]) for row in rows]


def speak(espeak: str, voice: str, sentence: Sentence) -> tuple[Waveform, int]:
    """Return what espeak-ng says, as it is, and its sample rate."""
    with tempfile.TemporaryDirectory() as folder:
        wav = Path(folder) / "sentence.wav"
        command = [espeak, "-v", voice, "-s", str(sentence.speed), "-p", str(sentence.pitch)]
        command += ["-w", str(wav), "--stdin"]
        subprocess.run(command, input=sentence.text, text=True, check=True)
        wave, rate = soundfile.read(wav, dtype="float64")  # espeak-ng is always mono
    return wave, rate


def synthesise(espeak: str, sentence: Sentence) -> Waveform:
    """Return the sentence at SAMPLE_RATE, without silence around it."""
    wave, rate = speak(espeak, sentence.voice, sentence)
    # espeak-ng ignores a variant that it cannot apply without a word (en-gb+f2 in 1.51, where en+f2
    # works), and speech.tsv would then name a voice that is not heard.
    plain, _, variant = sentence.voice.partition("+")
    if variant and np.array_equal(wave, speak(espeak, plain, sentence)[0]):
        raise ValueError(f"{sentence.id}: {sentence.voice} sounds the same as {plain}")
    return trim(soxr.resample(wave, rate, SAMPLE_RATE, quality="VHQ"))


def trim(wave: Waveform, threshold: float = 1e-3) -> Waveform:
    """Cut what is quieter than threshold x peak from both ends, and fade the new edges."""
    loud = np.flatnonzero(np.abs(wave) > threshold * np.abs(wave).max())
    if loud.size == 0:
        raise ValueError("espeak-ng returned silence")
    wave = wave[loud[0] : loud[-1] + 1].copy()
    fade = np.linspace(0.0, 1.0, round(FADE_SECONDS * SAMPLE_RATE))
    wave[: fade.size] *= fade
    wave[-fade.size :] *= fade[::-1]
    return wave


def amplitude(dbfs: float) -> float:
    return float(10.0 ** (dbfs / 20.0))


def normalise(wave: Waveform) -> Waveform:
    """Bring the sentence to SPEECH_DBFS, or as near to it as PEAK_LIMIT allows."""
    gain = amplitude(SPEECH_DBFS) / np.sqrt(np.mean(wave**2))
    # The noise comes on top, hence the small margin below the limit.
    scaled: Waveform = wave * min(gain, 0.95 * PEAK_LIMIT / np.abs(wave).max())
    return scaled


def assemble(espeak: str, sentences: list[Sentence], rng: np.random.Generator) -> tuple[Waveform, list[Segment]]:
    """Join the sentences: pause, sentence, pause, sentence, ..., pause; noise under all of it."""

    def pause() -> Waveform:
        return np.zeros(round(rng.uniform(*PAUSE_SECONDS) * SAMPLE_RATE))

    pieces = [pause()]
    segments = []
    position = pieces[0].size
    for sentence in sentences:
        speech, silence = normalise(synthesise(espeak, sentence)), pause()
        segments.append(Segment(sentence, position, position + speech.size))
        pieces += [speech, silence]
        position += speech.size + silence.size
    wave = np.concatenate(pieces)
    return wave + amplitude(NOISE_DBFS) * rng.standard_normal(wave.size), segments


def write_transcripts(path: Path, segments: list[Segment]) -> None:
    with path.open("w", encoding="ascii", newline="\n") as file:
        file.write("id\tstart\tend\tvoice\ttext\n")
        for segment in segments:
            start, end = segment.start / SAMPLE_RATE, segment.end / SAMPLE_RATE
            sentence = segment.sentence
            file.write(f"{sentence.id}\t{start:.3f}\t{end:.3f}\t{sentence.voice}\t{sentence.text}\n")


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the sample speech with espeak-ng.")
    parser.add_argument("--output", type=Path, default=HERE, help="folder to write to (default: this script's)")
    output: Path = parser.parse_args().output

    espeak = shutil.which("espeak-ng")
    if espeak is None:
        print(INSTALL_HINT, file=sys.stderr)
        return 2

    sentences = read_sentences(HERE / "sentences.tsv")
    wave, segments = assemble(espeak, sentences, np.random.default_rng(SEED))
    peak = float(np.abs(wave).max())
    if peak >= PEAK_LIMIT:
        raise ValueError(f"the peak is {peak:.3f}, it should be below {PEAK_LIMIT}")

    output.mkdir(parents=True, exist_ok=True)
    soundfile.write(output / "speech.flac", wave, SAMPLE_RATE, subtype="PCM_16")
    write_transcripts(output / "speech.tsv", segments)
    rms = 20.0 * np.log10(np.sqrt(np.mean(wave**2)))
    print(
        f"{len(segments)} sentences, {wave.size / SAMPLE_RATE:.1f} s, "
        f"rms {rms:.1f} dBFS, peak {peak:.2f}: {output / 'speech.flac'}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
