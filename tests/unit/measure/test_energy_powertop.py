"""Power from powertop's reports, written here in the form that powertop 2.14 gives them."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler.errors import UserError
from profiler.measure.energy import energy_from_watts, given_power
from profiler.measure.energy.given import read_powertop

RULE = "_" * 68
HEAD = f"""{RULE}
\t\t\tP o w e r T O P

{RULE}
 *  *  *   System Information   *  *  *

PowerTOP Version;2.14 ran at Mon Nov 16 19:41:49 2026

Kernel Version;Linux version 6.1.0
System Name;A Laptop
CPU Information;4 A Processor
OS Information;A System

Target: 1 units/s;System:  33.9 wakeup/s;CPU:  99.4% usage;GPU: 0 ops/s;GFX: 0 wakeups/s;VFS: 0 ops/s;

{RULE}
 *  *  *   Top 10 Power Consumers   *  *  *

Usage;Events/s;Category;Description;PW Estimate
 99.2%; 0.00;Process;[PID 7] python; 3.91 W
"""
DEVICES = f"""
{RULE}
 *  *  *   Device Power Report   *  *  *

Usage;Device Name;PW Estimate
 99.5%;CPU use; 4.02 W
100.0%;Display backlight;  812 mW
"""


def report(discharge: str | None = None, baseline: str | None = None) -> str:
    text = HEAD
    if discharge is not None:
        text += f"\nThe battery reports a discharge rate of:   {discharge} W;\n\nThe energy consumed was :   117  J;\n"
    if baseline is not None:
        text += f"\nThe system baseline power is estimated at:   {baseline} W;\n"
    return text + DEVICES


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "report.csv"


def test_the_discharge_rate_is_the_power(file: Path) -> None:
    file.write_text(report(discharge="5.83 ", baseline="3.46 "))
    given = given_power(powertop=file)
    energy = energy_from_watts(given, latency_s=2.0, seconds_of_audio=10)
    assert energy.per_call == pytest.approx(11.66)
    assert energy.kind == "given"
    assert energy.source == "powertop file report.csv"
    assert energy.sensor == "powertop, discharge rate of the battery"
    assert energy.notes == []


@pytest.mark.parametrize(
    ("written", "watts"),
    [("5.83 ", 5.83), ("10.5 ", 10.5), ("796 m", 0.796), ("8.30 m", 0.0083), ("112 ", 112), ("950 u", 950e-6)],
)
def test_units_keep_their_prefix(file: Path, written: str, watts: float) -> None:
    file.write_text(report(discharge=written))
    assert read_powertop(file).watts == pytest.approx(watts)


def test_the_baseline_stands_in_and_is_marked_as_an_estimate(file: Path) -> None:
    file.write_text(report(baseline="3.46 "))
    reading = read_powertop(file)
    assert reading.watts == pytest.approx(3.46)
    assert reading.sensor == "powertop, estimated system baseline"
    assert "estimate" in reading.notes[0]


def test_what_the_screen_shows_can_be_pasted(file: Path) -> None:
    file.write_text("PowerTOP Version;2.9\nThe battery reports a discharge rate of 4.95 W\n")
    assert read_powertop(file).watts == pytest.approx(4.95)


def test_several_reports_in_a_file_are_averaged(file: Path) -> None:
    file.write_text(report(discharge="5.00 ") + report(discharge="7.00 "))
    reading = read_powertop(file)
    assert reading.watts == pytest.approx(6)
    assert reading.sensor == "powertop, discharge rate of the battery, mean of 2"


def test_a_folder_of_iterations_is_averaged(tmp_path: Path) -> None:
    for number, watts in enumerate(("4.00 ", "5.00 ", "900 m")):
        (tmp_path / f"report-20261116-19410{number}.csv").write_text(report(discharge=watts))
    assert read_powertop(tmp_path).watts == pytest.approx(3.3)


def test_a_folder_where_only_some_were_on_battery_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(report(discharge="4.00 "))
    (tmp_path / "b.csv").write_text(report(baseline="4.00 "))
    with pytest.raises(UserError, match="in 1 of 2 files"):
        read_powertop(tmp_path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("  \n", "is empty"),
        ("seconds;watts\n1;5.8\n", "no powertop report"),
        ("<!DOCTYPE html>\n<html><title>PowerTOP report</title>", "--csv, not --html"),
        (report(), "no power in it.*discharge rate.*`watts`"),
        (report(discharge="0.00 "), "no power"),
    ],
)
def test_other_files_are_refused_with_what_was_expected(file: Path, text: str, says: str) -> None:
    file.write_text(text)
    with pytest.raises(UserError, match=says) as refusal:
        given_power(powertop=file)
    assert "report.csv" in str(refusal.value)


def test_a_file_that_is_not_there(file: Path) -> None:
    with pytest.raises(UserError, match=r"cannot be read.*No such file.*powertop --csv"):
        read_powertop(file)


def test_a_folder_without_reports(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no \.csv file"):
        read_powertop(tmp_path)
