"""The training speech of the command models: made once by espeak-ng, kept in one file, put in new noise each time.

The clean speech is kept, the noise is drawn anew for every batch: the models never see the same audio twice.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import numpy.typing as npt
import soxr

REPOSITORY = Path(__file__).resolve().parents[2]
SPEECH = REPOSITORY / "samples" / "commands"
sys.path.insert(0, str(SPEECH))  # the grammar, the voices and the noise are those of the test speech

import make  # noqa: E402
import sentences  # noqa: E402
import speech  # noqa: E402

VOCABULARY = sentences.VOCABULARY
UTTERANCES = 6000
VOICE_SEED = 5
SNR_DB = (0.0, 30.0)  # lowest and highest signal-to-noise ratio of the training noise
EASY_SNR_DB = 20.0
SHIFTS = (0.85, 1.15)  # slowest and fastest
STORED_NOISES, STORED_NOISE = 32, 1 << 18  # a pass draws so many noises, of so many samples, and cuts pieces of them
DEVELOPMENT = 100  # utterances at the end of the list that are watched, not trained on


@dataclass(frozen=True)
class Corpus:
    """Clean utterances, and what is said in each."""

    waves: list[npt.NDArray[np.int16]]
    texts: list[str]

    def training(self) -> Corpus:
        return Corpus(self.waves[:-DEVELOPMENT], self.texts[:-DEVELOPMENT])

    def development(self) -> Corpus:
        return Corpus(self.waves[-DEVELOPMENT:], self.texts[-DEVELOPMENT:])


def training_list(count: int = UTTERANCES) -> list[speech.Utterance]:
    """What is said in training, and how: every voice in turn, no sentence of the test speech."""
    random = Random(VOICE_SEED)
    voices = speech.training_voices()
    random.shuffle(voices)
    texts = sentences.draw_training(count, sentences.draw_test(make.UTTERANCES))
    return [speech.utterance(text, voices[place % len(voices)], random) for place, text in enumerate(texts)]


def load_corpus(path: Path, count: int = UTTERANCES) -> Corpus:
    """The corpus from its file, made first where it is not there yet (about five minutes)."""
    said = training_list(count)
    if not path.is_file():
        espeak = speech.find_espeak()
        path.parent.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(4) as pool:
            waves = list(pool.map(lambda one: _as_int16(speech.synthesise(espeak, one)), said))
        ends = np.cumsum([wave.size for wave in waves])
        np.savez(path, audio=np.concatenate(waves), ends=ends)
    with np.load(path) as stored:
        waves = np.split(stored["audio"], stored["ends"][:-1])
    if len(waves) != count:
        raise SystemExit(f"{path} holds {len(waves)} utterances, not {count}: delete it, and it is made again.")
    return Corpus(waves, [one.text for one in said])


def batches(
    corpus: Corpus, size: int, rng: np.random.Generator, easy: bool = False, shifted: bool = False
) -> Iterator[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], list[str]]]:
    """One pass over the corpus: padded waveforms in noise, their relative lengths, their texts.

    Utterances of similar length share a batch. Which batch comes when is drawn, unless it should be easy: then short
    ones come first, in little noise. If shifted, each is resampled as if its rate were another, which moves speed,
    pitch and formants together: another voice.
    """
    order = np.argsort([wave.size * rng.uniform(0.9, 1.1) for wave in corpus.waves])
    groups = [order[start : start + size] for start in range(0, len(order), size)]
    if not easy:
        rng.shuffle(groups)  # type: ignore[arg-type]
    snr_db = (EASY_SNR_DB, SNR_DB[1]) if easy else SNR_DB
    store = [speech.noise(STORED_NOISE, rng) for _ in range(STORED_NOISES)]
    for group in groups:
        clean = [corpus.waves[place].astype(np.float32) / 32767.0 for place in group]
        if shifted:
            clean = [soxr.resample(wave, rng.uniform(*SHIFTS), 1.0, quality="LQ") for wave in clean]
        noisy = [_in_stored_noise(wave, snr_db, store, rng) for wave in clean]
        longest = max(wave.size for wave in noisy)
        padded = np.stack([np.pad(wave, (0, longest - wave.size)) for wave in noisy])
        lengths = np.array([wave.size / longest for wave in noisy], np.float32)
        yield padded, lengths, [corpus.texts[place] for place in group]


def _in_stored_noise(
    wave: npt.NDArray[np.float32],
    snr_db: tuple[float, float],
    store: list[npt.NDArray[np.float32]],
    rng: np.random.Generator,
) -> npt.NDArray[np.float32]:
    around = speech.pauses(rng)
    size = wave.size + sum(around)
    start = int(rng.integers(STORED_NOISE - size))
    background = store[int(rng.integers(len(store)))][start : start + size]
    return speech.in_noise(wave, rng.uniform(*snr_db), around, background)


def _as_int16(wave: npt.NDArray[np.float32]) -> npt.NDArray[np.int16]:
    return np.round(wave * 32767.0).astype(np.int16)
