"""benchmarks/README.md: each section names a command that exists, and figures carry date and commit."""

from __future__ import annotations

import importlib.util
import re

from benchmarks.__main__ import PAGES, PRINTED, README, names, replace

STAMP = re.compile(r"^20\d\d-\d\d-\d\d \d\d:\d\d UTC, commit [0-9a-f]{10}\+?, [\d.]+ min$", re.MULTILINE)


def test_every_section_names_a_benchmark_that_exists() -> None:
    sections = README.read_text().count("\n## ")
    assert len(names(README)) == sections
    assert len(set(names())) == len(names())
    assert all(importlib.util.find_spec(f"benchmarks.{name}") for name in names())


def test_every_figure_says_when_and_on_which_commit_it_was_measured() -> None:
    printed = [match[3] for page in PAGES for match in PRINTED.finditer(page.read_text())]
    assert any("|" in text for text in printed)
    assert all(STAMP.search(text) for text in printed if "|" in text)


def test_new_figures_take_the_place_of_the_old_ones_in_their_section_alone() -> None:
    text = README.read_text()
    changed = replace(replace(text, "ab", "of Monday\n"), "ab", "of Tuesday\n")
    assert "of Monday" not in changed
    assert changed.count("of Tuesday\n<!-- end -->") == 1
    assert replace(changed, "ab", next(m[3] for m in PRINTED.finditer(text) if m[2] == "ab")) == text
