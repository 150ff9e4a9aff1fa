"""The four words at their boundaries, and what each part of the judgement does."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from scipy import stats
from scipy.stats import false_discovery_control

from profiler.comparison.judge import THRESHOLD, judge, mean_speed, word
from profiler.comparison.result import Speed
from profiler.results.types import Latency
from tests.helpers.synthetic import latency


def rounds(*medians: float) -> Latency:
    """A cell whose rounds have these medians."""
    return latency([[value] for value in medians])


def spread(level: float, by: float, count: int = 10) -> Latency:
    """Rounds that lie evenly around a level, in an order that says nothing."""
    medians = [level * math.exp(by * (2 * number / (count - 1) - 1)) for number in range(count)]
    random.Random(count).shuffle(medians)
    return rounds(*medians)


@pytest.mark.parametrize(
    ("ci", "expected"),
    [
        ((0.99, 1.01), "same"),
        ((1 / 1.02, 1.02), "same"),
        ((1.001, 1.019), "same"),  # leaves out 1, but nothing of interest can lie in it
        ((0.981, 0.999), "same"),
        ((1.001, 1.021), "slower"),
        ((0.979, 0.999), "faster"),
        ((1.0, 1.021), "unclear"),
        ((0.979, 1.0), "unclear"),
        ((0.9, 1.1), "unclear"),
        ((13.44, 36.99), "slower"),
    ],
)
def test_the_interval_decides_the_word(ci: tuple[float, float], expected: str) -> None:
    assert word(ci, 0.02) == expected


def test_figures_that_nobody_measured_have_a_verdict_too() -> None:
    """Results of others may hold anything: e^700 is the largest ratio that is written."""
    (speed,) = judge([(rounds(1e-300, 1e300), rounds(1.0, 1e-300))], 0.01)
    assert speed.verdict == "unclear"
    assert speed.ci == pytest.approx((math.exp(-700), math.exp(700)))


def test_a_wider_threshold_makes_more_of_them_same() -> None:
    assert word((0.95, 1.05), 0.02) == "unclear"
    assert word((0.953, 1.05), 0.05) == "same"


def test_the_ratio_is_that_of_the_two_figures() -> None:
    first, second = rounds(1.0, 1.1, 1.4, 9.0), rounds(2.0, 2.2, 2.6, 3.0)
    (speed,) = judge([(first, second)], 0.01)
    assert speed.ratio == second.median / first.median


def test_more_rounds_narrow_the_interval_down_to_the_floor() -> None:
    def width(count: int, floor: float) -> float:
        (speed,) = judge([(spread(1.0, 0.05, count), spread(1.0, 0.05, count))], floor)
        assert speed.ci is not None
        return math.log(speed.ci[1] / speed.ci[0])

    assert width(160, 0.0) < 0.5 * width(10, 0.0)
    least = 2 * 1.96 * math.sqrt(2) * 0.03  # of two runs that differ by the floor alone
    assert width(4000, 0.03) == pytest.approx(least, rel=0.01)
    assert width(10, 0.03) > least


def test_few_rounds_do_not_make_the_floor_less_known() -> None:
    """Degrees of freedom are few for what the rounds say, not for what `doctor` measured."""
    (speed,) = judge([(spread(1.0, 0.001, 3), spread(1.0, 0.001, 3))], 0.03)
    assert speed.ci is not None
    assert math.log(speed.ci[1]) == pytest.approx(1.96 * math.sqrt(2) * 0.03, rel=0.01)


def test_the_interval_is_that_of_a_median() -> None:
    """With all variance known to be equal, its standard error is 1.25 times that of a mean."""
    speed, *_ = judge([(spread(1.0, 0.1), spread(1.0, 0.1))] * 20, 0.0)
    deviation = statistics.stdev(0.1 * (2 * number / 9 - 1) for number in range(10))
    expected = float(stats.t.ppf(0.975, 9 + 9 + 4)) * math.sqrt(math.pi / 2) * deviation * math.sqrt(2 / 10)
    assert speed.ci is not None
    # A cell's own variance and that of all cells are estimated from as many rounds, so they are the same here.
    assert math.log(speed.ci[1]) == pytest.approx(expected, rel=0.01)


def test_rounds_that_follow_each_other_closely_count_as_one_block() -> None:
    """A machine that is slower for a while: a hundred rounds are ten looks at it."""
    steps = [math.exp(0.1 * (number - 4.5) / 4.5) for number in (3, 8, 0, 6, 9, 1, 5, 2, 7, 4)]
    few, many = (rounds(*(step for step in steps for _ in range(count))) for count in (1, 10))
    (one,), (hundred,) = judge([(few, few)], 0.0), judge([(many, many)], 0.0)
    assert one.ci == hundred.ci


def test_a_change_that_the_floor_may_explain_is_unclear() -> None:
    pair = (spread(1.0, 0.005), spread(1.06, 0.005))
    assert judge([pair], 0.005)[0].verdict == "slower"
    assert judge([pair], 0.03)[0].verdict == "unclear"


def test_a_cell_whose_few_rounds_happen_to_agree_borrows_the_noise_of_the_others() -> None:
    lucky = (rounds(1.0, 1.0, 1.0), rounds(1.05, 1.05, 1.05))
    noisy = (rounds(1.0, 1.1, 0.9), rounds(1.0, 0.9, 1.1))
    assert judge([lucky], 0.0)[0].verdict == "slower"
    assert judge([lucky, *([noisy] * 5)], 0.0)[0].verdict == "unclear"


def test_with_many_rounds_a_precise_cell_stays_precise_among_noisy_ones() -> None:
    precise = (spread(1.0, 0.005, 30), spread(1.1, 0.005, 30))
    noisy = (spread(1.0, 0.05, 30), spread(1.0, 0.05, 30))
    first, second, *_ = judge([precise, *([noisy] * 5)], 0.005)
    assert first.verdict == "slower"
    assert first.detectable is not None
    assert second.detectable is not None
    assert first.detectable < second.detectable


def test_what_is_significant_alone_may_not_be_among_many() -> None:
    equal = (spread(1.0, 0.03), spread(1.0, 0.03))
    changed = (spread(1.0, 0.03), spread(1.062, 0.03))
    (alone,) = judge([changed], 0.01)
    among = judge([changed, *([equal] * 19)], 0.01)
    assert alone.verdict == "slower"
    assert among[0].verdict == "unclear"
    assert "not significant over all cells" in among[0].reason
    expected = false_discovery_control([speed.p for speed in among])
    assert [speed.p_adjusted for speed in among] == pytest.approx(list(expected))


def test_a_sure_change_below_the_threshold_is_none() -> None:
    steady = [(spread(1.0, 0.001), spread(1.06, 0.001))]
    assert judge(steady, 0.0001, 0.02)[0].verdict == "slower"
    assert judge(steady, 0.0001, 0.1)[0].verdict == "same"
    (reaching,) = judge([(spread(1.0, 0.009), spread(1.019, 0.009))], 0.0, 0.02)
    assert (reaching.verdict, reaching.reason) == ("unclear", "the change is smaller than the threshold of 2 %")


def test_median_and_mean_must_point_the_same_way() -> None:
    """Six of ten rounds are a tenth slower, four took half the time: on the whole it is faster."""
    first = spread(1.0, 0.001, 100)
    second = rounds(*[1.3, 0.5, 1.3, 1.3, 0.5, 1.3, 0.5, 1.3, 0.5, 1.3] * 10)
    (speed,) = judge([(first, second)], 0.0)
    assert speed.ratio == pytest.approx(1.3)
    assert (speed.verdict, speed.reason) == ("unclear", "median and mean over rounds point in opposite directions")


def test_what_is_detectable_would_have_been_called() -> None:
    pair = (spread(1.0, 0.02), spread(1.0, 0.02))
    others = [pair] * 4
    detectable = judge([pair, *others], 0.01)[0].detectable
    assert detectable is not None
    for factor, verdict in ((1.001, "slower"), (0.995, "unclear")):
        speed = judge([(pair[0], spread(detectable * factor, 0.02)), *others], 0.01)[0]
        assert speed.verdict == verdict


def test_nothing_below_the_threshold_is_detectable() -> None:
    (speed,) = judge([(spread(1.0, 0.0001), spread(1.0, 0.0001))], 0.0)
    assert speed.detectable == pytest.approx(1 + THRESHOLD)


def test_one_round_each_tells_no_variance_and_is_not_judged() -> None:
    (speed,) = judge([(rounds(1.0), rounds(2.0))], 0.01)
    assert (speed.verdict, speed.ratio, speed.ci) == ("not judged", 2.0, None)
    assert "one round each" in speed.reason
    (one_sided,) = judge([(rounds(1.0), spread(2.0, 0.01))], 0.01)
    assert one_sided.verdict == "slower"


def test_equal_samples_to_the_last_digit_do_not_break_it() -> None:
    (speed,) = judge([(rounds(1.0, 1.0), rounds(1.0, 1.0))], 0.0)
    assert (speed.verdict, speed.ratio, speed.p) == ("same", 1.0, pytest.approx(1.0))


def test_the_geometric_mean_is_no_surer_than_its_cells() -> None:
    """Cells of a run share its minutes: their errors do not average out."""
    cells = [Speed(ratio=ratio, ci=(ratio / 1.05, ratio * 1.05)) for ratio in (2.0, 0.5, 1.04)]
    mean = mean_speed(cells)
    assert mean.ratio == pytest.approx(1.04 ** (1 / 3))
    assert mean.ci == (pytest.approx(1.04 ** (1 / 3) / 1.05), pytest.approx(1.04 ** (1 / 3) * 1.05))
    assert mean.verdict == "unclear"
    assert mean_speed([Speed(ratio=1.1, ci=(1.08, 1.12))] * 2).verdict == "slower"
    assert mean_speed([Speed(ratio=1.01, ci=(1.001, 1.03))]).verdict == "unclear"  # below the threshold
    assert mean_speed([Speed()]) == Speed()
