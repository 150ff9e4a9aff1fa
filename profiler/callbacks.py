"""A training loop of a library, profiled by one line: callbacks for transformers' Trainer and for Lightning.

    Trainer(..., callbacks=[trainer_callback("finetune")])
    lightning.Trainer(..., callbacks=[lightning_callback("finetune")])

Each batch of training is a step; validation, checkpoints and logs are in none. Options are those of `profile`; a Brain
of SpeechBrain needs no callback: `profile(brain)`. The libraries are imported when a callback is made.

A Trainer tells its callbacks nothing when training raises: `with callback.profile: trainer.train()` ends the profile
then.
"""

from __future__ import annotations

from typing import Any

from profiler.decorators import Profile, profile
from profiler.errors import UserError


class _Loop:
    """What both libraries tell: a loop begins, a batch is done, something else was done, the loop is over."""

    def __init__(self, profiled: Profile) -> None:
        self.profile = profiled
        self.model: Any = None

    def begin(self, model: Any) -> None:
        self.profile.watch_model(model)
        self.profile.__enter__()

    def end(self, error: BaseException | None = None) -> None:
        self.profile.__exit__(type(error) if error is not None else None, error, None)


def trainer_callback(name: str = "Trainer", *, instruments: Any = profile, **options: Any) -> Any:
    """For `transformers.Trainer`. `instruments`: profile, profile_analyst or profile_optimiser."""
    try:
        from transformers import TrainerCallback
    except ImportError:
        raise UserError("trainer_callback needs transformers: pip install transformers") from None
    loop = _Loop(instruments(name, **options))

    class SpeechProfile(TrainerCallback):
        """Each optimizer step is a step, with all batches that its gradient is accumulated over."""

        profile = loop.profile

        def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            loop.begin(more.get("model"))

        def on_epoch_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            loop.profile.restart()

        def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            loop.profile.step()

        def on_log(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            loop.profile.restart()

        on_evaluate = on_save = on_predict = on_log

        def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            loop.end()

    return SpeechProfile()


def lightning_callback(name: str = "Lightning", *, instruments: Any = profile, **options: Any) -> Any:
    """For `lightning.Trainer`. `instruments`: profile, profile_analyst or profile_optimiser."""
    try:
        from lightning.pytorch import Callback
    except ImportError:
        try:
            from pytorch_lightning import Callback
        except ImportError:
            raise UserError("lightning_callback needs Lightning: pip install lightning") from None
    loop = _Loop(instruments(name, **options))

    class SpeechProfile(Callback):
        """Each batch of training is a step."""

        profile = loop.profile

        def on_train_start(self, trainer: Any, module: Any) -> None:
            loop.begin(module)

        def on_train_epoch_start(self, trainer: Any, module: Any) -> None:
            loop.profile.restart()

        def on_train_batch_end(self, trainer: Any, module: Any, *more: Any) -> None:
            loop.profile.step()

        def on_validation_end(self, trainer: Any, module: Any) -> None:
            loop.profile.restart()

        def on_train_end(self, trainer: Any, module: Any) -> None:
            loop.end()

        def on_exception(self, trainer: Any, module: Any, exception: BaseException) -> None:
            loop.end(exception)

    return SpeechProfile()
