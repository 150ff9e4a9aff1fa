"""One figure has one name, one unit and one text, whichever view shows it."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from markupsafe import escape

import profiler
from profiler.comparison.compare import compare_results
from profiler.history import HistoryQuery, make_series
from profiler.metrics import GRIDS, METRICS, find_metric
from profiler.report import html, markdown, rows
from profiler.report.comparison import render_terminal
from profiler.report.history import history_tables, history_title
from profiler.report.machines import machine_tables
from profiler.report.plots import draw_plots
from profiler.report.plots.history import draw_history
from profiler.report.progress import describe
from profiler.report.summary import summary
from profiler.report.table import Table
from profiler.report.tables import build_tables
from profiler.results.metric import Metric
from profiler.results.types import CellResult, Results
from profiler.tensorboard_plugin.overview import all_tables, overview
from tests.helpers.synthetic import save
from tests.unit.report.runs import full
from tests.unit.report.test_plots import texts

# The figures of two cells: in results.json, and as every view writes them. One cell is small and unstable, one large
# and stable: their units are the same all the same.
CELLS = {
    (2.0, 1): {
        "rtf": (0.1234, "0.12", "~18%"),
        "latency": (0.2468, "250", "~18%"),
        "memory": (798_123_000, "798", ""),
        "tensors": (12_345_678, "12.3", ""),
        "energy": (1.234, "1.23", ""),
        "macs": (6_940_000_000, "6.94", ""),
    },
    (5.0, 1): {
        "rtf": (0.3, "0.300", ""),
        "latency": (1.5, "1,500", ""),
        "memory": (1_798_123_000, "1,800", ""),
        "tensors": (1_234_567_890, "1,230", ""),
        "energy": (12.34, "12.3", ""),
        "macs": (34_700_000_000, "34.7", ""),
    },
}
UNIT = {"rtf": "", "latency": "ms", "memory": "MB", "tensors": "MB", "energy": "J", "macs": "GMAC"}
GRID = ("rtf", "latency", "memory", "tensors")
SIZE, PARAMETERS = "3.77 MB", "943,960"


def run(name: str = "one", *variants: str) -> Results:
    """Every variant has both cells, with the same figures."""
    made = full(*variants)
    made.run.id, made.run.recipe, made.run.started = name, "recipes/a.yaml", "2026-01-01T00:00:00+00:00"
    made.cells = [cell for cell in made.cells if (cell.seconds, cell.batch_size) in CELLS]
    for model in made.models:
        model.size_bytes.total, model.parameters.total = 3_774_000, 943_960
    for cell in made.cells:
        _fill(cell)
    return made


def _fill(cell: CellResult) -> None:
    known = {key: value for key, (value, _, _) in CELLS[cell.seconds, cell.batch_size].items()}
    latency, memory = cell.latency_s, cell.peak_memory_bytes
    assert latency
    assert memory
    assert cell.operations
    assert cell.energy_j
    cell.rtf, cell.rtfx, latency.median = known["rtf"], 1 / known["rtf"], known["latency"]
    half = 0.18 if cell.seconds == 2 else 0.001
    cell.verdict = "unstable" if cell.seconds == 2 else "stable"
    latency.ci95 = (latency.median * (1 - half), latency.median * (1 + half))
    latency.mean, latency.min = 9.0, 8.0  # what no view may take for the latency
    latency.percentiles = {"p50": 7.0}
    latency.samples = [latency.median] * 10
    memory.process, memory.tensors = int(known["memory"]), int(known["tensors"])
    cell.energy_j.per_call, cell.operations.macs = known["energy"], int(known["macs"])


def number(place: tuple[float, int], key: str) -> str:
    """'250 ~18%': in a table whose title has the unit."""
    _, text, mark = CELLS[place][key]
    return f"{text} {mark}".strip()


def text(place: tuple[float, int], key: str) -> str:
    """'250 ms ~18%'."""
    _, written, mark = CELLS[place][key]
    return " ".join(part for part in (written, UNIT[key], mark) if part)


def grid(tables: list[Table], metric: Metric) -> dict[str, list[str]]:
    """First column -> what stands beside it, in the one table of this metric."""
    (found,) = [table for table in tables if table.title.startswith(f"{metric.heading} - ")]
    return {row[0]: row[1:] for row in found.rows}


@pytest.mark.parametrize("key", GRID)
def test_every_grid_of_a_report_shows_the_same(key: str) -> None:
    metric = METRICS[key]
    assert metric.heading.endswith(f", in {UNIT[key]}" if UNIT[key] else "real time)")
    one, two, machines = build_tables(run()), build_tables(run("one", "float32", "int8")), machine_tables([run()], GRID)
    tab = [Table(each["title"], each["header"], each["rows"]) for each in all_tables(run())]
    for place in CELLS:
        seconds, batch = f"{place[0]:g} s", place[1]
        expected = number(place, key)
        for tables in (one, machines, tab):
            assert grid(tables, metric)[seconds] == [expected]
        assert grid(two, metric)[f"{seconds} x {batch}"] == [expected, f"{expected} (x1.0)"]
        row = rf"\|\s+{re.escape(seconds)} \|\s+{re.escape(expected)} \|"
        shown = markdown.render(run()).split(f"**{metric.heading} - ")[1].split("\n\n")[1]
        assert re.search(row, shown)
        page = html.render(run(), {}).split(f">{escape(metric.heading)}</h")[1].split("</table>")[0]
        assert re.sub(r"<[^>]*>", "", re.findall(f">{seconds}</th>(<td.*?</td>)", page)[0]) == expected


@pytest.mark.parametrize("place", CELLS)
def test_sentences_and_the_tab_show_the_same(place: tuple[float, int]) -> None:
    made = run()
    cell = made.cell("float32", *place)
    assert cell is not None
    said = describe(cell, 0)
    assert said == (
        f"float32 {cell.place}: RTF {text(place, 'rtf')}, {text(place, 'latency')} per call (10 calls), "
        f"{text(place, 'memory')}"
    )
    assert f"{text(place, 'rtf')} ({cell.place})" in summary(made)
    assert text(place, "memory") in summary(made)
    shown = overview(made)
    (view,) = [one for one in shown["variants"][0]["cells"] if one["label"] == cell.label]
    assert {grid["key"]: grid["title"] for grid in shown["grids"]} == {key: METRICS[key].heading for key in GRID}
    for key in GRID:
        assert view["figures"][key] == {"value": CELLS[place][key][0], "text": number(place, key)}
    for key in (*GRID, "macs"):
        assert [METRICS[key].title, text(place, key)] in view["facts"]
    assert shown["variants"][0]["model"]["about"] == [f"{PARAMETERS} parameters", SIZE]
    assert "7.0" not in json.dumps(view), "the median of all calls is not the latency"


def test_the_summary_names_the_latency_of_the_smallest_cell() -> None:
    assert f"one call of 2 s x 1 takes {text((2.0, 1), 'latency')};" in summary(run())


@pytest.mark.parametrize("place", CELLS)
def test_csv_data_frame_and_results_have_the_same_values(place: tuple[float, int], tmp_path: Path) -> None:
    read = list(csv.DictReader(io.StringIO(rows.render(run()))))
    frame = profiler.load_run(save(run(), tmp_path)).frame().to_dict("records")
    for found in (read, frame):
        (row,) = [row for row in found if float(row["audio_s"]) == place[0]]
        for key, (value, _, _) in CELLS[place].items():
            assert float(row[METRICS[key].column]) == pytest.approx(value)
        assert (int(row["size_bytes"]), int(row["parameters"])) == (3_774_000, 943_960)
    assert not [name for name in read[0] if "p50" in name], "a second median"


@pytest.mark.parametrize("place", CELLS)
@pytest.mark.parametrize("key", [*GRID, "energy"])
def test_history_and_its_plot_show_the_same(place: tuple[float, int], key: str, tmp_path: Path) -> None:
    asked = HistoryQuery(find_metric(key), place)
    series, _ = make_series([run()], asked)
    title = history_title("a", asked)
    (table,) = history_tables(title, series, asked)
    value, written, _ = CELLS[place][key]
    shown = table.rows[0][table.header.index(key)]
    assert re.sub(r" ±.*", "", shown) == f"{written} {UNIT[key]}".strip()
    assert ("±" in shown) == (key in ("rtf", "latency"))
    assert series[0].points[0].value == value
    draw_history(series, asked, title, tmp_path / "plot")
    axis = ", ".join(part for part in (METRICS[key].title, UNIT[key]) if part)
    assert axis in texts(tmp_path / "plot.svg")


def test_compare_and_its_frame_show_the_same() -> None:
    other = run("two")
    for cell in other.cells:
        assert cell.peak_memory_bytes
        assert cell.energy_j
        cell.peak_memory_bytes.process, cell.peak_memory_bytes.tensors = 500_000_000, 5_000_000
        cell.energy_j.per_call = 5.0
    for model in other.models:
        model.size_bytes.total, model.parameters.total = 1_000_000, 1_000
    compared = compare_results([run(), other])
    shown = render_terminal(compared)
    for place in CELLS:
        latency = f"{CELLS[place]['latency'][1]} ms"
        row = next(line for line in shown.splitlines() if f" {place[0]:g} s x {place[1]} " in line)
        assert re.findall(r"([\d,.]+ ms) ±", row) == [latency, latency]
        for key, after in (("memory", "500 MB"), ("tensors", "5.00 MB"), ("energy", "5.00 J")):
            assert f"{CELLS[place][key][1]} {UNIT[key]} to {after} (x" in shown
    assert f"{SIZE} to 1.00 MB" in shown
    assert f"{PARAMETERS} to 1,000" in shown
    for key in ("memory", "tensors", "energy"):
        assert f" {METRICS[key].title} |" in shown
    frame = compared.frame()
    assert list(frame["latency_median_s"]) == [values["latency"][0] for values in CELLS.values()]


def test_plots_have_the_same_units(tmp_path: Path) -> None:
    drawn = {plot.path.name: plot for plot in draw_plots(run(), tmp_path)}
    for key, label in {"rtfx": "RTFx", "latency": "latency, ms", "memory": "peak memory, MB"}.items():
        assert METRICS[key].head == label
        assert label in texts(tmp_path / f"{key}.svg")
        assert drawn[key].caption.title == f"{METRICS[key].title} over the length of the audio"


def test_keys_titles_and_columns_are_given_once() -> None:
    for names in (
        [metric.title for metric in GRIDS],
        [metric.column for metric in METRICS.values() if metric.column],
    ):
        assert len(names) == len(set(names))
    for metric in METRICS.values():
        assert (metric.of_cell is None) != (metric.of_variant is None)
        assert metric.shown.name in metric.axis


def test_a_metric_can_be_made_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the file of a pass does: a line is all that tables, history and the CSV need."""
    mine = Metric("waits", "Waits of one call", "waits", "s", "waits_s", lambda cell: 0.00123)
    monkeypatch.setitem(METRICS, mine.key, mine)
    cell = run().cells[0]
    assert (mine.head, mine.heading, mine.cell_text(cell)) == ("waits, ms", "Waits of one call, in ms", "1.23 ms")
    asked = HistoryQuery(find_metric("waits"), (2.0, 1))
    (table,) = history_tables("waits", make_series([run()], asked)[0], asked)
    assert "1.23 ms" in table.rows[0]


def test_metrics_are_light_to_import() -> None:
    code = "import sys, profiler.metrics; print([name for name in ('torch', 'numpy') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_table_of_a_pass_has_the_heads_and_digits_of_its_metrics() -> None:
    found = {table.title.split(" - ")[0]: table for table in build_tables(run())}
    energy, operations = found["Energy"], found["Operations"]
    assert energy.header[:2] == ["audio x batch", METRICS["energy"].head]
    assert operations.header[:2] == ["audio x batch", "GMAC per call"]
    for place in CELLS:
        name = f"{place[0]:g} s x {place[1]}"
        for table, key in ((energy, "energy"), (operations, "macs")):
            assert next(row for row in table.rows if row[0] == name)[1] == CELLS[place][key][1]
