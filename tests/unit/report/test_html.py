"""report.html: the whole run on one page, escaped, and self-contained."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

from profiler.metrics import RTF
from profiler.report import html, opening
from profiler.report.plots import draw_plots
from profiler.report.plots.style import SUFFIXES
from profiler.report.summary import summary
from profiler.report.tables import build_tables
from profiler.results.types import Results
from tests.unit.report.runs import full
from tests.unit.report.test_tables import absent, ok, results, unstable


class Reader(HTMLParser):
    """What a page says, what it is made of, and what it would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.scripts: list[str] = []
        self.policy = ""
        self.text = ""
        self.body = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(str(value))
            if name in ("src", "href", "xlink:href") and not str(value).startswith("#"):
                (self.links if tag == "a" else self.fetched).append(str(value))
            if name == "content" and "default-src" in str(value):
                self.policy = str(value)

    def handle_data(self, data: str) -> None:
        if self.tags[-1:] == ["script"] and data.strip():
            self.scripts.append(data)
        self.text += data
        self.body += data if "body" in self.tags else ""


def read(made: Results, folder: Path) -> Reader:
    reader = Reader()
    reader.feed(html.write(made, folder, draw_plots(made, folder)).read_text(encoding="utf-8"))
    return reader


def test_the_page_has_all_of_it(tmp_path: Path) -> None:
    made = full("float32", "int8")
    page = read(made, tmp_path)
    assert summary(made, named=False) in page.text
    for table in build_tables(made):
        assert table.title.split(" - ")[0] in page.text
        assert all(text in page.text for row in table.rows for text in row)
    assert page.tags.count("svg") == 7
    for said in ("12 stable", "Environment", "Some CPU", "a-host"):
        assert said in re.sub(r"\s+", " ", page.text)
    assert "timed in 10 rounds or more" in page.text
    assert "got more rounds, up to 10 s of timing per cell" in page.text
    assert "random weights" in page.text
    assert len(page.ids) == len(set(page.ids))


def test_the_answer_comes_first(tmp_path: Path) -> None:
    """Key figures, the summary, the grid of RTF, what failed, variants; then plots, then the rest."""
    made = full("float32", "int8")
    made.cells[0].status, made.cells[0].reason, made.cells[0].rtf = "failed", "it died", None
    page = read(made, tmp_path)
    opened = re.sub(r"\s+", " ", page.body)
    order = ["200 ms", "float32 is faster than real time", RTF.heading, "float32 1 s x 1: it died"]
    assert [said for _, said in sorted((opened.index(said), said) for said in order)] == order
    sections = ("answer", "failures", "variants", "plots", "tables", "environment", "measured")
    assert tuple(found for found in page.ids if found in sections) == sections


def test_the_model_is_named_once(tmp_path: Path) -> None:
    for variants in (("float32",), ("float32", "int8")):
        page = read(full(*variants, source="a-model-with-a-name"), tmp_path)
        assert page.body.count("a-model-with-a-name") == 1


def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    made = full()
    made.cells[0].trace = "float32/1s_x1/a b.pt.trace.json.gz"
    page = read(made, tmp_path)
    files = {plot.path.with_suffix(suffix).name for plot in draw_plots(made, tmp_path) for suffix in SUFFIXES}
    assert set(page.links) == files | {"float32/1s_x1/a%20b.pt.trace.json.gz"}
    assert page.fetched == []
    assert not {"link", "iframe", "img"} & set(page.tags)
    assert "url(http" not in page.text
    assert "default-src 'none'" in page.policy


def test_no_script_runs_but_the_page_s_own(tmp_path: Path) -> None:
    page = read(full(), tmp_path)
    (script,) = page.scripts
    hashed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{hashed}';" in page.policy


def test_names_with_odd_characters_are_text_and_not_markup(tmp_path: Path) -> None:
    odd = "<script>alert('&')</script>"
    made = full("float32", "int8", source=odd)
    made.run.notes = [f"note {odd}"]
    made.cells[0].status, made.cells[0].reason = "failed", f"reason {odd}"
    made.cells[1].verdict, made.cells[1].verdict_reasons = "unstable", [f"disturbed {odd}"]
    for label in (part for cell in made.cells if cell.breakdown for part in cell.breakdown.labels[:1]):
        label.name = f'label "{odd}'
    made.environment.cpu = odd
    page = read(made, tmp_path)
    assert page.tags.count("script") == 1
    for said in (odd, f"note {odd}", f"reason {odd}", f"disturbed {odd}", f'label "{odd}'):
        assert said in page.text


def test_unstable_failed_and_skipped_cells_are_marked_and_explained(tmp_path: Path) -> None:
    made = results(
        ok(1, 1, 0.1),
        unstable(2, 1, 0.2, 0.18, other_processes=1.5),
        absent(4, 1, "failed", "it died"),
        absent(8, 1, "skipped", "z"),
    )
    written = html.write(made, tmp_path, {}).read_text()
    marked = '<a class="why" href="#unstable">~18%</a>'
    assert re.search(f'<td class="unstable"><button [^>]*>0.20</button> {marked}</td>', written)
    assert f'<td class="unstable">400 {marked}</td>' in written, "of the latency"
    assert '<td class="failed">failed</td>' in written
    assert '<section id="unstable">' in written
    for said in (
        "1 of 2 cells: other processes used up to 1.5 CPUs",
        "8 s x 1: skipped, z.",
        "<b>4 s x 1</b>: it died",
    ):
        assert said in written
    assert "1 stable, 1 unstable, 1 skipped, 1 failed" in written
    assert "2 s x 1: RTF 0.200, 95 % CI 0.164 to 0.236, 10 rounds, unstable" in written


def test_variants_are_a_matrix_and_stand_part_by_part(tmp_path: Path) -> None:
    made = full("float32", "int8")
    found, whole = opening.matrix(made), opening.parts(made)
    assert found
    assert found.header == ["variant", "latency, ms", "peak memory, MB", "size, MB", "energy, J"]
    assert [(name, [entry.text for entry in row]) for name, row in found.rows] == [
        ("float32", ["x1"] * 4),
        ("int8", ["x0.50", "x1.0", "x0.50", "x0.50"]),
    ]
    assert found.rows[1][1][0].below == "50.0 to 1,000"
    assert whole
    assert whole.header == ["variant", "front end", "encoder", "(rest)"]
    assert [(entry.text, entry.below) for entry in whole.rows[1][1]] == [
        ("300", "30.0%"),
        ("600", "60.0%"),
        ("100", "10.0%"),
    ]
    assert "x0.50 of the first variant's" in whole.rows[1][1][0].tip
    assert opening.matrix(full()) is None
    assert opening.parts(full()) is None


def test_a_run_that_is_not_complete_says_so_first(tmp_path: Path) -> None:
    made = full()
    made.run.status = "interrupted"
    assert "This run is not complete (interrupted)" in read(made, tmp_path).text


def test_a_run_without_cells_still_has_its_page(tmp_path: Path) -> None:
    page = read(results(), tmp_path)
    assert "no figure" in page.text
    assert "No cell was planned or measured." in page.text
    assert "svg" not in page.tags


# --- the summary ---


def test_the_summary_answers_the_three_questions() -> None:
    said = summary(full())
    assert "a/b (1,000,000 parameters, random weights) on Some CPU, 4 threads" in said
    assert "faster than real time in all 6 cells" in said
    assert "one call of 1 s x 1 takes 100 ms" in said
    assert "peak memory 1,010 MB to 1,200 MB" in said
    assert said.endswith("All figures are stable.")


def test_the_summary_of_several_variants_compares_them() -> None:
    assert "Of the time of float32, int8 takes x0.50" in summary(full("float32", "int8"))


def test_the_summary_is_honest_about_what_is_slow_unstable_or_absent() -> None:
    said = summary(
        results(ok(1, 1, 0.5), unstable(2, 1, 2.0, 0.18, other_processes=1.5), absent(4, 1, "failed", "it died"))
    )
    assert "faster than real time in 1 of 2 cells" in said
    assert "2.0 ~18% (2 s x 1)" in said
    assert "1 of 2 figures are stable, 1 unstable (marked ~)" in said
    assert "1 failed of 3 cells" in said
    assert "no figure. 1 failed of 1 cells" in summary(results(absent(1, 1, "failed", "x")))
