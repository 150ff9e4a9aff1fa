"""Tiny models of every kind that transformers has for speech, each a folder in the library's own format.

Their configurations are the library's defaults with every size made small; their tokenizers write single bytes, so that
nothing is trained and nothing is downloaded.
"""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from profiler.models.load import load_model
from profiler.models.model import Model, ModelRequest
from profiler.models.torchaudio.on_cpu import ensure_torchaudio

# Sizes by the names that configurations have for them.
SMALL: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "output_hidden_size", "projection_dim", "decoder_hidden_size"), 16),
    **dict.fromkeys(("intermediate_size", "encoder_ffn_dim", "decoder_ffn_dim", "ffn_dim"), 32),
    **dict.fromkeys(("speech_encoder_intermediate_size", "input_dim", "max_position_embeddings"), 160),
    **dict.fromkeys(("num_hidden_layers", "encoder_layers", "decoder_layers", "num_layers"), 1),
    **dict.fromkeys(("encoder_num_hidden_layers", "decoder_num_hidden_layers", "speech_encoder_layers"), 1),
    **dict.fromkeys(("num_attention_heads", "num_key_value_heads", "encoder_attention_heads"), 2),
    **dict.fromkeys(("decoder_attention_heads", "encoder_num_attention_heads", "num_heads"), 2),
    **dict.fromkeys(("decoder_num_attention_heads", "speech_encoder_attention_heads"), 2),
    **dict.fromkeys(("encoder_num_key_value_heads", "decoder_num_key_value_heads"), 2),
    "head_dim": 8,
    "vocab_size": 300,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
    "classifier_proj_size": 8,
    "tdnn_dim": [8] * 5,
    "xvector_output_dim": 8,
    "codebook_size": 32,
    "num_filters": 4,
}
SPECIAL = ("<pad>", "<s>", "</s>", "<unk>", "<|audio|>", "<|audio_bos|>", "<|audio_eos|>")
LEFT_OUT = ("transformers_version", "architectures", "layer_types", "dtype", "torch_dtype")
CHAT = (
    "{% for message in messages %}<s>{{ message['role'] }}: {% for part in message['content'] %}"
    "{% if part['type'] == 'audio' %}<|audio|>{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endfor %}"
)


def transformers() -> Any:
    ensure_torchaudio()
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers


def tokenizer(**more: Any) -> Any:
    """Single bytes, and the marks that processors ask for."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate((*SPECIAL[:4], *letters))}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return transformers().PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        extra_special_tokens=list(SPECIAL[4:]),
        **more,
    )


def small(config: Any, **given: Any) -> Any:
    """A configuration class -> its defaults with small sizes. `given` wins, and reaches sections by `section__key`."""
    values = _shrunk(config().to_dict())
    values.pop("model_type", None)
    for name, value in given.items():
        *sections, last = name.split("__")
        place = values
        for section in sections:
            place = place[section]
        place[last] = value
    return config(**values)


def _shrunk(values: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in values.items():
        if name in LEFT_OUT:
            continue
        if isinstance(value, dict):
            made[name] = _shrunk(value)
        elif name == "conv_dim" and value:
            made[name] = [8] * len(value)
        elif name in SMALL and value is not None and isinstance(value, (list, tuple)) == isinstance(SMALL[name], list):
            made[name] = SMALL[name]
        elif str(name).endswith("_token_id") and isinstance(value, int) and value >= SMALL["vocab_size"]:
            made[name] = 2
        else:
            made[name] = value
    return made


@dataclass(frozen=True)
class Kind:
    """One model: its class, the interface, what its configuration changes, and what stands beside the weights."""

    name: str
    type: str
    model: str
    config: dict[str, Any] = field(default_factory=dict)
    beside: Callable[[Path], list[Any]] = lambda folder: [_wav2vec2()]
    recipe: dict[str, Any] = field(default_factory=dict)

    def save(self, folder: Path) -> None:
        import torch

        library = transformers()
        model_class = getattr(library, self.model)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(20)
            model = model_class(small(model_class.config_class, **self.config))
        model.save_pretrained(folder)
        for each in self.beside(folder):
            each.save_pretrained(folder)


def _wav2vec2(**more: Any) -> Any:
    return transformers().Wav2Vec2FeatureExtractor(**{"sampling_rate": 16000, "do_normalize": True, **more})


def _named(name: str, **more: Any) -> Any:
    return getattr(transformers(), name)(**more)


def _ctc(folder: Path) -> list[Any]:
    return [_wav2vec2(), tokenizer()]


def _with(extractor: str, **more: Any) -> Callable[[Path], list[Any]]:
    return lambda folder: [_named(extractor, **more), tokenizer()]


def _durations(folder: Path) -> list[Any]:
    """Scores of five durations follow those of the tokens; the generation settings keep them from being tokens."""
    after = SMALL["vocab_size"]
    settings = transformers().GenerationConfig(**TOKENS, suppress_tokens=list(range(after, after + 5)))
    return [*_with("ParakeetFeatureExtractor")(folder), settings]


def _processor(
    name: str, extractor: str, sizes: dict[str, Any] | None = None, **more: Any
) -> Callable[[Path], list[Any]]:
    """A processor that puts tokens and audio together."""

    def make(folder: Path) -> list[Any]:
        kind = getattr(transformers(), name)
        part = "audio_processor" if "audio_processor" in kind.get_attributes() else "feature_extractor"
        tokens = tokenizer(audio_token="<|audio|>", audio_bos_token="<|audio_bos|>", audio_eos_token="<|audio_eos|>")
        return [kind(**{part: _named(extractor, **(sizes or {})), "tokenizer": tokens, **more})]

    return make


def _bark(folder: Path) -> list[Any]:
    from transformers.models.bark import generation_configuration_bark as bark

    settings = bark.BarkGenerationConfig.from_sub_model_configs(
        bark.BarkSemanticGenerationConfig(max_new_tokens=8),
        bark.BarkCoarseGenerationConfig(),
        bark.BarkFineGenerationConfig(),
    )
    (folder / "generation_config.json").write_text(json.dumps(settings.to_dict()))
    return [_named("BarkProcessor", tokenizer=tokenizer())]


def _voxtral(folder: Path) -> list[Any]:
    """Mistral's own tokenizer file, with single bytes and the marks that it asks for by name or number."""
    from transformers.tokenization_mistral_common import MistralCommonBackend

    marks = "<unk> <s> </s> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS] "
    marks += "[TOOL_CALLS] [IMG] <pad> [IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] [SYSTEM_PROMPT] "
    marks += "[/SYSTEM_PROMPT] [TOOL_CONTENT]"
    named = {**dict(enumerate(marks.split())), 24: "[AUDIO]", 25: "[BEGIN_AUDIO]", 34: "[TRANSCRIBE]"}
    sizes = {"default_vocab_size": 296, "num_vocab_tokens": 256, "default_num_special_tokens": 40}
    sound = {"num_mel_bins": 128, "hop_length": 160, "window_size": 400}
    content = {
        "config": {"pattern": ".", "version": "v7", **sizes},
        "vocab": [
            {"rank": byte, "token_bytes": base64.b64encode(bytes([byte])).decode(), "token_str": None}
            for byte in range(256)
        ],
        "special_tokens": [
            {"rank": number, "token_str": named.get(number, f"<SPECIAL_{number}>"), "is_control": True}
            for number in range(40)
        ],
        "audio": {
            "sampling_rate": 16000,
            "frame_rate": 12.5,
            "chunk_length_s": 30.0,
            "audio_encoding_config": sound,
        },
    }
    (folder / "tekken.json").write_text(json.dumps(content))
    extractor = _named("WhisperFeatureExtractor", feature_size=128)
    tokens = MistralCommonBackend(str(folder / "tekken.json"))
    return [_named("VoxtralProcessor", feature_extractor=extractor, tokenizer=tokens)]


def _characters(name: str, *beside: str, **more: Any) -> Callable[[Path], list[Any]]:
    """A tokenizer that reads a vocabulary of single letters."""

    def make(folder: Path) -> list[Any]:
        letters = ["<pad>", "<unk>", "<s>", "</s>", *" abcdefghijklmnopqrstuvwxyz'"]
        file = folder / "vocab.json"
        file.write_text(json.dumps({letter: number for number, letter in enumerate(letters)}))
        return [_named(name, vocab_file=str(file), **more), *(_named(each) for each in beside)]

    return make


CTC, SEQ2SEQ, LISTENS = "AutoModelForCTC", "AutoModelForSpeechSeq2Seq", "AutoModelForMultimodalLM"
CLASSES, FRAMES, XVECTOR = (f"AutoModelForAudio{name}" for name in ("Classification", "FrameClassification", "XVector"))
SPEAKS = "AutoModelForTextToWaveform"
LIKE_WAV2VEC2 = {
    "wav2vec2": "Wav2Vec2",
    "hubert": "Hubert",
    "wavlm": "WavLM",
    "data2vec-audio": "Data2VecAudio",
    "sew": "SEW",
    "sew-d": "SEWD",
    "unispeech": "UniSpeech",
    "unispeech-sat": "UniSpeechSat",
    "wav2vec2-conformer": "Wav2Vec2Conformer",
}
MELS = {"feature_size": 80, "num_mel_bins": 80}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
AUDIO = 4 + 256  # the number of <|audio|>, after four marks and 256 bytes
CLAP = {
    "audio_config__patch_embeds_hidden_size": 8,
    "audio_config__hidden_size": 64,
    "audio_config__depths": [1, 1, 1, 1],
    "audio_config__num_attention_heads": [1, 1, 1, 1],
}
VOXTRAL = {"audio_token_id": 24, "audio_config__intermediate_size": 64}  # four frames go into a token
VITS = {
    "vocab_size": 32,
    "speaking_rate": 20.0,
    "upsample_initial_channel": 32,
    "flow_size": 16,
    "spectrogram_bins": 33,
    "posterior_encoder_num_wavenet_layers": 1,
    "prior_encoder_num_wavenet_layers": 1,
    "duration_predictor_filter_channels": 16,
}
LISTENING = {"new_tokens": 8}
KINDS = [
    *(Kind(name, CTC, f"{model}ForCTC", {"vocab_size": 300}, _ctc) for name, model in LIKE_WAV2VEC2.items()),
    Kind("wav2vec2-bert", CTC, "Wav2Vec2BertForCTC", {"vocab_size": 300}, _with("SeamlessM4TFeatureExtractor")),
    Kind("parakeet_ctc", CTC, "ParakeetForCTC", {}, _with("ParakeetFeatureExtractor")),
    Kind("lasr_ctc", CTC, "LasrForCTC", {}, _with("LasrFeatureExtractor")),
    Kind("granite_speech5_ctc", CTC, "GraniteSpeech5ForCTC", {}, _with("GraniteSpeech5FeatureExtractor")),
    Kind("parakeet_rnnt", "AutoModelForRNNT", "ParakeetForRNNT", TOKENS, _with("ParakeetFeatureExtractor")),
    Kind("parakeet_tdt", "AutoModelForTDT", "ParakeetForTDT", TOKENS, _durations),
    Kind("moonshine", SEQ2SEQ, "MoonshineForConditionalGeneration", TOKENS, _ctc),
    Kind(
        "moonshine_streaming",
        SEQ2SEQ,
        "MoonshineStreamingForConditionalGeneration",
        {**TOKENS, "num_key_value_heads": 2},
        _ctc,
    ),
    Kind(
        "speech_to_text", SEQ2SEQ, "Speech2TextForConditionalGeneration", TOKENS, _with("Speech2TextFeatureExtractor")
    ),
    Kind("speecht5", SEQ2SEQ, "SpeechT5ForSpeechToText", TOKENS, _with("SpeechT5FeatureExtractor")),
    Kind("seamless_m4t", SEQ2SEQ, "SeamlessM4TForSpeechToText", TOKENS, _with("SeamlessM4TFeatureExtractor")),
    Kind("seamless_m4t_v2", SEQ2SEQ, "SeamlessM4Tv2ForSpeechToText", TOKENS, _with("SeamlessM4TFeatureExtractor")),
    Kind(
        "canary", SEQ2SEQ, "CanaryForConditionalGeneration", TOKENS, _with("ParakeetFeatureExtractor", feature_size=128)
    ),
    Kind("cohere_asr", SEQ2SEQ, "CohereAsrForConditionalGeneration", TOKENS, _with("CohereAsrFeatureExtractor")),
    *(Kind(name, CLASSES, f"{model}ForSequenceClassification") for name, model in LIKE_WAV2VEC2.items()),
    Kind("audio-spectrogram-transformer", CLASSES, "ASTForAudioClassification", {}, _with("ASTFeatureExtractor")),
    Kind("whisper", CLASSES, "WhisperForAudioClassification", {}, _with("WhisperFeatureExtractor")),
    Kind("wav2vec2-bert", CLASSES, "Wav2Vec2BertForSequenceClassification", {}, _with("SeamlessM4TFeatureExtractor")),
    *(Kind(name, FRAMES, f"{LIKE_WAV2VEC2[name]}ForAudioFrameClassification") for name in ("wav2vec2", "wavlm")),
    *(Kind(name, XVECTOR, f"{LIKE_WAV2VEC2[name]}ForXVector") for name in ("wav2vec2", "wavlm", "unispeech-sat")),
    *(Kind(name, "AutoModel", f"{model}Model") for name, model in LIKE_WAV2VEC2.items()),
    Kind("whisper", "AutoModel", "WhisperModel", {}, _with("WhisperFeatureExtractor")),
    Kind("audio-spectrogram-transformer", "AutoModel", "ASTModel", {}, _with("ASTFeatureExtractor")),
    Kind("clap", "AutoModel", "ClapModel", CLAP, _with("ClapFeatureExtractor", truncation="rand_trunc")),
    Kind(
        "encodec",
        "AutoModel",
        "EncodecModel",
        {"codebook_dim": 16},
        _with("EncodecFeatureExtractor", feature_size=1, sampling_rate=24000),
    ),
    Kind(
        "mimi",
        "AutoModel",
        "MimiModel",
        {"upsample_groups": 16, "vector_quantization_hidden_dimension": 8, "codebook_dim": 8},
        _with("EncodecFeatureExtractor", feature_size=1, sampling_rate=24000),
    ),
    Kind("dac", "AutoModel", "DacModel", {}, _with("DacFeatureExtractor")),
    Kind(
        "qwen2_audio",
        LISTENS,
        "Qwen2AudioForConditionalGeneration",
        {"audio_token_index": AUDIO},
        _processor(
            "Qwen2AudioProcessor",
            "WhisperFeatureExtractor",
            {"feature_size": 128},
            audio_token="<|audio|>",
            chat_template=CHAT,
        ),
        LISTENING,
    ),
    Kind("voxtral", LISTENS, "VoxtralForConditionalGeneration", VOXTRAL, _voxtral, LISTENING),
    Kind(
        "granite_speech",
        LISTENS,
        "GraniteSpeechForConditionalGeneration",
        {
            "audio_token_index": AUDIO,
            "encoder_config__hidden_dim": 16,
            "encoder_config__dim_head": 8,
            "projector_config__encoder_hidden_size": 16,
            "projector_config__max_position_embeddings": 64,
        },
        _processor("GraniteSpeechProcessor", "GraniteSpeechFeatureExtractor", chat_template=CHAT),
        LISTENING,
    ),
    Kind(
        "glmasr",
        LISTENS,
        "GlmAsrForConditionalGeneration",
        {"audio_token_id": AUDIO},
        _processor(
            "GlmAsrProcessor",
            "WhisperFeatureExtractor",
            {"feature_size": 128},
            audio_token="<|audio|>",
            chat_template=CHAT,
        ),
        LISTENING,
    ),
    Kind(
        "qwen3_asr",
        LISTENS,
        "Qwen3ASRForConditionalGeneration",
        {"audio_token_id": AUDIO, "audio_config__output_dim": 16},
        _processor("Qwen3ASRProcessor", "Qwen3ASRFeatureExtractor", chat_template=CHAT),
        LISTENING,
    ),
    Kind("vits", SPEAKS, "VitsModel", VITS, _characters("VitsTokenizer", phonemize=False)),
    Kind(
        "bark",
        SPEAKS,
        "BarkModel",
        {
            "codec_config__codebook_size": 1024,
            "codec_config__codebook_dim": 16,
            "semantic_config__input_vocab_size": 129_600,
            "coarse_acoustics_config__input_vocab_size": 12_096,
            "coarse_acoustics_config__output_vocab_size": 12_096,
            "fine_acoustics_config__input_vocab_size": 1056,
            "fine_acoustics_config__output_vocab_size": 1056,
        },
        _bark,
    ),
    Kind(
        "speecht5",
        "AutoModelForTextToSpectrogram",
        "SpeechT5ForTextToSpeech",
        {},
        _with("SpeechT5FeatureExtractor"),
    ),
]


# -- the table in the docs


DOCS = Path(__file__).resolve().parents[2] / "docs" / "transformers-models.md"
BEGIN, END = "<!-- made by tests/helpers/zoo.py -->\n", "<!-- end -->\n"


def row(kind: Kind, output: str) -> str:
    return f"| `{kind.name}` | `{kind.model}` | `{kind.type}` | {output} |"


def table(rows: list[str]) -> str:
    head = ["| kind, as config.json names it | class | `type` | output |", "|---|---|---|---|"]
    return "\n".join([*head, *rows]) + "\n"


def documented() -> str:
    """The table as it stands in the docs."""
    return DOCS.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]


def write(rows: list[str]) -> None:
    """Put the table into the docs."""
    before, _, rest = DOCS.read_text(encoding="utf-8").partition(BEGIN)
    DOCS.write_text(f"{before}{BEGIN}{table(rows)}{END}{rest.partition(END)[2]}", encoding="utf-8")


def load(kind: Kind, folder: Path, **more: Any) -> Model:
    if not folder.exists():
        kind.save(folder)
    return load_model(ModelRequest(source=str(folder), type=kind.type, folder=folder, **{**kind.recipe, **more}))


if __name__ == "__main__":  # `python -m tests.helpers.zoo` writes the table anew
    with tempfile.TemporaryDirectory() as place:
        write([row(kind, load(kind, Path(place) / f"{kind.name}-{kind.type}").output) for kind in KINDS])
