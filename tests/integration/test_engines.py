"""The same model on every engine: what runs where, that it is the same, what the export took, and what is refused."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from profiler import load_run
from profiler.recipe.load import load_recipe
from tests.helpers import program

pytestmark = pytest.mark.slow

VARIANTS = """
variants:
- {name: torch}
- {name: onnx, runtime: onnxruntime}
- {name: onnx-int8, runtime: onnxruntime, quantize: dynamic}
- {name: openvino, runtime: openvino, precision: float32}
- {name: executorch, runtime: executorch}
- {name: aot, runtime: aot_inductor}
measure: {warmup: 1, budget: 0.05, rounds: 1, operations: false}
"""
AGAIN = """
variants:
- {name: torch}
- {name: onnx, runtime: onnxruntime, threads: 1}
measure: {warmup: 1, budget: 0.05, rounds: 1}
trace: {breakdown: false}
"""
FLOAT32 = ("onnx", "openvino", "executorch", "aot")


class Run(NamedTuple):
    said: str
    results: dict[str, Any]
    folder: Path

    def use(self, variant: str) -> dict[str, Any]:
        found: dict[str, Any] = self.conversion(variant)["runtime"]
        return found

    def conversion(self, variant: str) -> dict[str, Any]:
        return next(dict(model["conversion"]) for model in self.results["models"] if model["variant"] == variant)

    def cells(self, variant: str) -> list[dict[str, Any]]:
        return [cell for cell in self.results["cells"] if cell["variant"] == variant]


def run(folder: Path, more: str, name: str = "Tagger", grid: str = "") -> Run:
    folder.mkdir()
    recipe = program.module_recipe(folder, name, seconds="[0.2]", batches="[1]", more=more, grid=grid)
    done = program.run(recipe, "--trust", "--threads", "2", "--full", "--logdir", folder / "logs", timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return Run(done.stdout, program.results_in(folder / "logs"), program.run_folder(folder / "logs"))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file cache of this file's own."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="module")
def first(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("first") / "run", VARIANTS, grid="  export_logs: true\n")


@pytest.fixture(scope="module")
def second(first: Run, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("second") / "run", AGAIN)


@pytest.mark.parametrize("variant", FLOAT32)
def test_a_float32_engine_gives_what_torch_gives(first: Run, variant: str) -> None:
    assert first.cells(variant)[0]["status"] == "ok", first.cells(variant)[0]["reason"]
    assert first.conversion(variant)["difference"]["max"] < 1e-4
    assert first.use(variant)["parts"] == ["tagger"]


def test_int8_is_further_off_and_smaller(first: Run) -> None:
    exact, int8 = (first.conversion(name)["difference"]["max"] for name in ("onnx", "onnx-int8"))
    assert exact < int8 < 1
    assert first.use("onnx-int8")["file_bytes"] < first.use("onnx")["file_bytes"]


def test_threads_and_precision_are_those_that_the_engine_says(first: Run, second: Run) -> None:
    found = {variant: first.use(variant) for variant in FLOAT32}
    assert {variant: use["precision"] for variant, use in found.items()} == dict.fromkeys(FLOAT32, "float32")
    assert {variant: use["threads"] for variant, use in found.items()} == dict.fromkeys(FLOAT32, 2)
    assert second.use("onnx")["threads"] == 1


def test_an_export_is_made_once(first: Run, second: Run) -> None:
    assert first.use("onnx")["cached"] is False
    assert second.use("onnx")["cached"] is True
    assert second.use("onnx")["export_s"] == first.use("onnx")["export_s"]
    assert "(cached)" in second.said


def test_a_table_says_what_runs_where_and_what_the_export_took(first: Run) -> None:
    assert "Engines - " in first.said
    use = first.use("onnx")
    assert use["export_s"] > 0 < use["load_s"]
    assert use["export_peak_bytes"] > use["file_bytes"] > 0
    assert "ONNX Runtime" in first.said
    assert "all else of the call runs in torch" in first.said


def test_what_torch_cannot_see_of_an_engine_is_absent_with_a_reason(second: Run) -> None:
    (cell,) = second.cells("onnx")
    assert cell["peak_memory_bytes"]["tensors"] is None
    assert cell["peak_memory_bytes"]["process"] > 0
    assert cell["operations"] is None
    assert "where torch cannot count" in cell["operations_reason"]


@pytest.mark.parametrize(("variant", "operator"), [("onnx", "ONNX Runtime: "), ("openvino", "OpenVINO: ")])
def test_the_engines_own_profile_is_in_the_breakdown(first: Run, variant: str, operator: str) -> None:
    file = first.folder / first.cells(variant)[0]["breakdown"]["file"]
    rows = [row for row in json.loads(file.read_text())["operators"] if row["name"].startswith(operator)]
    assert rows
    assert all(row["own_s"] > 0 for row in rows)


def test_an_engine_without_a_profile_says_so(first: Run) -> None:
    notes = first.cells("executorch")[0]["breakdown"]["notes"]
    assert any("built without its profiler" in note for note in notes)


def test_operators_of_onnx_runtime_lie_inside_its_span_of_the_trace(first: Run) -> None:
    with gzip.open(first.folder / first.cells("onnx")[0]["trace"], "rt") as source:
        events = [event for event in json.load(source)["traceEvents"] if event.get("ph") == "X"]
    (span,) = [event for event in events if event["name"] == "ONNX Runtime: tagger"]
    inside = [event for event in events if "node" in event.get("args", {})]
    assert inside
    assert all(span["ts"] <= event["ts"] <= span["ts"] + span["dur"] for event in inside)


def test_whether_waiting_threads_sleep_is_measured_for_every_engine(first: Run) -> None:
    found = {variant: first.use(variant) for variant in FLOAT32}
    assert all(use["waiting_cpus"] is not None for use in found.values())
    assert all(use["spinning"] == (use["waiting_cpus"] > 0.2) for use in found.values())
    notes = {variant: " ".join(first.conversion(variant)["notes"]) for variant in FLOAT32}
    assert all(
        ("threads" in notes[variant] and "spin" in notes[variant]) == use["spinning"] for variant, use in found.items()
    )
    settings = first.results["environment"]["settings"].values()
    assert {each["environment"]["OMP_WAIT_POLICY"] for each in settings} == {"passive"}, "torch's threads too"
    assert "follow OMP_WAIT_POLICY=passive" in first.said


def test_a_data_set_has_other_lengths_than_files_for_one_shape_and_is_not_begun(first: Run, tmp_path: Path) -> None:
    more = f"""
variants: [{{name: executorch, runtime: executorch}}]
measure: {{warmup: 1, budget: 0.05, rounds: 1, operations: false}}
trace: {{breakdown: false}}
dataset: {{source: {program.ROOT}/samples/commands/test.csv, limit: 2, rounds: 1}}
"""
    found = run(tmp_path / "run", more)
    (data,) = found.results["datasets"]
    assert data["status"] == "skipped"
    assert data["reason"].startswith("variant not supported: files of ExecuTorch are for the shapes of the grid alone")


def test_tune_tries_engines_and_precisions_and_ends_with_a_recipe(first: Run, tmp_path: Path) -> None:
    more = "measure: {warmup: 1, rounds: 6}\n"
    recipe = program.module_recipe(tmp_path, "Tagger", seconds="[0.2]", batches="[1]", more=more)
    few = ["--engines", "torch,onnxruntime,openvino", "--precisions", "float32,int8", "--try-threads", "1"]
    last = ["--finalists", "2", "--budget", "0.5", "--trust", "--json", "--logdir", tmp_path / "logs"]
    done = program.run("tune", recipe, *few, *last, timeout=600)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    tried = {variant for variant, _ in found["candidates"]}
    assert {"onnxruntime-float32-1t", "onnxruntime-int8-1t", "openvino-float32-1t"} <= tried
    assert not any("error" in each["reason"].lower() for each in found["dropped"])
    assert found["pick"]["front"]
    assert Path(found["plot"]).is_file()
    kept = load_recipe(tmp_path / "recipe-tuned.yaml", trust=True).recipe
    assert found["pick"]["variant"] in [variant.name for variant in kept.variants]
    final = load_run("recipe-finalists", tmp_path / "logs").results
    assert len({tuple(cell.latency_s.rounds) for cell in final.cells if cell.latency_s}) == 1, "turn by turn"


def test_a_recipe_that_asks_an_engine_for_what_it_has_not_is_refused_at_once(tmp_path: Path) -> None:
    for wrong, sentence in (
        (
            "runtime: executorch, quantize: dynamic",
            "onnxruntime and ctranslate2 have quantize: dynamic",
        ),
        (
            "runtime: onnxruntime, precision: bfloat16",
            "openvino and ctranslate2 have precision: bfloat16",
        ),
        ("runtime: openvino, compile: true", "compile is for torch"),
        ("runtime: onnx", "'onnxruntime'"),
    ):
        recipe = program.module_recipe(tmp_path, "Tagger", more=f"variants:\n- {{name: a, {wrong}}}\n")
        done = program.run(recipe, "--trust")
        assert done.returncode == 2
        assert sentence in " ".join(done.stderr.split())
