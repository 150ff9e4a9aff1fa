"""What a run ends with in a terminal: the answer on one screen, whatever the width."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from profiler.report.closing import MOST_LINES, print_closing
from profiler.results.types import Results
from tests.unit.report.runs import full
from tests.unit.report.test_tables import absent, ok, results, unstable

FOLDER = Path("logs/r/20260101-120000-aaaa")
WIDTHS = (80, 120, 200)


def screen(made: Results, width: int = 120, colours: bool = False) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=colours, highlight=False)
    print_closing(made, FOLDER, console)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def many_failures() -> Results:
    made = full("float32", "int8", "a-variant-with-a-rather-long-name")
    long = "the worker was killed by SIGKILL; the machine probably had too little memory for this cell, see worker.log "
    for number, cell in enumerate(made.cells[:8]):
        cell.status, cell.reason, cell.rtf, cell.latency_s = "failed", f"{number}: {long * 3}", None, None
    for cell in made.cells[8:10]:
        cell.status, cell.reason, cell.rtf, cell.latency_s = "skipped", "would need about 99 GB", None, None
    for cell in made.cells[10:]:
        cell.verdict, cell.disturbances = "unstable", {"thread_latency": 5e-6, "other_processes": 1.5}
    made.cells[-1].trace = "x/y.pt.trace.json.gz"
    return made


def large() -> Results:
    lengths, batches = (0.5, 1, 2, 3, 4, 5, 8, 10, 15, 20, 25, 30, 40, 50, 60, 70), (1, 2, 4, 8, 16, 32, 64, 128, 256)
    return results(*[unstable(s, b, 0.05 * s / b, 0.12, other_processes=1.0) for s in lengths for b in batches])


def interrupted() -> Results:
    made = results(ok(1, 1, 0.1), ok(1, 2, 0.1))
    made.run.status = "interrupted"
    made.run.resolved = {"profiling_dimensions": {"audio_mockup_secs": [1, 2, 10], "batch_sizes": [1, 2, 4]}}
    return made


CASES = {
    "one": full("float32"),
    "two": full("float32", "int8"),
    "fourteen": full(*(f"conformer-hybrid-variant-{number}" for number in range(14))),
    "failures": many_failures(),
    "large": large(),
    "interrupted": interrupted(),
    "nothing": results(absent(1, 1, "failed", "out of memory")),
    "empty": results(),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_answer_fits_on_one_screen(name: str, width: int) -> None:
    lines = screen(CASES[name], width)
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert "random weights" in " ".join(text.split()) or not CASES[name].models
    assert f"Report   {FOLDER / 'report.html'}" in text
    assert "**" not in text
    assert "|" not in text


def test_one_variant_has_a_grid_of_rtf_and_latency() -> None:
    made = full("float32")
    made.cells[2].verdict, made.cells[2].disturbances = "unstable", {"other_processes": 1.5}
    text = "\n".join(screen(made))
    (row,) = [line for line in text.splitlines() if line.startswith("2 s ")]
    assert row.split() == ["2", "s", "0.100", "200", "ms", "~2%", "0.100", "800", "ms"]
    assert "Memory   peak memory of the process 1,010 to 1,200 MB" in text
    assert "Time     encoder 60%, front end 30%, rest 10% (5 s x 4)" in text
    assert "Unstable 1 of 6 cells (~: their 95 % CI is wide): other processes used up to 1.5 CPUs meanwhile" in text
    assert "Summary  Faster than real time in all 6 cells; best throughput 10.0 s of audio per second" in text


def test_failures_come_first_and_are_red() -> None:
    made = full("float32")
    made.cells[3].status, made.cells[3].reason = "failed", "killed by SIGSEGV"
    made.cells[3].rtf = made.cells[3].latency_s = None
    first, second, *rest = screen(made, colours=True)
    assert "1 of 6 cells failed:" in first
    assert first.startswith("\x1b[1;31m")
    assert "2 s x 4: killed by SIGSEGV" in second
    assert second.startswith("\x1b[1;31m")
    assert any(re.search("\x1b\\[1;31m *failed", line) for line in rest)


def test_variants_are_rows_with_the_ratio_to_their_baseline() -> None:
    made = full("float32", "int8", "bfloat16")
    text = screen(made)
    assert [line.split()[:2] for line in text if line.startswith(("float32", "int8", "bfloat16"))] == [
        ["float32", "baseline"],
        ["int8", "x0.50"],
        ["bfloat16", "x0.25"],
    ]
    made.models[2].baseline = "int8"
    assert any(line.split()[:4] == ["bfloat16", "x0.50", "of", "int8"] for line in screen(made))


def test_what_does_not_fit_is_counted_and_the_last_stays() -> None:
    text = screen(large(), 80)
    rows = [line for line in text if line[:1].isdigit() and " s " in line[:8]]
    assert rows[0].startswith("0.5 s")
    assert rows[-1].startswith("70 s")
    assert any(line.startswith("Not shown: ") and "column" in line and "row" in line for line in text)


def test_an_interrupted_run_keeps_all_rows_and_columns() -> None:
    rows = {line.split(" s ")[0]: line.split() for line in screen(interrupted()) if line[:1].isdigit()}
    assert list(rows) == ["1", "2", "10"]
    assert rows["10"][2:] == ["-", "-", "-"]


def test_names_from_a_file_do_not_steer_the_terminal() -> None:
    made = full("float32")
    made.models[0].source = "evil\x1b[2Jname [bold]not markup[/bold]"
    text = "\n".join(screen(made))
    assert "\x1b[2J" not in text
    assert "[bold]not markup[/bold]" in text
