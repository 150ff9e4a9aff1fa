"""Make the speech that quantisation-aware training of the shipped models fine-tunes on: samples/commands-finetuning.

    python recipes/models/make_finetuning_speech.py

A part of the training speech of train_commands.py, in noise of its own: its voices, and sentences that the test speech
does not have. Needs espeak-ng; the same versions give the same samples.
"""

from __future__ import annotations

import csv

import commands_corpus
import numpy as np
import soundfile
import speech

UTTERANCES = 96
NOISE_SEED = 9
TARGET = commands_corpus.REPOSITORY / "samples" / "commands-finetuning"


def main() -> None:
    espeak, rng = speech.find_espeak(), np.random.default_rng(NOISE_SEED)
    said = commands_corpus.training_list()[: -commands_corpus.DEVELOPMENT]
    chosen = said[:: len(said) // UTTERANCES][:UTTERANCES]
    (TARGET / "audio").mkdir(parents=True, exist_ok=True)
    with (TARGET / "train.csv").open("w", encoding="ascii", newline="") as manifest:
        rows = csv.writer(manifest, lineterminator="\n")
        rows.writerow(["id", "audio", "seconds", "text", "voice", "snr_db"])
        for place, one in enumerate(chosen):
            clean, around = speech.synthesise(espeak, one), speech.pauses(rng)
            snr = float(rng.uniform(*commands_corpus.SNR_DB))
            wave = speech.in_noise(clean, snr, around, speech.noise(clean.size + sum(around), rng))
            name = f"commands-finetuning-{place:04d}"
            audio = f"audio/{name}.flac"
            soundfile.write(TARGET / audio, wave, speech.SAMPLE_RATE, subtype="PCM_16")
            rows.writerow([name, audio, f"{wave.size / speech.SAMPLE_RATE:.4f}", one.text, one.voice, f"{snr:.1f}"])


if __name__ == "__main__":
    main()
