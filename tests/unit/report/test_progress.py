"""What a person sees while a run goes on: a line when there is something to say, and not one for every round."""

from __future__ import annotations

import io
import re
import time

import pytest
from rich.console import Console

from profiler.execution import channel
from profiler.execution.display import Display
from profiler.plan import Cell
from profiler.report.progress import ROUND_LINE_SECONDS, Lines, Live, make_display
from profiler.results.types import ModelResult
from tests.unit.report.test_tables import absent, ok, unstable

CELL = Cell("float32", 1.0, 1)


class Clock:
    now = 1000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("profiler.report.progress.time.monotonic", lambda: made.now)
    return made


def console(terminal: bool = False) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=120)


def said(display: Lines) -> list[str]:
    assert isinstance(display.console.file, io.StringIO)
    return display.console.file.getvalue().splitlines()


def test_a_cell_has_a_line_when_it_has_its_first_figure(clock: Clock) -> None:
    lines = Lines(console())
    lines.begin(20)
    clock.now += 75
    lines.cell(CELL, 0, 130.0)
    lines.cell_done(ok(1, 1, 0.1), 0)
    assert said(lines) == [
        "[1/20, 1:15, about 2:10 left] float32 1 s x 1: RTF 0.100, 100 ms per call (10 calls), 1,000 MB"
    ]


def test_later_rounds_of_a_cell_are_silent(clock: Clock) -> None:
    lines = Lines(console())
    lines.begin(20)
    for number in range(10):
        lines.cell(CELL, number, None)
        lines.cell_done(ok(1, 1, 0.1), number)
    assert len(said(lines)) == 1


def test_a_cell_that_fails_says_so_in_any_round(clock: Clock) -> None:
    lines = Lines(console())
    lines.begin(20)
    lines.cell_done(absent(1, 1, "failed", "in round 4: killed by SIGSEGV"), 3)
    assert said(lines) == ["[1/20, 0:00] float32 1 s x 1: FAILED, in round 4: killed by SIGSEGV"]


def test_long_runs_say_now_and_then_which_round_they_are_in(clock: Clock) -> None:
    lines = Lines(console())
    lines.begin(100)
    for number in range(10):
        clock.now += ROUND_LINE_SECONDS / 2
        lines.round_done(number, 10, "3 cells with a 95 % CI wider than wanted")
    # From the sixth on there is an interval to speak of; not twice within 10 s.
    rounds = [
        int(found[1]) for line in said(lines) if (found := re.search(r"\] round (\d+) of 10: 3 cells with", line))
    ]
    assert rounds == [6, 9]
    assert len(said(lines)) == 2


def test_rounds_that_were_not_planned_have_no_last_one(clock: Clock) -> None:
    lines = Lines(console())
    lines.begin(2)
    lines.done = 3
    clock.now += 60
    lines.round_done(12, 10, "1 cell with a 95 % CI wider than wanted")
    assert said(lines) == ["[1:00] round 13: 1 cell with a 95 % CI wider than wanted"]


def test_an_unstable_figure_is_marked_while_it_is_measured(clock: Clock) -> None:
    lines = Lines(console())
    lines.begin(1)
    lines.cell_done(unstable(1, 1, 0.1, 0.18, other_processes=1.0), 0)
    assert "RTF 0.10 ~18%" in said(lines)[0]


def test_notes_and_models_are_lines(clock: Clock) -> None:
    lines = Lines(console())
    lines.model(
        ModelResult(variant="int8", source="a/b", type="AutoModel", weights="random", parameters={"total": 12345})
    )
    lines.note("Stopped after 10 rounds: the 95 % CI of every cell is as narrow as wanted.")
    assert said(lines) == [
        "int8: a/b (AutoModel), 12,345 parameters, random weights",
        "note: Stopped after 10 rounds: the 95 % CI of every cell is as narrow as wanted.",
    ]


def test_in_a_terminal_the_bar_names_cell_round_and_calls() -> None:
    live = Live(console(terminal=True))
    live.begin(20)
    live.cell(CELL, 3, 130.0)
    live.event(channel.BeginPass("time"))
    live.event(channel.Progress(4, 0.25))
    live.cell_done(ok(1, 1, 0.1), 3)
    live.close()
    text = "\n".join(said(live))
    assert re.search("2:10 left +float32 1 s x 1, round 4  warming up", text)
    assert re.search("2:10 left +float32 1 s x 1, round 4  4 calls, 250 ms per call", text)
    assert "1/20" in text


def test_a_spinner_with_the_time_moves_while_a_model_is_loaded() -> None:
    live = Live(console(terminal=True))
    live.loading("a/b")
    time.sleep(0.35)
    live.model(ModelResult(variant="float32", source="a/b", type="AutoModel", weights="random"))
    before = len("\n".join(said(live)))
    frames = set(re.findall("([\u2800-\u28ff]) loading a/b, 0:00", "\n".join(said(live))))
    assert len(frames) > 1
    time.sleep(0.25)
    assert len("\n".join(said(live))) - before < 10, "nothing moves while a cell is measured"
    live.close()


def test_the_line_keeps_its_width_whatever_it_says() -> None:
    shown = Console(file=io.StringIO(), force_terminal=True, width=80)
    live = Live(shown)
    live.begin(20)
    live.cell(Cell("a-variant-with-a-very-long-name-indeed", 1.0, 1), 3, 130.0)
    live.event(channel.Progress(4, 0.25))
    live.status("reference workload")
    live.cell_done(ok(1, 1, 0.1), 3, 3725.0, 5)
    live.close()
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", "\n".join(said(live)).replace("\r", "\n"))
    bars = [line for line in plain.splitlines() if "━" in line]
    assert {len(re.match("[━╸╺ ]+", line)[0].rstrip()) for line in bars} == {24}  # type: ignore[index]
    assert max(map(len, bars)) <= 80
    assert any("1/6 " in line and "1:02:05 left" in line for line in bars), "what will not come is not counted"


def test_what_is_left_is_worked_out_after_every_cell(clock: Clock) -> None:
    lines = Lines(console())
    lines.begin(20)
    lines.cell(CELL, 0, 9000.0)
    lines.cell_done(ok(1, 1, 0.1), 0, 60.0, 9)
    assert said(lines)[0].startswith("[1/10, 0:00, about 1:00 left]")


def test_a_variant_that_fails_says_so_once_and_in_red(clock: Clock) -> None:
    lines = Lines(Console(file=io.StringIO(), force_terminal=True, width=120))
    lines.begin(4)
    for _ in range(2):
        lines.variant_failed("float32", 2, "LogMel has no `n_fft`")
    for seconds in (1, 2):
        lines.cell_done(absent(seconds, 1, "failed", "LogMel has no `n_fft`"), 0)
    (line,) = said(lines)
    assert line.startswith("\x1b[1;31m")
    assert "float32: FAILED, 2 cells: LogMel has no `n_fft`" in line


def test_the_bar_grows_with_rounds_that_were_not_planned() -> None:
    live = Live(console(terminal=True))
    live.begin(1)
    for number in range(3):
        live.cell(CELL, number, None)
        live.cell_done(ok(1, 1, 0.1), number)
    live.close()
    assert "3/3" in "\n".join(said(live))


def test_the_kind_of_display_follows_from_where_it_is_shown() -> None:
    quiet = make_display(True, console(terminal=True))
    assert type(quiet) is Display
    assert type(make_display(False, console())) is Lines
    live = make_display(False, console(terminal=True))
    assert isinstance(live, Live)
    live.close()
