"""Make the command test speech: sentences of a small grammar, in voices that no model here was trained on, in noise.

    python samples/commands/make.py                    writes the audio, test.csv and the transcripts here
    python samples/commands/make.py --output FOLDER    writes them somewhere else, to compare

The sentences, voices, speeds, pitches and the noise come from fixed seeds: the same espeak-ng, soxr and numpy give the
same samples.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path
from random import Random

import numpy as np
import sentences
import soundfile
import speech

HERE = Path(__file__).resolve().parent
UTTERANCES = 144  # nine in each of the sixteen voices
SNRS_DB = (30, 15, 5)  # the noise levels, in turn: a voice has three utterances at each
STYLE_SEED = 6
NOISE_SEED = 7
GAIN_DB = -3.0  # quieter than in training, which makes no difference to the models and keeps the files below 5 MB
SPEAKER = "commands"  # LibriSpeech names a transcript file by speaker and chapter


def test_list() -> list[tuple[str, speech.Utterance, int]]:
    """Id, what is said and how, and the signal-to-noise ratio in dB, of each test utterance."""
    random = Random(STYLE_SEED)
    rows = []
    for place, text in enumerate(sentences.draw_test(UTTERANCES)):
        voice = speech.TEST_VOICES[place % len(speech.TEST_VOICES)]
        snr = SNRS_DB[place // len(speech.TEST_VOICES) % len(SNRS_DB)]
        rows.append((f"{SPEAKER}-test-{place:04d}", speech.utterance(text, voice, random), snr))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the command test speech with espeak-ng.")
    parser.add_argument("--output", type=Path, default=HERE, help="folder to write to (default: this script's)")
    output: Path = parser.parse_args().output

    espeak = speech.find_espeak()
    rng = np.random.default_rng(NOISE_SEED)
    (output / "audio").mkdir(parents=True, exist_ok=True)
    total = 0.0
    with (
        (output / "test.csv").open("w", encoding="ascii", newline="") as manifest,
        (output / "audio" / f"{SPEAKER}-test.trans.txt").open("w", encoding="ascii", newline="\n") as transcripts,
    ):
        rows = csv.writer(manifest, lineterminator="\n")
        rows.writerow(["id", "audio", "seconds", "text", "voice", "speed", "pitch", "gap", "snr_db"])
        for name, said, snr in test_list():
            clean, around = speech.synthesise(espeak, said), speech.pauses(rng)
            wave = speech.in_noise(clean, snr, around, speech.noise(clean.size + sum(around), rng))
            wave *= 10.0 ** (GAIN_DB / 20.0)
            peak = float(np.abs(wave).max())
            if peak >= 1.0:
                raise ValueError(f"{name} clips: its peak is {peak:.2f}")
            audio = f"audio/{name}.flac"
            soundfile.write(output / audio, wave, speech.SAMPLE_RATE, subtype="PCM_16")
            seconds = wave.size / speech.SAMPLE_RATE
            rows.writerow([name, audio, f"{seconds:.4f}", said.text, said.voice, said.speed, said.pitch, said.gap, snr])
            transcripts.write(f"{name} {said.text}\n")
            total += seconds
    print(f"{UTTERANCES} utterances, {total:.1f} s: {output / 'test.csv'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
