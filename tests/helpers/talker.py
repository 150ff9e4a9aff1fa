"""An ASR model of known mistakes with a set of speech and transcripts, for tests of error rates."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import torch

from tests.helpers import program
from tests.unit.dataset import recordings

WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
PER_WORD = 0.2  # seconds


def recipe(folder: Path, dataset: str, more: str = "", overrides: str = "{}") -> Path:
    """A recipe for tests/helpers/modules.py's Talker with a checkpoint, so that its weights count as trained."""
    shutil.copy(program.MODULES, folder / "modules.py")
    torch.save({"learned": torch.ones(1)}, folder / "talker.pt")
    file = folder / "talker.yaml"
    file.write_text(
        "pretrained_model:\n  source: modules.Talker\n  type: Module\n  checkpoint: talker.pt\n"
        f"  input: waveform_and_lengths\n  lengths: counts\n  overrides: {overrides}\n"
        "profiling_dimensions: {audio_mockup_secs: [0.2], batch_sizes: [1]}\n"
        "measure: {warmup: 1, min_calls: 5, budget: 0.1, rounds: 2, operations: false}\n"
        f"trace: {{breakdown: false}}\ndataset: {dataset}\n{more}"
    )
    return file


def speech(folder: Path, count: int) -> list[tuple[str, str, str]]:
    """(id, audio, transcript): every fifth has another first word, every seventh a word more than is written."""
    rows = []
    for number in range(count):
        words = 1 + number % 6
        audio = recordings.write(folder / f"u{number}.flac", PER_WORD * words)
        said = list(WORDS[:words])
        if number % 5 == 0:
            said[0] = "wrong"
        if number % 7 == 0:
            said.append("more")
        rows.append((f"u{number}", audio.name, " ".join(said)))
    return rows


def manifest(folder: Path, rows: list[tuple[str, str, str]], name: str = "set.csv") -> Path:
    file = folder / name
    with file.open("w", encoding="utf-8", newline="") as target:
        csv.writer(target).writerows([("id", "audio", "text"), *rows])
    return file
