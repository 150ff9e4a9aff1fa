"""The same table of several variants as one: nothing is said twice, and all that is said names whom it is about."""

from __future__ import annotations

from profiler.report.table import Table, stacked


def table(row: str, *remarks: str) -> Table:
    return Table("Title", ["x"], [[row]], list(remarks))


def test_remarks_name_their_variants_unless_they_hold_for_all() -> None:
    (found,) = stacked(
        {
            "float32": table("1", "Fit: 3 MB.", "What x means.", "- rough"),
            "int8": table("2", "Fit: 1 MB.", "What x means."),
            "half": table("3", "Fit: 1 MB.", "What x means.", "- rough"),
        },
        several=True,
    )
    assert found.header == ["variant", "x"]
    assert found.rows == [["float32", "1"], ["int8", "2"], ["half", "3"]]
    assert found.remarks == [
        "float32: Fit: 3 MB.",
        "- float32, half: rough",
        "int8, half: Fit: 1 MB.",
        "What x means.",
    ]


def test_rows_that_are_equal_are_told_once() -> None:
    (found,) = stacked({"float32": table("1", "Same."), "int8": table("1", "Same.")}, several=True)
    assert found.rows == [["all", "1"]]
    assert found.remarks == ["Same."]


def test_one_variant_keeps_its_table_as_it_is() -> None:
    only = table("1", "Said.")
    assert stacked({"float32": only}, several=False) == [only]


def test_texts_of_the_results_are_neither_html_nor_steer_a_terminal() -> None:
    said = Table("<script>", ["a|b"], [["<img src=x>"], ["1 < 2\nthree"]], ["</b> \x1b[31mred"]).markdown()
    assert "**\\<script>**" in said
    assert "\\<img src=x>" in said
    assert "a\\|b" in said
    assert "1 < 2 three" in said
    assert "\\</b>" in said
    assert "\x1b" not in said
