"""Each kind of conversion, on small networks with one difficulty each: what it converts, what it leaves, what it says.

Every converted network has then run in a fork, on two threads, as a cell does.
"""

from __future__ import annotations

import pytest

from tests.unit.variants.program import KINDS, Answer, converted

pytestmark = pytest.mark.slow

Answers = dict[str, dict[str, Answer]]

ENGINES = {
    **{f"dynamic-{name}": {"quantize": "dynamic", "engine": name} for name in ("fbgemm", "onednn", "qnnpack", "x86")},
    **{f"static-{name}": {"quantize": "static", "engine": name} for name in ("fbgemm", "onednn", "qnnpack", "x86")},
    **{
        f"recurrent-{name}": {"quantize": "dynamic", "layers": "linear_and_recurrent", "engine": name}
        for name in ("fbgemm", "onednn", "qnnpack", "x86")
    },
}
INT8 = ("dynamic", "static", "weight_only")
PLAN = {
    "Linears": [*INT8, *(name for name in ENGINES if name.startswith(("dynamic-", "static-")))],
    "Subclasses": [*INT8, "bfloat16"],
    "OnlyScaled": ["dynamic"],
    "TorchEncoder": [*INT8, "eager"],
    "Direct": [*INT8],
    "Tied": ["dynamic"],
    "Recurrent": ["dynamic", "recurrent", "bfloat16", *(name for name in ENGINES if name.startswith("recurrent-"))],
    "Convolutions": ["dynamic", "channels_last"],
    "Features": ["bfloat16", "float16"],
    "LearnedSpectrum": ["bfloat16"],
    "Numpy": ["bfloat16"],
    "Steps": ["recurrent", "compile"],
    "Nothing": ["bfloat16", "compile", "eager"],
}
TOP = "torch.nn.Linear"  # over all samples of a second: a model that is one linear layer


def source(name: str) -> str:
    return f"tests.unit.variants.networks.{name}"


def job(name: str, variants: list[str], **more: object) -> dict[str, object]:
    return {
        "request": {"source": name, "type": "Module", "weights": "random", **more},
        "variants": [{"name": variant, **(KINDS | ENGINES)[variant]} for variant in variants],
    }


@pytest.fixture(scope="module")
def answers() -> Answers:
    jobs = [job(source(name), variants) for name, variants in PLAN.items()]
    jobs.append(job(TOP, [*INT8, "bfloat16"], overrides={"in_features": 16000, "out_features": 8}))
    return converted(jobs)


def test_every_conversion_that_was_made_runs_on_two_threads_in_a_fork(answers: Answers) -> None:
    made = [answer for variants in answers.values() for answer in variants.values() if "conversion" in answer]
    assert len(made) > 30
    assert [answer for answer in made if answer["ended"] != 0] == []
    assert [answer for answer in made if answer["tasks"] != 1] == []  # no thread was started that a fork would lack


@pytest.mark.parametrize("kind", INT8)
def test_int8_of_plain_linear_layers_converts_all_of_them_and_quarters_their_size(answers: Answers, kind: str) -> None:
    answer = answers[source("Linears")][kind]
    made = answer["conversion"]
    assert (made["layers_converted"], made["layers_total"], made["share_of_layers"]) == (3, 3, 1.0)
    weights, biases = 160 * 64 + 64 * 64 + 64 * 8, 64 + 64 + 8
    assert made["share_of_parameters"] == weights / (weights + biases)
    assert made["bytes_before"]["total"] == 4 * (weights + biases)
    assert weights < made["bytes_after"]["total"] < 1.25 * weights
    assert made["bytes_after"]["components"].keys() == made["bytes_before"]["components"].keys() == {"encoder", "head"}
    assert 0 < answer["difference"]["mean"] < answer["difference"]["max"]
    assert answer["difference"]["relative"] < 0.03
    assert answer["difference"]["compared"] == "final output"


@pytest.mark.parametrize("kind", ["dynamic", "static"])
@pytest.mark.parametrize("engine", ["fbgemm", "onednn", "qnnpack", "x86"])
def test_the_engine_can_be_set_and_is_recorded(answers: Answers, kind: str, engine: str) -> None:
    answer = answers[source("Linears")][f"{kind}-{engine}"]
    if "not_supported" in answer:  # another kind of machine
        assert f"the engine {engine} is not there" in answer["not_supported"]
    else:
        assert answer["conversion"]["engine"] == engine
        assert 0 < answer["difference"]["relative"] < 0.03


def test_without_a_wish_the_engine_is_the_one_that_torch_takes_here(answers: Answers) -> None:
    import torch

    assert answers[source("Linears")]["dynamic"]["conversion"]["engine"] == torch.backends.quantized.engine
    assert answers[source("Linears")]["weight_only"]["conversion"]["engine"] == "torchao"


@pytest.mark.parametrize("kind", INT8)
def test_subclasses_are_converted_where_they_compute_alike_and_named_where_not(answers: Answers, kind: str) -> None:
    made = answers[source("Subclasses")][kind]["conversion"]
    assert (made["layers_converted"], made["layers_total"]) == (3, 4)
    assert made["notes"] == ["Linear layers that compute in a way of their own stay in float: 1 ScaledLinear."]


def test_a_variant_that_converts_nothing_says_so_and_why(answers: Answers) -> None:
    assert "1 ScaledLinear" in answers[source("OnlyScaled")]["dynamic"]["not_supported"]
    assert "no layer for dynamic int8" in answers[source("Convolutions")]["dynamic"]["not_supported"]
    assert "no weights" in answers[source("Nothing")]["bfloat16"]["not_supported"]
    assert "nothing to compile" in answers[source("Nothing")]["compile"]["not_supported"]
    assert "never calls" in answers[source("Nothing")]["eager"]["not_supported"]


@pytest.mark.parametrize("kind", INT8)
def test_torchs_own_encoder_layers_run_without_their_fast_path(answers: Answers, kind: str) -> None:
    made = answers[source("TorchEncoder")][kind]["conversion"]
    assert made["layers_converted"] == 4  # two feed-forward layers in each of two blocks; attention stays
    assert any("fast path" in note for note in made["notes"])
    assert any("2 MultiheadAttention stay in float" in note for note in made["notes"])


def test_a_layer_whose_weight_is_used_without_calling_it_stays_in_float(answers: Answers) -> None:
    made = answers[source("Direct")]["dynamic"]["conversion"]
    assert made["layers_converted"] == 1
    assert made["notes"] == ["Layers that stay in float because their weights are used without calling them: 1."]
    assert answers[source("Direct")]["static"]["conversion"]["layers_converted"] == 1
    assert answers[source("Direct")]["weight_only"]["conversion"]["layers_converted"] == 2  # its weight can be used


def test_a_shared_weight_that_stays_in_float_elsewhere_does_not_count_as_converted(answers: Answers) -> None:
    made = answers[source("Tied")]["dynamic"]["conversion"]
    assert made["share_of_parameters"] == 0.0
    assert made["bytes_after"]["total"] > made["bytes_before"]["total"]
    assert made["notes"] == ["Weights that other layers share, and that are kept in float for them: 1."]


def test_recurrent_layers_are_converted_when_asked_for_where_torch_can(answers: Answers) -> None:
    linear, both = (answers[source("Recurrent")][kind]["conversion"] for kind in ("dynamic", "recurrent"))
    assert (linear["layers_converted"], both["layers_converted"]) == (1, 2)
    assert both["notes"] == ["Recurrent layers that torch has no int8 form of stay in float: 1 LSTM."]
    assert both["bytes_after"]["total"] < linear["bytes_after"]["total"] / 2
    assert answers[source("Steps")]["recurrent"]["conversion"]["layers_converted"] == 2


@pytest.mark.parametrize("kind", [*INT8, "bfloat16"])
def test_a_model_that_is_itself_one_linear_layer_is_converted(answers: Answers, kind: str) -> None:
    answer = answers[TOP][kind]
    assert answer["conversion"]["layers_converted"] == 1
    assert answer["difference"]["mean"] > 0


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_half_precision_halves_the_weights_and_leaves_features_in_float32(answers: Answers, kind: str) -> None:
    made = answers[source("Features")][kind]["conversion"]
    assert made["share_of_parameters"] == 1.0
    window, counter = 160 * 4, 8  # a buffer of no layer, and an integer
    kept = window + counter
    assert made["bytes_after"]["total"] - kept == (made["bytes_before"]["total"] - kept) / 2
    assert 0 < answers[source("Features")][kind]["difference"]["relative"] < 0.02


def test_what_has_no_half_precision_here_says_what_failed(answers: Answers) -> None:
    reason = answers[source("LearnedSpectrum")]["bfloat16"]["not_supported"]
    assert "does not run in bfloat16" in reason
    assert "BFloat16" in reason


def test_code_around_a_part_that_needs_float32_gets_it(answers: Answers) -> None:
    notes = answers[source("Numpy")]["bfloat16"]["conversion"]["notes"]
    assert any("cast back to float32" in note for note in notes)


def test_channels_last_changes_convolutions_of_more_than_one_channel(answers: Answers) -> None:
    made = answers[source("Convolutions")]["channels_last"]["conversion"]
    assert (made["layers_converted"], made["layers_total"]) == (1, 2)
    assert made["bytes_after"] == made["bytes_before"]


def test_a_loop_over_steps_is_compiled_step_by_step(answers: Answers) -> None:
    answer = answers[source("Steps")]["compile"]
    assert (answer["conversion"]["graphs"], answer["conversion"]["graph_breaks"]) == (2, 0)
    assert "1 GRUCell, 1 Linear" in answer["conversion"]["notes"][0]
    assert answer["difference"]["max"] < 1e-5


def test_without_a_compiler_it_says_what_to_install() -> None:
    answers = converted([job(source("Steps"), ["compile"])], CXX="no-such-compiler")
    assert answers[source("Steps")]["compile"]["not_supported"] == (
        "torch.compile needs a C++ compiler and there is no no-such-compiler: install g++, or name one in CXX"
    )
