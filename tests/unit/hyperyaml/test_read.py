"""Which tags a recipe may use without the user's word, and what is said about the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler.hyperyaml.allowed import is_allowed
from profiler.hyperyaml.outline import Mistake
from profiler.hyperyaml.read import read_document


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def mistakes(text: str, path: Path = Path("recipe.yaml"), trust: bool = False) -> list[Mistake]:
    path.write_text(text)
    return read_document(path, trust).mistakes


@pytest.mark.parametrize(
    "target",
    [
        "torch.nn.ReLU",
        "torch.nn.functional.gelu",
        "speechbrain.nnet.linear.Linear",
        "speechbrain.lobes.models.CRDNN.CRDNN",
        "speechbrain.lobes.features.Fbank",
        "speechbrain.decoders.seq2seq.S2SRNNBeamSearcher",
        "torchaudio.transforms.MelSpectrogram",
        "transformers.models.wav2vec2.Wav2Vec2Config",
    ],
)
def test_model_parts_of_the_served_libraries_are_allowed(target: str) -> None:
    assert is_allowed(target)
    assert mistakes(f"a: !new:{target}\n") == []


@pytest.mark.parametrize(
    "target",
    [
        "os.system",
        "subprocess.Popen",
        "builtins.eval",
        "torch.load",  # unpickles
        "torch.hub.load",  # downloads and runs
        "torch.nnet",  # only looks like torch.nn
        "torch.nn",
        "torchx.nn.Linear",
        "speechbrain.utils.superpowers.run_shell",
        "speechbrain.inference.ASR.EncoderASR.from_hparams",
        "transformers.models.auto.AutoModel.from_pretrained",
        "torch.nn.modules.module.os.system",
        "torch.nn.modules.module.torch.load",
        "torch.nn.parallel.distributed.os.popen",  # what a module imports is reachable through it
        "torch.nn.functional.importlib.reload",
        "torch.nn.functional.np.fromfile",
        "torch.nn.attention.torch.utils.cpp_extension.CppExtension",
        "speechbrain.lobes.models.huggingface_transformers.huggingface.torch.hub.load",
    ],
)
@pytest.mark.parametrize("tag", ["!new", "!name", "!module", "!apply", "!applyref"])
def test_everything_else_is_refused_with_the_way_out(tag: str, target: str) -> None:
    (mistake,) = mistakes(f"a: 1\nb: {tag}:{target}\n")
    assert mistake.line == 2
    assert f"{tag}:{target}" in mistake.message
    assert "would run code" in mistake.message
    assert "--trust" in mistake.message


@pytest.mark.parametrize("tag", ["object/apply:os.system", "name:os.system", "module:os", "object:a.B", "tuple"])
def test_python_tags_are_refused_under_the_name_they_were_written_with(tag: str) -> None:
    (mistake,) = mistakes(f"a: !!python/{tag} []\n")
    assert f"`!!python/{tag}`" in mistake.message
    assert "--trust" in mistake.message


@pytest.mark.parametrize("tag", ["!ref <b>", "!copy <b>", "!tuple (1, 2)", "!!str 4", "! 4"])
def test_tags_that_call_nothing_are_allowed(tag: str) -> None:
    assert mistakes(f"b: 1\na: {tag}\n") == []


def test_an_unknown_tag_is_named() -> None:
    (mistake,) = mistakes("a: !reff <b>\n")
    assert mistake.line == 1
    assert "`!reff`" in mistake.message
    assert "`!ref`" in mistake.message


def test_trust_lets_everything_through() -> None:
    assert mistakes("a: !apply:os.system [ls]\nb: !!python/object/apply:os.system [ls]\n", trust=True) == []


def test_every_refused_tag_is_reported() -> None:
    assert [mistake.line for mistake in mistakes("a: !new:os.a\nb: [!new:os.b , {c: !name:os.c }]\n")] == [1, 2, 2]


def test_an_included_file_is_held_to_the_same_rule(tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text("x: 1\ny: !apply:os.system [ls]\n")
    (mistake,) = mistakes("a: !include:more.yaml\n", tmp_path / "recipe.yaml")
    assert mistake.file == str(tmp_path / "more.yaml")
    assert mistake.line == 2
    assert mistakes("a: !include:more.yaml\n", tmp_path / "recipe.yaml", trust=True) == []


def test_an_include_of_an_include_is_held_to_it_too(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("x: !include:two.yaml\n")
    (tmp_path / "two.yaml").write_text("y: !apply:os.system [ls]\n")
    (mistake,) = mistakes("a: !include:one.yaml\n", tmp_path / "recipe.yaml")
    assert mistake.file == str(tmp_path / "two.yaml")


def test_an_include_that_is_not_there_is_named(tmp_path: Path) -> None:
    (mistake,) = mistakes("a: 1\nb: !include:gone.yaml\n", tmp_path / "recipe.yaml")
    assert mistake.line == 2
    assert "gone.yaml" in mistake.message


@pytest.mark.parametrize("chain", [["recipe.yaml"], ["one.yaml", "recipe.yaml"], ["one.yaml", "two.yaml", "one.yaml"]])
def test_a_circle_of_includes_is_a_mistake(tmp_path: Path, chain: list[str]) -> None:
    path = tmp_path / "recipe.yaml"
    for here, there in zip(["recipe.yaml", *chain[:-1]], chain, strict=True):
        (tmp_path / here).write_text(f"a: !include:{there}\n")
    (mistake,) = mistakes(path.read_text(), path)
    assert "includes itself" in mistake.message
