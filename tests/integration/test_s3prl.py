"""Mockingjay and TERA: checkpoints in s3prl's format are loaded with exactly their weights, and nothing else is run."""

from __future__ import annotations

import argparse
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from profiler.audio import Batch, Speech
from profiler.errors import ModelError
from profiler.measure.parameters import count_parameters
from profiler.models.load import build_for_counting, load_model
from profiler.models.model import Model, ModelRequest
from profiler.models.registry import check_source
from profiler.models.torchaudio.on_cpu import ensure_torchaudio
from tests.helpers import program, tiny

WIDTH, FORWARD, LAYERS, HEADS, MELS = 16, 32, 2, 4, 20
SMALL = {
    "hidden_size": WIDTH,
    "intermediate_size": FORWARD,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "input_dim": 8,
}


def config(sequence_length: int = 500, **transformer: Any) -> dict[str, Any]:
    """What s3prl trains from, and saves in its checkpoints."""
    return {
        "transformer": {
            "input_dim": -1,
            "hidden_size": WIDTH,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS,
            "intermediate_size": FORWARD,
            "hidden_act": "gelu",
            "hidden_dropout_prob": 0.1,
            "attention_probs_dropout_prob": 0.1,
            "initializer_range": 0.02,
            "layer_norm_eps": "1.e-12",
            "share_layer": False,
            "pre_layer_norm": False,
            **transformer,
        },
        "task": {"loss": "L1", "sequence_length": sequence_length, "mask_proportion": 0.15},
        "audio": {
            "target_level": -25,
            "win_ms": 25,
            "hop_ms": 10,
            "n_freq": 201,
            "n_mels": MELS,
            "n_mfcc": 13,
            "input": {"feat_type": "mel", "channel": 0, "log": True, "delta": 0, "cmvn": True},
            "target": {"feat_type": "linear", "channel": 1, "log": True, "delta": 0, "cmvn": True},
        },
    }


def weights(inputs: int = MELS, seed: int = 0) -> dict[str, Any]:
    """Under the names that s3prl gives them, all drawn, so that each of them matters."""
    import torch

    chance = torch.Generator().manual_seed(seed)

    def linear(name: str, inner: int, outer: int) -> dict[str, Any]:
        return {
            f"{name}.weight": torch.randn(outer, inner, generator=chance) * 0.3,
            f"{name}.bias": torch.randn(outer, generator=chance) * 0.3,
        }

    def norm(name: str) -> dict[str, Any]:
        return {
            f"{name}.weight": 1 + torch.randn(WIDTH, generator=chance) * 0.3,
            f"{name}.bias": torch.randn(WIDTH, generator=chance) * 0.3,
        }

    state = linear("input_representations.spec_transform", inputs, WIDTH) | norm("input_representations.LayerNorm")
    for number in range(LAYERS):
        layer = f"encoder.layer.{number}"
        for part in ("query", "key", "value"):
            state |= linear(f"{layer}.attention.self.{part}", WIDTH, WIDTH)
        state |= linear(f"{layer}.attention.output.dense", WIDTH, WIDTH) | norm(f"{layer}.attention.output.LayerNorm")
        state |= linear(f"{layer}.intermediate.dense", WIDTH, FORWARD)
        state |= linear(f"{layer}.output.dense", FORWARD, WIDTH) | norm(f"{layer}.output.LayerNorm")
    return state


def save(path: Path, state: dict[str, Any], described: dict[str, Any], **more: Any) -> Path:
    """All that s3prl's trainer saves, the arguments of its command line included."""
    import torch

    entries = {
        "Optimizer": {"state": {0: {"exp_avg": torch.zeros(3)}}, "param_groups": [{"lr": 2e-4}]},
        "Step": 500000,
        "Args": argparse.Namespace(upstream="mockingjay", seed=1337),
        "Config": {"runner": {"total_steps": 500000}},
        "SpecHead": {},
        "Transformer": state,
        "Upstream_Config": described,
    }
    torch.save(entries | more, path)
    return path


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return save(tmp_path / "states-500000.ckpt", weights(), config())


def load(source: Path | str, kind: str = "Mockingjay", **more: Any) -> Model:
    file = source if isinstance(source, Path) else None
    folder = None if file else tiny.ARCHITECTURES / str(source).rsplit("/", 1)[-1]
    architecture = folder if folder and folder.is_dir() else None
    return load_model(ModelRequest(source=str(source), type=kind, file=file, architecture=architecture, **more))


def speech(seconds: float, rows: int = 2, padding: float = 0.0) -> Batch:
    return Speech(tiny.SPEECH, 16000).batch(seconds, rows, seed=0, padding=padding)


def run(model: Model, batch: Batch) -> Any:
    import torch

    with torch.no_grad():
        return model.run(model.prepare(batch))


def expected(waveform: Any, state: dict[str, Any]) -> Any:
    """The model from torchaudio's spectrogram and torch's own encoder layers, for one recording that is not cut."""
    import torch

    ensure_torchaudio()
    from torchaudio.transforms import MelSpectrogram

    waveform = waveform * 10 ** (-25 / 20) / waveform.square().mean().sqrt()
    values = (MelSpectrogram(n_fft=400, hop_length=160, n_mels=MELS)(waveform) + 1e-10).log().T
    values = (values - values.mean(0)) / values.std(0)

    def of(name: str) -> tuple[Any, Any]:
        return state[f"{name}.weight"], state[f"{name}.bias"]

    hidden = torch.nn.functional.linear(values, *of("input_representations.spec_transform"))
    for frame in range(len(hidden)):
        for column in range(WIDTH):
            angle = torch.tensor(frame / 10000 ** (2 * (column // 2) / WIDTH), dtype=torch.float64)
            hidden[frame, column] += angle.cos().item() if column % 2 else angle.sin().item()
    hidden = torch.nn.functional.layer_norm(hidden, (WIDTH,), *of("input_representations.LayerNorm"), 1e-12)[None]
    for number in range(LAYERS):
        layer = torch.nn.TransformerEncoderLayer(
            WIDTH, HEADS, FORWARD, dropout=0.0, activation="gelu", layer_norm_eps=1e-12, batch_first=True
        )
        name = f"encoder.layer.{number}"
        inner = [of(f"{name}.attention.self.{part}") for part in ("query", "key", "value")]
        layer.self_attn.in_proj_weight.data = torch.cat([weight for weight, _ in inner])
        layer.self_attn.in_proj_bias.data = torch.cat([bias for _, bias in inner])
        for module, place in (
            (layer.self_attn.out_proj, "attention.output.dense"),
            (layer.norm1, "attention.output.LayerNorm"),
            (layer.linear1, "intermediate.dense"),
            (layer.linear2, "output.dense"),
            (layer.norm2, "output.LayerNorm"),
        ):
            module.weight.data, module.bias.data = of(f"{name}.{place}")
        hidden = layer(hidden)
    return hidden[0].detach()


# -- a checkpoint file


def test_a_checkpoint_is_loaded_with_exactly_its_weights(checkpoint: Path, network: list[Any]) -> None:
    import torch

    model, state = load(checkpoint), weights()
    assert model.weights == "pretrained"
    loaded = model.module.transformer.state_dict()
    assert loaded.keys() == state.keys()
    assert all(torch.equal(loaded[name], state[name]) for name in state)
    assert not model.module.training
    assert network == []


def test_its_hidden_states_are_those_of_torchs_own_layers(checkpoint: Path, tmp_path: Path) -> None:
    import torch

    batch = speech(0.7)
    hidden = run(load(checkpoint), batch)
    assert hidden.shape == (2, 71, WIDTH)
    for row, states in zip(batch.waveforms, hidden, strict=True):
        torch.testing.assert_close(states, expected(torch.from_numpy(row), weights()), atol=1e-3, rtol=0)

    other = save(tmp_path / "other.ckpt", weights(seed=1), config())
    assert (run(load(other, "TERA"), batch) - hidden).abs().mean() > 0.1


def test_each_single_weight_matters(tmp_path: Path) -> None:
    batch, state = speech(0.3, 1), weights()
    before = run(load(save(tmp_path / "states.ckpt", state, config())), batch)
    for name in state:
        changed = {**state, name: state[name] * 1.5}
        after = run(load(save(tmp_path / "changed.ckpt", changed, config())), batch)
        # A key's bias adds the same to every score of a row, which softmax takes away.
        assert ((after - before).abs().max() > 1e-3) != name.endswith("key.bias"), name


def test_old_checkpoints_are_loaded_too(tmp_path: Path) -> None:
    """Norms named gamma and beta, the settings under `Config`, a training schedule of a class that is not here."""
    import torch

    state = weights()
    old = {
        name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): value
        for name, value in state.items()
    }
    module = types.ModuleType("optimizers")
    schedule = type("Schedule", (), {"__module__": "optimizers", "__qualname__": "Schedule"})
    module.Schedule = schedule  # type: ignore[attr-defined]
    sys.modules["optimizers"] = module
    try:
        made = schedule()
        made.warmup = 0.07
        path = save(tmp_path / "states.ckpt", old, {}, Config=config(), Scheduler=made)
    finally:
        del sys.modules["optimizers"]
    loaded = load(path).module.transformer.state_dict()
    assert all(torch.equal(loaded[name], state[name]) for name in state)
    assert "optimizers" not in sys.modules


def test_a_file_from_before_torch_wrote_archives(tmp_path: Path) -> None:
    import torch

    path = tmp_path / "states.ckpt"
    entries = {"Transformer": weights(), "Config": config(), "Args": argparse.Namespace(seed=1)}
    torch.save(entries, path, _use_new_zipfile_serialization=False)
    assert load(path).weights == "pretrained"


def test_random_weights_and_counts_of_a_checkpoint_follow_its_own_description(checkpoint: Path) -> None:
    request = ModelRequest(source=str(checkpoint), type="Mockingjay", file=checkpoint, weights="random")
    random = load_model(request)
    assert random.weights == "random"
    counted = build_for_counting(request)
    assert all(parameter.is_meta for parameter in counted.module.parameters())
    total = sum(value.numel() for value in weights().values())
    assert count_parameters(random).total == count_parameters(counted).total == total


def test_a_model_on_kaldis_filterbank_with_deltas(tmp_path: Path) -> None:
    described = config()
    described["audio"] = {
        "kaldi": {
            "feat_type": "fbank",
            "fbank": {"num_mel_bins": 12, "frame_length": 25.0, "frame_shift": 10.0, "use_log_fbank": True},
        },
        "delta": {"order": 2, "win_length": 5},
        "cmvn": {"use_cmvn": True},
    }
    model = load(save(tmp_path / "states.ckpt", weights(inputs=36), described), "TERA")
    assert run(model, speech(1.0)).shape == (2, 98, WIDTH)


def test_the_real_program_runs_a_checkpoint(checkpoint: Path, tmp_path: Path) -> None:
    done = program.run(
        "recipes/mockingjay.yaml",
        f"pretrained_model.source={checkpoint}",
        "profiling_dimensions.audio_mockup_secs=[0.3]",
        "profiling_dimensions.batch_sizes=[1]",
        "measure.rounds=1",
        "measure.budget=0.1",
        "--quiet",
        "--logdir",
        tmp_path / "logs",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (model,) = program.results_in(tmp_path / "logs")["models"]
    assert model["weights"] == "pretrained"
    assert model["parameters"]["total"] == sum(value.numel() for value in weights().values())


# -- long and padded audio


@pytest.mark.parametrize(
    ("name", "kind", "seconds", "pieces"),
    [
        ("mockingjay", "Mockingjay", 4.99, [500]),
        ("mockingjay", "Mockingjay", 5.0, [251, 250]),
        ("mockingjay", "Mockingjay", 12.0, [401, 401, 399]),
        ("tera", "TERA", 12.0, [1201]),
        ("tera", "TERA", 15.2, [761, 760]),
    ],
)
def test_long_audio_is_cut_in_equal_pieces(name: str, kind: str, seconds: float, pieces: list[int]) -> None:
    model = load(f"s3prl/{name}", kind, overrides=SMALL)
    seen = []
    model.module.transformer.register_forward_pre_hook(lambda module, values: seen.append(values[0].shape[1]))
    assert run(model, speech(seconds, 1)).shape == (1, sum(pieces), WIDTH)
    assert seen == pieces
    assert any(f"more than {500 if name == 'mockingjay' else 1500} frames" in note for note in model.notes)


def test_each_piece_is_encoded_by_itself() -> None:
    import torch

    model = load("s3prl/tera", "TERA", overrides={**SMALL, "sequence_length": 40})
    batch = speech(0.7)
    whole = run(model, batch)
    with torch.no_grad():
        features = model.module.features(torch.from_numpy(batch.waveforms))
        parts = [model.module.transformer(piece) for piece in (features[:, :36], features[:, 36:])]
    torch.testing.assert_close(whole, torch.cat(parts, dim=1))


@pytest.mark.parametrize("sequence_length", [0, 50])
def test_padding_changes_nothing_for_a_recording(sequence_length: int, tmp_path: Path) -> None:
    import torch

    model = load(save(tmp_path / "states.ckpt", weights(), config(sequence_length)))
    batch = speech(0.9, 3, padding=0.9)
    together = run(model, batch)
    assert together.isfinite().all()
    full = int(batch.lengths[0])
    assert full == batch.waveforms.shape[1]
    alone = run(model, Batch(batch.waveforms[:1], batch.lengths[:1], batch.rate))
    torch.testing.assert_close(together[:1], alone, atol=1e-4, rtol=1e-4)
    if not sequence_length:  # cut at the same places, a shorter row would be cut elsewhere alone
        for row, length, states in zip(batch.waveforms, batch.lengths, together, strict=True):
            features = model.module.features(torch.from_numpy(row[None]), torch.tensor([length]))
            used = 1 + int(length) // 160
            with torch.no_grad():
                torch.testing.assert_close(
                    states[:used], model.module.transformer(features[:, :used])[0], atol=1e-4, rtol=1e-4
                )


def test_a_clip_shorter_than_a_window_is_an_error_in_a_sentence(checkpoint: Path) -> None:
    with pytest.raises(ModelError, match="shorter than one window"):
        run(load(checkpoint), speech(0.02))


# -- without a checkpoint


def test_a_name_is_built_with_random_weights_and_says_how_to_have_others() -> None:
    model = load("s3prl/mockingjay", overrides=SMALL)
    assert model.weights == "random"
    assert model.notes[0].startswith("s3prl/mockingjay: not a checkpoint file")
    assert "random weights" in model.notes[0]
    with pytest.raises(ModelError, match=r"Set pretrained_model\.source to a checkpoint file of s3prl"):
        load("s3prl/mockingjay", weights="pretrained")
    with pytest.raises(ModelError, match="neither a checkpoint file nor a described model"):
        load("s3prl/someone-elses")


def test_random_weights_are_the_same_for_the_same_seed() -> None:
    import torch

    one, again, other = (load("s3prl/tera", "TERA", overrides=SMALL, seed=seed) for seed in (1, 1, 2))
    name = "transformer.encoder.layer.0.output.dense.weight"
    states = [model.module.state_dict()[name] for model in (one, again, other)]
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        ({"hiden_size": 32}, "no `hiden_size`. Did you mean `hidden_size`?"),
        ({"num_attention_heads": 5}, "hidden_size 768 cannot be divided among num_attention_heads 5"),
        ({"num_hidden_layers": 0}, "num_hidden_layers: expected a whole number from 1, not 0"),
        ({"hidden_size": "big"}, "hidden_size: expected a whole number from 1, not 'big'"),
        ({"hidden_act": "gelo"}, "hidden_act: unknown `gelo`. Did you mean `gelu`?"),
        ({"layer_norm_eps": []}, "layer_norm_eps: expected a number, not []"),
    ],
)
def test_overrides_that_cannot_be_are_refused(overrides: dict[str, Any], says: str) -> None:
    with pytest.raises(ModelError) as caught:
        load("s3prl/mockingjay", overrides=overrides)
    assert says in str(caught.value)


def test_saved_weights_cannot_be_given_other_sizes(checkpoint: Path) -> None:
    with pytest.raises(ModelError, match="Overrides of sizes need weights: random"):
        load(checkpoint, overrides={"intermediate_size": 64})


# -- files that are no checkpoint, or a damaged one


def check(source: str, base: Path) -> None:
    check_source(source, "TERA", base)


def test_what_is_no_torch_file_is_refused_before_anything_starts(checkpoint: Path, tmp_path: Path) -> None:
    check(checkpoint.name, tmp_path)
    check("s3prl/tera", tmp_path)
    for name, content in (("empty.ckpt", b""), ("words.ckpt", b"not a model"), ("sound.wav", b"RIFF\0\0\0\0WAVE")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ModelError, match="is not a torch file"):
            check(name, tmp_path)
    for source in ("missing.ckpt", "./missing", "a/b/c"):
        with pytest.raises(ModelError, match="there is no file"):
            check(source, tmp_path)
    with pytest.raises(ModelError, match="there is no folder"):
        check("described/", tmp_path)
    with pytest.raises(ModelError, match=r"expected config_model\.yaml"):
        check(str(tmp_path), tmp_path)
    with pytest.raises(ModelError, match="neither a checkpoint file nor a name"):
        check("s3prl tera", tmp_path)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def scribble(path: Path) -> None:
    path.write_bytes(b"PK\x03\x04" + b"nonsense" * 100)


def old_scribble(path: Path) -> None:
    path.write_bytes(b"\x80\x02" + b"nonsense" * 100)


@pytest.mark.parametrize("damage", [cut, scribble, old_scribble])
def test_a_damaged_file_is_an_error_in_a_sentence(damage: Callable[[Path], None], checkpoint: Path) -> None:
    damage(checkpoint)
    with pytest.raises(ModelError, match="damaged") as caught:
        load(checkpoint)
    assert str(checkpoint) in str(caught.value)
    assert "\n" not in str(caught.value)


class Touch:
    """What a hostile checkpoint would do."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("archive", [True, False])
def test_code_in_a_checkpoint_is_not_run(archive: bool, tmp_path: Path) -> None:
    import torch

    path, made = tmp_path / "states.ckpt", tmp_path / "made"
    entries = {"Transformer": weights(), "Config": config(), "Scheduler": Touch(made)}
    torch.save(entries, path, _use_new_zipfile_serialization=archive)
    with pytest.raises(ModelError, match="would run code"):
        load(path)
    assert not made.exists()


FOREIGN: dict[str, tuple[Callable[[], Any], str]] = {
    "a list": (lambda: [1, 2], "it holds a list"),
    "a state dict": (lambda: weights(), "no section `transformer`"),
    "another toolkit's": (lambda: {"model": weights(), "args": None}, "no section `transformer`"),
    "no audio": (lambda: entries({**config(), "audio": None}), "no section `audio`"),
    "no weights": (lambda: {"Config": config()}, "no weights under `Transformer`"),
    "one missing": (lambda: entries(config(), without="encoder.layer.1.output.dense.bias"), "dense.bias` is missing"),
    "one too many": (lambda: entries(config(num_hidden_layers=1)), "`encoder.layer.1.attention.self.query.weight`"),
    "other sizes": (lambda: entries(config(hidden_size=32)), "spec_transform.weight` is (16, 20)"),
    "other features": (lambda: entries(on_waveforms()), "features `wav` are not served"),
    "other layers": (lambda: entries(config(pre_layer_norm=True)), "pre_layer_norm is not served"),
    "no sizes": (lambda: entries({**config(), "transformer": {}}), "does not say the model's hidden_size"),
}


def entries(described: dict[str, Any], without: str = "") -> dict[str, Any]:
    return {"Transformer": {name: value for name, value in weights().items() if name != without}, "Config": described}


def on_waveforms() -> dict[str, Any]:
    described = config()
    described["audio"]["input"]["feat_type"] = "wav"
    return described


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_file_is_an_error_in_a_sentence(name: str, tmp_path: Path) -> None:
    import torch

    make, says = FOREIGN[name]
    path = tmp_path / "foreign.ckpt"
    torch.save(make(), path)
    with pytest.raises(ModelError) as caught:
        load(path)
    assert says in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_description_that_is_no_yaml(tmp_path: Path) -> None:
    (tmp_path / "config_model.yaml").write_text("transformer: [")
    request = ModelRequest(source="s3prl/own", type="TERA", architecture=tmp_path)
    with pytest.raises(ModelError, match="cannot be read as YAML"):
        load_model(request)
