"""Calls that take long: fewer of them are made, memory is taken in those, and the cell says how many it had."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import program

pytestmark = pytest.mark.slow

SHORT, LONG = (0.1, 1), (2.0, 1)  # 75 ms and 1.5 s a call
# A cell has 6 x 0.4 s for timing, and as much again beside: a long call to warm up, one that is timed, one for a trace.
MEASURE = "measure: {budget: 0.4, rounds: 6}\n"


class Run:
    def __init__(self, folder: Path, megabytes: int = 0) -> None:
        name, arguments = ("Slow", f"{{per_second: 0.75, megabytes: {megabytes}}}")
        grid = "  export_logs: True\n"
        recipe = program.module_recipe(
            folder, name, arguments, seconds="[0.1, 2]", batches="[1]", more=MEASURE, grid=grid
        )
        self.done = program.run(recipe, "--trust", "--logdir", folder / "logs")
        self.folder = program.run_folder(folder / "logs")
        self.results = json.loads((self.folder / "results.json").read_text())

    def cell(self, place: tuple[float, int]) -> Any:
        return program.cell(self.results, *place)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(tmp_path_factory.mktemp("long"), megabytes=64)


def test_a_long_call_is_timed_once_and_warmed_up_for_once(run: Run) -> None:
    assert run.done.returncode == 0, run.done.stderr
    latency = run.cell(LONG)["latency_s"]
    assert (latency["n"], latency["rounds"], len(latency["warmup"])) == (1, [1], 1)
    assert latency["ci95"] is None
    assert latency["stopped_by"] == "budget"
    assert run.results["run"]["stopped_by"] == "budget"


def test_a_short_call_has_its_rounds(run: Run) -> None:
    latency = run.cell(SHORT)["latency_s"]
    assert len(latency["rounds"]) >= 6
    assert latency["ci95"] is not None


def test_memory_was_taken_in_these_calls(run: Run) -> None:
    """The module holds 64 MB while it is called, and gives a tensor as large as its input: exact in both cells."""
    long, short = run.cell(LONG), run.cell(SHORT)
    assert long["peak_memory_bytes"]["tensors"] == (64 << 20) + 2 * 16000 * 4
    assert short["peak_memory_bytes"]["tensors"] == (64 << 20) + 1600 * 4
    assert long["peak_memory_bytes"]["above_baseline"] == pytest.approx(64 << 20, rel=0.2)
    assert long["work_s"]["memory"] < 0.5, "no call was made for it"
    assert short["work_s"]["memory"] > 0.1


def test_what_there_is_no_time_for_is_left_out_with_the_reason(run: Run) -> None:
    long = run.cell(LONG)
    assert long["trace"] is not None, "the recipe asks for it"
    assert (run.folder / long["trace"]).is_file()
    assert long["breakdown"] is None
    assert re.fullmatch(
        r"a call takes 1\.\d\d s; 2 calls more would pass the 2\.40 s that a cell has beside its timing "
        r"\(6 x measure\.budget\)",
        long["breakdown_reason"],
    )
    assert long["operations"] is None
    assert run.cell(SHORT)["breakdown"] is not None


def test_the_cell_says_how_many_calls_it_had(run: Run) -> None:
    reasons = run.cell(LONG)["verdict_reasons"]
    assert any("too short for the 6 rounds that a 95 % CI takes" in reason for reason in reasons)
    report = program.run("report", run.folder, "--full").stdout
    assert re.search(r"- no 95 % CI: 1 timed call of 1\.\d\d s \(2 s x 1\)\.", report)
    with (run.folder / "results.csv").open() as file:
        (row,) = [row for row in csv.DictReader(file) if float(row["audio_s"]) == LONG[0]]
    assert (row["calls"], row["rounds"]) == ("1", "1")


def test_the_time_left_knows_of_it(run: Run) -> None:
    """Six rounds of two cells, but one of the long cell: it is predicted to have no more."""
    lines = [line for line in run.done.stderr.splitlines() if re.match(r"\[\d+/\d+, ", line)]
    planned = [int(re.match(r"\[\d+/(\d+)", line)[1]) for line in lines]  # type: ignore[index]
    assert planned[-1] <= 7


def test_the_recipe_of_the_french_model_runs_as_it_is_written(tmp_path: Path) -> None:
    """Verbatim from a README, but for the path of the audio: `False` and `True`, comments and all."""
    recipe = tmp_path / "profile.yaml"
    audio = Path(__file__).resolve().parents[2] / "samples" / "speech.flac"
    recipe.write_text(FRENCH.replace("../../samples/audio_samples/example2.flac", str(audio)))
    shown = json.loads(program.run("show", recipe, "--json", "--no-counts").stdout)
    assert len(shown["cells"]) == 15
    assert not any(cell.get("skip") for cell in shown["cells"])


FRENCH = """\
# Which model to profile?
pretrained_model:
  source: speechbrain/asr-wav2vec2-commonvoice-fr  # HuggingFace or local path
  type: EncoderASR  # Pretrained interface

# Which settings should be benchmarked?
profiling_dimensions:
  audio_mockup_secs: [1, 2, 5, 8, 32]  # 1s, 2s, ...
  batch_sizes: [1, 4, 8]  # 1 file per batch, 4 files per batch, ...
  # Fancy to truncate/repeat a real audio?
  example_audio: ../../samples/audio_samples/example2.flac # None -> random data
  # Some audio_mockup_secs x batch_sizes configs can get VRAM intensive
  triangle_only: False  # True -> skip the heavy ones, e.g., 32s x 8 files
  export_logs: True  # export trace logs for visualisation
"""
