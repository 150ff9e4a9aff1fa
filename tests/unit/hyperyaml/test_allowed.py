"""The allow list: nothing leads past it, and the tags mean what they mean to HyperPyYAML."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler.errors import UserError
from profiler.hyperyaml import allowed
from profiler.hyperyaml.evaluate import evaluate, load_checked
from profiler.hyperyaml.values import Call, packed, unpacked, written


@pytest.mark.parametrize(
    "target",
    [
        "os.system",
        "builtins.eval",
        "builtins.exec",
        "builtins.getattr",
        "builtins.range",  # little that stands for much
        "operator.mul",
        "operator.attrgetter",
        "functools.partial",
        "torch",
        "torch.nn",
        "torch.load",
        "torch.hub.load",
        "torch.nn.Identity.__init__",
        "torch.nn.parallel.distributed.os.popen",
        "torch.nn.Module.load_state_dict",
        "speechbrain.utils.superpowers.run_shell",
        "speechbrain.utils.checkpoints.Checkpointer",
        "speechbrain.tokenizers.SentencePiece.SentencePiece",
        "speechbrain.inference.interfaces.foreign_class",
        "speechbrain.inference.ASR.EncoderASR.from_hparams",
        "speechbrain.lobes.models.dual_path.SBRNNBlock",
        "transformers.AutoModel.from_pretrained",
        "transformers.dynamic_module_utils.get_class_from_dynamic_module",
        "",
        ".",
    ],
)
def test_what_is_not_on_the_list_is_not_allowed(target: str) -> None:
    assert not allowed.is_allowed(target)
    for kind in ("!new:", "!name:", "!apply:", "!applyref:", "!module:", "!!python/object/apply:"):
        assert not allowed.may_call(Call(kind, target))
        with pytest.raises(UserError, match="would run code"):
            evaluate({"a": [Call(kind, target)]}, trust=False)


# What the hyperparams.yaml of published SpeechBrain models call, by the model that needs it.
PUBLISHED = {
    "asr-wav2vec2": (
        "lobes.models.huggingface_transformers.wav2vec2.Wav2Vec2 "
        "lobes.models.huggingface_wav2vec.HuggingFaceWav2Vec2 nnet.containers.Sequential "
        "nnet.normalization.BatchNorm1d lobes.models.VanillaNN.VanillaNN nnet.activations.Softmax "
        "nnet.containers.LengthsCapableSequential dataio.encoder.CTCTextEncoder decoders.ctc_greedy_decode"
    ),
    "asr-crdnn": (
        "lobes.models.CRDNN.CRDNN lobes.models.RNNLM.RNNLM nnet.RNN.AttentionalRNNDecoder "
        "decoders.S2SRNNBeamSearcher decoders.scorer.ScorerBuilder decoders.scorer.CoverageScorer "
        "decoders.scorer.RNNLMScorer decoders.S2SRNNBeamSearchLM"
    ),
    "asr-conformer": (
        "lobes.models.transformer.TransformerASR.TransformerASR lobes.models.convolution.ConvolutionFrontEnd "
        "lobes.models.transformer.TransformerLM.TransformerLM decoders.S2STransformerBeamSearcher "
        "decoders.scorer.CTCScorer"
    ),
    "asr-streaming-conformer": (
        "nnet.transducer.transducer_joint.Transducer_joint decoders.transducer.TransducerBeamSearcher "
        "lobes.features.StreamingFeatureWrapper utils.dynamic_chunk_training.DynChunkTrainConfig "
        "utils.filter_analysis.stack_filter_properties tokenizers.SentencePiece.spm_decode_preserve_leading_space"
    ),
    "asr-whisper": (
        "lobes.models.huggingface_transformers.whisper.Whisper decoders.seq2seq.S2SWhisperGreedySearcher "
        "lobes.models.huggingface_whisper.HuggingFaceWhisper"
    ),
    "spkrec, lang-id, commands": (
        "lobes.features.Fbank processing.features.InputNormalization lobes.models.ECAPA_TDNN.ECAPA_TDNN "
        "lobes.models.ECAPA_TDNN.Classifier lobes.models.Xvector.Xvector lobes.models.ResNet.ResNet "
        "dataio.encoder.CategoricalEncoder"
    ),
    "vad-crdnn": (
        "lobes.models.CRDNN.CNN_Block lobes.models.CRDNN.DNN_Block nnet.RNN.GRU nnet.normalization.LayerNorm"
    ),
    "sepformer": (
        "lobes.models.dual_path.Encoder lobes.models.dual_path.SBTransformerBlock "
        "lobes.models.dual_path.Dual_Path_Model lobes.models.dual_path.Decoder "
        "lobes.models.resepformer.ResourceEfficientSeparator"
    ),
    "metricgan, mimic": (
        "lobes.models.MetricGAN.EnhancementGenerator lobes.models.EnhanceResnet.EnhanceResnet "
        "processing.features.STFT processing.features.ISTFT processing.features.spectral_magnitude"
    ),
    "emotion": "nnet.pooling.StatisticsPooling nnet.linear.Linear",
    "tts": (
        "lobes.models.Tacotron2.Tacotron2 lobes.models.HifiGAN.HifiganGenerator lobes.models.FastSpeech2.FastSpeech2"
    ),
    "all": "utils.parameter_transfer.Pretrainer nnet.embedding.Embedding utils.epoch_loop.EpochCounter",
}


@pytest.mark.parametrize("model", PUBLISHED)
def test_published_models_need_no_trust(model: str) -> None:
    assert [name for name in PUBLISHED[model].split() if not allowed.is_allowed(f"speechbrain.{name}")] == []


@pytest.mark.parametrize("kind", ["!module:", "!!python/name:", "!!python/object/apply:"])
def test_an_allowed_name_is_only_for_tags_that_build(kind: str) -> None:
    assert not allowed.may_call(Call(kind, "torch.nn.ReLU"))


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"trust_remote_code": True}, "trust_remote_code"),
        ({"a": [{"b": {"trust_remote_code": "yes"}}]}, "trust_remote_code"),
        ({"wav2vec2.trust_remote_code": True}, "wav2vec2.trust_remote_code"),
        ({"x": Call("!new:", "torch.nn.ReLU", {"auto_map": {}})}, "auto_map"),
        ({"weights_only": False}, "weights_only"),
        ({"attn_implementation": "somebody/kernel"}, "attn_implementation"),
        ({"pymodule_file": "custom.py"}, "pymodule_file"),
    ],
)
def test_settings_that_let_a_models_own_code_run_are_found(settings: dict[str, object], key: str) -> None:
    ((place, sentence),) = allowed.unsafe_settings(settings)
    assert place[-1] == key
    assert "--trust" in sentence


def test_settings_that_forbid_it_are_not() -> None:
    plain = {"trust_remote_code": False, "weights_only": True, "attn_implementation": "sdpa", "auto_map": None}
    assert allowed.unsafe_settings(plain) == []


def test_a_described_call_reaches_a_worker_as_itself_and_a_plain_value_never_becomes_one() -> None:
    tree = {"a": Call("!new:", "torch.nn.ReLU", {"inplace": [True]}), "b": {"call": ["call", "!new:", "os.x", None]}}
    tree["c"] = {"!new:os.x": None}
    assert unpacked(packed(tree)) == tree
    assert written(tree)["a"] == {"!new:torch.nn.ReLU": {"inplace": [True]}}


# --- the meaning of the tags ---


def load(folder: Path, text: str, overrides: dict[str, object] | None = None, trust: bool = False) -> dict[str, object]:
    (folder / "h.yaml").write_text(text)
    return load_checked(folder / "h.yaml", overrides or {}, trust)


def test_what_a_reference_shares_is_built_once_and_a_copy_once_more(tmp_path: Path) -> None:
    found = load(tmp_path, "a: !new:slice [1]\nb: !ref <a>\nc: !copy <a>\nd: &x !new:slice [2]\ne: *x\n__hidden: 1\n")
    assert found["a"] is found["b"]
    assert found["a"] is not found["c"]
    assert found["d"] is found["e"]
    assert "__hidden" not in found


def test_values_are_those_of_hyperpyyaml(tmp_path: Path) -> None:
    from hyperpyyaml import load_hyperpyyaml

    (tmp_path / "more.yaml").write_text("x: 1\ny: !ref <x> + 1\n")
    text = (
        "n: 4\nk: (3, 4)\nt: !tuple (a, b)\nhalf: !ref <n> / 8\nname: !ref size-<n>/<k>\nwhole: !ref <n> // 3 * 2\n"
        "more: !include:more.yaml {x: 5}\nup: !ref <more[y]>\nlow: !apply:min [[!ref <n>, 2]]\nneg: !ref -<n>\n"
        "base: &b {p: 1, q: 2}\nmerged: {<<: *b, q: 3}\nlist: [!ref <n>, 1e-3, true, null, '1']\nflag: !ref <n>\n"
    )
    found = load(tmp_path, text, {"n": 6, "base": {"p": 9}})
    with (tmp_path / "h.yaml").open() as file:
        assert found == load_hyperpyyaml(file, {"n": 6, "base": {"p": 9}})


def test_overrides_reach_into_what_a_tag_is_given(tmp_path: Path) -> None:
    text = "a: !apply:sorted {iterable: [2, 1]}\nb: !name:round {ndigits: 1}\n"
    found = load(tmp_path, text.replace("{iterable: [2, 1]}", "[[2, 1]]"), {"b": {"ndigits": 2}})
    assert found["a"] == [1, 2]
    assert found["b"](1.234) == 1.23  # type: ignore[operator]


@pytest.mark.parametrize(
    ("text", "overrides", "expected"),
    [
        ("a: !ref <nowhere>\n", {}, "h.yaml:1: cannot be resolved"),
        ("a: 1\nb: !ref <b>\n", {}, "h.yaml:2: cannot be resolved: the reference leads back to itself"),
        ("a: !PLACEHOLDER\n", {}, "must be replaced"),
        ("a: 1\n", {"b": 2}, "there is no `b` to override"),
        ("a: 1\nb: {c: {trust_remote_code: true}}\n", {}, "h.yaml:2: b.c.trust_remote_code"),
        ("a: !ref <b> / 0\nb: 1\n", {}, "divides by zero"),
        ("a: !apply:len [1]\nb: !ref x-<a>\n", {}, "h.yaml:1: cannot be resolved: `!apply:len`: TypeError"),
    ],
)
def test_a_mistake_in_a_description_has_its_line(
    tmp_path: Path, text: str, overrides: dict[str, object], expected: str
) -> None:
    with pytest.raises(UserError) as error:
        load(tmp_path, text, overrides)
    assert expected in str(error.value)


def test_an_attribute_is_data_and_never_something_to_call(tmp_path: Path) -> None:
    assert load(tmp_path, "a: !new:slice [3]\nb: !ref <a.stop>\n")["b"] == 3
    with pytest.raises(UserError, match="--trust"):
        load(tmp_path, "a: !new:slice [3]\nb: !ref <a.indices>\n")
    with pytest.raises(UserError, match="would run code"):
        load(tmp_path, "a: !new:slice [3]\nb: !ref <a.__class__>\n")


def test_with_trust_pythons_own_tags_work(tmp_path: Path) -> None:
    text = (
        "a: !!python/object/apply:os.path.join [x, y]\nb: !!python/name:os.getcwd ''\nc: !!python/tuple [1, 2]\n"
        "d: !module:os\ne: !!python/object/new:fractions.Fraction {args: [1], kwds: {denominator: 2}}\n"
    )
    found = load(tmp_path, text, trust=True)
    import fractions
    import os

    assert found == {"a": "x/y", "b": os.getcwd, "c": (1, 2), "d": os, "e": fractions.Fraction(1, 2)}
