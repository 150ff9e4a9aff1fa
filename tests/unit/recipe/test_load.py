"""From a file to a checked recipe: what a person may write, and what they are told when it is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from profiler.errors import UserError
from profiler.hyperyaml.outline import RecipeError
from profiler.hyperyaml.values import Call
from profiler.recipe.load import LoadedRecipe, load_recipe
from profiler.recipe.schema import Recipe
from tests.helpers.tiny import RECIPES, SPEECH, recipe_text

HUB_ID = "facebook/wav2vec2-base-960h"

# The format that speech people know, key for key.
FAMILIAR = """\
pretrained_model:
  source: speechbrain/asr-wav2vec2-commonvoice-fr   # hub id, local folder, or a bundle's name
  type: EncoderASR                                  # the interface class
profiling_dimensions:
  audio_mockup_secs: [1, 2, 5, 8, 32]
  batch_sizes: [1, 4, 8]
  example_audio: {audio}
  triangle_only: False
  export_logs: True
"""


def text(**parts: str) -> str:
    return recipe_text(HUB_ID, "AutoModelForCTC", **parts)


def load(folder: Path, content: str, overrides: dict[str, Any] | None = None, trust: bool = False) -> LoadedRecipe:
    path = folder / "recipe.yaml"
    path.write_text(content)
    return load_recipe(path, overrides, trust)


def mistakes(folder: Path, content: str, overrides: dict[str, Any] | None = None, trust: bool = False) -> list[str]:
    """The lines that a user reads, without the folder."""
    with pytest.raises(RecipeError) as error:
        load(folder, content, overrides, trust)
    return [str(mistake).replace(f"{folder}/", "") for mistake in error.value.mistakes]


# --- what may be written ---


def test_the_familiar_recipe_loads_unchanged(tmp_path: Path) -> None:
    loaded = load(tmp_path, FAMILIAR.format(audio=SPEECH))
    model, grid = loaded.recipe.pretrained_model, loaded.recipe.profiling_dimensions
    assert (model.source, model.type) == ("speechbrain/asr-wav2vec2-commonvoice-fr", "EncoderASR")
    assert grid.audio_mockup_secs == [1, 2, 5, 8, 32]
    assert grid.batch_sizes == [1, 4, 8]
    assert (grid.example_audio, grid.triangle_only, grid.export_logs) == (str(SPEECH), False, True)
    assert [variant.name for variant in loaded.recipe.variants] == ["float32"]


@pytest.mark.parametrize("name", sorted(path.name for path in RECIPES.glob("*.yaml")))
def test_shipped_recipes_have_no_mistakes(name: str) -> None:
    assert load_recipe(RECIPES / name).name == Path(name).stem


@pytest.mark.parametrize("nothing", ["null", "~", "None", "none", ""])
def test_no_audio_means_random_data(tmp_path: Path, nothing: str) -> None:
    loaded = load(tmp_path, text(grid=f"example_audio: {nothing}"))
    assert loaded.recipe.profiling_dimensions.example_audio is None


def test_audio_is_looked_up_beside_the_recipe(tmp_path: Path) -> None:
    (tmp_path / "speech.flac").write_bytes(SPEECH.read_bytes())
    loaded = load(tmp_path, text(grid="example_audio: ./speech.flac"))
    assert loaded.resolve_path("./speech.flac") == (tmp_path / "speech.flac").resolve()


def test_references_are_resolved(tmp_path: Path) -> None:
    grid = "padding: !ref <measure[width]> * 2"
    loaded = load(tmp_path, text(grid=grid, more="measure: {width: 0.1}"))
    assert loaded.recipe.profiling_dimensions.padding == pytest.approx(0.2)


def test_variables_that_a_reference_uses_may_stand_at_the_top(tmp_path: Path) -> None:
    content = "lengths: [0.5, 1.5]\nsize: base\n" + recipe_text(
        "facebook/wav2vec2-!size-960h", "AutoModelForCTC", seconds="!ref <lengths>"
    ).replace("source: facebook/wav2vec2-!size-960h", "source: !ref facebook/wav2vec2-<size>-960h")
    recipe = load(tmp_path, content).recipe
    assert recipe.profiling_dimensions.audio_mockup_secs == [0.5, 1.5]
    assert recipe.pretrained_model.source == HUB_ID


def test_an_override_of_a_variable_reaches_what_refers_to_it(tmp_path: Path) -> None:
    content = "lengths: [0.5, 1.5]\n" + text(seconds="!ref <lengths>")
    recipe = load(tmp_path, content, {"lengths": [3]}).recipe
    assert recipe.profiling_dimensions.audio_mockup_secs == [3]


def test_an_included_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "how.yaml").write_text("warmup: 4\nrounds: 1\n")
    recipe = load(tmp_path, text(more="measure: !include:how.yaml")).recipe
    assert (recipe.measure.warmup, recipe.measure.rounds) == (4, 1)


def test_overrides_win_over_the_file(tmp_path: Path) -> None:
    overrides = {"measure.warmup": 7, "profiling_dimensions.batch_sizes": [16]}
    recipe = load(tmp_path, text(more="measure: {warmup: 3, rounds: 1}"), overrides).recipe
    assert (recipe.measure.warmup, recipe.measure.rounds) == (7, 1)
    assert recipe.profiling_dimensions.batch_sizes == [16]


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_a_short_name_is_no_key_of_another_modes_section(tmp_path: Path, mode: str) -> None:
    loaded = load(tmp_path, text(), {"mode": mode, "budget": 5, "wait": 2})
    assert (loaded.recipe.measure.budget, loaded.recipe.trace.schedule.wait) == (5, 2)
    assert loaded.overrides == {"mode": mode, "measure.budget": 5, "trace.schedule.wait": 2}


@pytest.mark.parametrize("more", ["mode: serving", "mode: !ref <how>\nhow: inference", "serving: {seconds: 20}"])
def test_a_short_name_that_may_mean_the_load_is_asked_about(tmp_path: Path, more: str) -> None:
    with pytest.raises(UserError, match=r"several sections: write serving\.budget or measure\.budget"):
        load(tmp_path, text(more=more), {"budget": 5})
    with pytest.raises(UserError, match=r"several sections: write serving\.batch\.wait or trace\.schedule\.wait"):
        load(tmp_path, text(), {"mode": "serving", "wait": 1})


def test_a_variant_changes_the_recipe_for_itself_only(tmp_path: Path) -> None:
    variants = "variants:\n  - {name: plain}\n  - {name: eager, threads: 1, set: {measure.warmup: 9}}\n"
    loaded = load(tmp_path, text(more=variants))
    assert loaded.recipe.measure.warmup == loaded.by_variant["plain"].measure.warmup == 2
    assert loaded.by_variant["eager"].measure.warmup == 9
    assert loaded.recipe.variants[1].threads == 1


def test_a_variant_may_set_a_key_of_the_models_own_configuration(tmp_path: Path) -> None:
    variants = "variants:\n  - {name: narrow, set: {pretrained_model.overrides.hidden_size: 16}}\n"
    loaded = load(tmp_path, text(model="overrides: {num_hidden_layers: 2}", more=variants))
    assert loaded.by_variant["narrow"].pretrained_model.overrides == {"num_hidden_layers": 2, "hidden_size": 16}


def test_seconds_may_be_fractions(tmp_path: Path) -> None:
    assert load(tmp_path, text(seconds="[0.25, 1]")).recipe.profiling_dimensions.audio_mockup_secs == [0.25, 1.0]


def test_what_is_written_nowhere_has_the_documented_default(tmp_path: Path) -> None:
    recipe = load(tmp_path, text()).recipe
    assert recipe.pretrained_model.weights == "auto"
    assert (recipe.profiling_dimensions.triangle_only, recipe.profiling_dimensions.export_logs) == (False, False)
    assert recipe.measure == type(recipe.measure)()


# --- tags: described, not run ---


def creating(path: Path) -> str:
    """A tag that creates a file when it is run."""
    return f"!apply:subprocess.check_output [[touch, {path}]]"


def test_a_described_call_in_the_models_overrides_is_kept_and_not_run(tmp_path: Path) -> None:
    made = tmp_path / "made"
    content = text(model=f"overrides:\n  act: !new:torch.nn.ReLU\n  extra: {creating(made)}")
    recipe = load(tmp_path, content, trust=True).recipe
    assert recipe.pretrained_model.overrides == {
        "act": Call("!new:", "torch.nn.ReLU"),
        "extra": Call("!apply:", "subprocess.check_output", [["touch", str(made)]]),
    }
    assert not made.exists()


def test_a_name_tag_keeps_its_arguments(tmp_path: Path) -> None:
    content = text(model="overrides:\n  act: !name:torch.nn.LeakyReLU\n    negative_slope: 0.2")
    overrides = load(tmp_path, content).recipe.pretrained_model.overrides
    assert overrides == {"act": Call("!name:", "torch.nn.LeakyReLU", {"negative_slope": 0.2})}


def test_a_variable_that_the_models_overrides_refer_to_is_not_built_here(tmp_path: Path) -> None:
    made = tmp_path / "made"
    content = f"tool: {creating(made)}\n" + text(model="overrides: {extra: !ref <tool> }")
    overrides = load(tmp_path, content, trust=True).recipe.pretrained_model.overrides
    assert overrides == {"extra": Call("!apply:", "subprocess.check_output", [["touch", str(made)]])}
    assert not made.exists()


@pytest.mark.parametrize(
    "tag",
    [
        "!apply:subprocess.check_output [[touch, {made}]]",
        "!applyref:subprocess.check_output [[touch, {made}]]",
        "!new:subprocess.Popen [[touch, {made}]]",
        "!!python/object/apply:subprocess.check_output [[touch, {made}]]",
        "!!python/object/new:subprocess.Popen [[touch, {made}]]",
    ],
)
@pytest.mark.parametrize("place", ["value", "overrides", "variable", "unknown", "list"])
def test_refused_code_is_not_run_wherever_it_stands(tmp_path: Path, tag: str, place: str) -> None:
    made = tmp_path / "made"
    tag = tag.format(made=made)
    content = {
        "value": text(batches=tag),
        "overrides": text(model=f"overrides:\n  x: {tag}"),
        "variable": f"v: {tag}\n" + text(batches="!ref <v>"),
        "unknown": text(more=f"v: {tag}"),
        "list": text(batches=f"\n    - 1\n    - {tag}"),
    }[place]
    found = mistakes(tmp_path, content)
    assert any("would run code" in line and "--trust" in line and "recipe.yaml:" in line for line in found)
    assert not made.exists()


@pytest.mark.parametrize("tag", ["!apply:builtins.sorted [[4, 2]]", "!applyref:builtins.sorted [[4, 2]]"])
def test_with_trust_a_tag_gives_the_value(tmp_path: Path, tag: str) -> None:
    assert load(tmp_path, text(batches=tag), trust=True).recipe.profiling_dimensions.batch_sizes == [2, 4]


def test_with_trust_a_python_tag_gives_the_value(tmp_path: Path) -> None:
    content = text(batches="!!python/object/apply:builtins.sorted [[4, 2]]")
    assert load(tmp_path, content, trust=True).recipe.profiling_dimensions.batch_sizes == [2, 4]


def test_with_trust_a_value_of_the_wrong_type_is_still_a_mistake(tmp_path: Path) -> None:
    (line,) = mistakes(tmp_path, text(batches="!apply:builtins.max [[4, 2]]"), trust=True)
    assert "batch_sizes: expected a list, such as [1, 4], got 4" in line


def test_an_include_that_would_run_code_is_refused(tmp_path: Path) -> None:
    made = tmp_path / "made"
    (tmp_path / "how.yaml").write_text(f"warmup: 3\nseed: {creating(made)}\n")
    (line,) = mistakes(tmp_path, text(more="measure: !include:how.yaml"))
    assert line.startswith("how.yaml:2:")
    assert "would run code" in line
    assert not made.exists()


def test_a_class_as_model_is_imported_only_with_trust(tmp_path: Path) -> None:
    (line,) = mistakes(tmp_path, recipe_text("subprocess.Popen", "Module"))
    assert "recipe.yaml:2: pretrained_model.source" in line
    assert "--trust" in line
    assert load(tmp_path, recipe_text("subprocess.Popen", "Module"), trust=True)
    assert load(tmp_path, recipe_text("torch.nn.Identity", "Module"))


def test_checking_a_recipe_imports_no_torch() -> None:
    code = (
        "import sys; from profiler.recipe.load import load_recipe; "
        f"load_recipe({str(RECIPES / 'crdnn.yaml')!r}); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=RECIPES.parent, check=True)
    assert done.stdout.strip() == "False"


# --- mistakes ---


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (text(more="mesure: {warmup: 3}"), ["recipe.yaml:7: mesure: unknown key. Did you mean `measure`?"]),
        (text(more="measure: {warm_up: 3}"), ["measure.warm_up: unknown key. Did you mean `warmup`?"]),
        (text(grid="traingle_only: true"), ["recipe.yaml:7:", "Did you mean `triangle_only`?"]),
        (text(grid="zzz: 1"), ["zzz: unknown key. Known here: audio_mockup_secs, batch_sizes"]),
        (text(batches="['4']"), ["recipe.yaml:6: profiling_dimensions.batch_sizes[0]: expected a whole number"]),
        (text(batches="[1.5]"), ["expected a whole number, got 1.5"]),
        (text(batches="[true]"), ["expected a whole number, got true"]),
        (text(batches="[0]"), ["expected a number greater than 0, got 0"]),
        (text(batches="[-4]"), ["expected a number greater than 0, got -4"]),
        (text(batches=f"[1{'0' * 400}]"), ["expected a number of at most 1,000,000"]),
        (text(batches="[]"), ["expected a list with at least one value, got []"]),
        (text(batches="4"), ["expected a list, such as [1, 4], got 4"]),
        (text(batches="[1, 2, 1]"), ["1 stands in the list twice"]),
        (text(seconds="[0]"), ["recipe.yaml:5: profiling_dimensions.audio_mockup_secs[0]: expected a number greater"]),
        (text(seconds="[-0.5]"), ["expected a number greater than 0, got -0.5"]),
        (text(seconds="[.inf]"), ["expected a finite number, got inf"]),
        (text(seconds="[ten]"), ["expected a number, got 'ten'"]),
        (text(grid="triangle_only: 'yes'"), ["expected true or false, got 'yes'"]),
        (text(model="weights: trained"), ["'auto', 'pretrained' or 'random', got 'trained'"]),
        (text(more="measure:"), ["recipe.yaml:7: measure: expected a section with keys: rounds"]),
        (text(more="measure: {width: 1}"), ["expected a number below 1, got 1"]),
        (text(more="measure: {rounds: 0}"), ["recipe.yaml:7: measure.rounds: expected", "got 0"]),
        (text(more="measure: {min_calls: 9}"), ["recipe.yaml:7: measure", "min_calls: 9 is more than max_calls: 5"]),
        (text(more="variants: []"), ["expected a list with at least one value"]),
        (text(more="variants: [{name: a/b}]"), ["becomes a folder's name), got 'a/b'"]),
        (text(more="variants: [{name: a}, {name: a}]"), ["two variants are named a"]),
        (text(grid="batch_sizes: [1]"), ["recipe.yaml:7: profiling_dimensions.batch_sizes", "first in line 6"]),
        (text(grid="example_audio: gone.wav"), ["recipe.yaml:7: profiling_dimensions.example_audio: there is no"]),
        (recipe_text("a/b", "EncoderASRR"), ["unknown interface `EncoderASRR`. Did you mean `EncoderASR`?"]),
        (recipe_text("./gone", "EncoderASR"), ["recipe.yaml:2: pretrained_model.source: there is no folder"]),
        (recipe_text("'not a name'", "AutoModel"), ["neither a folder nor a hub id such as"]),
        (recipe_text("''", "AutoModel"), ["pretrained_model.source: expected a text that is not empty"]),
        (text(batches="!!int many"), ["recipe.yaml:6:", "many"]),
        (text(batches="!ref <nowhere>"), ["recipe.yaml:6:", "nowhere"]),
        (text(batches="!ref <profiling_dimensions[batch_sizes]>"), ["recipe.yaml:6:", "leads back to itself"]),
    ],
)
def test_a_mistake_names_line_key_and_what_was_expected(tmp_path: Path, content: str, expected: list[str]) -> None:
    (line,) = mistakes(tmp_path, content)
    for part in expected:
        assert part in line


def test_a_missing_section_says_what_belongs_in_it(tmp_path: Path) -> None:
    (line,) = mistakes(tmp_path, "pretrained_model:\n  source: a/b\n  type: AutoModel\n")
    assert "profiling_dimensions: missing" in line
    assert "audio_mockup_secs" in line


def test_a_missing_key_says_what_it_is_for(tmp_path: Path) -> None:
    (line,) = mistakes(tmp_path, text().replace("  type: AutoModelForCTC\n", ""))
    assert line.startswith("recipe.yaml:1: pretrained_model.type: missing")
    assert "interface class" in line


def test_a_top_level_key_that_no_reference_uses_is_unknown(tmp_path: Path) -> None:
    (line,) = mistakes(tmp_path, "lengths: [1]\nspare: 2\n" + text(seconds="!ref <lengths>"))
    assert line.startswith("recipe.yaml:2: spare: unknown key")


def test_a_reference_to_a_section_does_not_switch_off_its_check(tmp_path: Path) -> None:
    content = text(grid="padding: !ref <measure[width]>", more="measure: {width: 0.1, warmpu: 3}")
    (line,) = mistakes(tmp_path, content)
    assert "Did you mean `warmup`?" in line


def test_a_mistake_of_the_command_line_says_so(tmp_path: Path) -> None:
    (line,) = mistakes(tmp_path, text(), {"measure.warmpu": 3})
    assert line == "measure.warmpu: unknown key. Did you mean `warmup`? (from the command line)"


def test_an_override_below_a_plain_value_is_named(tmp_path: Path) -> None:
    (line,) = mistakes(tmp_path, text(), {"pretrained_model.source.x": 3})
    assert "pretrained_model.source.x" in line


def test_a_mistake_in_what_a_variant_sets_has_the_variants_line(tmp_path: Path) -> None:
    variants = "variants:\n  - {name: a}\n  - {name: b, set: {measure.warmpu: 3}}\n"
    (line,) = mistakes(tmp_path, text(more=variants))
    assert line == "recipe.yaml:9: variants[1].set.measure.warmpu: unknown key. Did you mean `warmup`?"


def test_a_variant_may_not_change_the_grid(tmp_path: Path) -> None:
    variants = "variants:\n  - {name: b, set: {profiling_dimensions.batch_sizes: [1]}}\n"
    (line,) = mistakes(tmp_path, text(more=variants))
    assert "the grid is the same for all variants" in line


def test_every_mistake_is_reported_at_once(tmp_path: Path) -> None:
    content = text(
        seconds="[0, 1]",
        batches="[]",
        model="wieghts: auto",
        grid="example_audio: gone.wav\ntriangle_only: 3",
        more="measure: {warmup: x}\nvariants:\n  - {name: a, set: {measure.warmpu: 3}}\n  - {name: b/c}\n",
    ).replace("AutoModelForCTC", "AutoModelForCTX")
    found = mistakes(tmp_path, content)
    assert [int(line.split(":")[1]) for line in found] == [3, 4, 6, 7, 8, 9, 10, 12, 13]


def test_the_message_begins_with_the_recipe_and_that_nothing_ran(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"recipe\.yaml has a mistake; nothing was run\.") as error:
        load(tmp_path, text(batches="[]"))
    assert error.value.exit_code == 2


# --- files that are no recipes ---


def test_a_missing_recipe_suggests_one_that_ships() -> None:
    with pytest.raises(UserError, match="Did you mean `wav2vec2`"):
        load_recipe("nowhere/wav2vec.yaml")


def test_a_folder_is_not_a_recipe(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a folder"):
        load_recipe(tmp_path)


def test_a_sound_file_is_not_a_recipe() -> None:
    with pytest.raises(UserError, match="not a text file"):
        load_recipe(SPEECH)


def test_the_schema_describes_every_key_of_the_model_and_the_grid() -> None:
    for section in ("pretrained_model", "profiling_dimensions", "measure"):
        fields = Recipe.model_fields[section].annotation.model_fields  # type: ignore[union-attr]
        assert all(field.description for field in fields.values())


def test_a_variant_sets_a_key_below_one_of_the_command_line(tmp_path: Path) -> None:
    text = recipe_text(
        "a/b", "AutoModel", more="variants: [{name: one, set: {pretrained_model.overrides.x: 1}}, {name: two}]"
    )
    (tmp_path / "r.yaml").write_text(text)
    loaded = load_recipe(tmp_path / "r.yaml", {"pretrained_model.overrides": {"x": 5, "y": 6}})
    assert loaded.by_variant["one"].pretrained_model.overrides == {"x": 1, "y": 6}
    assert loaded.by_variant["two"].pretrained_model.overrides == {"x": 5, "y": 6}


@pytest.mark.parametrize("nothing", [{}, None])
def test_an_empty_mapping_or_null_takes_a_mapping_away(nothing: object, tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(
        recipe_text("log-mel", "LogMel", model="overrides: {mels: 40, rate: 8000}", more="measure: {rounds: 3}")
    )
    assert load_recipe(path, {"pretrained_model.overrides.mels": 8}).recipe.pretrained_model.overrides == {
        "mels": 8,
        "rate": 8000,
    }
    assert (
        load_recipe(path, {"pretrained_model.overrides": {"mels": 8}}).recipe.pretrained_model.overrides["rate"] == 8000
    )
    taken = load_recipe(path, {"pretrained_model.overrides": nothing, "measure": nothing}).recipe
    assert (taken.pretrained_model.overrides, taken.measure.rounds) == ({}, 10)
