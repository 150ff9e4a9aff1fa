"""Every shipped recipe goes the whole road in a reduced size: a row of helpers/shipped.py each, the real program."""

from __future__ import annotations

import json
import re
import statistics
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from profiler.recipe.load import load_recipe
from profiler.shipped import shipped_recipes
from tests.helpers import program, warm
from tests.helpers.road import QUICK, Done, go, read_trace
from tests.helpers.shipped import ROWS, Row, load_variants

# One of each library goes the road in a process of its own, which has imported nothing before. That of ESPnet, whose
# recipes have many variants, is in test_espnet.py.
FRESH = ("conformer-transducer-train", "crdnn", "mockingjay", "silero-vad", "wav2vec2-torchaudio", "whisper")


def test_every_shipped_recipe_has_a_row() -> None:
    assert set(ROWS) == set(shipped_recipes())


class Shrunk(NamedTuple):
    """A reduced run of a shipped recipe."""

    name: str
    row: Row
    done: Done

    @property
    def results(self) -> dict[str, Any]:
        return self.done.results


@pytest.fixture(scope="module", params=[name for name, row in ROWS.items() if not row.load])
def shrunk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Shrunk:
    """Each shipped recipe, with its model made tiny and its grid small; everything else is as it ships."""
    row = ROWS[request.param]
    recipe = f"recipes/{request.param}.yaml"
    own = load_recipe(program.ROOT / recipe, read_audio=False).recipe.pretrained_model.overrides
    done = go(
        recipe,
        tmp_path_factory.mktemp("logs"),
        f"pretrained_model.weights={'auto' if row.weights == 'no' else row.weights}",
        f"pretrained_model.overrides={json.dumps({**own, **row.overrides})}",
        f"profiling_dimensions.audio_mockup_secs={row.seconds}",
        f"profiling_dimensions.batch_sizes={row.batches}",
        *row.settings,
        *_kept_variants(request.param, row),
        *QUICK,
        "--quiet",
        fresh=request.param in FRESH,
    )
    return Shrunk(request.param, row, done)


@pytest.mark.slow
def test_results_have_the_documented_shape(shrunk: Shrunk) -> None:
    results = shrunk.results
    assert results["schema"] == 2
    run = results["run"]
    assert run["id"] == shrunk.done.folder.name
    assert run["recipe"].endswith(f"{shrunk.name}.yaml")
    assert re.fullmatch(r"[0-9a-f]{64}", run["recipe_sha256"])
    assert run["command"].startswith(f"profile.py recipes/{shrunk.name}.yaml pretrained_model.weights=")
    assert run["started"] <= run["finished"]
    assert run["status"] == "complete"

    environment = results["environment"]
    for key in ("host", "cpu", "cores", "threads", "memory_bytes", "os", "python", "load"):
        assert environment[key], key
    assert {"gpu", "governor"} <= set(environment)
    assert {"torch", "torchaudio", "transformers", "speechbrain"} <= set(environment["packages"])
    assert environment["reference"]["gflops"] > 0
    assert environment["reference"]["gb_per_s"] > 0

    assert [model["variant"] for model in results["models"]] == variants(shrunk)
    for model in results["models"]:
        assert model["source"]
        assert model["type"]
        assert model["weights"] == shrunk.row.weights
        parameters = model["parameters"]
        assert parameters["total"] < (50_000 if shrunk.row.weights == "random" else 2_000_000)
        assert sum(parameters["components"].values()) == parameters["total"] >= parameters["trainable"]
        assert model["size_bytes"]["total"] >= 4 * parameters["total"]
        assert (parameters["total"] == 0) == (shrunk.row.parameters == 0)


@pytest.mark.slow
def test_every_cell_is_measured(shrunk: Shrunk) -> None:
    cells = shrunk.results["cells"]
    seconds, batches = json.loads(shrunk.row.seconds), json.loads(shrunk.row.batches)
    places = [(cell["variant"], cell["seconds"], cell["batch_size"]) for cell in cells]
    assert places == list(product(variants(shrunk), seconds, batches))
    for cell in cells:
        assert cell["status"] == "ok"
        assert cell["reason"] is None
        assert cell["timed_region"] == f"waveforms in memory to {shrunk.row.output}"
        assert cell["input"]["audio"] == "speech.flac"

        latency = cell["latency_s"]
        assert latency["n"] == len(latency["samples"]) == len(latency["cpu"]) == sum(latency["rounds"]) >= 1
        assert latency["min"] == min(latency["samples"]) > 0
        assert min(latency["cpu"]) > 0
        assert latency["ci95"] is None, "one round gives none"
        assert latency["median"] == pytest.approx(statistics.median(latency["samples"]))
        assert latency["min"] <= latency["mean"] <= max(latency["samples"])
        assert latency["std"] >= 0
        assert latency["stopped_by"] == "rounds"

        assert cell["rtf"] == pytest.approx(latency["median"] / (cell["batch_size"] * cell["seconds"]))
        assert cell["rtfx"] == pytest.approx(1 / cell["rtf"])
        assert cell["verdict"] == "unstable"
        assert cell["disturbances"]["too_few_rounds"] == 1

        memory = cell["peak_memory_bytes"]
        if cell["operations_reason"] and "torch cannot count" in cell["operations_reason"]:
            assert memory["tensors"] is None, "an engine has its own"
        else:
            assert memory["tensors"] > cell["seconds"] * cell["batch_size"] * 1000
        assert memory["process"] > 100e6, "a process with torch in it"
        assert 0 <= memory["above_baseline"] < memory["process"]


@pytest.mark.slow
def test_tables_are_printed_and_written_and_say_which_weights(shrunk: Shrunk) -> None:
    done = shrunk.done
    assert done.tables.strip() in done.stdout
    assert done.stderr == ""
    titles = re.findall(r"(?m)^\*\*(.+)\*\*$", done.tables)
    assert any(title.startswith("Real-time factor") for title in titles)
    assert any(title.startswith("Peak memory") for title in titles)
    assert all(title.endswith(f"{shrunk.row.weights} weights") for title in titles), titles
    assert "Audio: speech.flac" in done.tables


@pytest.mark.slow
def test_each_cell_has_one_small_trace_with_the_models_operators(shrunk: Shrunk) -> None:
    done = shrunk.done
    for cell in shrunk.results["cells"]:
        if not shrunk.row.operators:
            assert cell["trace"] is None
            continue
        (trace,) = done.traces(cell)
        assert trace == done.folder / cell["trace"]
        assert trace.parent == done.folder / cell["variant"] / f"{cell['seconds']:g}s_x{cell['batch_size']}"
        assert trace.stat().st_size < 4e6
        names = {event.get("name") for event in read_trace(trace)}
        assert shrunk.row.operators <= names


@pytest.mark.slow
def test_report_prints_the_same_tables_without_torch(shrunk: Shrunk, tmp_path: Path) -> None:
    done = shrunk.done
    script = tmp_path / "report.py"
    script.write_text(f"""
import runpy, sys
sys.argv = ["profile.py", "report", "latest", "--logdir", {str(done.logdir)!r}]
try:
    runpy.run_path("profile.py", run_name="__main__")
finally:
    print("torch" in sys.modules, "transformers" in sys.modules, file=sys.stderr)
""")
    before = done.tables
    again = warm.run([str(script)], program.ROOT, timeout=60, kind="plain")
    assert again.returncode == 0, again.stderr
    assert before.strip() in again.stdout
    assert again.stderr.splitlines()[-1] == "False False"
    assert done.tables == before


def _kept_variants(name: str, row: Row) -> list[str]:
    if any(setting.startswith("variants=") for setting in row.settings):
        return []
    kept = [variant for variant in load_variants(name) if variant.name in row.variants]
    return [f"variants={json.dumps([variant.model_dump(exclude_defaults=True) for variant in kept])}"] if kept else []


def variants(shrunk: Shrunk) -> list[str]:
    return list(shrunk.row.variants) or [variant.name for variant in load_variants(shrunk.name)]
