"""The shipped recipes, a row each: their exact size, and the overrides that make them tiny for the tests.

Every recipe in recipes/ has a row here. At full size it is counted on the meta device; in the reduced size it goes the
whole road, through the real program.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from profiler.recipe.load import load_recipe
from profiler.recipe.schema import Variant
from tests.helpers import tiny


@dataclass(frozen=True)
class Row:
    """One shipped recipe."""

    parameters: int  # at full size
    published: bool  # whether that is a figure known from elsewhere; else it is what our description builds
    overrides: dict[str, Any]  # of the model's own configuration, to make it tiny
    output: str  # what the timed region ends with
    operators: frozenset[str]  # some that must be in its trace; none: the recipe writes no traces
    components: dict[str, int] = field(default_factory=dict)  # exact counts of parts, where known
    weights: str = "random"
    settings: tuple[str, ...] = ()  # further key=value of the reduced run
    seconds: str = "[0.5, 1]"
    batches: str = "[2]"
    variants: tuple[str, ...] = ()  # of the reduced run; none: all that the recipe has
    load: bool = False  # mode: serving, which has steps and no cells


TRANSFORMER = frozenset({"aten::conv1d", "aten::linear", "aten::scaled_dot_product_attention"})
MASKED = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "input_dim": 8}
MASKED_OPERATORS = frozenset({"aten::stft", "aten::linear", "aten::layer_norm", "aten::scaled_dot_product_attention"})
# torchaudio's names for the sizes of its bundles.
BUNDLE = {
    "extractor_conv_layer_config": [[8, 10, 5], *([[8, 3, 2]] * 4), *([[8, 2, 2]] * 2)],
    "encoder_embed_dim": 16,
    "encoder_pos_conv_kernel": 16,
    "encoder_pos_conv_groups": 2,
    "encoder_num_layers": 2,
    "encoder_num_heads": 2,
    "encoder_ff_interm_features": 32,
}
EMFORMER = {
    "input_dim": 8,
    "encoding_dim": 16,
    "num_symbols": 21,
    "time_reduction_input_dim": 4,
    "transformer_num_heads": 2,
    "transformer_ffn_dim": 32,
    "transformer_num_layers": 2,
    "symbol_embedding_dim": 8,
    "num_lstm_layers": 1,
    "beam_width": 4,
}
CONFORMER_TRANSDUCER = {
    "layers": 2,
    "width": 16,
    "heads": 2,
    "feed_forward": 32,
    "kernel": 5,
    "vocabulary": 30,
    "decoder_width": 8,
    "joiner_width": 8,
}
EMFORMER_OPERATORS = frozenset({"aten::stft", "aten::linear", "aten::bmm", "aten::embedding", "aten::log_softmax"})
EMFORMER_PARTS = {"transcriber": 63_605_760, "predictor": 8_932_864, "joiner": 1024 * 4097 + 4097}
# ESPnet's names. The recipes' beams are larger than such a vocabulary.
ESPNET_CONFORMER = {
    "vocabulary_size": 20,
    "encoder_conf": {
        "output_size": 16,
        "attention_heads": 2,
        "linear_units": 16,
        "num_blocks": 1,
        "cnn_module_kernel": 3,
    },
    "decoder_conf": {"attention_heads": 2, "linear_units": 16, "num_blocks": 1},
    "lm_conf": {"unit": 16},
    "beam_size": 4,
}
ESPNET_LSTM = {
    "encoder_conf": {"num_layers": 2, "hidden_size": 8, "output_size": 8},
    "decoder_conf": {"hidden_size": 8, "att_conf": {"adim": 8, "aconv_chans": 2, "aconv_filts": 5}},
    "lm_conf": {"unit": 8},
    "beam_size": 2,
}


def small_variants() -> list[dict[str, Any]]:
    """Those of the quantization recipe, which has two models: each made tiny in its own way."""
    found = [variant.model_dump(exclude_defaults=True) for variant in load_variants("quantization")]
    for variant in found:
        sizes = ESPNET_LSTM if variant["name"].startswith("lstm") else ESPNET_CONFORMER
        variant["set"] |= {f"pretrained_model.overrides.{key}": value for key, value in sizes.items()}
    return found


def small_embeddings() -> list[dict[str, Any]]:
    """Those of the embeddings recipe, each made tiny in its own library's words; log-mel, without weights, has a row
    of its own."""
    found = [variant.model_dump(exclude_defaults=True) for variant in load_variants("embeddings")[:-1]]
    for variant in found:
        sizes = MASKED if "pretrained_model.type" in variant.setdefault("set", {}) else tiny.WAV2VEC2
        variant["set"] |= {f"pretrained_model.overrides.{key}": value for key, value in sizes.items()}
    return found


def load_variants(recipe: str) -> list[Variant]:
    return load_recipe(tiny.RECIPES / f"{recipe}.yaml", read_audio=False).recipe.variants


ROWS = {
    "accuracy": Row(
        1_175_220,
        False,
        {},
        "text",
        frozenset(),
        {"encoder": 861_360, "decoder": 295_613, "ctc": 18_247},
        weights="pretrained",
        settings=("dataset.limit=2",),
        seconds="[1]",
        batches="[1]",
        variants=("lstm-ctc", "conformer-ctc"),
    ),
    "conformer": Row(
        116_146_960,
        True,
        ESPNET_CONFORMER,
        "text",
        frozenset({"aten::stft", "aten::conv2d", "aten::glu", "aten::linear", "aten::topk"}),
        {"encoder": 83_231_744, "decoder": 30_350_216, "ctc": 2_565_000},
    ),
    "conformer-transducer-train": Row(
        83_494_400 + 257_024 + 519_156 + 2 * 256_500,
        False,  # that of the encoder is
        CONFORMER_TRANSDUCER,
        "updated weights (forward, loss, backward, optimizer)",
        frozenset({"aten::conv2d", "aten::glu", "aten::linear", "aten::convolution_backward"}),
        {"encoder": 83_494_400, "decoder": 500 * 512 + 2 * 512, "joiner": 512 * 512 + 512 + 512 * 500 + 500},
    ),
    "conformer-transformerlm": Row(
        109_136_048 + 93_333_128,
        True,
        tiny.CONFORMER,
        "text",
        frozenset({"aten::conv2d", "aten::conv1d", "aten::glu", "aten::linear", "aten::embedding"}),
        {
            "encoder": 109_136_048 - 30_350_216 - 2_565_000,
            "attention_decoder": 30_350_216,
            "ctc": 512 * 5000 + 5000,
            "language_model": 93_333_128,
        },
    ),
    "crdnn": Row(
        172_985_618,
        True,
        tiny.CRDNN,
        "text",
        frozenset({"aten::conv2d", "aten::lstm", "aten::gru_cell", "aten::linear"}),
        {"language_model": 53_104_104, "ctc": 512 * 1000 + 1000},
    ),
    "distilhubert": Row(
        94_371_712 - 10 * 7_087_872 - 2 * 512,  # HuBERT base without ten layers and one norm; published: 23.49 M
        False,
        tiny.WAV2VEC2,
        "hidden states",
        TRANSFORMER,
    ),
    "ecapa": Row(
        22_150_912,  # known as 22.2 M, the embedding model as 20.8 M
        False,
        tiny.ECAPA,
        "embedding",
        frozenset({"aten::stft", "aten::conv1d", "aten::batch_norm"}),
        {"embedding_model": 20_767_552, "classifier": 7205 * 192},
    ),
    "embeddings": Row(
        94_371_712,
        True,
        {},
        "hidden states",
        frozenset({"aten::linear", "aten::scaled_dot_product_attention"}),
        settings=(f"variants={json.dumps(small_embeddings())}",),
        batches="[1]",
        variants=("wav2vec2", "hubert", "mockingjay", "tera"),
    ),
    "enhancement": Row(
        1_895_514,
        False,
        tiny.ENHANCEMENT,
        "enhanced waveforms",
        frozenset({"aten::stft", "aten::lstm", "aten::linear", "aten::istft"}),
        {"Learnable_sigmoid": 257},
    ),
    "hubert": Row(94_371_712, True, tiny.WAV2VEC2, "hidden states", TRANSFORMER),
    "hubert-large": Row(315_438_720, True, tiny.WAV2VEC2, "hidden states", TRANSFORMER),
    "language-id": Row(
        21_246_443,
        False,
        tiny.LANGUAGE_ID,
        "class scores",
        frozenset({"aten::stft", "aten::conv1d", "aten::batch_norm", "aten::log_softmax"}),
        {"classifier": 188_011},
    ),
    "log-mel": Row(
        0,
        True,
        {"mels": 8},
        "features",
        frozenset({"aten::fft_rfft", "aten::matmul", "aten::log"}),
        weights="no",
    ),
    "lstm": Row(
        8_248_145,
        True,
        ESPNET_LSTM,
        "text",
        frozenset({"aten::stft", "aten::lstm", "aten::linear", "aten::topk"}),
        {"encoder": 6_780_160, "decoder": 1_459_318, "ctc": 8_667},
        settings=("pretrained_model.tokens_per_second=5",),
    ),
    "mockingjay": Row(
        85_118_208, True, MASKED, "hidden states", MASKED_OPERATORS, {"input_representations": 80 * 768 + 3 * 768}
    ),
    "engines": Row(
        94_396_320,
        True,
        tiny.WAV2VEC2,
        "text",
        frozenset(),
        seconds="[0.5]",
        batches="[1]",
        variants=("torch", "onnx"),
    ),
    "engines-accuracy": Row(
        1_175_220,
        False,
        {},
        "text",
        frozenset(),
        {"encoder": 861_360, "decoder": 295_613, "ctc": 18_247},
        weights="pretrained",
        settings=("dataset.limit=2",),
        seconds="[1]",
        batches="[1]",
        variants=("lstm-torch", "lstm-openvino"),
    ),
    "engines-whisper": Row(
        37_760_640,
        True,
        tiny.SHIPPED_WHISPER,
        "token ids",
        frozenset(),
        {"encoder": 8_208_384, "decoder": 29_552_256},
        settings=("pretrained_model.tokens_per_second=4",),
        seconds="[0.5]",
        batches="[1]",
        variants=("torch", "ctranslate2"),
    ),
    "quantization": Row(
        116_146_960,
        True,
        {},
        "text",
        frozenset(),
        {"encoder": 83_231_744, "decoder": 30_350_216, "ctc": 2_565_000},
        settings=(f"variants={json.dumps(small_variants())}",),
        seconds="[0.5]",
        batches="[1]",
    ),
    "quantization-accuracy": Row(
        1_175_220,
        False,
        {},
        "text",
        frozenset(),
        {"encoder": 861_360, "decoder": 295_613, "ctc": 18_247},
        weights="pretrained",
        settings=("dataset.limit=2",),
        seconds="[1]",
        batches="[1]",
        variants=("lstm-ctc", "conformer-ctc"),
    ),
    "sepformer": Row(
        25_679_361,  # published: 25.7 M
        False,
        tiny.SEPFORMER,
        "separated waveforms",
        frozenset({"aten::conv1d", "aten::layer_norm", "aten::linear", "aten::conv_transpose1d"}),
        {"encoder": 16 * 256, "decoder": 256 * 16},
    ),
    "silero-vad": Row(
        243_585,
        False,
        {},
        "speech probabilities",
        frozenset({"aten::conv1d", "aten::lstm_cell", "aten::sigmoid"}),
        weights="pretrained",
    ),
    "serving": Row(94_396_320, True, tiny.WAV2VEC2, "text", frozenset(), {"lm_head": 768 * 32 + 32}, load=True),
    "serving-streams": Row(76_738_049, False, EMFORMER, "text", frozenset(), EMFORMER_PARTS, batches="[1]", load=True),
    "streaming": Row(76_738_049, False, EMFORMER, "text", EMFORMER_OPERATORS, EMFORMER_PARTS, batches="[1]"),
    "tera": Row(21_327_360, True, MASKED, "hidden states", MASKED_OPERATORS, {"encoder": 3 * 7_087_872}),
    "transducer": Row(76_738_049, False, EMFORMER, "text", EMFORMER_OPERATORS, EMFORMER_PARTS),
    "vad": Row(
        109_744,
        False,
        tiny.VAD,
        "speech probabilities",
        frozenset({"aten::stft", "aten::conv2d", "aten::gru", "aten::sigmoid"}),
        {"cnn": 21_568, "rnn": 86_784, "dnn": 1_392},
    ),
    "wav2vec2": Row(
        94_396_320,
        True,
        tiny.WAV2VEC2,
        "text",
        TRANSFORMER,
        {"lm_head": 768 * 32 + 32, "feature_extractor": 4_200_448},
    ),
    "wav2vec2-commonvoice-fr": Row(
        315_438_720 + 3_232_844,
        True,
        tiny.FRENCH,
        "text",
        frozenset({"aten::conv1d", "aten::linear", "aten::batch_norm"}),
        {"wav2vec2": 315_438_720},
    ),
    "wav2vec2-torchaudio": Row(94_370_944 + 768 * 29 + 29, True, BUNDLE, "text", TRANSFORMER, {"aux": 768 * 29 + 29}),
    "wav2vec2-xlsr": Row(315_438_720, True, tiny.WAV2VEC2, "hidden states", TRANSFORMER),
    "wavlm": Row(
        94_381_936,
        False,
        tiny.WAV2VEC2,
        "hidden states",
        frozenset({"aten::conv1d", "aten::linear", "aten::embedding"}),  # attention's differ between versions
    ),
    "whisper": Row(
        37_760_640,
        True,
        tiny.SHIPPED_WHISPER,
        "token ids",
        TRANSFORMER | {"aten::stft", "aten::argmax"},
        {"encoder": 8_208_384, "decoder": 29_552_256},
        # Half a second costs as much as 30 s, so that 31 s look dear from there.
        settings=("pretrained_model.tokens_per_second=0.5", "measure.limit=7200"),
        seconds="[0.5, 31]",
    ),
}
