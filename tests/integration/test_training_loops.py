"""Training loops of libraries, profiled by one line: SpeechBrain, transformers, Lightning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from profiler.callbacks import lightning_callback, trainer_callback
from profiler.decorators import profile, profile_optimiser
from profiler.models.torchaudio.on_cpu import ensure_torchaudio

STEPS = 18


@pytest.fixture(autouse=True)
def libraries_import() -> None:
    """SpeechBrain and transformers import torchaudio, which needs help where torch is a build for CPUs."""
    ensure_torchaudio()


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = torch.nn.Linear(8, 8)
        self.head = torch.nn.Linear(8, 1)

    def forward(self, features: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        found = self.head(torch.relu(self.encoder(features)))
        if found.isnan().any():
            raise ValueError("not a number")
        return {"loss": (found.squeeze(-1) - (0.0 if labels is None else labels)).pow(2).mean(), "logits": found}


def check(run: Any, status: str = "complete") -> None:
    cell = run.cells[0]
    assert run.results.run.status == status
    assert cell.latency_s.n >= 5
    assert set(cell.training.phases) == {"data", "compute"}
    assert sum(phase.share for phase in cell.training.phases.values()) == pytest.approx(1)
    names = [row.name for row in cell.breakdown.labels]
    assert {"encoder", "head", "backward", "optimizer", "data loader"} <= set(names)
    assert run.results.models[0].parameters.total == 81
    assert not torch.autograd._profiler_enabled()


def items(count: int, bad: int | None = None) -> list[dict[str, torch.Tensor]]:
    value = {"features": torch.ones(8), "labels": torch.tensor(1.0)}
    return [value | ({"features": torch.full((8,), torch.nan)} if number == bad else {}) for number in range(count)]


def test_a_trainer_of_transformers(tmp_path: Path) -> None:
    from transformers import Trainer, TrainingArguments

    def trainer(bad: int | None, callback: Any) -> Any:
        settings = TrainingArguments(
            str(tmp_path / "out"), num_train_epochs=1, per_device_train_batch_size=1, report_to=[], use_cpu=True,
            save_strategy="no", disable_tqdm=True, eval_strategy="steps", eval_steps=9, seed=1,
        )  # fmt: skip
        return Trainer(Net(), settings, train_dataset=items(STEPS, bad), eval_dataset=items(2), callbacks=[callback])

    callback = trainer_callback("finetune", logdir=tmp_path, quiet=True)
    trainer(None, callback).train()
    check(callback.profile.run)
    failing = trainer_callback("failing", logdir=tmp_path, quiet=True)
    with pytest.raises(ValueError, match="not a number"), failing.profile:
        trainer(12, failing).train()
    assert failing.profile.run.results.run.status == "finished with failures"
    assert not torch.autograd._profiler_enabled()


def test_a_trainer_of_lightning(tmp_path: Path) -> None:
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.head = torch.nn.Linear(8, 8), torch.nn.Linear(8, 1)

        def training_step(self, batch: dict[str, torch.Tensor], number: int) -> torch.Tensor:
            if batch["features"].isnan().any():
                raise ValueError("not a number")
            return self.head(self.encoder(batch["features"])).pow(2).mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.01)

    def train(callback: Any, bad: int | None = None) -> None:
        trainer = lightning.Trainer(
            max_steps=STEPS, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False, callbacks=[callback], default_root_dir=tmp_path,
        )  # fmt: skip
        trainer.fit(Module(), DataLoader(items(STEPS, bad)))

    callback = lightning_callback("train", logdir=tmp_path, quiet=True)
    train(callback)
    check(callback.profile.run)
    with pytest.raises(ValueError, match="not a number"):
        train(callback, bad=14)
    check(callback.profile.run, "finished with failures")


@pytest.mark.parametrize("way", ["instance", "class", "function"])
def test_a_brain_of_speechbrain(tmp_path: Path, way: str) -> None:
    from speechbrain.core import Brain, Stage

    class Small(Brain):
        def compute_forward(self, batch: Any, stage: Stage) -> Any:
            return self.modules.head(torch.relu(self.modules.encoder(batch["features"])))

        def compute_objectives(self, predictions: Any, batch: Any, stage: Stage) -> Any:
            return predictions.pow(2).mean()

    def train(brain: Any) -> None:
        brain.fit(range(2), DataLoader(items(STEPS // 2)), DataLoader(items(2)), progressbar=False)

    if way == "class":
        Small = profile(Small, logdir=tmp_path, quiet=True)  # type: ignore[misc]
    net = Net()
    modules = {"encoder": net.encoder, "head": net.head}
    brain = Small(modules, lambda parameters: torch.optim.SGD(parameters, 0.01), run_opts={"device": "cpu"})
    if way == "instance":
        profile(brain, logdir=tmp_path, quiet=True)
    if way == "function":
        train = profile(train, logdir=tmp_path, quiet=True)
    train(brain)
    profiled: Any = train if way == "function" else brain.fit
    check(profiled.profile.run)
    assert "fit_batch" not in vars(brain)


def test_evaluation_of_a_brain_is_a_run_of_its_own(tmp_path: Path) -> None:
    from speechbrain.core import Brain, Stage

    class Small(Brain):
        def compute_forward(self, batch: Any, stage: Stage) -> Any:
            return self.modules.encoder(batch["features"])

        def compute_objectives(self, predictions: Any, batch: Any, stage: Stage) -> Any:
            return predictions.pow(2).mean()

    brain = profile_optimiser(Small({"encoder": torch.nn.Linear(8, 8)}), logdir=tmp_path, quiet=True)
    brain.evaluate(DataLoader(items(STEPS)), progressbar=False)
    assert (tmp_path / "Small.evaluate").is_dir()
    assert brain.evaluate.profile.run.cells[0].latency_s.n >= 10
    assert not (tmp_path / "Small.fit").exists()
