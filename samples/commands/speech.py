"""Speech for the command sentences: espeak-ng's voices, split into those to train on and those to test on, and noise.

A voice is an accent and a variant (`en-us+f2`). No variant is on both sides, so a test voice is new in every accent.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

Waveform = npt.NDArray[np.float32]

SAMPLE_RATE = 16_000
SPEECH_DBFS = (
    -40.0
)  # rms of each utterance: low, because quiet files are small as FLAC; the models normalise their input
PAUSE_SECONDS = (0.1, 0.35)  # shortest and longest silence before and after an utterance
FADE_SECONDS = 0.005  # keeps the trimmed edges free of clicks

# `en` is British English: espeak-ng 1.51 takes `en-gb+f2` but ignores the variant, where `en+f2` works.
ACCENTS = ("en-us", "en", "en-gb-scotland", "en-gb-x-rp", "en-029", "en-us-nyc")
# fmt: off
TRAINING_VARIANTS = (
    "Alex", "Andy", "Annie", "Denis", "Diogo", "Gene", "Gene2", "Henrique", "Jacky", "Lee", "Marco", "Mike",
    "RicishayMax", "Storm", "adam", "announcer", "antonio", "aunty", "benjamin", "ed", "edward", "edward2", "f1",
    "f2", "f3", "f5", "gustave", "iven", "iven2", "john", "klatt", "linda", "m1", "m2", "m3", "m4", "m6", "m7", "m8",
    "max", "miguel", "norbert", "pablo", "paul", "pedro", "rob", "sandro", "steph", "steph2", "travis", "victor",
    "zac",
)
# fmt: on
TEST_VOICES = (
    "en-us+Alicia",
    "en-us+m5",
    "en-us+david",
    "en-us+belinda",
    "en+Andrea",
    "en+Hugo",
    "en+f4",
    "en-gb-scotland+Michael",
    "en-gb-scotland+anika",
    "en-gb-x-rp+Mario",
    "en-gb-x-rp+grandma",
    "en-029+quincy",
    "en-029+shelby",
    "en-us-nyc+marcelo",
    "en-us-nyc+boris",
    "en-gb-x-gbclan+robert",  # an accent, Lancaster, that no training voice has
)
SPEEDS = (120, 210)  # words per minute, slowest and fastest
PITCHES = (20, 80)  # of 0 to 99
GAPS = (0, 6)  # pause after each word, in 10 ms

INSTALL_HINT = """\
espeak-ng was not found, and it is what makes the speech. To install it:
  Debian, Ubuntu  sudo apt-get install espeak-ng
  Fedora          sudo dnf install espeak-ng
  macOS           brew install espeak-ng"""


@dataclass(frozen=True)
class Utterance:
    """What is said and how; enough to make the audio again."""

    text: str
    voice: str
    speed: int
    pitch: int
    gap: int


def training_voices() -> list[str]:
    return [f"{accent}+{variant}" for variant in TRAINING_VARIANTS for accent in ACCENTS]


def utterance(text: str, voice: str, random: Random) -> Utterance:
    """The sentence in this voice, at a speed, pitch and pace of its own."""
    return Utterance(text, voice, random.randint(*SPEEDS), random.randint(*PITCHES), random.randint(*GAPS))


def find_espeak() -> str:
    espeak = shutil.which("espeak-ng")
    if espeak is None:
        raise SystemExit(INSTALL_HINT)
    return espeak


def synthesise(espeak: str, said: Utterance) -> Waveform:
    """The utterance at SAMPLE_RATE and SPEECH_DBFS, without silence around it."""
    with tempfile.TemporaryDirectory() as folder:
        wav = Path(folder) / "speech.wav"
        command = [espeak, "-v", said.voice, "-s", str(said.speed), "-p", str(said.pitch), "-g", str(said.gap)]
        subprocess.run([*command, "-w", str(wav), said.text], check=True)
        wave, rate = soundfile.read(wav, dtype="float64")
    wave = soxr.resample(wave, rate, SAMPLE_RATE, quality="HQ")
    loud = np.flatnonzero(np.abs(wave) > 1e-3 * np.abs(wave).max())
    if loud.size == 0:
        raise ValueError(f"espeak-ng was silent: {said}")
    wave = wave[loud[0] : loud[-1] + 1].copy()
    fade = np.linspace(0.0, 1.0, round(FADE_SECONDS * SAMPLE_RATE))
    wave[: fade.size] *= fade
    wave[-fade.size :] *= fade[::-1]
    wave *= 10.0 ** (SPEECH_DBFS / 20.0) / np.sqrt(np.mean(wave**2))
    scaled: Waveform = wave.astype(np.float32)
    return scaled


def noise(size: int, rng: np.random.Generator) -> Waveform:
    """Noise of rms 1. Its colour is drawn too: power falls with frequency to the power of 0 (white) to 2 (brown)."""
    length = 1 << (size - 1).bit_length()  # a power of two is quick to transform
    spectrum = np.fft.rfft(rng.standard_normal(length))
    frequency = np.maximum(np.arange(spectrum.size), 20 * length / SAMPLE_RATE)  # flat below 20 Hz
    spectrum *= frequency ** (-rng.uniform(0.0, 2.0) / 2)
    wave = np.fft.irfft(spectrum, length)[:size].astype(np.float32)
    wave /= np.sqrt(np.mean(wave**2))
    return wave


def pauses(rng: np.random.Generator) -> tuple[int, int]:
    """Samples of silence before and after an utterance."""
    low, high = (round(seconds * SAMPLE_RATE) for seconds in PAUSE_SECONDS)
    return int(rng.integers(low, high)), int(rng.integers(low, high))


def in_noise(speech: Waveform, snr_db: float, around: tuple[int, int], background: Waveform) -> Waveform:
    """The utterance with pauses on both sides and noise, of rms 1, under all of it."""
    level = np.sqrt(np.mean(speech**2)) * 10.0 ** (-snr_db / 20.0)
    wave: Waveform = np.pad(speech, around) + np.float32(level) * background
    return wave
