"""Print the model card's table: word errors of the command models on their test speech, by CTC weight and noise.

    python recipes/models/score_commands.py

One utterance at a time, from the waveform to the text. `python profile.py recipes/accuracy.yaml` measures speed and
memory beside it, and gives intervals.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections import defaultdict
from pathlib import Path

import jiwer
import soundfile

from profiler.audio import pad
from profiler.models.load import load_model
from profiler.models.model import ModelRequest

HERE = Path(__file__).resolve().parent
MANIFEST = HERE.parents[1] / "samples" / "commands" / "test.csv"
MODELS = ("lstm-commands", "conformer-commands")
CTC_WEIGHTS = (0, 0.3, 1)


def transcribe(model: str, ctc_weight: float, rows: list[dict[str, str]]) -> list[str]:
    overrides = {"ctc_weight": ctc_weight}
    folder = HERE / model
    loaded = load_model(ModelRequest(str(folder), "EncoderDecoderASR", "pretrained", folder, overrides=overrides))
    batches = (pad([soundfile.read(MANIFEST.parent / row["audio"], dtype="float32")[0]], loaded.rate) for row in rows)
    return [loaded.run(loaded.prepare(batch))[0] for batch in batches]


def percent(references: list[str], texts: list[str]) -> str:
    return f"{100 * jiwer.wer(references, texts):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Score the two ASR models for commands on their test speech.")
    parser.add_argument("models", nargs="*", default=MODELS, help="which to score (default: both)")
    parser.add_argument("--by", choices=("snr_db", "voice", "speed"), default="snr_db", help="what to split by")
    parser.add_argument("--errors", action="store_true", help="also print each utterance that has an error")
    arguments = parser.parse_args()
    with MANIFEST.open(encoding="ascii", newline="") as file:
        rows = list(csv.DictReader(file))
    groups = list(dict.fromkeys(row[arguments.by] for row in rows))
    print(f"| Model | CTC weight | WER (%) | {' | '.join(groups)} | S | D | I | seconds |")
    print("|---|---:" + "|---:" * (len(groups) + 5) + "|")
    for model in arguments.models:
        for weight in CTC_WEIGHTS:
            started = time.perf_counter()
            texts = transcribe(model, weight, rows)
            seconds = time.perf_counter() - started
            references = [row["text"] for row in rows]
            parts = defaultdict[str, list[tuple[str, str]]](list)
            for row, text in zip(rows, texts, strict=True):
                parts[row[arguments.by]].append((row["text"], text))
            split = [
                percent([said for said, _ in parts[group]], [text for _, text in parts[group]]) for group in groups
            ]
            counts = jiwer.process_words(references, texts)
            print(
                f"| `{model}` | {weight} | {percent(references, texts)} | {' | '.join(split)} | {counts.substitutions} "
                f"| {counts.deletions} | {counts.insertions} | {seconds:.0f} |",
                flush=True,
            )
            for row, text in zip(rows, texts, strict=True):
                if arguments.errors and row["text"] != text:
                    print(f"  {row['id']} {row['voice']} {row['snr_db']} dB: {row['text']!r} transcribed as {text!r}")


if __name__ == "__main__":
    main()
