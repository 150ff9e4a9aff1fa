"""report.html: the whole run on one page, escaped, and self-contained."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

from profiler.report import html
from profiler.report.plots import draw_plots
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
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(str(value))
            if name in ("src", "href", "xlink:href") and not str(value).startswith("#"):
                self.fetched.append(str(value))

    def handle_data(self, data: str) -> None:
        self.text += data


def read(made: Results, folder: Path) -> Reader:
    reader = Reader()
    reader.feed(html.write(made, folder, draw_plots(made, folder)).read_text(encoding="utf-8"))
    return reader


def test_the_page_has_all_of_it(tmp_path: Path) -> None:
    made = full("float32", "int8")
    page = read(made, tmp_path)
    assert summary(made) in page.text
    for table in build_tables(made):
        assert table.title in page.text
        assert all(text in page.text for row in table.rows for text in row)
    assert page.tags.count("svg") == 7
    for said in ("Verdicts", "12 stable", "Environment", "Some CPU", "a-host"):
        assert said in re.sub(r"\s+", " ", page.text)
    assert "timed in 10 rounds or more" in page.text
    assert "got more rounds, up to 10 s of timing per cell" in page.text
    assert "random weights" in page.text
    assert len(page.ids) == len(set(page.ids))


def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    page = read(full(), tmp_path)
    assert page.fetched == []
    assert not {"script", "link", "iframe", "img"} & set(page.tags)
    assert "url(http" not in page.text


def test_names_with_odd_characters_are_text_and_not_markup(tmp_path: Path) -> None:
    odd = "<script>alert('&')</script>"
    made = full(source=odd)
    made.run.notes = [f"note {odd}"]
    made.cells[0].status, made.cells[0].reason = "failed", f"reason {odd}"
    made.environment.cpu = odd
    page = read(made, tmp_path)
    assert "script" not in page.tags
    for said in (odd, f"note {odd}", f"reason {odd}"):
        assert said in page.text


def test_unstable_failed_and_skipped_cells_are_marked_and_explained(tmp_path: Path) -> None:
    made = results(
        ok(1, 1, 0.1),
        unstable(2, 1, 0.2, 0.18, other_processes=1.5),
        absent(4, 1, "failed", "it died"),
        absent(8, 1, "skipped", "z"),
    )
    written = html.write(made, tmp_path, {}).read_text()
    assert '<td class="unstable">0.20 ~18%</td>' in written
    assert '<td class="failed">failed</td>' in written
    for said in (
        "1 of 2 cells: other processes used up to 1.5 CPUs",
        "4 s x 1: failed: it died",
        "8 s x 1: skipped, z.",
    ):
        assert said in written
    for verdict in ("stable", "unstable", "failed", "skipped"):
        assert f'<li class="{verdict}"><b>1</b> {verdict}</li>' in written


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
