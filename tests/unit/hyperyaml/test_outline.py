"""Where keys stand, and what can be told from a YAML text before anything in it is read as a value."""

from __future__ import annotations

import pytest

from profiler.hyperyaml.outline import dotted, read_outline

TEXT = """# a comment
pretrained_model:
  source: a/b
variants:
  - name: one
    set: {measure.warmup: 3}
  - name: two
"""


@pytest.mark.parametrize(
    ("key", "line"),
    [
        (("pretrained_model",), 2),
        (("pretrained_model", "source"), 3),
        (("variants", 0), 5),
        (("variants", 0, "set", "measure.warmup"), 6),
        (("variants", 1, "name"), 7),
    ],
)
def test_every_key_knows_its_line(key: tuple[str | int, ...], line: int) -> None:
    assert read_outline(TEXT, "r.yaml").line_of(key) == line


def test_a_missing_key_has_the_line_of_its_section() -> None:
    assert read_outline(TEXT, "r.yaml").line_of(("pretrained_model", "type")) == 2


def test_a_key_of_nowhere_has_no_line() -> None:
    assert read_outline(TEXT, "r.yaml").line_of(("measure", "warmup")) is None


def test_keys_are_written_as_people_write_them() -> None:
    assert dotted(("variants", 1, "set", "threads")) == "variants[1].set.threads"
    assert dotted(("profiling_dimensions", "batch_sizes", 0)) == "profiling_dimensions.batch_sizes[0]"


def test_a_duplicate_key_names_both_lines() -> None:
    (mistake,) = read_outline("a:\n  b: 1\n  c: 2\n  b: 3\n", "r.yaml").mistakes
    assert (mistake.line, mistake.key) == (4, "a.b")
    assert "line 2" in mistake.message


def test_the_same_key_in_two_sections_is_no_duplicate() -> None:
    assert read_outline("a: {x: 1}\nb: {x: 1}\nc: [{x: 1}, {x: 2}]\n", "r.yaml").mistakes == []


@pytest.mark.parametrize(
    ("text", "line", "shown"),
    [
        ("a:\n  b: [1, 2\n", 2, "b: [1, 2"),  # never closed: the line where it was opened
        ("a: 1\n\tb: 2\n", 2, "b: 2"),
        ("a: 1\nb: c: 2\n", 2, "b: c: 2"),
        ("a: 'text\n", 1, "a: 'text"),
        ("a: 1\nb: *nowhere\n", 2, "b: *nowhere"),
        ("a: 1\n---\nb: 2\n", 2, "---"),
    ],
)
def test_broken_yaml_shows_the_line(text: str, line: int, shown: str) -> None:
    outline = read_outline(text, "r.yaml")
    (mistake,) = outline.mistakes
    assert outline.unreadable
    assert mistake.line == line
    assert "broken YAML" in mistake.message
    assert shown in mistake.message


@pytest.mark.parametrize("text", ["", "# only a comment\n", "\n\n", "---\n"])
def test_an_empty_file_is_called_empty(text: str) -> None:
    outline = read_outline(text, "r.yaml")
    assert outline.unreadable
    assert outline.mistakes[0].message == "the file is empty"


@pytest.mark.parametrize("text", ["just words\n", "- a\n- list\n", "42\n", "!!set {a, b}\n", "!new:a.B {c: 1}\n"])
def test_a_file_without_sections_says_what_a_recipe_has(text: str) -> None:
    outline = read_outline(text, "r.yaml")
    assert outline.unreadable
    assert "pretrained_model:" in outline.mistakes[0].message


def test_a_character_that_yaml_does_not_allow_is_a_mistake() -> None:
    assert "broken YAML" in read_outline("a: \x01\n", "r.yaml").mistakes[0].message


def test_an_anchor_that_is_used_twice_is_not_warned_of(recwarn: pytest.WarningsRecorder) -> None:
    assert read_outline("a: &x 1\nb: &x 2\nc: *x\n", "r.yaml").mistakes == []
    assert not recwarn.list


def test_names_that_references_use_are_found() -> None:
    text = "a: !ref <lengths>\nb: !ref <n> * 2 + <m[k]>\nc: !copy <d.e>\nf: <plain>\n"
    assert read_outline(text, "r.yaml").referenced == {"lengths", "n", "m", "d"}


def test_an_alias_of_a_value_is_fine() -> None:
    outline = read_outline("a: &x [1, 2]\nb: *x\n", "r.yaml")
    assert outline.mistakes == []
    assert not outline.unreadable


def test_an_alias_that_holds_itself_is_a_mistake() -> None:
    outline = read_outline("a: 1\nb: &x [*x]\n", "r.yaml")
    assert outline.unreadable
    assert outline.mistakes[0].line == 2


def test_aliases_that_stand_for_billions_of_values_end_at_once() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    outline = read_outline("\n".join(lines), "r.yaml")
    assert outline.unreadable
    assert len(outline.mistakes) == 1
