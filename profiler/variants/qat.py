"""Quantisation-aware training: float model + transcribed speech -> int8 linear layers that were trained to be int8.

    fork: linear layers with fake quantisation (torchao) --steps of the model's own loss--> float weights --> a file
    this process: those weights --> torch's dynamic int8 layers, as `quantize: dynamic` has them

Training computes, and the process that holds the model must not (see execution/worker.py): a fork trains a copy, and
only its weights come back. torchao has a scale for each row of activations; the layers that run here have one for each
call, since those of torchao are slower than float unless compiled. Weights have one per output channel in both.

What was trained is kept in the file cache (runtimes/cache.py): variants that differ in what training does not see, such
as the search, share it. Its name has the loss and the gradient of the first step, which tell one architecture from
another better than settings do, for these also hold those of the search.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from profiler.audio import pad, read_mono
from profiler.errors import ModelError, NotSupported
from profiler.processes import in_fork
from profiler.runtimes import cache
from profiler.variants import layers, quantize

if TYPE_CHECKING:
    from profiler.dataset.items import TrainingSpeech, Utterance
    from profiler.models.model import Model
    from profiler.recipe.schema import FineTuning
    from profiler.training.tasks import Targets, Task

ENDS = 10  # steps whose mean loss is told, at the start and at the end
NORM = 5.0  # gradients are scaled down to it
WEIGHTS, ABOUT = "weights.pt", "training.json"


class Trained(msgspec.Struct, kw_only=True):
    """What is known of a training, beside the weights that it ended with."""

    losses: list[float]  # of each step
    seconds: float
    threads: int


def qat(
    model: Model,
    inputs: list[Any],
    settings: FineTuning,
    speech: TrainingSpeech,
    threads: int | None,
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
    with layers.failing("the quantisation-aware training failed"):
        name, is_new = in_fork(lambda: _train(model, chosen, settings, speech, threads), tuple[str, bool])
    trained = _take(model, speech.cache / name)
    before, after = (f"{sum(part) / len(part):.3f}" for part in (trained.losses[:ENDS], trained.losses[-ENDS:]))
    notes.append(
        f"Fine-tuned for {settings.steps} steps of {settings.batch_size} utterances on {Path(settings.source).name} "
        f"({len(speech.utterances)} utterances, none of them scored), learning rate {settings.learning_rate:g}: loss "
        f"{before} in the first {min(ENDS, len(trained.losses))} steps, {after} in the last. It took "
        f"{trained.seconds:.3g} s (threads: {trained.threads})."
    )
    if not is_new:
        notes.append(
            "The trained weights are from the file cache: an earlier variant or run had the same weights, speech and "
            "options."
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
    speech: TrainingSpeech,
    threads: int | None,
) -> tuple[str, bool]:
    """Train and keep all weights: their name in the cache, and whether it was made now."""
    import torch

    start = time.perf_counter()
    threads = threads or len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    torch.manual_seed(settings.seed)
    weights = _weights(model)
    task = _task(model)
    rows, tokens = _speech(model, speech.utterances)
    before, audio = cache.digest([*weights, *_buffers(model)]), cache.digest(map(torch.from_numpy, rows))
    made_of = (before, audio, tokens, settings.model_dump(exclude={"source"}), threads)
    for layer in chosen:
        layers.become(layer, _fake_quantised(layer))
    for module in layers.all_modules(model):
        module.train()
    for weight in weights:
        weight.requires_grad_(weight.is_floating_point())
    optimizer = torch.optim.AdamW([each for each in weights if each.requires_grad], lr=settings.learning_rate)
    next_batch = _batches(model, task, settings, rows, tokens, [each.id for each in speech.utterances])
    losses: list[float] = []
    name = ""
    for _ in range(settings.steps):
        inputs, targets = next_batch()
        outputs = task.forward(inputs, targets)
        targets.refuse_longer(outputs.frames)
        loss = task.loss(outputs, targets)
        if not torch.isfinite(loss):
            raise ModelError(f"the loss is {float(loss)} in step {len(losses) + 1}: lower qat.learning_rate")
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(weights, NORM)
        losses.append(float(loss.detach()))
        if not name:
            first_step = (f"{losses[0]:.5g}", f"{float(norm):.5g}")
            name = cache.key("qat", task.name, *made_of, first_step, packages=("torchao",), code=[Path(__file__)])
            if (speech.cache / name).is_dir():
                return name, False
        optimizer.step()
    trained = Trained(losses=losses, seconds=time.perf_counter() - start, threads=threads)
    with cache.made_whole(speech.cache / name) as made:
        torch.save([weight.detach().clone() for weight in [*weights, *_buffers(model)]], made / WEIGHTS)
        (made / ABOUT).write_bytes(msgspec.json.encode(trained))
    return name, True


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


def _speech(model: Model, utterances: list[Utterance]) -> tuple[list[Any], list[list[int]]]:
    """(waveforms, tokens) of all utterances."""
    assert model.to_tokens is not None
    rows = [read_mono(each.audio, model.rate, each.offset, each.seconds) for each in utterances if each.audio]
    return rows, [model.to_tokens(each.text or "") for each in utterances]


def _batches(
    model: Model, task: Task, settings: FineTuning, rows: list[Any], tokens: list[list[int]], names: list[str]
) -> Callable[[], tuple[Any, Targets]]:
    """A maker of batches: utterances in a drawn order, over and over."""
    import torch

    from profiler.training.tasks import Targets

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
        return model.prepare(batch), Targets(padded, lengths, [names[place] for place in taken])

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


def _take(model: Model, folder: Path) -> Trained:
    import torch

    weights = torch.load(folder / WEIGHTS, map_location="cpu", weights_only=True)
    with torch.no_grad():
        for weight, value in zip([*_weights(model), *_buffers(model)], weights, strict=True):
            weight.copy_(value)
    return msgspec.json.decode((folder / ABOUT).read_bytes(), type=Trained)
