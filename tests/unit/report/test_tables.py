"""Results -> the tables that a person reads, in the terminal and in tables.md."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from profiler import messages
from profiler.report import markdown
from profiler.report.markdown import render
from profiler.report.tables import build_tables
from profiler.results.types import CellResult, Latency, ModelResult, PeakMemory, Results, Run


def ok(seconds: float, batch: int, rtf: float, half_width: float = 0.001, memory: int = 10**9) -> CellResult:
    """A measured cell whose interval reaches so far from the median, relative to it."""
    median = rtf * seconds * batch
    ends = (median * (1 - half_width), median * (1 + half_width))
    return CellResult(
        variant="float32",
        seconds=seconds,
        batch_size=batch,
        status="ok",
        timed_region="waveforms in memory to text",
        latency_s=Latency(
            median=median,
            mean=median,
            std=0.0,
            min=ends[0],
            ci95=ends,
            n=10,
            samples=[median] * 10,
            rounds=[1] * 10,
            warmup=[median],
            stopped_by="width",
        ),
        rtf=rtf,
        rtfx=1 / rtf,
        verdict="stable",
        peak_memory_bytes=PeakMemory(process=memory, tensors=memory // 100),
        input={"audio": "speech.flac", "seconds_of_audio": seconds * batch, "share_of_padding": 0.0},
    )


def unstable(seconds: float, batch: int, rtf: float, half_width: float, **disturbances: float) -> CellResult:
    cell = ok(seconds, batch, rtf, half_width)
    cell.verdict, cell.disturbances = "unstable", disturbances
    cell.verdict_reasons = [messages.sentence(*each) for each in disturbances.items()]
    return cell


def absent(seconds: float, batch: int, status: str, reason: str) -> CellResult:
    return CellResult.model_validate(
        {"variant": "float32", "seconds": seconds, "batch_size": batch, "status": status, "reason": reason}
    )


def results(*cells: CellResult, weights: str = "random") -> Results:
    return Results(
        run=Run(
            id="20260101-120000-aaaa",
            recipe="r",
            recipe_sha256="0",
            command="profile.py r.yaml",
            started="2026-01-01",
            status="complete",
            notes=["The machine is busy."],
        ),
        environment={"cpu": "Some CPU", "threads": 4, "os": "Linux", "packages": {"torch": "2.13"}},
        models=[
            ModelResult.model_validate({"variant": "float32", "source": "a/b", "type": "AutoModel", "weights": weights})
        ],
        cells=list(cells),
    )


def table(text: str, title: str) -> list[list[str]]:
    """The pipe table below a title, parsed as Markdown does."""
    lines = text[text.index(f"**{title}") :].splitlines()
    rows = []
    for line in lines[2:]:
        if not line.startswith("|"):
            break
        rows.append([part.strip() for part in line.strip("|").split("|")])
    return [rows[0], *rows[2:]]


def test_rows_are_seconds_and_columns_are_batch_sizes() -> None:
    text = render(results(ok(2, 4, 0.4), ok(1, 1, 0.1), ok(2, 1, 0.3), ok(1, 4, 0.2), ok(10, 1, 0.5), ok(10, 4, 0.6)))
    assert table(text, "Real-time factor") == [
        ["audio \\ batch", "1", "4"],
        ["1 s", "0.100", "0.200"],
        ["2 s", "0.300", "0.400"],
        ["10 s", "0.500", "0.600"],
    ]


def test_fractions_of_seconds_are_shown_as_they_are() -> None:
    assert [row[0] for row in table(render(results(ok(0.25, 1, 0.1), ok(1.5, 1, 0.1))), "Real-time factor")[1:]] == [
        "0.25 s",
        "1.5 s",
    ]


def test_a_cell_without_a_figure_says_why_in_its_place() -> None:
    text = render(
        results(
            ok(1, 1, 0.1),
            absent(1, 2, "failed", "the worker was killed"),
            absent(2, 1, "skipped", "would need about 99.0 GB of memory"),
        )
    )
    for title in ("Real-time factor", "Latency of one call", "Peak memory of the process"):
        rows = table(text, title)
        assert rows[1][2] == "failed"
        assert rows[2][1:] == ["skipped", "-"]
    assert "1 s x 2: failed: the worker was killed" in text
    assert "2 s x 1: skipped, would need about 99.0 GB of memory" in text


def test_cells_that_are_skipped_for_one_reason_share_a_line() -> None:
    reason = "triangle_only leaves out the heavy corner"
    text = render(results(ok(1, 1, 0.1), absent(2, 2, "skipped", reason), absent(2, 4, "skipped", reason)))
    assert f"- 2 s x 2, 2 s x 4: skipped, {reason}." in text
    assert text.count(reason) == 1


def test_an_unstable_figure_is_marked_in_its_place() -> None:
    text = render(results(ok(1, 1, 0.1), unstable(2, 1, 0.1234, 0.18, other_processes=1.5)))
    rows = table(text, "Real-time factor")
    assert rows[1][1] == "0.100"
    assert rows[2][1] == "0.12 ~18%"
    assert table(text, "Latency of one call")[2][1].endswith("~18%")
    assert "~ marks an unstable figure: its 95 % CI is wider than wanted" in text


def test_a_figure_of_too_few_rounds_is_marked_without_a_width() -> None:
    cell = unstable(1, 1, 0.1234, 0.18, too_few_rounds=3)
    assert cell.latency_s is not None
    cell.latency_s.ci95 = None
    text = render(results(cell))
    assert table(text, "Real-time factor")[1][1] == "0.123 ~"
    assert "- 1 of 1 cells: 3 rounds: too few for a 95 % CI, which takes 6 (measure.rounds)." in text


def test_what_disturbed_several_cells_is_said_once_with_the_worst_figure() -> None:
    text = render(
        results(
            ok(1, 1, 0.1),
            unstable(2, 1, 0.1, 0.18, other_processes=0.4),
            unstable(4, 1, 0.1, 0.18, other_processes=1.5, stolen=0.3),
            absent(8, 1, "failed", "it died"),
        )
    )
    said = [line for line in text.splitlines() if line.startswith("- ") and "cells:" in line]
    assert said == [
        "- 2 of 3 cells: other processes used up to 1.5 CPUs meanwhile.",
        "- 1 of 3 cells: the hypervisor took up to 0.30 CPUs away (steal).",
    ]


def test_stable_figures_are_not_marked() -> None:
    assert "~" not in render(results(ok(1, 1, 0.1)))


def test_a_stable_figure_that_is_too_good_is_remarked_on() -> None:
    cell = ok(1, 1, 0.1)
    cell.disturbances = {"caching": 0.3}
    text = render(results(cell, ok(2, 1, 0.1)))
    assert "- 1 of 2 cells: a repeated input took 30% of the time of a new one" in text
    assert "~" not in text


def test_every_title_names_model_variant_and_weights() -> None:
    tables = build_tables(results(ok(1, 1, 0.1), ok(2, 1, 0.1)))
    assert tables
    assert all("a/b, float32, random weights" in made.title for made in tables)
    assert messages.RANDOM_WEIGHTS in render(results(ok(1, 1, 0.1)))


def test_pretrained_weights_are_named_too() -> None:
    text = render(results(ok(1, 1, 0.1), weights="pretrained"))
    assert "pretrained weights" in text
    assert "random weights" not in text.lower()


def test_weights_that_were_never_loaded_are_not_named() -> None:
    made = results(absent(1, 1, "failed", "no such model"))
    made.models[0].weights = None
    assert build_tables(made)[0].title.endswith("- a/b, float32")


def two_variants(second: CellResult) -> Results:
    made = results(ok(1, 1, 0.1), second.model_copy(update={"variant": "int8"}))
    made.models.append(made.models[0].model_copy(update={"variant": "int8"}))
    return made


def test_variants_stand_side_by_side_with_the_ratio_to_the_first() -> None:
    text = render(two_variants(ok(1, 1, 0.05)))
    assert table(text, "Real-time factor") == [
        ["audio x batch", "float32", "int8"],
        ["1 s x 1", "0.100", "0.0500 (x0.50)"],
    ]
    assert "a/b, 2 variants, random weights" in text


def test_a_variant_that_is_not_supported_says_so_in_its_place() -> None:
    text = render(two_variants(absent(1, 1, "skipped", "variant not supported: nothing was converted")))
    assert table(text, "Real-time factor")[1] == ["1 s x 1", "0.100", "skipped"]
    assert "- int8 1 s x 1: skipped, variant not supported: nothing was converted." in text


def test_a_first_variant_without_figures_leaves_no_ratio() -> None:
    made = results(absent(1, 1, "failed", "out of memory"), ok(1, 1, 0.05).model_copy(update={"variant": "int8"}))
    assert table(render(made), "Real-time factor")[1] == ["1 s x 1", "failed", "0.0500"]


def test_memory_is_in_decimal_units() -> None:
    text = render(results(ok(1, 1, 0.1, memory=1_234_567_890)))
    assert table(text, "Peak memory of the process, in MB")[1][1] == "1,230"
    assert table(text, "Peak memory of the call's tensors, in MB")[1][1] == "12.3"


def test_latency_is_in_milliseconds() -> None:
    assert table(render(results(ok(2, 4, 0.1))), "Latency of one call, in ms")[1][1] == "800"


def test_what_a_further_second_costs() -> None:
    """A fixed 10 ms and 100 ms a second."""
    cells = [ok(seconds, 1, (0.01 + 0.1 * seconds) / seconds) for seconds in (1, 2, 4, 8)]
    rows = table(render(results(*cells)), "What a call costs over its length, in ms")
    assert rows[1] == ["1", "10.0", "100", "not seen"]


def test_where_the_quadratic_part_sets_in() -> None:
    cells = [ok(seconds, 1, (0.1 * seconds + 0.001 * seconds**2) / seconds) for seconds in (1, 5, 10, 20)]
    rows = table(render(results(*cells)), "What a call costs over its length")
    assert rows[1][3] == "from 10 s"


def test_too_few_lengths_for_a_quadratic_part_are_said_to_be() -> None:
    rows = table(render(results(ok(1, 1, 0.1), ok(2, 1, 0.1))), "What a call costs over its length")
    assert rows[1][3] == "too few lengths"


def test_a_fit_over_unstable_cells_says_so_and_no_slope_is_not_a_cost_of_nothing() -> None:
    cells = [ok(seconds, 1, 0.1 / seconds) for seconds in (1, 2, 4)]
    text = render(results(*cells))
    assert table(text, "What a call costs over its length")[1][:3] == ["1", "100", "not seen"]
    assert "fitted over unstable figures" not in text
    cells[1].verdict = "unstable"
    text = render(results(*cells))
    assert table(text, "What a call costs over its length")[1][0] == "1 ~"
    assert "~: fitted over unstable figures" in text


def test_an_error_of_a_library_comes_with_what_to_do() -> None:
    cells = [ok(1, 1, 0.1), ok(2, 1, 0.1)]
    cells[1].status, cells[1].reason = "failed", "ValueError: the library does not like it"
    assert "worker.log in the run's folder has all of it" in render(results(*cells))
    cells[1].reason = "out of memory"
    assert "worker.log" not in render(results(*cells))


def test_padding_is_told() -> None:
    cells = [ok(1, 2, 0.1), ok(2, 2, 0.1)]
    cells[0].input.share_of_padding, cells[1].input.share_of_padding = 0.1, 0.25
    assert "Padding: 10% to 25% of a batch; RTF counts real audio only." in render(results(*cells))


def test_the_small_print_says_how_it_was_measured() -> None:
    text = render(results(ok(1, 1, 0.1)))
    assert "Run 20260101-120000-aaaa, complete. Some CPU, 4 threads, Linux, torch 2.13." in text
    assert "Timed: waveforms in memory to text. RTF = wall seconds / (batch size x seconds of audio)." in text
    assert "Audio: speech.flac." in text
    assert "- The machine is busy." in text


def test_every_table_is_a_whole_markdown_table() -> None:
    text = render(
        results(
            ok(1, 1, 0.1),
            unstable(1, 2, 0.2, 0.1, other_processes=1.5),
            absent(2, 1, "failed", "RuntimeError: x | y"),
            absent(2, 2, "skipped", "z"),
            ok(4, 1, 0.3),
        )
    )
    blocks = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
    assert len(blocks) == len(build_tables(results(ok(1, 1, 0.1), ok(2, 1, 0.1), ok(3, 1, 0.1))))
    for block in blocks:
        assert len({line.count("|") for line in block}) == 1
        assert len({len(line) for line in block}) == 1  # aligned for the terminal
        assert set(block[1]) <= set("|-:")


def test_a_table_stands_apart_from_the_text_around_it() -> None:
    lines = render(
        results(ok(1, 1, 0.1), unstable(2, 1, 0.2, 0.1, other_processes=1.5), absent(2, 2, "failed", "x"))
    ).splitlines()
    borders = [pair for pair in itertools.pairwise(lines) if pair[0].startswith("|") != pair[1].startswith("|")]
    assert len(borders) >= 6
    assert [pair for pair in borders if "" not in pair] == []


def test_tables_md_has_the_text_of_the_terminal(tmp_path: Path) -> None:
    made = results(ok(1, 1, 0.1), unstable(2, 1, 0.2, 0.1, other_processes=1.5))
    assert markdown.write(made, tmp_path) == tmp_path / "tables.md"
    assert (tmp_path / "tables.md").read_text() == render(made)


@pytest.mark.parametrize("cells", [(), (absent(1, 1, "failed", "no weights"),), (absent(1, 1, "skipped", "too long"),)])
def test_a_run_without_any_figure_still_renders(cells: tuple[CellResult, ...]) -> None:
    assert "Run 20260101-120000-aaaa" in render(results(*cells))
