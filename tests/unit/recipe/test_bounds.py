"""Small files that stand for much, odd files and odd paths: each is refused in a sentence, soon."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from profiler.errors import UserError
from profiler.recipe.load import load_recipe
from profiler.yaml_values import parse_override

MODEL = "pretrained_model: {source: log-mel, type: LogMel}\n"
GRID = "profiling_dimensions:\n  audio_mockup_secs: [1]\n  batch_sizes: [1]\n"
SOON = 8.0  # seconds of CPU, on a machine that is busy


def tenfold(first: str, item: str, line: str = "a{i}: [{all}]\n") -> str:
    """Each line holds ten times the line before."""
    more = (line.format(i=i, all=", ".join([item.format(i - 1)] * 10)) for i in range(1, 12))
    return first + "".join(more)


TOO_MUCH = {
    "copies": tenfold("a0: [1, 1]\n", "!copy <a{}> "),
    "references": tenfold("a0: [1, 1]\n", "!ref <a{}> "),
    "aliases": tenfold("a0: &a0 [1]\n", "*a{}", "a{i}: &a{i} [{all}]\n"),
    "merges": tenfold("a0: &a0 {b: 1}\n", "*a{}", "a{i}: &a{i} {{<<: [{all}]}}\n"),
    "texts": "a0: abcdefgh\n" + "".join(f"a{i}: !ref <a{i - 1}><a{i - 1}>\n" for i in range(1, 31)),
    "chain": "".join(f"a{i}: !ref <a{i + 1}>\n" for i in range(3000)) + "a3000: 1\n",
    "nesting": f"a: {'[' * 5000}{']' * 5000}\n",
    "power": "a: 3\nb: !ref <a> ** 9 ** 9 ** 9\n",
    "digits": f"a: {'9' * 100_000}\nb: !ref <a> + 1\n",
    "keys": "".join(f"k{i}: 1\n" for i in range(3000)),
    "key": f"? {'x' * 100_000}\n: 1\n",
    "includes": "a: !include:0.yaml\n",
    "device": "a: !include:/dev/zero\n",
    "pipe": "a: !include:pipe\n",
    "folder": "a: !include:.\n",
    "file": "a: !include:large.yaml\n",
    "power report": "measure: {powertop: /dev/zero}\n",
    "itself": "a: !include:recipe.yaml\n",
    "recipe": f"#{'x' * 300_000}\n",
    "grid": f"variants: [{', '.join(f'{{name: v{i}}}' for i in range(500))}]\n",
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_what_would_be_too_much_is_refused_soon(name: str, tmp_path: Path) -> None:
    for number in range(12):
        below = "".join(f"k{key}: !include:{number + 1}.yaml\n" for key in range(6))
        (tmp_path / f"{number}.yaml").write_text(below)
    (tmp_path / "12.yaml").write_text("a: 1\n")
    (tmp_path / "large.yaml").write_text("a: " + "x" * 300_000)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "recipe.yaml").write_text(MODEL + GRID + TOO_MUCH[name])
    before = time.process_time()
    with pytest.raises(UserError) as refused:
        load_recipe(tmp_path / "recipe.yaml")
    assert time.process_time() - before < SOON
    assert len(str(refused.value)) < 300_000


def test_a_grid_that_nobody_can_measure_names_its_cells(tmp_path: Path) -> None:
    many = ", ".join(str(number) for number in range(1, 1001))
    (tmp_path / "recipe.yaml").write_text(MODEL + GRID.replace("[1]", f"[{many}]"))
    with pytest.raises(UserError, match=r"1,000,000 cells .* at most 100,000; shorten the lists"):
        load_recipe(tmp_path / "recipe.yaml")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("'~nouser/x'", "no such user"),
        ('"a\\0b"', "NUL"),
        ('"a\\ud800b"', "half of a character"),
        ("x" * 400, "too long"),
        ("'" + "x/" * 3000 + "'", "too long"),
    ],
)
@pytest.mark.parametrize(
    "recipe",
    [
        "pretrained_model: {{source: {}, type: AutoModel}}\n" + GRID,
        "pretrained_model: {{source: {}, type: TERA}}\n" + GRID,
        "pretrained_model: {{source: {}, type: TorchScript}}\n" + GRID,
        "pretrained_model: {{source: a/b, architecture: {}, type: EncoderASR}}\n" + GRID,
        "pretrained_model: {{source: torch.nn.Identity, type: Module, checkpoint: {}}}\n" + GRID,
        MODEL.replace("{", "{{").replace("}", "}}") + GRID + "  example_audio: {}\n",
        MODEL.replace("{", "{{").replace("}", "}}") + GRID + "dataset: {{source: {}}}\n",
        MODEL.replace("{", "{{").replace("}", "}}") + GRID + "measure: {{powertop: {}}}\n",
    ],
)
def test_a_path_that_is_none_is_said_to_be_none(recipe: str, path: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(recipe.format(path))
    with pytest.raises(UserError, match=said):
        load_recipe(tmp_path / "recipe.yaml")


@pytest.mark.parametrize("line", ["null: {'!ref': null}\n", "measure: {null: 1}\n", "? [a]\n: 1\n", "1: 2\n"])
def test_a_key_that_is_no_text_is_a_mistake(line: str, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(MODEL + GRID + line)
    with pytest.raises(UserError, match=r"recipe\.yaml"):
        load_recipe(tmp_path / "recipe.yaml")


@pytest.mark.parametrize("value", ["!!int abc", "!!float x", "!!bool 7", "!!timestamp x", "[" * 2000, "&a [*a]", "*a"])
def test_an_override_that_is_no_value_is_refused(value: str, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(MODEL + GRID)
    with pytest.raises(UserError):
        load_recipe(tmp_path / "recipe.yaml", dict([parse_override(f"measure.rounds={value}")]))
