"""Which models can be trained, with which loss: real libraries, tiny models, real steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from profiler.audio import Speech
from profiler.device import Device
from profiler.errors import ModelError
from profiler.models.load import load_model
from profiler.models.model import Model, ModelRequest, model_request
from profiler.recipe.load import load_recipe
from profiler.recipe.schema import Training
from profiler.results.types import PHASES
from profiler.training.step import TrainingStep, begin_training, describe
from tests.conftest import TinyModel
from tests.helpers import tiny
from tests.helpers.operations import count_operations
from tests.helpers.shipped import ROWS

SECONDS = 1.5
SETTINGS: dict[str, Any] = {"learning_rate": 3e-3, "vocabulary": 30}


def shipped(recipe: str, variant: str = "", **overrides: Any) -> Model:
    """The model of a shipped recipe, with random weights, as small as the tests have it."""
    sizes = {**ROWS[recipe].overrides, **overrides}
    settings = {"pretrained_model.weights": "random"}
    loaded = load_recipe(
        tiny.RECIPES / f"{recipe}.yaml",
        settings | {f"pretrained_model.overrides.{name}": value for name, value in sizes.items()},
    )
    return load_model(model_request(loaded.recipe, loaded.path.parent))


def trained(model: Model, **settings: Any) -> tuple[TrainingStep, list[float]]:
    """The model after a few steps on one batch of two rows, the second one shorter; and its losses."""
    torch.manual_seed(0)
    step = begin_training(model, Training(**{**SETTINGS, **settings}), Device("cpu"))
    value = step.prepare(Speech(tiny.SPEECH, model.rate).batch(SECONDS, 2, seed=0, padding=0.3), seed=0)
    return step, [float(step(value)) for _ in range(6)]


def check(step: TrainingStep, losses: list[float], before: list[torch.Tensor]) -> None:
    assert all(loss > 0 and loss < 1e4 for loss in losses)
    assert min(losses[-2:]) < losses[0], "it learns its one batch"
    changed = [not torch.equal(old, new) for old, new in zip(before, step.parameters, strict=True)]
    assert sum(changed) > 0.6 * len(changed), "most of the model is trained"
    assert all(parameter.grad is None for parameter in step.parameters), "gradients do not outlive their step"
    times = step.times()
    assert times is not None
    assert [len(call) for call in times] == [len(PHASES)] * 6
    assert step.frames > 0
    assert describe(step).trained_parameters == sum(each.numel() for each in step.parameters)


def check_model(model: Model, **settings: Any) -> TrainingStep:
    own = {id(each): each for part in (model.module, *model.components.values()) for each in part.parameters()}
    before = [each.detach().clone() for each in own.values() if each.requires_grad]
    step, losses = trained(model, **settings)
    added = len(step.parameters) - len(before)
    before = [*before, *(torch.full_like(each, -9.0) for each in step.parameters[len(before) :])] if added else before
    check(step, losses, before)
    check_operations(model, step)
    return step


NOTHING = torch.nn.Identity()


def with_features_apart(components: dict[str, torch.nn.Module]) -> dict[str, torch.nn.Module]:
    """SpeechBrain's encoders hold the computing of features, which has no backward pass."""
    inner = {f"{name}.compute_features": getattr(part, "compute_features", None) for name, part in components.items()}
    return components | {name: part for name, part in inner.items() if part is not None}


def check_operations(model: Model, step: TrainingStep) -> None:
    """NOTHING of a step is left out of the count, and what autograd computes goes to whom it is computed for."""
    value = step.prepare(Speech(tiny.SPEECH, model.rate).batch(SECONDS, 1, seed=0), seed=0)
    components = with_features_apart(model.components)
    whole = count_operations(step, value, components, SECONDS, step)
    assert [entry for entry in whole.uncounted if "call" in entry] == []
    with torch.no_grad():
        forward = count_operations(lambda given: step.task.forward(*given), value, components, SECONDS)
    trained = [name for name in forward.components if list(components.get(name, NOTHING).parameters())]
    ratio = sum(whole.components[name] for name in trained) / sum(forward.components[name] for name in trained)
    assert 2 < ratio < 4, "a backward pass computes about twice as much as a forward pass"
    assert whole.components.get("other", 0) <= 1.1 * forward.components.get("other", 0), (
        "features have no backward pass"
    )


LIBRARY_MODELS = [
    ("ctc", "CTC", []),
    ("encoder", "CTC", ["ctc_head"]),
    ("whisper", "cross entropy", []),
    ("crdnn", "cross entropy", []),
    ("french", "CTC", []),
    ("speechbrain-whisper", "cross entropy", []),
]


@pytest.mark.parametrize(("name", "loss", "added"), LIBRARY_MODELS, ids=[name for name, *_ in LIBRARY_MODELS])
def test_models_of_transformers_and_speechbrain(
    tiny_model: Callable[[str], TinyModel], name: str, loss: str, added: list[str]
) -> None:
    made = tiny_model(name)
    step = check_model(load_model(ModelRequest(source=str(made.folder), folder=made.folder, type=made.type)))
    assert describe(step).loss == loss
    assert describe(step).added == added


SHIPPED_MODELS = [
    ("conformer-transformerlm", "cross entropy"),
    ("wav2vec2-torchaudio", "CTC"),
    ("transducer", "transducer, whole lattice"),
    ("mockingjay", "CTC"),
    ("conformer", "0.3 CTC + 0.7 attention"),
    ("lstm", "0.3 CTC + 0.7 attention"),
]


@pytest.mark.parametrize(("recipe", "loss"), SHIPPED_MODELS, ids=[name for name, _ in SHIPPED_MODELS])
def test_models_of_shipped_recipes(recipe: str, loss: str) -> None:
    step = check_model(shipped(recipe))
    assert describe(step).loss == loss


@pytest.mark.parametrize("loss", ["pruned_transducer", "transducer", "ctc"])
def test_the_conformer_transducer(loss: str) -> None:
    model = shipped("conformer-transducer-train")
    step = check_model(model, loss=loss)
    assert "loss" in model.beside
    assert (
        describe(step).loss
        == {
            "pruned_transducer": "0.5 simple + pruned transducer",
            "transducer": "transducer, whole lattice",
            "ctc": "CTC",
        }[loss]
    )
    assert "torch" in describe(step).loss_library


def test_what_cannot_be_trained_says_so(tiny_model: Callable[[str], TinyModel]) -> None:
    made = tiny_model("classifier")
    model = load_model(ModelRequest(source=str(made.folder), folder=made.folder, type=made.type))
    with pytest.raises(ModelError, match="cannot be trained here"):
        begin_training(model, Training(), Device("cpu"))
    made = tiny_model("ctc")
    model = load_model(ModelRequest(source=str(made.folder), folder=made.folder, type=made.type))
    with pytest.raises(ModelError, match="cannot be trained with `transducer`; it takes ctc"):
        begin_training(model, Training(loss="transducer"), Device("cpu"))


def test_half_of_the_bits_and_another_optimizer(tiny_model: Callable[[str], TinyModel]) -> None:
    made = tiny_model("ctc")
    model = load_model(ModelRequest(source=str(made.folder), folder=made.folder, type=made.type))
    step = check_model(model, precision="bfloat16", optimizer="sgd", learning_rate=0.1, clip_norm=None)
    assert describe(step).optimizer == "SGD"
    assert {parameter.dtype for parameter in step.parameters} == {torch.float32}
    assert step.state_bytes()["optimizer"] == 0, "plain SGD keeps nothing"
