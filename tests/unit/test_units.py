"""Numbers as people read them."""

from __future__ import annotations

import pytest

from profiler.units import UNITS, bytes_text, clock_text, parse_bytes, rounded_to_interval, seconds_text, significant


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (15_300, "15.3 kB"),
        (999_900, "1.00 MB"),  # not 1000 kB
        (123_456_789, "123 MB"),
        (1_234_567_890, "1.23 GB"),
        (64e9, "64.0 GB"),
        (1.5e12, "1500 GB"),
    ],
)
def test_bytes(count: float, text: str) -> None:
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("8 GB", 8_000_000_000),
        ("8GB", 8_000_000_000),
        ("8 gb", 8_000_000_000),
        ("512 MB", 512_000_000),
        ("1.5 GB", 1_500_000_000),
        ("4 GiB", 4 * 1024**3),
        ("2 T", 2_000_000_000_000),
        ("100", 100),
        (100, 100),
    ],
)
def test_sizes_are_read_as_they_are_written(text: str | int, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize("text", ["", "GB", "eight GB", "8 XB", "-8 GB", "8 GB or so", "nan"])
def test_what_is_no_size_is_shown_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="such as '8 GB'"):
        parse_bytes(text)


@pytest.mark.parametrize("size", ["0 GB", "0", 0, -5])
def test_a_size_is_greater_than_zero(size: str | int) -> None:
    with pytest.raises(ValueError, match="greater than 0"):
        parse_bytes(size)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 µs"),
        (0.00001234, "12.3 µs"),
        (0.0009996, "1.00 ms"),
        (0.0123, "12.3 ms"),
        (0.9999, "1.00 s"),
        (1.234, "1.23 s"),
        (95, "95.0 s"),
        (600, "10 min"),
        (7200, "2.0 h"),
        (360_000, "100 h"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (9.6, "0:10"), (75, "1:15"), (3599.6, "1:00:00"), (3675, "1:01:15"), (-3, "0:00")],
)
def test_time_left_looks_like_a_clock(seconds: float, text: str) -> None:
    assert clock_text(seconds) == text


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.012345, 3, "0.0123"),
        (1234, 3, "1230"),
        (1234, 2, "1200"),
        (0.9999, 3, "1.00"),
        (9.999, 3, "10.0"),
        (999.9, 3, "1000"),
        (12.3456, 4, "12.35"),
        (-0.0456, 2, "-0.046"),
        (0, 3, "0"),
        (float("inf"), 3, "inf"),
        (float("nan"), 3, "nan"),
        (1e-12, 2, "0.0000000000010"),
    ],
)
def test_significant_digits(value: float, digits: int, text: str) -> None:
    assert significant(value, digits) == text


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (0.12345, 0.12344, 0.12346, "0.123"),  # never more than three digits
        (0.12345, 0.12245, 0.12445, "0.123"),
        (0.12345, 0.11, 0.135, "0.12"),  # +/- 0.01: the third digit means nothing
        (0.12345, 0.05, 0.2, "0.12"),
        (0.12345, 0.0, 1.0, "0.12"),  # never fewer than two
        (0.00412, 0.0024, 0.0058, "0.0041"),
        (8.96, 1.0, 40.0, "9.0"),
        (1234.5, 1200, 1300, "1230"),
        (1234.5, 700, 1900, "1200"),
        (0.107, 0.107, 0.107, "0.107"),
        (0.0, 0.0, 0.0, "0"),
    ],
)
def test_only_digits_that_the_interval_supports_are_shown(value: float, low: float, high: float, text: str) -> None:
    assert rounded_to_interval(value, low, high) == text


@pytest.mark.parametrize(
    ("unit", "value", "half_width", "text"),
    [
        ("s", 0.00498, None, "4.98 ms"),
        ("s", 0.0000123, None, "0.0123 ms"),  # a metric keeps its unit, however small it is
        ("s", 1.2345, None, "1,230 ms"),
        ("s", 0.9996, None, "1,000 ms"),
        ("s", 1.2345, 0.18, "1,200 ms"),  # +/- 18 %: the third digit means nothing
        ("s", 0.0294, 1.43, "29 ms"),
        ("share", 0.2345, 0.9, "23 %"),
        ("bytes", 798_123_000, None, "798 MB"),
        ("bytes", 1_798_123_000, None, "1,800 MB"),
        ("bytes", 95_328, None, "0.0953 MB"),
        ("bytes", 0, None, "0 MB"),
        ("fraction", 0.0421, None, "4.21 %"),
        ("share", 0.2, None, "20 %"),
        ("count", 94_395_552, None, "94,395,552"),
        ("count", 7, None, "7"),
        ("MAC", 6.94e9, None, "6.94 GMAC"),
    ],
)
def test_a_metric_has_one_unit_whatever_its_size(unit: str, value: float, half_width: float | None, text: str) -> None:
    assert UNITS[unit].text(value, half_width) == text
