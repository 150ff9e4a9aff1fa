"""Cost over duration and batch size: known coefficients come back."""

from __future__ import annotations

import random

import pytest

from profiler.measure.fit import DurationFit, Point, Predictor, SurfaceFit, fit_durations, fit_surface

SECONDS = [1.0, 2.0, 5.0, 10.0, 20.0]


def surface(truth: SurfaceFit, seconds: list[float], batches: list[int], noise: float = 0.0) -> list[Point]:
    chance = random.Random(0)
    return [
        (length, batch, truth.value(length, batch) * (1 + noise * chance.uniform(-1, 1)))
        for length in seconds
        for batch in batches
    ]


# --- one column ---


@pytest.mark.parametrize("truth", [(0.05, 0.1, 0.002), (0.0, 0.1, 0.0), (0.3, 0.0, 0.01), (1.0, 0.0, 0.0)])
def test_known_coefficients_come_back(truth: tuple[float, float, float]) -> None:
    fixed, linear, squared = truth
    fit = fit_durations(4, SECONDS, [fixed + linear * s + squared * s**2 for s in SECONDS])
    assert fit is not None
    assert (fit.fixed, fit.per_second, fit.per_second_squared) == pytest.approx(truth, abs=1e-6)
    assert (fit.batch_size, fit.points) == (4, 5)
    assert fit.value(100) == pytest.approx(fixed + linear * 100 + squared * 100**2)


def test_coefficients_are_never_negative() -> None:
    """Values that bend down would give a negative quadratic part, and nonsense for long audio."""
    fit = fit_durations(1, SECONDS, [1.0, 1.8, 3.5, 5.5, 8.0])
    assert fit is not None
    assert fit.fixed >= 0
    assert fit.per_second >= 0
    assert fit.per_second_squared == 0
    assert fit.value(1000) > fit.value(20)


def test_one_duration_says_nothing_about_growth() -> None:
    assert fit_durations(1, [1.0, 1.0], [0.1, 0.1]) is None


@pytest.mark.parametrize("count", [2, 3])
def test_few_durations_give_a_line_and_no_word_on_the_square(count: int) -> None:
    fit = fit_durations(1, SECONDS[:count], [0.1 + 0.2 * s for s in SECONDS[:count]])
    assert fit is not None
    assert (fit.fixed, fit.per_second) == pytest.approx((0.1, 0.2))
    assert fit.per_second_squared is None
    assert fit.quadratic_from is None


def test_where_the_quadratic_part_is_a_tenth_of_the_rest() -> None:
    fit = DurationFit(batch_size=1, fixed=0.2, per_second=0.1, per_second_squared=0.003, points=5)
    start = fit.quadratic_from
    assert start is not None
    assert 0.003 * start**2 == pytest.approx(0.1 * (0.2 + 0.1 * start))


@pytest.mark.parametrize("squared", [None, 0.0])
def test_no_quadratic_part_starts_nowhere(squared: float | None) -> None:
    assert DurationFit(1, 0.2, 0.1, squared, 5).quadratic_from is None


def test_noise_moves_a_fit_only_a_little() -> None:
    chance = random.Random(1)
    values = [(0.05 + 0.1 * s + 0.005 * s**2) * (1 + 0.01 * chance.uniform(-1, 1)) for s in SECONDS]
    fit = fit_durations(1, SECONDS, values)
    assert fit is not None
    assert fit.value(40) == pytest.approx(0.05 + 4 + 8, rel=0.15)


# --- a whole table ---


@pytest.mark.parametrize(
    "truth",
    [SurfaceFit(0.5, 0.01, 0.1, 0.002), SurfaceFit(0.0, 0.0, 0.1, 0.0), SurfaceFit(1e9, 2e6, 3e7, 1e5)],
)
def test_a_known_surface_comes_back(truth: SurfaceFit) -> None:
    fit = fit_surface(surface(truth, SECONDS, [1, 2, 8]))
    assert fit is not None
    for seconds, batch in [(1, 1), (20, 8), (60, 32)]:
        assert fit.value(seconds, batch) == pytest.approx(truth.value(seconds, batch), rel=1e-4)


def test_a_surface_is_never_negative_and_grows_with_the_audio() -> None:
    fit = fit_surface(surface(SurfaceFit(0.1, 0.0, 0.1, 0.0), [1.0, 2.0, 4.0], [1, 2, 4], noise=0.3))
    assert fit is not None
    assert min(fit.fixed, fit.per_row, fit.per_second, fit.per_second_squared) >= 0
    assert fit.value(100, 1) >= fit.value(10, 1) >= fit.value(1, 1) >= 0


@pytest.mark.parametrize(
    "points", [[], [(1.0, 1, 0.1)], [(1.0, 1, 0.1), (2.0, 1, 0.2), (4.0, 1, 0.4)], [(1.0, b, 0.1) for b in range(1, 9)]]
)
def test_too_few_points_give_no_surface(points: list[Point]) -> None:
    assert fit_surface(points) is None


def test_the_longest_audio_uses_the_limit_up() -> None:
    fit = SurfaceFit(fixed=1e9, per_row=1e6, per_second=5e7, per_second_squared=1e6)
    longest = fit.longest(8e9, batch_size=4)
    assert longest is not None
    assert fit.value(longest, 4) == pytest.approx(8e9)
    linear = SurfaceFit(1e9, 0.0, 5e7, 0.0).longest(8e9, 2)
    assert linear == pytest.approx(70)


def test_what_does_not_fit_at_all_has_length_zero() -> None:
    assert SurfaceFit(9e9, 0.0, 5e7, 0.0).longest(8e9, 1) == 0.0


def test_what_never_grows_has_no_longest() -> None:
    assert SurfaceFit(1e9, 1e6, 0.0, 0.0).longest(8e9, 1) is None
    assert SurfaceFit(1e9, 0.0, 0.0, 0.0).largest_batch(8e9, 10) is None


def test_the_largest_batch_fits_and_the_next_does_not() -> None:
    fit = SurfaceFit(fixed=1e9, per_row=1e6, per_second=5e7, per_second_squared=1e6)
    largest = fit.largest_batch(8e9, seconds=10)
    assert largest is not None
    assert fit.value(10, largest) <= 8e9 < fit.value(10, largest + 1)


# --- prediction ---


def test_nothing_measured_predicts_nothing() -> None:
    assert Predictor([]).value(1, 1) is None


def test_one_cell_predicts_in_proportion_to_the_audio() -> None:
    predictor = Predictor([(1.0, 1, 0.1)])
    assert predictor.value(1, 1) == pytest.approx(0.1)
    assert predictor.value(2, 4) == pytest.approx(0.8)


def test_with_few_cells_the_largest_one_counts() -> None:
    assert Predictor([(1.0, 1, 0.5), (4.0, 2, 0.8)]).value(8, 2) == pytest.approx(1.6)


def test_more_cells_predict_the_bend() -> None:
    truth = SurfaceFit(0.2, 0.01, 0.1, 0.01)
    predictor = Predictor(surface(truth, [1.0, 2.0, 4.0, 8.0], [1, 2]))
    assert predictor.value(32, 8) == pytest.approx(truth.value(32, 8), rel=1e-3)
