"""The page with all recipes of a fleet: a row per model, made from runs; what is absent says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler.errors import UserError
from profiler.execution.fleet.gallery import QUICK, quick_settings
from profiler.execution.fleet.job import Fleet
from profiler.recipe.load import load_recipe
from profiler.report.gallery import BEGIN, END, check_page, write_page
from profiler.results.types import Operations, Results, ServingResult, ServingStep, Times
from profiler.shipped import recipe_path, shipped_recipes
from profiler.yaml_values import parse_override
from tests.helpers.fleets import fleet_of
from tests.helpers.program import ROOT
from tests.helpers.synthetic import Made, make, save


def quick(name: str, *given: str) -> list[str]:
    return quick_settings(load_recipe(recipe_path(name), read_audio=False), given)


def stored(logs: Path, fleet: Fleet, number: int, results: Results) -> None:
    """A run as the result of a job that is done."""
    job = fleet.jobs[number]
    job.run, job.status = str(save(results, logs).relative_to(logs)), "done"


def rows_of(page: Path) -> dict[str, list[str]]:
    lines = [line.strip("|").split("|") for line in page.read_text().splitlines() if line.startswith("|")]
    return {line[0].strip(): [part.strip() for part in line[1:]] for line in lines}


@pytest.fixture
def fleet() -> Fleet:
    made = fleet_of("wav2vec2", "serving", "conformer", "tera", folder=ROOT / "recipes")
    for job in made.jobs:
        job.arguments = quick(job.id)
    return made


@pytest.mark.parametrize("name", shipped_recipes())
def test_the_quick_setting_of_every_shipped_recipe_is_one_cell_for_each_model(name: str) -> None:
    given = dict(parse_override(word) for word in quick(name))
    recipe = load_recipe(recipe_path(name), given, read_audio=False)
    grid = recipe.recipe.profiling_dimensions
    assert (grid.audio_mockup_secs, grid.batch_sizes, grid.export_logs) == ([5], [1], False)
    assert recipe.recipe.dataset is None
    sources = [recipe.by_variant[each.name].pretrained_model.source for each in recipe.recipe.variants]
    assert len(set(sources)) == len(sources)
    if recipe.recipe.mode == "serving":
        assert recipe.recipe.serving.scenarios == ["single_stream"]


def test_first_variants_are_of_each_model() -> None:
    (variants,) = [word for word in quick("embeddings") if word.startswith("variants=")] or [""]
    assert variants == "", "five models of five sources: nothing is left out"
    (variants,) = [word for word in quick("quantization") if word.startswith("variants=")]
    names = [each["name"] for each in parse_override(variants)[1]]
    assert names == ["conformer-attention", "lstm-attention"]


def test_what_the_person_sets_wins() -> None:
    words = quick("wav2vec2", "measure.budget", "profiling_dimensions")
    assert [word.split("=")[0] for word in words] == ["measure.rounds", "trace.breakdown"]
    assert len(quick("wav2vec2", "measure.rounds")) == len(QUICK) - 1
    assert len(quick("wav2vec2", "measure.seed")) == len(QUICK)


def test_a_row_for_each_model_from_the_runs_themselves(tmp_path: Path, fleet: Fleet) -> None:
    logs, page = tmp_path / "logs", tmp_path / "page.md"
    plain = make(Made(grid=((5.0, 1), (1.0, 1)), id="a", recipe="recipes/wav2vec2.yaml"))
    plain.cells[0].operations = Operations(macs=35_000_000_000, per_second=7e9)
    stored(logs, fleet, 0, plain)
    load = make(Made(grid=(), id="b", recipe="recipes/serving.yaml", variants=("float32",)))
    load.run.resolved = {"profiling_dimensions": {"audio_mockup_secs": [5], "batch_sizes": [1]}, "mode": "serving"}
    step = ServingStep(scenario="single_stream", status="measured", rtf=0.2, memory_bytes=900_000_000)
    step.latency_s = Times(median=1.0, mean=1.0, max=1.0)
    load.serving = [ServingResult(variant="float32", limit_s=1.0, percentile=99, confidence=0.99, steps=[step])]
    stored(logs, fleet, 1, load)
    stored(logs, fleet, 2, make(Made(grid=((1.0, 1),), id="c", recipe="recipes/conformer.yaml")))
    fleet.jobs[3].status, fleet.jobs[3].reason = "failed", "exit status 2: the model is not there"
    plot = page.with_suffix(".svg")
    assert write_page(page, fleet, logs) == [page, plot]

    rows = rows_of(page)
    rtf, latency = (f"{value / scale:.3f}"[:5] for value, scale in ((plain.cells[0].rtf or 0, 1), (0.05, 1)))
    assert rows["wav2vec2"][:2] == ["ASR", "5 s x 1"]
    assert rows["wav2vec2"][2].startswith(rtf[:4])
    assert latency == "0.050"
    assert rows["wav2vec2"][4:] == ["500", "1,000", "35.0", "random", "Some CPU, 2 threads"]
    assert rows["serving"][1:7] == ["request of 5 s, one by one", "0.200", "1,000", "900", "1,000", "-"]
    assert rows["conformer"][1:6] == ["-", "-", "-", "-", "1,000"]
    assert rows["tera"][0] == "encoder"
    text = page.read_text()
    (logs / "conformer" / "c" / "results.json").write_text("{")
    write_page(page, fleet, logs)
    assert "is damaged" in next(line for line in page.read_text().splitlines() if line.startswith("- conformer: "))
    assert "- conformer: there is no cell of 5 s x 1 in its run" in text
    assert "- tera: exit status 2: the model is not there" in text
    assert "- serving: operations are not counted under load" in text
    assert "Machine: processor Some CPU" in text
    assert "measure.budget=2" in text
    assert "variants=" not in text, "what is of one recipe alone is no setting of all"
    assert f"![Real-time factor of each model]({plot.name})" in text
    picture = plot.read_text()
    assert "wav2vec2" in picture
    assert "tera" not in picture


def test_only_what_is_between_the_two_lines_is_replaced(tmp_path: Path, fleet: Fleet) -> None:
    page = tmp_path / "gallery.md"
    page.write_text((ROOT / "docs" / "gallery.md").read_text())
    before, _, after = page.read_text().partition(BEGIN)
    for _ in range(2):
        write_page(page, fleet, tmp_path)
        assert page.read_text().startswith(before + BEGIN)
        assert page.read_text().endswith(END + after.partition(END)[2])
    assert "No recipe has a run." in page.read_text()
    assert "The command above writes" not in page.read_text()


def test_a_page_without_a_place_is_refused_before_anything_runs(tmp_path: Path) -> None:
    page = tmp_path / "notes.md"
    check_page(page)
    page.write_text("# My notes\n")
    with pytest.raises(UserError, match=r"has no place for it.*\n<!-- the gallery"):
        check_page(page)
    with pytest.raises(UserError, match="there is no folder"):
        check_page(tmp_path / "nowhere" / "page.md")
