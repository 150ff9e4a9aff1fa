"""Tiny real models for tests: saved in the library's own format and loaded by the library's own code."""

from __future__ import annotations

import inspect
import json
import re
import shutil
from pathlib import Path
from typing import Any

from profiler.models.torchaudio.on_cpu import ensure_torchaudio

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
ARCHITECTURES = RECIPES / "architectures"
SPEECH = RECIPES.parent / "samples" / "speech.flac"

# Overrides that shrink each shipped architecture to a few thousand parameters.
WAV2VEC2 = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "conv_dim": [8] * 7,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
}
CRDNN = {
    "n_mels": 8,
    "cnn_channels": [4, 4],
    "rnn_layers": 1,
    "rnn_neurons": 8,
    "dnn_neurons": 8,
    "dropout": 0.0,
    "output_neurons": 20,
    "emb_size": 4,
    "dec_neurons": 8,
    "attn_dim": 8,
    "attn_channels": 2,
    "attn_kernel_size": 5,
    "lm_emb_size": 4,
    "lm_rnn_neurons": 8,
    "lm_dnn_neurons": 8,
    "beam_size": 4,
}
FRENCH = {"encoder_dim": 16, "dnn_neurons": 16, "output_neurons": 10, "wav2vec2": WAV2VEC2}

ECAPA = {
    "n_mels": 8,
    "channels": [16, 16, 16, 16, 48],
    "attention_channels": 4,
    "se_channels": 4,
    "embedding_size": 8,
    "out_n_neurons": 5,
}
LANGUAGE_ID = ECAPA | {"lin_neurons": 8}
VAD = {"n_mels": 8, "cnn1_channels": 4, "cnn2_channels": 4, "rnn_neurons": 4, "dnn_neurons": 4}
SEPFORMER = {"encoder_channels": 16, "chunk_frames": 50, "transformer_layers": 1, "attention_heads": 2, "d_ffn": 32}
ENHANCEMENT = {"n_fft": 128, "win_length": 8, "hop_length": 4, "rnn_neurons": 8, "dnn_neurons": 8}

CONFORMER = {
    "n_mels": 8,
    "cnn_channels": [4, 4],
    "cnn_features": 8,
    "d_model": 16,
    "nhead": 2,
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
    "d_ffn": 32,
    "kernel_size": 5,
    "dropout": 0.0,
    "output_neurons": 20,
    "lm_d_model": 16,
    "lm_nhead": 2,
    "lm_layers": 1,
    "lm_d_ffn": 32,
    "beam_size": 4,
}

# Whisper always takes 30 s at a time, 1500 frames, whatever its size.
WHISPER = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "num_mel_bins": 8,
    "max_source_positions": 1500,
    "max_target_positions": 448,
}
# In the order in which Whisper numbers them.
WHISPER_TOKENS = (
    "<|endoftext|>",
    "<|startoftranscript|>",
    "<|en|>",
    "<|translate|>",
    "<|transcribe|>",
    "<|startoflm|>",
    "<|startofprev|>",
    "<|nospeech|>",
    "<|notimestamps|>",
)
WHISPER_TIMES = 1501  # after these, one for each 20 ms of the 30 s
# The same sizes for the shipped Whisper, with a vocabulary small enough for them; its features stay as they are.
SHIPPED_WHISPER = {
    **WHISPER,
    "num_mel_bins": 80,
    "vocab_size": 100,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 0,
    "decoder_start_token_id": 1,
    "lang_to_id": {"<|en|>": 2},
    "task_to_id": {"transcribe": 4, "translate": 3},
    "prev_sot_token_id": 6,
    "no_timestamps_token_id": 8,
    "begin_suppress_tokens": [0],
    "suppress_tokens": [5, 6, 7],
}


def recipe_text(
    source: str,
    kind: str,
    seconds: str = "[0.2, 0.4]",
    batches: str = "[1, 2]",
    model: str = "",
    grid: str = "",
    more: str = "",
) -> str:
    """A recipe with a small grid. `model` and `grid` are further lines of their sections, `more` further sections."""
    lines = ["pretrained_model:", f"  source: {source}", f"  type: {kind}"]
    lines += [f"  {line}" for line in model.splitlines()]
    lines += ["profiling_dimensions:", f"  audio_mockup_secs: {seconds}", f"  batch_sizes: {batches}"]
    lines += [f"  {line}" for line in grid.splitlines()]
    return "\n".join(lines) + f"\n{more}\n"


# -- folders in transformers' format. Each maker gives the state dict that it saved.


def save_ctc(folder: Path, **sizes: Any) -> dict[str, Any]:
    """A wav2vec 2.0 ASR model with its vocabulary: config, safetensors, tokenizer, feature extractor."""
    transformers = _transformers()
    config = transformers.Wav2Vec2Config(**(WAV2VEC2 | sizes), vocab_size=32, pad_token_id=0)
    model = _seeded(lambda: transformers.Wav2Vec2ForCTC(config))
    model.save_pretrained(folder)
    vocabulary = ARCHITECTURES / "wav2vec2-base-960h" / "vocab.json"
    transformers.Wav2Vec2CTCTokenizer(str(vocabulary), word_delimiter_token="|").save_pretrained(folder)
    transformers.Wav2Vec2FeatureExtractor(sampling_rate=16000, do_normalize=True).save_pretrained(folder)
    return _state(model)


def save_encoder(folder: Path) -> dict[str, Any]:
    """A HuBERT without any head."""
    transformers = _transformers()
    model = _seeded(lambda: transformers.HubertModel(transformers.HubertConfig(**WAV2VEC2)))
    model.save_pretrained(folder)
    transformers.Wav2Vec2FeatureExtractor(sampling_rate=16000, do_normalize=True).save_pretrained(folder)
    return _state(model)


def save_classifier(folder: Path, classes: int = 3) -> dict[str, Any]:
    """A wav2vec 2.0 that tells `classes` kinds of recordings apart."""
    transformers = _transformers()
    config = transformers.Wav2Vec2Config(**WAV2VEC2, classifier_proj_size=8, num_labels=classes)
    model = _seeded(lambda: transformers.Wav2Vec2ForSequenceClassification(config))
    model.save_pretrained(folder)
    transformers.Wav2Vec2FeatureExtractor(sampling_rate=16000, do_normalize=True).save_pretrained(folder)
    return _state(model)


def save_whisper(folder: Path) -> dict[str, Any]:
    """A Whisper whose tokens are single bytes, so that its tokenizer can be made without training."""
    from tokenizers.pre_tokenizers import ByteLevel

    transformers = _transformers()
    letters = {letter: number for number, letter in enumerate(sorted(ByteLevel.alphabet()))}
    numbers = {token: len(letters) + number for number, token in enumerate(WHISPER_TOKENS)}
    end, start = numbers["<|endoftext|>"], numbers["<|startoftranscript|>"]
    config = transformers.WhisperConfig(
        **WHISPER,
        vocab_size=len(letters) + len(numbers) + WHISPER_TIMES,
        begin_suppress_tokens=[letters["Ġ"], end],
        pad_token_id=end,
        bos_token_id=end,
        eos_token_id=end,
        decoder_start_token_id=start,
    )
    model = _seeded(lambda: transformers.WhisperForConditionalGeneration(config))
    generation = model.generation_config
    generation.max_length = 20
    generation.no_timestamps_token_id = numbers["<|notimestamps|>"]
    generation._from_model_config = False  # else the library reads only what a model's configuration may have
    model.save_pretrained(folder)
    tokenizer = _whisper_tokenizer(transformers.WhisperTokenizer, letters, folder)
    tokenizer.add_special_tokens({"additional_special_tokens": list(WHISPER_TOKENS)})
    tokenizer.save_pretrained(folder)
    transformers.WhisperFeatureExtractor(feature_size=WHISPER["num_mel_bins"]).save_pretrained(folder)
    return _state(model)


def _whisper_tokenizer(kind: Any, letters: dict[str, int], folder: Path) -> Any:
    if "vocab" in inspect.signature(kind).parameters:
        return kind(vocab=letters, merges=[])
    (folder / "vocab.json").write_text(json.dumps(letters))  # transformers 4 takes files alone
    (folder / "merges.txt").write_text("#version: 0.2\n")
    return kind(str(folder / "vocab.json"), str(folder / "merges.txt"))


# -- folders in SpeechBrain's format. Each maker gives what it saved, by the name of the checkpoint.


def save_crdnn(folder: Path) -> dict[str, Any]:
    """The shipped CRDNN with beam search and language model, tiny, with its three checkpoint files."""
    return _save_speechbrain("asr-crdnn-rnnlm-librispeech", CRDNN, folder)


def save_french(folder: Path) -> dict[str, Any]:
    """The shipped French wav2vec 2.0 with CTC, tiny; its backbone is described in a folder of its own."""
    name = "asr-wav2vec2-commonvoice-fr"
    shutil.copytree(ARCHITECTURES / name / "wav2vec2", folder / "wav2vec2")
    config = folder / "wav2vec2" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | WAV2VEC2))
    sizes = {key: value for key, value in FRENCH.items() if key != "wav2vec2"}
    return _save_speechbrain(name, sizes, folder)


def save_ecapa(folder: Path) -> dict[str, Any]:
    """The shipped speaker embedding, tiny, with the labels of its speakers."""
    return _save_speechbrain("spkrec-ecapa-voxceleb", ECAPA, folder)


def save_language_id(folder: Path) -> dict[str, Any]:
    """The shipped language identification, tiny, with the labels of its languages."""
    return _save_speechbrain("lang-id-voxlingua107-ecapa", LANGUAGE_ID, folder)


def save_vad(folder: Path) -> dict[str, Any]:
    return _save_speechbrain("vad-crdnn-libriparty", VAD, folder)


def save_sepformer(folder: Path) -> dict[str, Any]:
    return _save_speechbrain("sepformer-wsj02mix", SEPFORMER, folder)


def save_spectral_mask(folder: Path) -> dict[str, Any]:
    """The shipped MetricGAN+ generator, tiny."""
    return _save_speechbrain("metricgan-plus-voicebank", ENHANCEMENT, folder)


WAVEFORM_HYPERPARAMS = """
sample_rate: 16000
enhance_model: !new:speechbrain.lobes.models.EnhanceResnet.EnhanceResnet
    n_fft: 128
    win_length: 8
    hop_length: 4
    channel_counts: [4, 4]
    dense_nodes: 8
modules:
    enhance_model: !ref <enhance_model>
pretrainer: !new:speechbrain.utils.parameter_transfer.Pretrainer
    loadables:
        enhance_model: !ref <enhance_model>
"""


def save_waveform_enhancement(folder: Path) -> dict[str, Any]:
    """SpeechBrain's wide ResNet for enhancement, waveform in, waveform out."""
    return _save_speechbrain(WAVEFORM_HYPERPARAMS, {}, folder)


WHISPER_HYPERPARAMS = """
architecture_folder: .
language: en
sample_rate: 16000
normalized_transcripts: False
whisper: !new:speechbrain.lobes.models.huggingface_transformers.whisper.Whisper
    source: !ref <architecture_folder>/whisper
    save_path: !ref <architecture_folder>/whisper
decoder: !new:speechbrain.decoders.seq2seq.S2SWhisperGreedySearcher
    model: !ref <whisper>
    min_decode_ratio: 0.0
    max_decode_ratio: 0.01
modules:
    whisper: !ref <whisper>
    decoder: !ref <decoder>
pretrainer: !new:speechbrain.utils.parameter_transfer.Pretrainer
    loadables:
        whisper: !ref <whisper>
"""


def save_speechbrain_whisper(folder: Path) -> dict[str, Any]:
    """SpeechBrain's Whisper on a tiny one: the backbone described in a folder of its own, weights in whisper.ckpt."""
    save_whisper(folder / "whisper")
    (folder / "whisper" / "model.safetensors").unlink()
    return _save_speechbrain(WHISPER_HYPERPARAMS, {}, folder)


def _save_speechbrain(description: str, sizes: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Write hyperparams.yaml with the sizes in it, and a checkpoint for each part that its pretrainer names."""
    import torch
    from hyperpyyaml import load_hyperpyyaml

    from profiler.models.speechbrain.backbones import backbones_without_weights

    ensure_torchaudio()
    shipped = ARCHITECTURES / description / "hyperparams.yaml"
    text = description if "\n" in description else shipped.read_text(encoding="utf-8")
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "hyperparams.yaml"
    for key, value in sizes.items():  # in place, so that references to them, and to the folder, stay references
        text, found = re.subn(rf"(?m)^{key}: .*$", f"{key}: {json.dumps(value)}", text)
        assert found == 1, key
    target.write_text(text, encoding="utf-8")
    with backbones_without_weights(), target.open(encoding="utf-8") as file:
        place = {"architecture_folder": str(folder)} if "\narchitecture_folder:" in text else {}
        hparams = _seeded(lambda: load_hyperpyyaml(file, place))
    saved = {}
    for name, part in hparams["pretrainer"].loadables.items():
        path = Path(hparams["pretrainer"].paths.get(name, folder / f"{name}.ckpt"))
        if hasattr(part, "_save"):  # mean and spread of the features; other than those that are there without a file
            size = len(part.glob_mean)
            trained = {"count": 7, "glob_mean": torch.arange(size) / 10, "glob_std": torch.full((size,), 2.0)}
            statistics = part._statistics_dict() | trained  # SpeechBrain 1.0 has some by speaker as well
            part._load_statistics_dict(statistics)
            part._save(path)
            saved[name] = statistics
        elif hasattr(part, "lab2ind"):  # names of classes
            part.update_from_iterable(f"label {number}" for number in range(hparams["out_n_neurons"]))
            part.save(path)
            saved[name] = dict(part.lab2ind)
        else:
            torch.save(part.state_dict(), path)
            saved[name] = _state(part)
    return saved


def _transformers() -> Any:
    ensure_torchaudio()
    import transformers

    transformers.logging.disable_progress_bar()
    return transformers


def _seeded(make: Any, seed: int = 20) -> Any:
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def _state(module: Any) -> dict[str, Any]:
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def save_in_cache(folder: Path, cache: Path, source: str) -> Path:
    """Put a model's folder into a Hugging Face cache, as a download of `source` would have left it there."""
    revision = "0123456789abcdef0123456789abcdef01234567"
    home = cache / f"models--{source.replace('/', '--')}"
    (home / "refs").mkdir(parents=True)
    (home / "refs" / "main").write_text(revision)
    shutil.copytree(folder, home / "snapshots" / revision)
    return home / "snapshots" / revision
