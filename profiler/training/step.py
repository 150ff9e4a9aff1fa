"""One training step: forward, loss, backward, optimizer. What the passes call in place of a model, and what they time.

    forward | loss | backward | optimizer (clip, update, clear the gradients)

Each phase is bounded by a look at the clock (on a GPU by an event on its own clock, so that nothing is waited for):
that is all there is in a timed step. Passes that look closer put something `around` phases, or are told of the loss.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from profiler.device import Device
from profiler.errors import ModelError
from profiler.results.types import TrainingSetup
from profiler.training.tasks import Targets, make_targets

if TYPE_CHECKING:
    from profiler.audio import Batch
    from profiler.models.model import Model
    from profiler.recipe.schema import Training
    from profiler.training.tasks import Task


Around = Callable[[str], AbstractContextManager[Any]]
ABOUT_WEIGHTS = "random weights of the same architecture"  # see models/load.py
OUTPUT = "updated weights (forward, loss, backward, optimizer)"
RANDOM_TARGETS = "Targets are random tokens: their number is what a step costs, not what they are."


def _nobody(loss: Any) -> None:
    """Nobody wants to be told of the loss."""


class TrainingStep:
    """Callable with what `prepare` gives; each call trains the model by one batch."""

    def __init__(self, model: Model, task: Task, settings: Training, device: Device) -> None:
        self.model, self.task, self.settings, self.device = model, task, settings, device
        self.parameters = [each for each in _unique(model) if each.requires_grad]
        self.optimizer = _optimizer(self.parameters, settings)
        self.losses: list[Any] = []  # of the first and of the last step
        self.frames = 0  # of the last step, padding not counted
        self.frame_rate = 0.0  # of them in a second of audio
        self._marks: list[list[tuple[Any, Any]]] = []
        self._around: Around = nullcontext
        self._told: Callable[[Any], None] = _nobody

    def prepare(
        self, batch: Batch, seed: int, lengths: list[int | None] | None = None, names: list[str] | None = None
    ) -> tuple[Any, Targets]:
        """Inputs and targets of a batch. Lengths that are not given follow from those of the audio."""
        seconds = [float(length) / batch.rate for length in batch.lengths]
        usual = [max(1, round(each * self.settings.targets_per_second)) for each in seconds]
        wanted = usual if lengths is None else [u if g is None else g for g, u in zip(lengths, usual, strict=True)]
        named = names or [f"row {number + 1} ({length:g} s)" for number, length in enumerate(seconds)]
        targets = make_targets(wanted, self.task.tokens, seed, self.device.name, named)
        targets.seconds = batch.seconds_of_audio
        if self.task.most_tokens is not None:
            targets.refuse_longer(self.task.most_tokens, "that the decoder has positions for")
            targets.fits = False
        return self.model.prepare(batch), targets

    def __call__(self, value: tuple[Any, Targets]) -> Any:
        inputs, targets = value
        marks: list[tuple[Any, Any]] = []
        with self._phase("forward", marks), self._autocast():
            outputs = self.task.forward(inputs, targets)
        if self.task.per_frame:
            targets.refuse_longer(outputs.frames)
        with self._phase("loss", marks):
            loss = self.task.loss(outputs, targets)
        self.frames = int(outputs.frames.sum())
        self.frame_rate = self.frames / targets.seconds if targets.seconds else 0.0
        del outputs
        if loss.grad_fn is None:
            raise ModelError("nothing that the loss depends on takes gradients: is the model frozen?")
        self._told(loss)
        with self._phase("backward", marks):
            loss.backward()
        with self._phase("optimizer", marks):
            self._update()
        self._marks.append(marks)
        self.losses = [*self.losses[:1], loss.detach()]
        return self.losses[-1]

    def _update(self) -> None:
        import torch

        if self.settings.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)  # here, so that a step begins without gradients of the one before

    def _autocast(self) -> AbstractContextManager[Any]:
        import torch

        if self.settings.precision == "float32":
            return nullcontext()
        casting: AbstractContextManager[Any] = torch.autocast(self.device.kind, dtype=torch.bfloat16)
        return casting

    @contextmanager
    def _phase(self, name: str, marks: list[tuple[Any, Any]]) -> Iterator[None]:
        with self._around(name):
            start = self._mark()
            yield
            marks.append((start, self._mark()))

    def _mark(self) -> Any:
        return self.device.event() or time.perf_counter()

    # -- for the passes

    def forget(self) -> None:
        """Times so far do not count: the model was warming up."""
        self._marks.clear()

    def forget_last(self) -> None:
        """The last call does not count."""
        del self._marks[-1:]

    def times(self) -> list[list[float]] | None:
        """Seconds of each phase in each call; None where the device has no clock of its own to ask."""
        if self.device.kind == "mps":  # its work goes on after a phase has ended for the CPU
            return None
        self.device.synchronize()
        return [[self._seconds(*pair) for pair in call] for call in self._marks]

    def _seconds(self, start: Any, end: Any) -> float:
        if isinstance(start, float):
            return float(end - start)
        return self.device.seconds_between(start, end) or 0.0

    @contextmanager
    def around(self, around: Around) -> Iterator[None]:
        """Have each phase run inside a context while this lasts."""
        self._around = around
        try:
            yield
        finally:
            self._around = nullcontext

    @contextmanager
    def telling(self, told: Callable[[Any], None]) -> Iterator[None]:
        """Have someone told of each loss before its backward pass."""
        self._told = told
        try:
            yield
        finally:
            self._told = _nobody

    def state_bytes(self) -> dict[str, int]:
        """What training keeps from step to step, and the gradients that are there during each."""
        held = [value for state in self.optimizer.state.values() for value in state.values()]
        trained = _bytes(self.parameters)
        return {
            "parameters": _bytes(_unique(self.model)),
            "gradients": trained,
            "optimizer": _bytes(value for value in held if hasattr(value, "element_size")),
        }


def _unique(model: Model) -> list[Any]:
    parts = (model.module, *model.components.values())
    return list({id(each): each for part in parts for each in part.parameters()}.values())


def _bytes(tensors: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _optimizer(parameters: list[Any], settings: Training) -> Any:
    import torch

    kinds = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}
    return kinds[settings.optimizer](parameters, lr=settings.learning_rate)


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
