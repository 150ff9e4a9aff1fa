"""Tiny models in the formats of engines, exported by the engines' own tools."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

SCORES = 5
OUTSIDE = [torch.export.Dim.DYNAMIC, torch.export.Dim.DYNAMIC]


class Waves(torch.nn.Module):
    """Waveforms -> scores of frames of 10 ms."""

    def __init__(self) -> None:
        super().__init__()
        self.frames, self.scores = torch.nn.Conv1d(1, 8, 400, 160), torch.nn.Linear(8, SCORES)

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        return self.scores(self.frames(waveforms.unsqueeze(1)).transpose(1, 2))  # type: ignore[no-any-return]


class Features(torch.nn.Module):
    """Log-mel features [batch, mels, frames] and their lengths -> the lengths that it was given."""

    def forward(self, features: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return features.mean((1, 2)) * 0 + lengths


def program(module: torch.nn.Module, rows: int = 2, seconds: int = 1, dynamic: bool = True) -> Any:
    free = {0: OUTSIDE[0], 1: OUTSIDE[1]} if dynamic else None
    return torch.export.export(module.eval(), (torch.randn(rows, 16000 * seconds),), dynamic_shapes=(free,))


def save_onnx(module: torch.nn.Module, file: Path) -> None:
    torch.onnx.export(program(module), dynamo=True, verbose=False).save(str(file))  # type: ignore[union-attr]


def save_onnx_of_features(file: Path) -> None:
    free = ({0: OUTSIDE[0], 2: OUTSIDE[1]}, {0: OUTSIDE[0]})
    given = (torch.randn(2, 40, 100), torch.tensor([100, 50]))
    made = torch.export.export(Features().eval(), given, dynamic_shapes=free)
    torch.onnx.export(made, dynamo=True, verbose=False).save(str(file))  # type: ignore[union-attr]


def save_openvino(module: torch.nn.Module, file: Path) -> None:
    import openvino

    openvino.save_model(openvino.convert_model(program(module)), file, compress_to_fp16=False)


def save_executorch(module: torch.nn.Module, file: Path) -> None:
    from executorch.exir import to_edge_transform_and_lower

    lowered = to_edge_transform_and_lower(program(module, rows=1, dynamic=False))
    file.write_bytes(lowered.to_executorch().buffer)


def save_inductor(module: torch.nn.Module, file: Path) -> None:
    torch._inductor.aoti_compile_and_package(program(module, rows=1, dynamic=False), package_path=str(file))


# -- folders, as optimum and CTranslate2's converter write them


class Encoder(torch.nn.Module):
    def __init__(self, whisper: Any) -> None:
        super().__init__()
        self.encoder = whisper.get_encoder()

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.encoder(features).last_hidden_state  # type: ignore[no-any-return]


class Decoder(torch.nn.Module):
    """Tokens, the encoder's output and, after the first step, the cache -> scores and the cache."""

    def __init__(self, whisper: Any) -> None:
        super().__init__()
        self.decoder, self.head = whisper.get_decoder(), whisper.get_output_embeddings()

    def forward(self, ids: torch.Tensor, encoded: torch.Tensor, *cached: torch.Tensor) -> tuple[torch.Tensor, ...]:
        from transformers.cache_utils import DynamicCache, EncoderDecoderCache

        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        for place, half in enumerate((cache.self_attention_cache, cache.cross_attention_cache)):
            if cached:
                half.update(cached[2 * place], cached[2 * place + 1], 0)
                cache.is_updated[0] = True
        made = self.decoder(input_ids=ids, encoder_hidden_states=encoded, past_key_values=cache, use_cache=True)
        own, cross = cache.self_attention_cache.layers[0], cache.cross_attention_cache.layers[0]
        left = (own.keys, own.values) if cached else (own.keys, own.values, cross.keys, cross.values)
        return (self.head(made.last_hidden_state), *left)


def save_onnx_folder(source: Path, folder: Path) -> None:
    """A Whisper of one layer: its encoder, and its decoder in two files."""
    import shutil

    from profiler.models.torchaudio.on_cpu import ensure_torchaudio

    ensure_torchaudio()
    import transformers

    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    whisper = transformers.WhisperForConditionalGeneration.from_pretrained(source).eval()
    rows, config = {0: OUTSIDE[0]}, whisper.config
    heads = (2, config.decoder_attention_heads, 3, config.d_model // config.decoder_attention_heads)
    own, cross = torch.randn(heads), torch.randn(2, heads[1], config.max_source_positions, heads[3])
    names = [f"{half}.{kind}" for half in ("decoder", "encoder") for kind in ("key", "value")]
    past, present = [[f"{when}.0.{name}" for name in names] for when in ("past_key_values", "present")]
    encoded = torch.randn(2, config.max_source_positions, config.d_model)
    steps = {0: OUTSIDE[0], 1: OUTSIDE[1]}
    kept = {0: OUTSIDE[0], 2: OUTSIDE[1]}
    _save_named(
        Encoder(whisper),
        folder / "encoder_model.onnx",
        {"input_features": (torch.randn(2, config.num_mel_bins, 2 * config.max_source_positions), rows)},
        ["last_hidden_state"],
    )
    ids = torch.ones(2, 2, dtype=torch.int64)
    _save_named(
        Decoder(whisper),
        folder / "decoder_model.onnx",
        {"input_ids": (ids, steps), "encoder_hidden_states": (encoded, rows)},
        ["logits", *present],
    )
    cache = dict(zip(past, ((own, kept), (own, kept), (cross, rows), (cross, rows)), strict=True))
    _save_named(
        Decoder(whisper),
        folder / "decoder_with_past_model.onnx",
        {"input_ids": (ids[:, :1], rows), "encoder_hidden_states": (encoded, rows), **cache},
        ["logits", *present[:2]],
    )


def _save_named(module: Any, file: Path, inputs: dict[str, tuple[torch.Tensor, Any]], outputs: list[str]) -> None:
    given, free = zip(*inputs.values(), strict=True)
    shapes = (*free[:2], tuple(free[2:])) if len(free) > 2 else free
    with torch.no_grad():
        made = torch.export.export(module.eval(), given, dynamic_shapes=shapes, strict=False)
    names = {"input_names": list(inputs), "output_names": outputs}
    torch.onnx.export(made, dynamo=True, verbose=False, **names).save(str(file))  # type: ignore[union-attr]


def save_ctranslate2_folder(source: Path, folder: Path) -> None:
    from ctranslate2.converters import TransformersConverter

    TransformersConverter(str(source)).convert(str(folder))


if __name__ == "__main__":  # whisper folder: in a process of its own, for engines have threads
    save_onnx_folder(Path(sys.argv[1]), Path(sys.argv[2]) / "onnx")
    save_ctranslate2_folder(Path(sys.argv[1]), Path(sys.argv[2]) / "ct2")
