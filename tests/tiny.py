"""Tiny real models for tests: saved in the library's own format and loaded by the library's own code."""

from __future__ import annotations

from pathlib import Path

RECIPES = Path(__file__).resolve().parent.parent / "recipes"
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
