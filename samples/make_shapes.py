"""Make librispeech-train-clean-100.shapes.tsv: a file of lengths in pairs that agree with published summary figures.

    python samples/make_shapes.py

The corpus itself is not read, and no pair in the file is one of its utterances. Known are, for LibriSpeech
train-clean-100 with speeds of 0.9, 1.0 and 1.1: the smallest, largest and mean number of frames and of tokens, their
correlation, and how much of a batch of 30 is speech, in corpus order and sorted by length. What they leave open is
chosen plainly: lengths fall off as a normal distribution on either side of their mode, steeper above than below, and
tokens are spoken at a rate that varies from one utterance to the next. In the corpus about 130 utterances share each
length, so that sorted batches have next to no padding; here each 30 neighbours of the sorted list share one, for the
same effect.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

HERE = Path(__file__).resolve().parent
FILE = "librispeech-train-clean-100.shapes.tsv"

COUNT = 991  # 33 batches and the longest one, which would fill a batch of shorter ones with padding
FRAMES_PER_SECOND = 25  # 100 a second, subsampled by 4
FRAMES = (31, 680, 318.25)  # smallest, largest, mean
TOKENS = (2, 151, 67.85)
CORRELATION = 0.824
BATCH = 30
SPEECH_IN_BATCH = 0.719  # share of the frames, in corpus order
BELOW = 2.0  # how much wider the distribution is below its mode: recordings were cut up to a longest length
ORDERS = 400  # among so many orders the one is taken whose batches come nearest to that share

Numbers = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


def quantiles(mode: float, below: float, above: float) -> Numbers:
    """COUNT values of a normal distribution whose width differs below and above its mode."""
    normal = NormalDist()
    share_below = below / (below + above)
    values = []
    for place in (np.arange(COUNT) + 0.5) / COUNT:
        if place < share_below:
            values.append(mode + below * normal.inv_cdf(place / (2 * share_below)))
        else:
            values.append(mode + above * normal.inv_cdf(0.5 + (place - share_below) / (2 * (1 - share_below))))
    return np.array(values)


def to_counts(values: Numbers, smallest: int, largest: int, mean: float) -> Counts:
    """Whole numbers with exactly this smallest, largest and mean; `values` are in ascending order."""
    inner = np.clip(values[1:-1], smallest, largest)
    wanted = round(mean * COUNT) - smallest - largest
    for _ in range(50):  # a shift, repeated because of what the limits clip
        inner = np.clip(inner + (wanted - inner.sum()) / inner.size, smallest, largest)
    whole = np.floor(inner).astype(np.int64)
    missing = int(wanted - whole.sum())
    whole[np.argsort(-(inner - whole), kind="stable")[:missing]] += 1
    return np.concatenate([[smallest], whole, [largest]])


def speech_in_batches(frames: Counts) -> float:
    """Which share of all frames is speech when batches are padded to their longest."""
    batches = [frames[start : start + BATCH] for start in range(0, frames.size, BATCH)]
    return float(frames.sum()) / float(sum(batch.max() * batch.size for batch in batches))


def in_steps(counts: Counts) -> Counts:
    """The same ascending lengths with one for each 30 of them; the smallest, the largest and the mean stay."""
    lengths = counts.copy()
    groups = [slice(at, at + BATCH) for at in range(0, COUNT - 1, BATCH)]
    for group in groups:
        lengths[group] = round(float(counts[group].mean()))
    lengths[0], lengths[-1] = counts[0], counts[-1]
    missing = int(counts.sum() - lengths.sum())
    middle = len(groups) // 2
    for turn in range(abs(missing) // BATCH):  # whole steps move by one, those in the middle first
        lengths[groups[1 + (middle + turn) % (len(groups) - 1)]] += np.sign(missing)
    lengths[groups[middle]][: abs(missing) % BATCH] += np.sign(missing)
    # Two steps more are split, one down and one up: with that the sorted batches hold 99.95 % speech, as is known.
    lengths[groups[middle - 4]][: BATCH // 2] -= 1
    lengths[groups[middle + 4]][BATCH // 2 :] += 1
    return np.sort(lengths)


def solve(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a falling function crosses 0."""
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) > 0 else (low, middle)
    return (low + high) / 2


def make_frames(chance: np.random.Generator) -> Counts:
    """Lengths in ascending order: wide enough that shuffled batches hold as much padding as is known."""
    orders = [chance.permutation(COUNT) for _ in range(40)]

    def lengths(above: float) -> Counts:
        below = BELOW * above
        mode = FRAMES[2] + np.sqrt(2 / np.pi) * (below - above)
        return in_steps(to_counts(quantiles(mode, below, above), *FRAMES))

    def too_much_speech(above: float) -> float:
        frames = lengths(above)
        return float(np.mean([speech_in_batches(frames[order]) for order in orders])) - SPEECH_IN_BATCH

    return lengths(solve(too_much_speech, 5.0, 120.0))


def make_tokens(frames: Counts, chance: np.random.Generator) -> Counts:
    """Tokens of each length, at a rate that varies just enough for the known correlation."""
    deviation = chance.standard_normal(COUNT)
    rate = TOKENS[2] / FRAMES[2]

    def tokens(variation: float) -> Counts:
        said: Numbers = np.asarray(frames * rate * np.clip(1 + variation * deviation, 0.3, 1.9), dtype=np.float64)
        order = np.argsort(said, kind="stable")
        counts = np.empty(COUNT, dtype=np.int64)
        counts[order] = to_counts(said[order], *TOKENS)
        return counts

    def too_close(variation: float) -> float:
        return float(np.corrcoef(frames, tokens(variation))[0, 1]) - CORRELATION

    return tokens(solve(too_close, 0.0, 0.6))


def in_corpus_order(frames: Counts, chance: np.random.Generator) -> Counts:
    """The order whose batches come nearest to the known share of speech."""
    orders = [chance.permutation(COUNT) for _ in range(ORDERS)]
    return min(orders, key=lambda order: abs(speech_in_batches(frames[order]) - SPEECH_IN_BATCH)).astype(np.int64)


def make(seed: int = 100) -> tuple[Counts, Counts]:
    """Frames and tokens of each utterance, in the order of the file."""
    chance = np.random.default_rng(seed)
    frames = make_frames(chance)
    tokens = make_tokens(frames, chance)
    order = in_corpus_order(frames, chance)
    return frames[order], tokens[order]


def render(frames: Counts, tokens: Counts) -> str:
    correlation = float(np.corrcoef(frames, tokens)[0, 1])
    lines = [
        "# Generated from published summary figures of LibriSpeech train-clean-100, not from the corpus itself.",
        "# Made by samples/make_shapes.py; no line is an utterance of the corpus.",
        "# The corpus (85,617 utterances, speeds 0.9, 1.0, 1.1; frames after subsampling by 4; BPE-500 tokens):",
        "#   frames 31 to 680, mean 318.25; tokens 2 to 151, mean 67.85; correlation 0.824;",
        "#   in batches of 30 in corpus order 71.9 % of the frames are speech, sorted by length 99.95 %.",
        f"# This file ({frames.size} pairs):",
        f"#   frames {frames.min()} to {frames.max()}, mean {frames.mean():.2f}; tokens {tokens.min()} to "
        f"{tokens.max()}, mean {tokens.mean():.2f}; correlation {correlation:.3f};",
        f"#   in batches of 30 in this order {100 * speech_in_batches(frames):.1f} % of the frames are speech, sorted "
        f"by length {100 * speech_in_batches(np.sort(frames)):.2f} %,",
        "#   because each 30 neighbours of the sorted list share a length.",
        f"# frames_per_second: {FRAMES_PER_SECOND}",
        "id\tframes\ttarget",
    ]
    pairs = zip(frames, tokens, strict=True)
    lines += [f"u{number:04d}\t{length}\t{target}" for number, (length, target) in enumerate(pairs, 1)]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the file of shapes.")
    parser.add_argument("--output", type=Path, default=HERE, help="folder to write to (default: this script's)")
    target: Path = parser.parse_args().output / FILE
    target.write_text(render(*make()), encoding="ascii")
    print(f"{COUNT} pairs: {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
