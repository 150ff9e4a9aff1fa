"""Training on the whole road: phases, memory, breakdown of both passes, traces, and batches of a data set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import program
from tests.helpers.road import Done, go, read_trace
from tests.helpers.shipped import ROWS

PHASES = ["forward", "loss", "backward", "optimizer"]
ACTIVE, REPEAT = 3, 2
SIZES = json.dumps(ROWS["conformer-transducer-train"].overrides)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """The shipped recipe, tiny, with a schedule of several steps and a data set."""
    folder = tmp_path_factory.mktemp("training")
    rows = ["id\tseconds\ttarget", "a\t1.0\t3", "b\t0.5\t7", "c\t0.8\t2", "d\t0.6\t"]
    (folder / "set.shapes.tsv").write_text("\n".join(rows) + "\n")
    return go(
        "recipes/conformer-transducer-train.yaml",
        folder / "logs",
        f"pretrained_model.overrides={SIZES}",
        "profiling_dimensions.audio_mockup_secs=[0.5]",
        "profiling_dimensions.batch_sizes=[2]",
        "profiling_dimensions.padding=0.3",
        f"trace.schedule={{wait: 1, warmup: 1, active: {ACTIVE}, repeat: {REPEAT}}}",
        f"dataset={{source: {folder}/set.shapes.tsv, order: corpus, batch_size: 2, batch_frames: null, rounds: 2}}",
        "measure.rounds=2",
        "measure.budget=0.1",
    )


def cell(run: Done) -> dict[str, Any]:
    (found,) = run.results["cells"]
    return dict(found)


@pytest.mark.slow
def test_phases_are_those_of_the_timed_steps(run: Done) -> None:
    measured = cell(run)
    phases = measured["training"]["phases"]
    assert list(phases) == PHASES
    assert sum(phase["share"] for phase in phases.values()) == pytest.approx(1)
    for number, step in enumerate(measured["latency_s"]["samples"]):
        assert 0.5 * step < sum(phase["samples"][number] for phase in phases.values()) <= step
    assert measured["timed_region"] == "waveforms in memory to updated weights (forward, loss, backward, optimizer)"
    assert measured["rtf"] == pytest.approx(measured["latency_s"]["median"] / measured["input"]["seconds_of_audio"]), (
        "of the whole step"
    )
    training = measured["training"]
    assert training["seconds_of_audio_per_second"] == pytest.approx(measured["rtfx"])
    assert training["frames_per_second"] == pytest.approx(measured["rtfx"] * training["frames_per_second_of_audio"])
    assert 15 < training["frames_per_second_of_audio"] < 25, "100 a second, subsampled by 4, less what the ends take"
    assert training["loss"]["last"] < training["loss"]["first"]
    assert training["tokens"] >= 2


@pytest.mark.slow
def test_memory_by_phase(run: Done) -> None:
    measured, (model,) = cell(run), run.results["models"]
    peaks = measured["training"]["peak_memory_bytes"]
    assert list(peaks) == PHASES
    for kind in ("tensors", "process"):
        assert max(peak[kind] for peak in peaks.values()) == measured["peak_memory_bytes"][kind]
    parameters = 4 * model["parameters"]["trainable"]
    assert all(peak["tensors"] > 0 for peak in peaks.values())
    assert min(peaks[name]["tensors"] for name in ("backward", "optimizer")) >= parameters, "the gradients"
    state = measured["training"]["state_bytes"]
    assert state["parameters"] == state["gradients"] == parameters
    assert 2 * parameters <= state["optimizer"] < 2.2 * parameters, "AdamW keeps two numbers for each"


@pytest.mark.slow
def test_what_was_trained_how_is_in_results_and_tables(run: Done) -> None:
    (model,) = run.results["models"]
    assert model["training"]["loss"] == "0.5 simple + pruned transducer"
    assert "plain operations of the profiler's own" in model["training"]["loss_library"]
    assert model["training"]["optimizer"] == "AdamW"
    assert model["training"]["trained_parameters"] == model["parameters"]["trainable"]
    for sentence in (
        "**Training step by phase - icefall/conformer-transducer, float32, training, random weights**",
        "Loss: 0.5 simple + pruned transducer (torch 2",
        "Optimizer: AdamW, learning rate 0.0001, gradients clipped to norm 5",
        "**Peak memory by phase, in MB -",
        "**Training over the data set -",
        "Targets are random tokens",
    ):
        assert sentence in run.tables
        assert sentence in run.stdout


@pytest.mark.slow
def test_the_breakdown_covers_both_passes_and_all_profiled_steps(run: Done) -> None:
    found = cell(run)["breakdown"]
    assert found["calls"] >= ACTIVE * REPEAT
    assert found["profiled_calls"] == ACTIVE * REPEAT
    rows = {(row["name"], row["phase"]): row for row in found["labels"]}
    layers = ROWS["conformer-transducer-train"].overrides["layers"]
    for name in ("encoder_layer", "feed_forward_macaron", "self_attn", "conv", "feed_forward"):
        assert rows[name, "forward"]["calls"] == layers
        assert rows[name, "backward"]["calls"] > layers, "steps of autograd"
        for phase in ("forward", "backward"):
            row = rows[name, phase]
            assert row["total_s"] > 0
            assert row["memory_bytes"] >= 0
            assert row["macs"] > 0
            assert row["macs_per_second_of_audio"] == pytest.approx(row["macs"] / found["seconds_of_audio"])
        assert rows[name, "backward"]["macs"] == pytest.approx(2 * rows[name, "forward"]["macs"], rel=0.25)
    for name in ("encoder", "encoder_embed", "decoder", "joiner", "loss_simple", "loss_pruned"):
        assert rows[name, "forward"]["calls"] == 1
        assert rows[name, "backward"]["total_s"] > 0
    whole = rows["(whole call)", "step"]
    own = sum(row["own_share"] for row in rows.values()) - whole["own_share"]
    assert own == pytest.approx(1, abs=0.02), "labels of both passes, the optimizer and the rest are the step"
    assert whole["macs"] == sum(row["own_macs"] or 0 for row in rows.values()) - whole["own_macs"]
    overhead = found["overhead"]
    assert overhead["backward_steps"] > 100
    assert overhead["known"] > 0
    details = json.loads((run.folder / found["file"]).read_text())
    assert {row["phase"] for row in details["modules"]} == {"forward", "backward"}
    assert any("convolution_backward" in row["name"] for row in details["operators"])


@pytest.mark.slow
def test_report_filters_and_sorts_both_passes(run: Done) -> None:
    done = program.run("report", run.folder, "--labels", "feed*", "--sort", "operations", "--json")
    (found,) = json.loads(done.stdout)
    phases = [row["phase"] for row in found["rows"]]
    assert phases == ["backward", "backward", "forward", "forward"]
    assert {row["name"] for row in found["rows"]} == {"feed_forward_macaron", "feed_forward"}


@pytest.mark.slow
def test_phases_and_labels_are_spans_of_the_traces(run: Done) -> None:
    traces = run.traces(cell(run))
    assert len(traces) == REPEAT
    for trace in traces:
        spans = [event for event in read_trace(trace) if event.get("cat") == "user_annotation"]
        phases = sorted((span for span in spans if span["name"].startswith("phase: ")), key=lambda span: span["ts"])
        assert [span["name"].removeprefix("phase: ") for span in phases] == PHASES * ACTIVE
        backward = [span for span in phases if span["name"] == "phase: backward"]
        for name in ("encoder, backward", "loss_pruned, backward", "self_attn, backward"):
            labelled = [span for span in spans if span["name"] == name]
            assert labelled
            for span in labelled:
                assert any(
                    outer["ts"] <= span["ts"] and span["ts"] + span["dur"] <= outer["ts"] + outer["dur"] + 1
                    for outer in backward
                )


@pytest.mark.slow
def test_batches_bring_targets_of_their_own_lengths(run: Done) -> None:
    (found,) = run.results["datasets"]
    assert [sample["ids"] for sample in found["samples"]] == [["a", "b"], ["c", "d"]]
    usual = round(0.6 * 5.3)
    assert [sample["tokens"] for sample in found["samples"]] == [3 + 7, 2 + usual], "d has none of its own"
    assert [len(sample["phases"]) for sample in found["samples"]] == [2, 2], "a round each"
    training = found["training"]
    assert training["tokens"] == 12 + usual
    assert sum(phase["share"] for phase in training["phases"].values()) == pytest.approx(1)
    assert training["seconds_of_audio_per_second"] == pytest.approx(found["rtfx"])
    assert found["seconds_of_audio"] == pytest.approx(2.9), "padding is not audio"


# -- a class of the user's own, and what goes wrong

OWN = """
import torch

class Encoder(torch.nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.front = torch.nn.Linear(80, width)
        self.layer = torch.nn.GRU(width, width, batch_first=True)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.layer(self.front(features[:, ::5]))[0]
"""


def own_recipe(folder: Path, more: str) -> Path:
    (folder / "own.py").write_text(OWN)
    recipe = folder / "recipe.yaml"
    recipe.write_text(
        "pretrained_model: {source: own.Encoder, type: Module, input: features}\n"
        "profiling_dimensions: {audio_mockup_secs: [0.5, 1], batch_sizes: [1]}\n"
        f"measure: {{rounds: 1, warmup: 1, budget: 0.1}}\nmode: training\n{more}"
    )
    return recipe


@pytest.mark.slow
def test_a_class_is_trained_with_an_output_layer_in_variants(tmp_path: Path) -> None:
    more = (
        "training: {vocabulary: 40}\n"
        "variants: [{name: adamw}, {name: sgd, set: {training.optimizer: sgd}}]\n"
        "dataset: {source: set.shapes.tsv}\n"
    )
    (tmp_path / "set.shapes.tsv").write_text(
        "# frames_per_second: 25\nid\tframes\ttarget\nfits\t25\t9\nutt-7\t25\t25\n"
    )
    done = program.run(own_recipe(tmp_path, more), "--trust", "--logdir", tmp_path / "logs")
    assert done.returncode == 1, "a batch of the data set fails"
    results = program.results_in(tmp_path / "logs")
    assert [model["training"]["optimizer"] for model in results["models"]] == ["AdamW", "SGD"]
    for model in results["models"]:
        assert model["training"]["added"] == ["ctc_head"]
        assert model["parameters"]["components"]["ctc_head"] == 8 * 40 + 40
        assert model["training"]["loss"] == "CTC"
    assert [each["training"]["state_bytes"]["optimizer"] > 0 for each in results["cells"]] == [True, True, False, False]
    assert "ctc_head" in {row["name"] for row in results["cells"][0]["breakdown"]["labels"]}
    for found in results["datasets"]:
        (failed,) = found["failed"]
        assert failed["longest"] == "utt-7"
        assert "the target of utt-7 is too long: 25 tokens, and there are 20 frames" in failed["reason"]
        assert found["batches"] == 1


@pytest.mark.slow
def test_targets_that_do_not_fit_fail_their_cell_with_the_figure(tmp_path: Path) -> None:
    recipe = own_recipe(tmp_path, "training: {targets_per_second: 30}\n")
    done = program.run(recipe, "--trust", "--logdir", tmp_path / "logs")
    assert done.returncode == 1
    for measured in program.results_in(tmp_path / "logs")["cells"]:
        assert measured["status"] == "failed"
        assert "lower training.targets_per_second" in measured["reason"]


@pytest.mark.parametrize(
    ("recipe", "settings", "sentence"),
    [
        ("ecapa", (), "pretrained_model.type: the interface SpeakerRecognition cannot be trained here"),
        ("wav2vec2", ("training.loss=transducer",), "the interface AutoModelForCTC is trained with ctc, not with"),
        ("wav2vec2", ("training.optimiser=sgd",), "Did you mean `optimizer`?"),
        ("wav2vec2", ("training.learning_rate=0",), "expected a number greater than 0"),
        ("wav2vec2", ("variants=[{name: int8, quantize: dynamic}]",), "quantize: is for inference"),
        ("wav2vec2", ("variants=[{name: half, precision: bfloat16}]",), "set training.precision: bfloat16"),
    ],
)
def test_what_cannot_be_trained_is_a_mistake_of_the_recipe(
    recipe: str, settings: tuple[str, ...], sentence: str
) -> None:
    done = program.run("show", f"recipes/{recipe}.yaml", "mode=training", *settings)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
