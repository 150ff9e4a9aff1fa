"""Plots of a run: labelled, with units, each saying what it is of; drawn only where there is something to draw."""

from __future__ import annotations

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
    rtf,
    throughput,
    tradeoff,
    variants,
)
from profiler.report.plots.inline import inline_svg
from profiler.results.types import Phase, StepFigures
from tests.unit.report.runs import full
from tests.unit.report.test_tables import absent, ok, results, unstable

SVG = "{http://www.w3.org/2000/svg}"


def texts(path: Path) -> list[str]:
    """All that is written in a plot."""
    return ["".join(text.itertext()).strip() for text in ElementTree.parse(path).iter(f"{SVG}text")]


def test_a_run_with_everything_has_every_plot_in_both_formats(tmp_path: Path) -> None:
    drawn = draw_plots(full("float32", "int8"), tmp_path)
    # Random weights have no error rate to trade off.
    assert [path.name for path in drawn] == [plot.NAME for plot in PLOTS if plot not in (tradeoff, phases)]
    for path in drawn:
        with Image.open(path.with_suffix(".png")) as picture:
            assert picture.width == 960
        assert any("a/b, 2 variants, random weights" in text for text in texts(path.with_suffix(".svg"))), path.name


def test_pretrained_weights_are_not_called_random(tmp_path: Path) -> None:
    drawn = draw_plots(full("float32", "int8", weights="pretrained"), tmp_path)
    assert len(drawn) >= 5
    for path in drawn:
        said = " ".join(texts(path.with_suffix(".svg")))
        assert "pretrained weights" in said
        assert "random" not in said


def test_real_time_factor_has_a_curve_for_each_batch_size_and_the_line_of_real_time(tmp_path: Path) -> None:
    rtf.draw(full(), tmp_path)
    said = texts(tmp_path / "rtf.svg")
    for text in ("batch 1", "batch 4", "real time", "audio, s", "RTF", "1", "2", "5"):
        assert text in said
    assert any("95 % CI" in text for text in said)
    assert not any("hollow" in text for text in said)


def test_an_unstable_figure_is_a_hollow_mark(tmp_path: Path) -> None:
    rtf.draw(results(ok(1, 1, 0.1), unstable(2, 1, 0.1, 0.3, other_processes=1.5)), tmp_path)
    assert any("hollow: unstable" in text for text in texts(tmp_path / "rtf.svg"))


def test_latency_and_throughput_name_their_units(tmp_path: Path) -> None:
    latency.draw(full(), tmp_path)
    throughput.draw(full(), tmp_path)
    assert {"latency, ms", "audio, s"} <= set(texts(tmp_path / "latency.svg"))
    assert {"RTFx", "batch size", "1 s", "5 s"} <= set(texts(tmp_path / "throughput.svg"))


def test_several_variants_have_a_panel_for_each_batch_size(tmp_path: Path) -> None:
    rtf.draw(full("float32", "int8"), tmp_path)
    said = texts(tmp_path / "rtf.svg")
    assert [text for text in said if text.startswith("batch")] == ["batch 1", "batch 4"]
    assert said.count("real time") == 2
    assert {"float32", "int8"} <= set(said)


def test_memory_shows_the_fit_and_what_the_machine_has(tmp_path: Path) -> None:
    memory.draw(full(), tmp_path)
    said = texts(tmp_path / "memory.svg")
    assert "this machine: 8.00 GB" in said
    assert "peak memory, MB" in said
    assert any("lines: a fit" in text for text in said)


def test_the_breakdown_has_a_bar_a_label_with_its_share(tmp_path: Path) -> None:
    breakdown.draw(full(), tmp_path)
    said = texts(tmp_path / "breakdown.svg")
    assert {"front end", "30.0%", "encoder", "60.0%", "(rest)", "10.0%", "self time, ms per call"} <= set(said)
    assert "(whole call)" not in said
    assert any("5 s x 4" in text for text in said), "of the largest cell"


def test_variants_stand_side_by_side(tmp_path: Path) -> None:
    variants.draw(full("float32", "int8"), tmp_path)
    said = texts(tmp_path / "variants.svg")
    assert {"int8", "latency", "peak memory", "size", "energy", "times the figure of float32"} <= set(said)


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


def test_a_plot_of_very_many_curves_shows_some_of_them(tmp_path: Path) -> None:
    cells = [ok(1 + number, batch, 0.1) for number in range(100) for batch in (1, 2)]
    throughput.draw(results(*cells), tmp_path)
    said = texts(tmp_path / "throughput.svg")
    assert any("14 of 100 durations" in text for text in said)
    assert {"1 s", "100 s"} <= set(said)
    assert "2 s" not in said


def test_the_same_results_give_the_same_file(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        rtf.draw(full(), tmp_path / folder)
    assert (tmp_path / "a/rtf.svg").read_bytes() == (tmp_path / "b/rtf.svg").read_bytes()


def test_odd_names_stay_as_they_are(tmp_path: Path) -> None:
    odd = 'a/<b>&"$x^2$'
    drawn = draw_plots(full("float32", "int8", source=odd), tmp_path)
    assert len(drawn) >= 5
    for path in drawn:
        assert any(odd in text for text in texts(path.with_suffix(".svg")))


def test_a_plot_in_a_page_follows_its_colours_and_shares_no_id(tmp_path: Path) -> None:
    rtf.draw(full(), tmp_path)
    inlined = inline_svg(tmp_path / "rtf.svg", "Real-time factor")
    assert inlined.startswith("<svg")
    assert "#0072b2" not in inlined
    assert "var(--blue)" in inlined
    assert "http" not in inlined
    element = ElementTree.fromstring(inlined)
    ids = [found.get("id", "rtf-") for found in element.iter()]
    assert all(name.startswith("rtf-") for name in ids)
    assert element.get("aria-label") == "Real-time factor"
