"""Small audio files of a known length for the tests of data sets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile


def write(path: Path, seconds: float, rate: int = 16000, channels: int = 1) -> Path:
    """Faint noise of an exact length; the suffix says the format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng(round(seconds * 1000))
    samples = 0.1 * chance.standard_normal((round(seconds * rate), channels))
    soundfile.write(path, np.clip(samples, -1, 1), rate)
    return path
