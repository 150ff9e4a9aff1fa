"""A model of the user's own, by class, tag, checkpoint or TorchScript file: real program, no code for the profiler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from profiler.audio import Speech
from profiler.errors import ModelError, UserError
from profiler.models.load import build_for_counting, load_model
from profiler.models.model import model_request
from profiler.recipe.load import load_recipe
from tests.helpers import program, tiny

CLASSES = '''
import torch

class Takes(torch.nn.Module):
    """Gives back what it was given, so that a test can look at it."""

    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(width, width)

    def forward(self, *inputs):
        return inputs

class Telephone(Takes):
    sample_rate = 8000

class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(10, 4)
        self.output = torch.nn.Linear(4, 10, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, waveforms):
        return self.output(self.embedding(torch.zeros(1, dtype=torch.long)))

class NotAModule:
    pass
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "own_classes.py").write_text(CLASSES)
    return tmp_path


def recipe(folder: Path, source: str, kind: str = "Module", model: str = "") -> Path:
    path = folder / "own.yaml"
    text = tiny.recipe_text(source, kind, seconds="[1]", batches="[2]", model=model, more=program.QUICK)
    path.write_text(text if kind else text.replace("  type: \n", ""))
    return path


def load(path: Path) -> Any:
    loaded = load_recipe(path, trust=True)
    return load_model(model_request(loaded.recipe, path.parent, trust=True))


def given(path: Path, padding: float = 0.5) -> tuple[Any, ...]:
    """What forward gets for a batch of two, of which the second is shorter."""
    model = load(path)
    batch = Speech(tiny.SPEECH, model.rate).batch(1, 2, seed=0, padding=padding)
    found: tuple[Any, ...] = model.run(model.prepare(batch))
    return found


def test_waveforms(folder: Path) -> None:
    (waveforms,) = given(recipe(folder, "own_classes.Takes"))
    assert waveforms.shape == (2, 16000)
    assert waveforms.dtype == torch.float32


def test_waveforms_and_lengths_as_fractions_or_counts(folder: Path) -> None:
    waveforms, fractions = given(recipe(folder, "own_classes.Takes", model="input: waveform_and_lengths"))
    assert fractions[0] == 1.0
    assert 0.5 <= fractions[1] < 1.0
    _, counts = given(recipe(folder, "own_classes.Takes", model="input: waveform_and_lengths\nlengths: counts"))
    assert counts[0] == 16000
    assert counts.dtype == torch.int64
    assert counts[1] == round(float(fractions[1]) * 16000)
    assert not waveforms[1, int(counts[1]) :].any(), "the rest is padding"


def test_features(folder: Path) -> None:
    (features,) = given(recipe(folder, "own_classes.Takes", model="input: features\nmels: 40"))
    assert features.shape == (2, 98, 40), "25 ms every 10 ms"


def test_features_and_lengths_in_frames(folder: Path) -> None:
    features, counts = given(
        recipe(folder, "own_classes.Takes", model="input: features_and_lengths\nlengths: counts"), padding=0.5
    )
    assert features.shape == (2, 98, 80)
    assert counts[0] == 98
    assert 49 <= counts[1] < 98


def test_the_rate_is_the_class_own_or_the_recipes(folder: Path) -> None:
    assert given(recipe(folder, "own_classes.Telephone"))[0].shape == (2, 8000)
    assert given(recipe(folder, "own_classes.Takes", model="sample_rate: 22050"))[0].shape == (2, 22050)


def test_new_tag_names_the_class_and_its_arguments(folder: Path) -> None:
    model = load(recipe(folder, "!new:own_classes.Takes {width: 5}", kind=""))
    assert model.module.inner.in_features == 5
    model = load(recipe(folder, "!new:own_classes.Takes {width: 5}", model="overrides: {width: 7}"))
    assert model.module.inner.in_features == 7


@pytest.mark.slow
def test_a_served_class_needs_no_trust(folder: Path) -> None:
    path = recipe(
        folder,
        "!new:torchaudio.models.Conformer "
        "{input_dim: 80, num_heads: 2, ffn_dim: 8, num_layers: 1, depthwise_conv_kernel_size: 3}",
        kind="",
        model="input: features_and_lengths\nlengths: counts",
    )
    done = program.run(path, "--logdir", folder / "logs", "--quiet")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_checkpoint_is_loaded(folder: Path) -> None:
    weights = torch.full((3, 3), 7.0)
    torch.save({"inner.weight": weights, "inner.bias": torch.zeros(3)}, folder / "own.pt")
    model = load(recipe(folder, "own_classes.Takes", model="checkpoint: own.pt"))
    assert model.weights == "pretrained"
    assert torch.equal(model.module.inner.weight, weights)


def test_without_a_checkpoint_weights_are_as_constructed(folder: Path) -> None:
    assert load(recipe(folder, "own_classes.Takes")).weights == "as constructed"
    assert load(recipe(folder, "own_classes.Takes", model="weights: random")).weights == "random"


@pytest.mark.parametrize("keys", [["model"], ["model_state"], ["state_dict"], ["model", "module"]])
@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.", "module.model."])
def test_nested_checkpoints_are_found(keys: list[str], prefix: str, folder: Path) -> None:
    weights = torch.full((3, 3), 7.0)
    saved: dict[str, object] = {f"{prefix}inner.weight": weights, f"{prefix}inner.bias": torch.zeros(3)}
    for key in reversed(keys):
        saved = {"epoch": 3, key: saved}
    torch.save(saved, folder / "own.pt")
    model = load(recipe(folder, "own_classes.Takes", model="checkpoint: own.pt"))
    assert torch.equal(model.module.inner.weight, weights)


def test_a_checkpoint_that_does_not_fit_is_named_with_what_it_holds(folder: Path) -> None:
    torch.save({"inner.weight": torch.zeros(3, 3)}, folder / "own.pt")
    with pytest.raises(ModelError, match=r"own.pt does not fit own_classes.Takes: .*The file holds 1 entries, such as"):
        load(recipe(folder, "own_classes.Takes", model="checkpoint: own.pt"))
    torch.save({"epoch": 3, "model": {"other": torch.zeros(3)}}, folder / "own.pt")
    with pytest.raises(ModelError, match=r"The file holds .* epoch, model.* the class has 2, such as inner.weight"):
        load(recipe(folder, "own_classes.Takes", model="checkpoint: own.pt"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import torch\n\nimport no_such_package\n", r"ModuleNotFoundError: .*no_such_package.*broken.py, line 3"),
        ("x = 1\nraise RuntimeError('no licence')\n", r"RuntimeError: no licence .*broken.py, line 2"),
        ("def f(:\n", r"SyntaxError: .*broken.py, line 1"),
    ],
)
def test_an_import_that_fails_in_a_users_file_is_shown_with_its_line(text: str, says: str, folder: Path) -> None:
    name = f"a{abs(hash(text))}"
    (folder / name).mkdir()
    (folder / name / "broken.py").write_text(text)
    (folder / name / "__init__.py").write_text("")
    with pytest.raises(ModelError, match=rf"{name}.broken.Encoder cannot be imported: {says}"):
        load(recipe(folder, f"{name}.broken.Encoder"))
    with pytest.raises(ModelError, match=r"Cannot find the class own_classes.Nothing"):
        load(recipe(folder, "own_classes.Nothing"))


def test_a_damaged_checkpoint_is_named(folder: Path) -> None:
    (folder / "own.pt").write_bytes(b"nothing")
    with pytest.raises(ModelError, match=r"own.pt cannot be read"):
        load(recipe(folder, "own_classes.Takes", model="checkpoint: own.pt"))


@pytest.mark.parametrize(
    ("model", "kind", "says"),
    [
        ("checkpoint: none.pt", "Module", "there is no file"),
        ("checkpoint: own_classes.py", "AutoModel", "only a class (type: Module) takes a checkpoint"),
        ("input: spectrogram", "Module", "'features'"),
        ("lengths: seconds", "Module", "'fractions' or 'counts'"),
        ("mels: 0", "Module", "greater than 0"),
    ],
)
def test_wrong_settings_are_refused(folder: Path, model: str, kind: str, says: str) -> None:
    done = program.run(recipe(folder, "own_classes.Takes", kind, model), "--trust", "--logdir", folder / "logs")
    assert done.returncode == 2
    assert says in done.stderr
    assert not (folder / "logs").exists()


def test_what_is_no_module_is_refused(folder: Path) -> None:
    with pytest.raises(ModelError, match=r"own_classes\.NotAModule is not a torch\.nn\.Module"):
        load(recipe(folder, "own_classes.NotAModule"))


@pytest.mark.slow
def test_show_names_tied_parameters(folder: Path) -> None:
    done = program.run("show", recipe(folder, "own_classes.Tied"), "--trust")
    assert done.returncode == 0, done.stderr
    assert "embedding.weight = output.weight" in done.stdout
    done = program.run("show", recipe(folder, "own_classes.Tied"), "--trust", "--json")
    (model,) = json.loads(done.stdout)["models"]
    assert model["parameters"]["total"] == 40
    assert model["parameters"]["shared"] == [["embedding.weight", "output.weight"]]


# -- TorchScript


@pytest.fixture
def script(folder: Path) -> Path:
    module = torch.nn.Sequential(torch.nn.Linear(16000, 4), torch.nn.ReLU())
    with torch.no_grad():
        module[0].bias.fill_(3.0)
        module[0].weight.zero_()
    torch.jit.script(module).save(str(folder / "model.ts"))
    return folder


def test_a_torchscript_file_runs_with_its_own_weights(script: Path) -> None:
    model = load(recipe(script, "./model.ts", "TorchScript"))
    assert model.weights == "pretrained"
    batch = Speech(tiny.SPEECH, 16000).batch(1, 2, seed=0)
    assert torch.equal(model.run(model.prepare(batch)), torch.full((2, 4), 3.0))


def test_a_torchscript_file_is_counted(script: Path) -> None:
    loaded = load_recipe(recipe(script, "./model.ts", "TorchScript"))
    model = build_for_counting(model_request(loaded.recipe, script, trust=True))
    assert sum(parameter.numel() for parameter in model.module.parameters()) == 16000 * 4 + 4


@pytest.mark.slow
def test_a_torchscript_file_goes_the_whole_road(script: Path) -> None:
    done = program.run(recipe(script, "./model.ts", "TorchScript"), "--logdir", script / "logs", "--quiet")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "pretrained weights" in done.stdout


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("model.ts", b"", "no TorchScript file"),
        ("state.pt", None, "no TorchScript file"),
    ],
)
def test_a_file_that_is_no_script_is_named(folder: Path, name: str, content: bytes | None, says: str) -> None:
    if content is None:
        torch.save({"a": torch.zeros(1)}, folder / name)
    else:
        (folder / name).write_bytes(content)
    with pytest.raises(ModelError, match=says):
        load(recipe(folder, f"./{name}", "TorchScript"))


@pytest.mark.parametrize(
    ("source", "model", "says"),
    [
        ("./none.ts", "", "there is no file"),
        ("./", "", "is a folder"),
    ],
)
def test_a_missing_script_is_refused_at_once(folder: Path, source: str, model: str, says: str) -> None:
    done = program.run(recipe(folder, source, "TorchScript", model), "--logdir", folder / "logs")
    assert done.returncode == 2
    assert says in done.stderr


def test_a_script_cannot_be_random(script: Path) -> None:
    with pytest.raises(UserError, match="is only there with its weights"):
        load(recipe(script, "./model.ts", "TorchScript", "weights: random"))
