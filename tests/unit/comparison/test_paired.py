"""Two sides that took turns: the ratio cancels what the machine did to both, and slow calls are judged, too."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from profiler.comparison.judge import CONFIDENCE, decided, paired_mean, paired_speed

THRESHOLD = 0.02
Rounds = list[list[float]]


def rounds(
    ratio: float, count: int = 60, calls: int = 8, seed: int = 0, noise: float = 0.01, slow: float = 0.0
) -> tuple[Rounds, Rounds]:
    """A machine that changes by tens of per cent from pair to pair, and does it to both sides."""
    chance = random.Random(seed)
    first, second = [], []
    for _ in range(count):
        layout = chance.gauss(0.0, noise)
        a, b = [], []
        for _ in range(calls):
            machine = 0.01 * math.exp(chance.gauss(0.0, 0.3))
            a.append(machine * math.exp(chance.gauss(0.0, noise)))
            twice = 2.0 if chance.random() < slow else 1.0
            b.append(machine * ratio * twice * math.exp(layout + chance.gauss(0.0, noise)))
        first.append(a)
        second.append(b)
    return first, second


def test_a_change_of_three_per_cent_is_found_under_noise_ten_times_as_large() -> None:
    speed = paired_speed(*rounds(1.03), THRESHOLD)
    assert speed.verdict == "slower"
    assert speed.ratio == pytest.approx(1.03, abs=0.01)
    low, high = speed.ci or (0.0, 0.0)
    assert 1.0 < low < 1.03 < high
    assert speed.confidence == CONFIDENCE


def test_the_same_change_the_other_way_is_called_faster() -> None:
    assert paired_speed(*rounds(1 / 1.03), THRESHOLD).verdict == "faster"


def test_equal_sides_are_the_same() -> None:
    speed = paired_speed(*rounds(1.0), THRESHOLD)
    assert speed.verdict == "same"
    assert speed.detectable == pytest.approx(1.0 + THRESHOLD)


def test_equal_sides_with_few_rounds_are_unclear_and_say_what_could_have_been_seen() -> None:
    speed = paired_speed(*rounds(1.0, count=6, noise=0.05), THRESHOLD)
    assert speed.verdict == "unclear"
    assert speed.detectable is not None
    assert speed.detectable > 1.05


def test_of_two_hundred_equal_cells_hardly_any_is_called_different() -> None:
    words = [paired_speed(*rounds(1.0, seed=seed, count=20, noise=0.03), THRESHOLD).verdict for seed in range(200)]
    assert words.count("slower") + words.count("faster") <= 4


def test_calls_that_are_sometimes_twice_as_slow_move_no_median_and_are_found_all_the_same() -> None:
    first, second = rounds(1.0, slow=0.4, calls=20, noise=0.005)
    medians = [statistics.median(b) / statistics.median(a) for a, b in zip(first, second, strict=True)]
    assert statistics.median(medians) < 1.3
    speed = paired_speed(first, second, THRESHOLD)
    assert speed.slow_calls is not None
    assert speed.slow_calls.verdict == "slower"
    assert speed.verdict == "slower"


def test_the_reason_names_the_slow_calls_where_they_alone_decide() -> None:
    first = [[1.0] * 20 for _ in range(10)]
    second = [[1.0] * 15 + [2.0] * 5 for _ in range(10)]
    for number, (a, b) in enumerate(zip(first, second, strict=True)):
        a[0] += 1e-6 * number
        b[0] += 1e-6 * number
    speed = paired_speed(first, second, THRESHOLD)
    assert speed.ratio == pytest.approx(1.0, abs=1e-3)
    assert speed.verdict == "slower"
    assert "slow calls" in speed.reason


def test_a_cell_is_decided_when_it_is_the_same_or_different_beyond_doubt() -> None:
    assert decided(*rounds(1.0, count=200), THRESHOLD) == "same"
    assert decided(*rounds(1.2), THRESHOLD) == "slower"
    assert decided(*rounds(1.0, count=8, noise=0.05), THRESHOLD) is None


def test_looking_after_every_round_calls_at_most_one_equal_cell_in_two_hundred() -> None:
    """Who stops at the first difference sees chance ones; the stricter interval for stopping early prevents that."""
    called = 0
    for seed in range(600):
        first, second = rounds(1.0, seed=seed, count=40, calls=1, noise=0.03)
        end = next((count for count in range(10, 41) if decided(first[:count], second[:count], THRESHOLD)), 40)
        called += paired_speed(first[:end], second[:end], THRESHOLD).verdict in ("slower", "faster")
    assert called <= 3


def test_all_cells_together_are_known_better_than_each() -> None:
    cells = [rounds(1.03, seed=seed, count=12, noise=0.03) for seed in range(6)]
    whole = paired_mean(cells, THRESHOLD)
    one = paired_speed(*cells[0], THRESHOLD)
    assert whole.ci is not None
    assert one.ci is not None
    assert whole.ci[1] / whole.ci[0] < one.ci[1] / one.ci[0]
    assert whole.ratio == pytest.approx(1.03, abs=0.01)


def test_sides_with_unequal_numbers_of_calls_are_compared_by_their_medians() -> None:
    first, second = rounds(1.5)
    shorter = [calls[:3] for calls in second]
    assert paired_speed(first, shorter, THRESHOLD).verdict == "slower"
