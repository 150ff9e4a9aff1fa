"""How ESPnet's ASR models are trained: CTC and attention loss, weighted as config.yaml says; all parts are its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from profiler.errors import ModelError

if TYPE_CHECKING:
    from profiler.recipe.schema import Training
    from profiler.training.targets import Targets
    from profiler.training.task import Task


def trained_by(model: Any, device: str) -> dict[str, Callable[[Training], Task]]:
    return {"hybrid": lambda settings: _hybrid(model, device)}


def _hybrid(model: Any, device: str) -> Task:
    from espnet.nets.pytorch_backend.transformer.add_sos_eos import add_sos_eos

    from profiler.training.losses import TORCH
    from profiler.training.task import Outputs, Task
    from profiler.training.tasks import ordinary_tokens

    if model.use_transducer_decoder or getattr(model, "use_linear_decoder", False):
        raise ModelError("An ESPnet model with a transducer or a classifier in place of a decoder is not trained here.")
    loss = _loss(model)

    def forward(value: tuple[Any, Any], targets: Targets) -> Outputs:
        waveforms, lengths = (part.to(device) for part in value)
        encoded, frames = model.encode(waveforms, lengths)
        if isinstance(encoded, tuple):
            encoded = encoded[0]
        padded, decoded = _padded(targets, model.ignore_id), None
        wanted = None
        if model.ctc_weight != 1.0:
            given, wanted = add_sos_eos(padded, model.sos, model.eos, model.ignore_id)
            decoded, _ = model.decoder(encoded, frames, given, targets.lengths.to(device) + 1)
        return Outputs((encoded, frames, decoded, wanted), frames.cpu())

    share = {0.0: "attention (label smoothing)", 1.0: "CTC"}
    name = share.get(model.ctc_weight, f"{model.ctc_weight:g} CTC + {1 - model.ctc_weight:g} attention")
    tokens = ordinary_tokens(model.vocab_size, model.blank_id, model.sos, model.eos)
    task = Task(name, f"ESPnet's own, on {TORCH}", forward, loss, tokens, per_frame=model.ctc_weight != 0.0)
    if model.ctc_weight != 0.0:
        task.notes.append("ESPnet's CTC module projects to tokens itself: that projection is in the phase of the loss.")
    if model.interctc_weight:
        task.notes.append("CTC of inner layers, which this model was trained with, is left out.")
    return task


def _padded(targets: Targets, ignored: int) -> Any:
    import torch

    place = torch.arange(targets.tokens.shape[1], device=targets.tokens.device)
    return targets.tokens.masked_fill(place >= targets.lengths.to(place.device)[:, None], ignored)


def _loss(model: Any) -> Any:
    import torch

    class HybridLoss(torch.nn.Module):
        """The model's own CTC module and attention criterion."""

        def __init__(self) -> None:
            super().__init__()
            self.ctc = model.ctc
            self.attention = model.criterion_att if model.ctc_weight != 1.0 else None

        def forward(self, outputs: Any, targets: Targets) -> torch.Tensor:
            encoded, frames, decoded, wanted = outputs.values
            total: Any = 0.0
            if model.ctc_weight != 0.0:
                lengths = targets.lengths.to(encoded.device)
                total = model.ctc_weight * self.ctc(encoded, frames, targets.tokens, lengths)
            if self.attention is not None:
                total = total + (1 - model.ctc_weight) * self.attention(decoded, wanted)
            return total  # type: ignore[no-any-return]

    return HybridLoss()
