"""Quantisation-aware training: float model + transcribed speech -> int8 linear layers that were trained to be int8.

    fork: linear layers with fake quantisation (torchao) --steps of the model's own loss--> float weights --> a file
    this process: those weights --> torch's dynamic int8 layers, as `quantize: dynamic` has them

Training computes, and the process that holds the model must not (see execution/worker.py): a fork trains a copy, and
only its weights come back. torchao has a scale for each row of activations; the layers that run here have one for each
call, since those of torchao are slower than float unless compiled. Weights have one per output channel in both.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.audio import pad, read_mono
from profiler.errors import ModelError, NotSupported
from profiler.processes import in_fork
from profiler.variants import layers, quantize

if TYPE_CHECKING:
    from profiler.dataset.items import Utterance
    from profiler.models.model import Model
    from profiler.recipe.schema import FineTuning
    from profiler.training.tasks import Targets, Task

ENDS = 10  # steps whose mean loss is told, at the start and at the end
NORM = 5.0  # gradients are scaled down to it


def qat(
    model: Model, inputs: list[Any], settings: FineTuning, utterances: list[Utterance], threads: int | None
) -> layers.Step:
    """Fine-tune a copy, take its weights, and make the linear layers int8."""
    quantize.require_cpu(model)
    try:
        import torchao.quantization.qat  # noqa: F401
    except ImportError as error:
        raise NotSupported("it needs torchao, which is not installed: pip install torchao") from error
    engine = quantize.use_engine(None)
    chosen, notes = quantize.choose_linear(model)
    if model.to_tokens is None:
        raise NotSupported("quantisation-aware training needs the model's tokenizer, and it gives none")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "weights.pt"
        with layers.failing("the quantisation-aware training failed"):
            losses = in_fork(lambda: _train(model, chosen, settings, utterances, threads, file), list[float])
        _take(model, file)
    before, after = (f"{sum(part) / len(part):.3f}" for part in (losses[:ENDS], losses[-ENDS:]))
    notes.append(
        f"Fine-tuned for {settings.steps} steps of {settings.batch_size} utterances on {Path(settings.source).name} "
        f"({len(utterances)} utterances, none of them scored), learning rate {settings.learning_rate:g}: loss {before} "
        f"in the first {min(ENDS, len(losses))} steps, {after} in the last."
    )
    notes.append(
        "Trained with torchao's fake quantisation (int8 weights per channel, activations per frame); run by torch's "
        "dynamic int8 layers (weights per channel, activations per call)."
    )
    kind = "dynamic int8 of linear layers after quantisation-aware training"
    return quantize.swap(model, inputs, chosen, _per_channel_layer, kind, notes, engine)


def _per_channel_layer(layer: Any) -> Any:
    from torch.ao.quantization import per_channel_dynamic_qconfig

    return quantize.dynamic_layer(layer, per_channel_dynamic_qconfig)


# -- in the fork


def _train(
    model: Model,
    chosen: list[Any],
    settings: FineTuning,
    utterances: list[Utterance],
    threads: int | None,
    file: Path,
) -> list[float]:
    """Train and write all weights to a file; the loss of each step."""
    import torch

    torch.set_num_threads(threads or len(os.sched_getaffinity(0)))
    torch.manual_seed(settings.seed)
    weights = _weights(model)
    task = _task(model)
    for layer in chosen:
        layers.become(layer, _fake_quantised(layer))
    for module in layers.all_modules(model):
        module.train()
    for weight in weights:
        weight.requires_grad_(weight.is_floating_point())
    optimizer = torch.optim.AdamW([each for each in weights if each.requires_grad], lr=settings.learning_rate)
    next_batch = _batches(model, task, settings, utterances)
    losses: list[float] = []
    for _ in range(settings.steps):
        inputs, targets = next_batch()
        outputs = task.forward(inputs, targets)
        targets.refuse_longer(outputs.frames)
        loss = task.loss(outputs, targets)
        if not torch.isfinite(loss):
            raise ModelError(f"the loss is {float(loss)} in step {len(losses) + 1}: lower qat.learning_rate")
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, NORM)
        optimizer.step()
        losses.append(float(loss.detach()))
    torch.save([weight.detach().clone() for weight in [*weights, *_buffers(model)]], file)
    return losses


def _task(model: Model) -> Task:
    """The loss of the recipe that trained such a model: CTC and decoder together, where it has both."""
    from profiler.recipe.schema import Training

    if not model.trained_by:
        raise ModelError("there is no loss for what the model gives")
    name = "hybrid" if "hybrid" in model.trained_by else next(iter(model.trained_by))
    return model.trained_by[name](Training())


def _fake_quantised(layer: Any) -> Any:
    """torchao's linear layer with fake quantisation, on the same weight."""
    import torch
    from torchao.quantization import quantize_
    from torchao.quantization.qat import IntxFakeQuantizeConfig, QATConfig

    holder = torch.nn.Sequential(layer)
    activations = IntxFakeQuantizeConfig(torch.int8, "per_token", is_symmetric=False)
    weights = IntxFakeQuantizeConfig(torch.int8, "per_channel", is_symmetric=True)
    quantize_(holder, QATConfig(activation_config=activations, weight_config=weights, step="prepare"))
    return holder[0]


def _batches(
    model: Model, task: Task, settings: FineTuning, utterances: list[Utterance]
) -> Callable[[], tuple[Any, Targets]]:
    """A maker of batches: utterances in a drawn order, over and over."""
    import torch

    from profiler.training.tasks import Targets

    rows = [read_mono(each.audio, model.rate, each.offset, each.seconds) for each in utterances if each.audio]
    assert model.to_tokens is not None
    tokens = [model.to_tokens(each.text or "") for each in utterances]
    order: list[int] = []

    def next_batch() -> tuple[Any, Targets]:
        while len(order) < settings.batch_size:
            order.extend(torch.randperm(len(rows)).tolist())
        taken = [order.pop(0) for _ in range(settings.batch_size)]
        lengths = torch.tensor([len(tokens[place]) for place in taken])
        padded = torch.full((len(taken), int(lengths.max())), task.tokens.start)
        for row, place in zip(padded, taken, strict=True):
            row[: len(tokens[place])] = torch.tensor(tokens[place])
        batch = pad([rows[place] for place in taken], model.rate)
        return model.prepare(batch), Targets(padded, lengths, [utterances[place].id for place in taken])

    return next_batch


# -- weights, in an order that is the same in a fork


def _weights(model: Model) -> list[Any]:
    return list(layers.unique_parameters(model).values())


def _buffers(model: Model) -> list[Any]:
    """Running means and the like, which training moves; those of the fake quantisation are no part of the model."""
    kept = [module for module in layers.all_modules(model) if isinstance(module, _normalisation())]
    return [buffer for module in kept for buffer in module.buffers(recurse=False)]


def _normalisation() -> Any:
    import torch

    return torch.nn.modules.batchnorm._NormBase


def _take(model: Model, file: Path) -> None:
    import torch

    trained = torch.load(file, map_location="cpu", weights_only=True)
    with torch.no_grad():
        for weight, value in zip([*_weights(model), *_buffers(model)], trained, strict=True):
            weight.copy_(value)
