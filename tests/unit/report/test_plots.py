"""Plots of a run: labelled, with units, as wide as a paper's column; drawn only where there is something to draw."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from profiler.report.plots import (
    PLOTS,
    breakdown,
    draw_plots,
    latency,
    memory,
    phases,
    roofline,
    rtfx,
    serving,
    throughput,
    tradeoff,
    variants,
)
from profiler.report.plots.inline import inline_svg
from profiler.report.plots.style import COLUMN, PAGE
from profiler.results.types import Phase, StepFigures
from tests.unit.report.runs import full
from tests.unit.report.test_tables import absent, ok, results, unstable

SVG = "{http://www.w3.org/2000/svg}"


def texts(path: Path) -> list[str]:
    """All that is written in a plot."""
    return ["".join(text.itertext()).strip() for text in ElementTree.parse(path).iter(f"{SVG}text")]


def sizes(path: Path) -> list[float]:
    """Of all texts, in points."""
    return [float(size) for size in re.findall(r"font-size: ([\d.]+)px", path.read_text())]


def test_a_run_with_everything_has_every_plot_in_three_formats(tmp_path: Path) -> None:
    drawn = draw_plots(full("float32", "int8"), tmp_path)
    # Random weights have no error rate to trade off; training and serving have plots of their own.
    others = (tradeoff, phases, serving)
    assert [plot.path.name for plot in drawn] == [plot.NAME for plot in PLOTS if plot not in others]
    for plot in drawn:
        png, svg, pdf = plot.files
        with Image.open(png) as picture:
            inches = picture.width / picture.info["dpi"][0]
        assert inches == pytest.approx(PAGE if plot.wide else COLUMN, abs=0.01)
        written = pdf.read_bytes()
        assert b"/FontFile2" in written, "TrueType, embedded"
        assert b"/Type3" not in written, "which conferences refuse"
        assert min(sizes(svg)) >= 7, "points, in print"
        assert plot.caption.note.startswith("a/b, 2 variants, random weights")


def test_a_plot_has_no_title_but_where_one_is_wanted(tmp_path: Path) -> None:
    """What it shows is in the file all the same, and random weights are told in any case."""
    for wanted in (False, True):
        (plot, *_) = draw_plots(full(), tmp_path, titled=wanted)
        said, caption = " ".join(texts(tmp_path / "rtfx.svg")), "Seconds of audio per second over the length"
        assert (caption in said) is wanted
        assert ("a/b, float32" in said) is wanted
        assert "random weights" in said
        assert caption in (tmp_path / "rtfx.svg").read_text()
        assert plot.caption.text.startswith(caption)


def test_pretrained_weights_are_not_called_random(tmp_path: Path) -> None:
    drawn = draw_plots(full("float32", "int8", weights="pretrained"), tmp_path, titled=True)
    assert len(drawn) >= 5
    for plot in drawn:
        said = " ".join(texts(plot.path.with_suffix(".svg")))
        assert "pretrained weights" in said
        assert "random" not in said


def axis(path: Path, first: str) -> list[float]:
    """The numbers at the ticks of an axis."""
    element = next(found for found in ElementTree.parse(path).iter(f"{SVG}g") if found.get("id") == first)
    said = ["".join(text.itertext()).strip() for text in element.iter(f"{SVG}text")]
    return [float(text.replace(",", "")) for text in said if re.fullmatch(r"[\d.,]+", text)]


def test_rtfx_has_a_curve_for_each_batch_size_and_the_line_of_real_time(tmp_path: Path) -> None:
    made = full()
    (plot,) = rtfx.draw(made, tmp_path)
    said = texts(tmp_path / "rtfx.svg")
    for text in ("batch 1", "batch 4", "real time", "audio, s", "RTFx", "1", "2", "5"):
        assert text in said
    assert "95 % CI" in plot.caption.note
    assert "unstable" not in said
    ticks = axis(tmp_path / "rtfx.svg", "matplotlib.axis_2")
    steps = {round(high - low, 6) for low, high in pairwise(ticks)}
    assert ticks[0] == 0
    assert len(steps) == 1, "a linear axis"


def test_an_unstable_figure_is_a_hollow_mark(tmp_path: Path) -> None:
    rtfx.draw(results(ok(1, 1, 0.1), unstable(2, 1, 0.1, 0.3, other_processes=1.5)), tmp_path)
    assert "unstable" in texts(tmp_path / "rtfx.svg")


def test_an_interval_that_leaves_its_figure_out_is_drawn_as_far_as_it_goes(tmp_path: Path) -> None:
    made = full()
    assert made.cells[0].latency_s
    made.cells[0].latency_s.ci95 = (1.0, 2.0)  # of 0.1 s: results may come from anybody
    assert rtfx.draw(made, tmp_path)


def test_latency_and_throughput_name_their_units(tmp_path: Path) -> None:
    latency.draw(full(), tmp_path)
    throughput.draw(full(), tmp_path)
    assert {"latency, ms", "audio, s"} <= set(texts(tmp_path / "latency.svg"))
    assert {"RTFx", "batch size", "1 s", "5 s"} <= set(texts(tmp_path / "throughput.svg"))


def test_several_variants_have_a_panel_for_each_batch_size(tmp_path: Path) -> None:
    rtfx.draw(full("float32", "int8"), tmp_path)
    said = texts(tmp_path / "rtfx.svg")
    assert [text for text in said if text.startswith("batch")] == ["batch 1", "batch 4"]
    assert {"float32", "int8"} <= set(said)


def test_memory_shows_the_fit_and_what_the_machine_has(tmp_path: Path) -> None:
    (plot,) = memory.draw(full(), tmp_path)
    said = texts(tmp_path / "memory.svg")
    assert "this machine: 8.00 GB" in said
    assert "peak memory, MB" in said
    assert "lines: a fit" in plot.caption.note


def test_the_breakdown_has_a_bar_a_label_with_its_share(tmp_path: Path) -> None:
    (plot,) = breakdown.draw(full(), tmp_path)
    said = texts(tmp_path / "breakdown.svg")
    assert {"front end", "30.0%", "encoder", "60.0%", "(rest)", "10.0%", "self time, ms per call"} <= set(said)
    assert "(whole call)" not in said
    assert "5 s x 4" in plot.caption.note, "of the largest cell"


def test_variants_stand_side_by_side_with_intervals_and_hollow_marks(tmp_path: Path) -> None:
    made = full("float32", "int8")
    (plot,) = variants.draw(made, tmp_path)
    said = texts(tmp_path / "variants.svg")
    assert {"int8", "latency", "peak memory", "size", "energy", "times the figure of float32"} <= set(said)
    assert "unstable" not in said
    # 6 cells of +-2 % on both sides: sqrt(2) * 2 % / sqrt(6) = 1.2 %
    assert "int8: latency x0.50, 95 % CI x0.49 to x0.51, over 6 cells" in [
        tip for tips in plot.tips.values() for tip in tips
    ]
    made.cells[-1].verdict = "unstable"
    variants.draw(made, tmp_path)
    assert "unstable" in texts(tmp_path / "variants.svg")


def test_variants_with_a_baseline_of_their_own_are_relative_to_that(tmp_path: Path) -> None:
    made = full("float32", "bfloat16", "int8", "int8-compiled")
    made.models[3].baseline = "int8"
    (plot,) = variants.draw(made, tmp_path)
    assert plot.caption.title == (
        "Cost of each variant relative to its baseline: float32 (bfloat16, int8); int8 (int8-compiled)"
    )
    assert "times the figure of its baseline" in texts(tmp_path / "variants.svg")
    tips = [tip for tips in plot.tips.values() for tip in tips]
    assert any(tip.startswith("int8-compiled: latency x0.50") for tip in tips), "half of int8, an eighth of float32"


def test_points_of_the_roofline_are_named(tmp_path: Path) -> None:
    (plot,) = roofline.draw(full(), tmp_path)
    named = [text for text in texts(tmp_path / "roofline.svg") if re.fullmatch(r"\d s x \d", text)]
    assert len(named) >= 3
    assert len(named) == len(set(named))
    assert len([tip for tips in plot.tips.values() for tip in tips]) == 6, "those without room say it in the page"


def test_training_steps_have_a_bar_a_cell_made_of_their_phases(tmp_path: Path) -> None:
    made = full()
    for cell in made.cells:
        shares = {"forward": 0.3, "loss": 0.1, "backward": 0.5, "optimizer": 0.1}
        cell.training = StepFigures(
            phases={name: Phase(median_s=share * cell.seconds) for name, share in shares.items()}
        )
    phases.draw(made, tmp_path)
    said = texts(tmp_path / "phases.svg")
    assert {"forward", "loss", "backward", "optimizer", "5 s x 4", "50%", "ms per step"} <= set(said)
    assert any("random weights" in text for text in said)


@pytest.mark.parametrize(
    "cells",
    [(), (absent(1, 1, "failed", "x"), absent(2, 1, "skipped", "y")), (ok(1, 1, 0.1),)],
    ids=["none", "no figure", "one"],
)
def test_where_there_is_nothing_to_draw_nothing_is_drawn(tmp_path: Path, cells: tuple[object, ...]) -> None:
    assert draw_plots(results(*cells), tmp_path) == {}  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("durations", "panels"), [(6, 1), (7, 7), (100, 12)])
def test_many_curves_become_small_multiples(tmp_path: Path, durations: int, panels: int) -> None:
    cells = [ok(1 + number, batch, 0.1) for number in range(durations) for batch in (1, 2)]
    (plot,) = throughput.draw(results(*cells), tmp_path)
    assert len(plot.axes) == panels
    said = texts(tmp_path / "throughput.svg")
    assert {"1 s", f"{durations} s"} <= set(said)
    assert ("12 of 100 durations" in plot.caption.note) is (durations == 100)


def test_many_variants_have_a_panel_each(tmp_path: Path) -> None:
    made = full(*(f"v{number}" for number in range(8)))
    for each in (rtfx, roofline):
        (plot,) = each.draw(made, tmp_path)
        assert len(plot.axes) == 8
        assert {"v0", "v7"} <= set(texts(plot.path.with_suffix(".svg")))


def test_the_same_results_give_the_same_files(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        rtfx.draw(full(), tmp_path / folder)
    for suffix in (".svg", ".pdf"):
        assert (tmp_path / f"a/rtfx{suffix}").read_bytes() == (tmp_path / f"b/rtfx{suffix}").read_bytes()


def test_odd_names_stay_as_they_are(tmp_path: Path) -> None:
    odd = 'a/<b>&"$x^2$'
    drawn = draw_plots(full("float32", "int8", source=odd), tmp_path, titled=True)
    assert len(drawn) >= 5
    for plot in drawn:
        assert any(odd in text for text in texts(plot.path.with_suffix(".svg")))


def test_a_plot_in_a_page_follows_its_colours_and_shares_no_id(tmp_path: Path) -> None:
    (plot,) = rtfx.draw(full(), tmp_path)
    inlined = inline_svg(plot, "RTFx")
    assert inlined.startswith("<svg")
    assert "#0072b2" not in inlined
    assert "var(--blue)" in inlined
    assert "http" not in inlined
    element = ElementTree.fromstring(inlined)
    ids = [found.get("id", "rtfx-") for found in element.iter()]
    assert all(name.startswith("rtfx-") for name in ids)
    assert element.get("aria-label") == "RTFx"
    tips = [found.get("data-tip", "") for found in element.iter() if found.get("data-tip")]
    assert "1 s x 1: RTFx 10.0, 95 % CI 9.80 to 10.2, 10 rounds, stable" in tips
    assert len(tips) == 6


def test_what_a_mark_says_is_text(tmp_path: Path) -> None:
    (plot,) = rtfx.draw(full(), tmp_path)
    plot.tips["marks-0"][0] = '"><script>alert(1)</script>'
    assert "<script" not in inline_svg(plot, '"><script>')
