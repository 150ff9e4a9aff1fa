"""What it costs: variants side by side with proof, size, operations and energy, from one run of the program."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from profiler.execution.workers import Workers
from profiler.recipe.load import load_recipe
from tests.conftest import TinyModel
from tests.helpers import program, tiny
from tests.helpers.road import Done, go

VARIANTS = """
variants:
- {name: float32}
- {name: int8, quantize: dynamic}
- {name: weights-int8, quantize: weight_only}
- {name: static, quantize: static}
- {name: bfloat16, precision: bfloat16}
- {name: one-thread, threads: 1}
- {name: no-such-engine, quantize: dynamic, engine: fbgemm}
- {name: again, set: {pretrained_model.tokens_per_second: 4}}
"""


@pytest.fixture(scope="module")
def run(tiny_model: Any, tmp_path_factory: pytest.TempPathFactory) -> Done:
    folder = tmp_path_factory.mktemp("costs")
    model: TinyModel = tiny_model("ctc")
    recipe = folder / "costs.yaml"
    recipe.write_text(
        tiny.recipe_text(
            str(model.folder),
            model.type,
            seconds="[0.5, 1]",
            batches="[1]",
            grid=f"example_audio: {tiny.SPEECH}",
            more=VARIANTS + "measure: {rounds: 1, budget: 0.1, warmup: 1, watts: 5.8, idle_watts: 2}",
        )
    )
    return go(recipe, folder / "logs", "--quiet")


def models(run: Done) -> dict[str, dict[str, Any]]:
    return {model["variant"]: model for model in run.results["models"]}


@pytest.mark.slow
def test_each_variant_proves_what_it_changed(run: Done) -> None:
    found = models(run)
    assert found["float32"]["conversion"] is None
    assert found["one-thread"]["conversion"] is None
    for name in ("int8", "weights-int8", "static"):
        conversion = found[name]["conversion"]
        assert 0 < conversion["layers_converted"] < conversion["layers_total"], "convolutions stay"
        assert 0 < conversion["share_of_parameters"] < 1
        assert conversion["bytes_after"]["total"] < conversion["bytes_before"]["total"]
        assert found[name]["size_bytes"] == conversion["bytes_after"]
        assert conversion["difference"]["max"] > 0
        assert conversion["difference"]["mean"] > 0
    assert found["int8"]["conversion"]["engine"]
    half = found["bfloat16"]["conversion"]
    assert half["share_of_parameters"] == 1
    assert half["bytes_after"]["total"] * 2 == half["bytes_before"]["total"]
    assert half["difference"]["max"] > 0


@pytest.mark.slow
def test_sizes_are_told_by_component(run: Done) -> None:
    float32, int8 = models(run)["float32"]["size_bytes"], models(run)["int8"]["size_bytes"]
    assert sum(float32["components"].values()) == float32["total"]
    assert sum(int8["components"].values()) == int8["total"]
    assert int8["components"]["feature_extractor"] == float32["components"]["feature_extractor"], "convolutions"
    assert int8["components"]["encoder"] < float32["components"]["encoder"]
    assert "Size of the saved state" in run.tables
    assert re.search(r"\d KB \(\d+\.\d+ MB\)", run.tables)


@pytest.mark.slow
def test_tables_show_variants_side_by_side(run: Done) -> None:
    assert run.tables.count("**Real-time factor") == 1
    assert "8 variants, pretrained weights" in run.tables
    assert "dynamic int8 of linear layers" in run.tables
    assert "(x" in run.tables


@pytest.mark.slow
def test_operations_are_counted_and_related_to_the_peak(run: Done) -> None:
    by_variant = {cell["variant"]: cell for cell in run.results["cells"] if cell["seconds"] == 1}
    float32 = by_variant["float32"]["operations"]
    assert float32["macs"] > 0
    assert float32["flops"] == 2 * float32["macs"]
    assert sum(float32["components"].values()) == float32["macs"]
    assert float32["uncounted"] == []
    assert float32["per_second"] == pytest.approx(float32["macs"])
    latency = by_variant["float32"]["latency_s"]["median"]
    assert float32["achieved_gflops"] == pytest.approx(float32["flops"] / latency / 1e9)
    reference = run.results["environment"]["references"]["2" if _cores() > 1 else "1"]
    assert float32["share_of_peak"] == pytest.approx(float32["achieved_gflops"] / reference["gflops"])
    assert by_variant["int8"]["operations"]["macs"] == float32["macs"], "the same arithmetic, in fewer bits"
    assert models(run)["float32"]["operations"]["macs_per_second_of_audio"] > 0
    assert (run.folder / "roofline.png").stat().st_size > 10_000
    assert (run.folder / "roofline.svg").read_text().count("<svg") == 1


@pytest.mark.slow
def test_each_number_of_threads_has_its_own_peak(run: Done) -> None:
    references = run.results["environment"]["references"]
    assert references["1"]["threads"] == 1
    cell = next(cell for cell in run.results["cells"] if cell["variant"] == "one-thread")
    assert cell["operations"]["peak_gflops"] == references["1"]["gflops"]


@pytest.mark.slow
def test_given_watts_make_joules_marked_with_their_source(run: Done) -> None:
    for cell in run.results["cells"]:
        if cell["status"] != "ok":
            continue
        energy, latency = cell["energy_j"], cell["latency_s"]["median"]
        assert energy["per_call"] == pytest.approx(5.8 * latency)
        assert energy["per_call_above_idle"] == pytest.approx(3.8 * latency)
        assert energy["per_second_of_audio"] == pytest.approx(5.8 * latency / cell["seconds"])
        assert energy["kind"] == "given"
    assert "given: 5.8 W in the recipe" in run.tables


def _cores() -> int:
    import os

    return len(os.sched_getaffinity(0))


# -- what is not there


def recipe_for(folder: Path, model: TinyModel, more: str) -> Path:
    path = folder / "recipe.yaml"
    path.write_text(tiny.recipe_text(str(model.folder), model.type, seconds="[0.5]", batches="[1]", more=more))
    return path


QUICK = "measure: {rounds: 1, budget: 0.1, warmup: 1}"


@pytest.mark.slow
def test_without_a_sensor_energy_is_unavailable_with_what_to_do(tiny_model: Any, tmp_path: Path) -> None:
    if Path("/sys/class/powercap/intel-rapl:0").exists():
        pytest.skip("this machine has a sensor")
    done = go(recipe_for(tmp_path, tiny_model("encoder"), QUICK), tmp_path / "logs", "--quiet")
    (cell,) = done.results["cells"]
    assert cell["energy_j"] is None
    assert "powercap" in cell["energy_reason"]
    assert "Energy: unavailable;" in done.tables
    assert "watts" in done.tables, "what to do"


@pytest.mark.slow
def test_a_variant_that_changes_nothing_says_so_and_the_others_go_on(tmp_path: Path) -> None:
    recipe = program.module_recipe(
        tmp_path,
        "Nothing",
        seconds="[0.1]",
        batches="[1]",
        more=QUICK + "\nvariants: [{name: int8, quantize: dynamic}, {name: float32}]\n",
    )
    done = go(recipe, tmp_path / "logs", "--quiet", "--trust")
    first, second = done.results["cells"]
    assert (first["variant"], first["status"]) == ("int8", "skipped")
    assert first["reason"].startswith("variant not supported: ")
    assert first["latency_s"] is None
    assert second["status"] == "ok"


@pytest.mark.parametrize(
    ("measure", "says"),
    [
        ("watts: -1", "greater than 0"),
        ("watts: lots", "a number"),
        ("powertop: none.csv", "none.csv"),
        ("idle_watts: 3", "idle_watts"),
        ("watts: 5\n  powertop: none.csv", "powertop"),
        ("watts: 2\n  idle_watts: 3", "idle_watts"),
    ],
)
def test_a_power_that_is_none_is_refused(tmp_path: Path, measure: str, says: str) -> None:
    recipe = program.module_recipe(tmp_path, "Nothing", more=f"measure:\n  {measure}\n")
    done = program.run(recipe, "--trust", "--logdir", tmp_path / "logs")
    assert done.returncode == 2, done.stdout
    assert says in done.stderr
    assert not list(tmp_path.glob("logs/*/*")), "no empty run is left behind"


@pytest.mark.slow
def test_a_powertop_report_gives_the_power(tmp_path: Path) -> None:
    (tmp_path / "powertop.csv").write_text(
        "PowerTOP Report\n\nThe battery reports a discharge rate of 7.50 W\nThe estimated remaining time is 2 hours\n"
    )
    recipe = program.module_recipe(
        tmp_path, "Nothing", seconds="[0.1]", batches="[1]", more="measure: {rounds: 1, powertop: powertop.csv}\n"
    )
    done = go(recipe, tmp_path / "logs", "--quiet", "--trust")
    (cell,) = done.results["cells"]
    assert cell["energy_j"]["mean_power_w"] == 7.5
    assert cell["energy_j"]["source"] == "powertop file powertop.csv"


@pytest.mark.slow
def test_idle_models_are_let_go_when_memory_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The amount of free memory is made up: it is the one thing that cannot be arranged here."""
    monkeypatch.setattr("profiler.execution.workers.available_memory", lambda: 1 << 40)
    recipe = program.module_recipe(
        tmp_path, "Nothing", more="variants: [{name: one}, {name: two}]\nmeasure: {rounds: 1}\n"
    )
    workers = Workers(load_recipe(recipe, trust=True), tmp_path, "cpu", {"one": 1, "two": 1})
    try:
        first = workers.ready("one")
        workers.ready("two")
        assert first.alive
        monkeypatch.setattr("profiler.execution.workers.available_memory", lambda: 0)
        workers._discard("two")
        workers.ready("two")
        assert not first.alive
    finally:
        workers.close()


def test_show_prints_only_what_a_variant_changes(tmp_path: Path) -> None:
    recipe = program.module_recipe(
        tmp_path, "Nothing", more="variants: [{name: plain}, {name: int8, quantize: dynamic, engine: x86}]\n"
    )
    done = program.run("show", recipe, "--trust", "--no-counts")
    assert "variants.plain" not in done.stdout
    assert "variants.int8: quantize: dynamic, engine: x86" in done.stdout
    shown = json.loads(program.run("show", recipe, "--trust", "--no-counts", "--json").stdout)
    assert [model["variant"] for model in shown["models"]] == ["plain", "int8"]
