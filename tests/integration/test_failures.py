"""A cell may die in any way: it is marked, the run goes on, and the other cells come out as if nothing had happened."""

from __future__ import annotations

import re
import resource
from pathlib import Path

import pytest

from tests.helpers import program
from tests.helpers.road import Done

pytestmark = pytest.mark.slow

LIMIT = "measure: {warmup: 1, min_calls: 5, budget: 0.2, limit: 3, rounds: 2}\n"


WAYS = {
    "raise": "the model does not like this length",
    "SIGSEGV": "killed by SIGSEGV",
    "SIGKILL": "killed by SIGKILL",
    "hang": "no result within 3 s (measure.limit)",
}


@pytest.fixture(scope="module")
def dying(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """A run of several variants: each dies in another way in the second of its three cells."""
    folder = tmp_path_factory.mktemp("dying")
    variants = [f"- {{name: {what}, set: {{pretrained_model.overrides.what: {what}}}}}\n" for what in WAYS]
    more = LIMIT + "variants:\n" + "".join(variants)
    recipe = program.module_recipe(folder, "Trouble", "{at: 0.2}", "[0.1, 0.2, 0.3]", "[1]", more)
    done = program.run(recipe, "--trust", "--logdir", folder / "logs")
    assert done.returncode == 1
    return Done(done.stdout, done.stderr, folder / "logs")


@pytest.mark.parametrize("what", WAYS)
def test_a_cell_that_dies_fails_alone(dying: Done, what: str) -> None:
    first, failed, last = [cell for cell in dying.results["cells"] if cell["variant"] == what]
    assert failed["status"] == "failed"
    assert WAYS[what] in failed["reason"]
    assert WAYS[what] in dying.stdout, "the table says why"
    assert "Traceback" not in dying.stderr
    for measured in (first, last):
        assert measured["status"] == "ok"
        assert len(measured["latency_s"]["rounds"]) == 2
        # The sleeper takes 10 ms for each second of audio, whatever happened to its neighbour.
        assert measured["latency_s"]["min"] == pytest.approx(0.01 * measured["seconds"], rel=0.5)
    assert dying.results["run"]["status"] == "finished with failures"
    assert f"{what} 0.2 s x 1: FAILED, " in dying.stderr, "at once, while the run goes on"


def test_a_cell_under_a_real_memory_limit_fails_with_the_reason(tmp_path: Path) -> None:
    recipe = program.module_recipe(tmp_path, "Trouble", "{what: memory, at: 0.2}", batches="[1]")

    def limit_memory() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))

    done = program.run(recipe, "--trust", "--logdir", tmp_path, preexec_fn=limit_memory)
    results = program.results_in(tmp_path)
    assert done.returncode == 1
    assert "out of memory" in program.cell(results, 0.2, 1)["reason"]
    assert program.cell(results, 0.1, 1)["status"] == "ok"


def test_cells_that_cannot_fit_in_memory_are_skipped_with_the_figure(tmp_path: Path) -> None:
    # 20 GB for each second of audio: the first cells fit anywhere, the last nowhere.
    recipe = program.module_recipe(
        tmp_path, "Hungry", "{megabytes_per_second: 20000}", seconds="[0.005, 0.01, 100]", batches="[1]"
    )
    done = program.run(recipe, "--trust", "--logdir", tmp_path)
    skipped = program.cell(program.results_in(tmp_path), 100, 1)
    assert done.returncode == 0, "skipped on purpose is no failure"
    assert skipped["status"] == "skipped"
    assert "would need about" in skipped["reason"]
    assert "GB is available" in skipped["reason"]


def test_cells_that_cannot_fit_in_time_are_skipped_with_the_figure(tmp_path: Path) -> None:
    recipe = program.module_recipe(
        tmp_path, "Sleeper", "{per_second: 0.1}", seconds="[0.1, 0.2, 600]", batches="[1]", more=LIMIT
    )
    done = program.run(recipe, "--trust", "--logdir", tmp_path)
    skipped = program.cell(program.results_in(tmp_path), 600, 1)
    assert skipped["status"] == "skipped"
    assert "over measure.limit (3.00 s)" in skipped["reason"]
    # Two rounds of three cells are planned; one of them will be skipped, and takes none of the time that is left.
    second = next(line for line in done.stderr.splitlines() if "0.2 s x 1: RTF" in line)
    assert second.startswith("[2/4, ")
    assert re.search(r"about 0:0\d left|0:\d\d\]", second)


def test_a_variant_whose_model_cannot_be_built_fails_at_once_and_the_next_one_is_measured(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "modules.py").write_text("Sleeper = None\n")
    more = program.QUICK + (
        "variants:\n"
        "  - {name: good}\n"
        "  - {name: bad, path: broken}\n"
        "  - {name: also-good, threads: 1, baseline: good}\n"
    )
    recipe = program.module_recipe(tmp_path, "Sleeper", more=more, seconds="[0.1, 0.2]", batches="[1]")
    done = program.run(recipe, "--trust", "--logdir", tmp_path / "logs")
    results = program.results_in(tmp_path / "logs")
    status = {cell["variant"]: cell["status"] for cell in results["cells"]}
    assert done.returncode == 1
    assert status == {"good": "ok", "bad": "failed", "also-good": "ok"}
    (line,) = [line for line in done.stderr.splitlines() if "FAILED" in line]
    assert "bad: FAILED, 2 cells: " in line, "once, not for each of its cells"
    assert done.stderr.index("FAILED") < done.stderr.index("also-good 0.1 s x 1: RTF")
    assert results["run"]["status"] == "finished with failures"
    assert {model["variant"]: model["baseline"] for model in results["models"]} == {"good": None, "also-good": "good"}


def test_a_mistake_in_what_a_variant_sets_is_found_before_anything_is_measured(tmp_path: Path) -> None:
    more = program.QUICK + (
        "variants:\n  - {name: good}\n  - {name: bad, set: {pretrained_model.overrides.nonsense: 1}}\n"
    )
    recipe = program.module_recipe(tmp_path, "Sleeper", more=more, seconds="[0.1]", batches="[1]")
    done = program.run(recipe, "--trust", "--logdir", tmp_path / "logs")
    assert done.returncode == 2
    assert "The variant bad cannot be made: " in done.stderr
    assert "nonsense" in done.stderr
    assert "RTF" not in done.stderr
    assert list((tmp_path / "logs").glob("*/*")) == [], "no empty run stays behind"
