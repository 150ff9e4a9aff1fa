"""A loaded model -> the step that trains it. In the worker, before any cell; nothing is computed here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profiler.device import Device
from profiler.errors import ModelError
from profiler.results.types import TrainingSetup
from profiler.training.step import TrainingStep

if TYPE_CHECKING:
    from profiler.models.model import Model
    from profiler.recipe.schema import Training
    from profiler.training.task import Task

ABOUT_WEIGHTS = "random weights of the same architecture"  # see models/load.py
OUTPUT = "updated weights (forward, loss, backward, optimizer)"
RANDOM_TARGETS = "Targets are random tokens: their number is what a step costs, not what they are."


def begin_training(model: Model, settings: Training, device: Device) -> TrainingStep:
    """Turn the model to training, in place: output layers and the loss become parts of it."""
    task = _task(model, settings)
    _add_heads(model, task)
    model.beside["loss"] = task.loss
    model.output = OUTPUT
    model.module.train()
    for head in task.heads.values():
        head.train()
    step = TrainingStep(model, task, settings, device)
    if not step.parameters:
        raise ModelError("There is nothing to train: the model has no parameters that take gradients.")
    # What was said of searches and of their number of steps holds for inference alone.
    model.notes = [note for note in model.notes if ABOUT_WEIGHTS in note] + [*task.notes, RANDOM_TARGETS]
    return step


def _task(model: Model, settings: Training) -> Task:
    if not model.trained_by:
        raise ModelError("This model cannot be trained here: there is no loss for what it gives.")
    wanted = next(iter(model.trained_by)) if settings.loss == "auto" else settings.loss
    if wanted not in model.trained_by:
        raise ModelError(
            f"training.loss: this model cannot be trained with `{wanted}`; it takes {', '.join(model.trained_by)}"
        )
    return model.trained_by[wanted](settings)


def _add_heads(model: Model, task: Task) -> None:
    """Output layers that are there for training are parts of the model: counted, trained, and in the breakdown."""
    import torch

    for name, head in task.heads.items():
        if isinstance(model.module, torch.jit.ScriptModule):  # a script takes no further parts
            model.module = torch.nn.ModuleDict({"model": model.module, name: head})
        else:
            model.module.add_module(name, head)
        model.components = {**model.components, name: head}


def describe(step: TrainingStep) -> TrainingSetup:
    """What the results say of how the model is trained."""
    settings = step.settings
    return TrainingSetup(
        loss=step.task.name,
        loss_library=step.task.library,
        optimizer=type(step.optimizer).__name__,
        learning_rate=settings.learning_rate,
        clip_norm=settings.clip_norm,
        precision=settings.precision,
        trained_parameters=sum(each.numel() for each in step.parameters),
        added=list(step.task.heads),
    )
