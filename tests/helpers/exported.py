"""Tiny models in the formats of engines, exported by the engines' own tools."""

from __future__ import annotations

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
