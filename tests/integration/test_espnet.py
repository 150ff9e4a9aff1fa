"""ESPnet's ASR models: described or saved in its own format, built of its own parts, searched by its own search."""

from __future__ import annotations

import importlib.util
import math
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from profiler.audio import Batch, Speech
from profiler.errors import ModelError
from profiler.measure.parameters import count_parameters
from profiler.models.espnet import adapter as espnet
from profiler.models.espnet.build import mel, mel_filters, weights_file
from profiler.models.espnet.config import PARTS
from profiler.models.load import build_for_counting, load_model
from profiler.models.model import Model, ModelRequest, model_request
from profiler.models.registry import check_type
from profiler.models.torchaudio.on_cpu import ensure_torchaudio
from profiler.recipe.load import load_recipe
from tests.helpers import program, tiny
from tests.helpers.shipped import ESPNET_CONFORMER, ESPNET_LSTM, ROWS

KIND = "ESPnetASRModel"
MELS = 8
TOKENS = ["<blank>", "<unk>", "<space>", *"abcdefghijklm", "<sos/eos>"]
ENCODER = {"output_size": 16, "attention_heads": 2, "linear_units": 16, "num_blocks": 1}
DECODER = {"attention_heads": 2, "linear_units": 16, "num_blocks": 1}
# As training writes it, with keys that only training needs.
CONFIG: dict[str, Any] = {
    "config": "conf/train.yaml",
    "max_epoch": 35,
    "optim": "adam",
    "token_list": TOKENS,
    "token_type": "char",
    "input_size": None,
    "init": None,
    "frontend": "default",
    "frontend_conf": {"fs": "16k", "n_mels": MELS},
    "specaug": "specaug",
    "specaug_conf": {"apply_time_warp": True},
    "normalize": "global_mvn",
    "normalize_conf": {"stats_file": "exp/asr_stats/train/feats_stats.npz"},
    "encoder": "transformer",
    "encoder_conf": ENCODER,
    "decoder": "transformer",
    "decoder_conf": DECODER,
    "ctc_conf": {},
    "model_conf": {"ctc_weight": 0.3, "lsm_weight": 0.1},
}
SHRUNK = {"conformer": ESPNET_CONFORMER, "lstm": ESPNET_LSTM}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model as ESPnet's training leaves it: exp/asr with config and weights, statistics in a folder beside."""
    ensure_torchaudio()
    root = tmp_path_factory.mktemp("egs")
    folder, statistics = root / "exp" / "asr", root / "exp" / "asr_stats" / "train"
    folder.mkdir(parents=True)
    statistics.mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    sums = {"count": 10, "sum": np.full(MELS, -80.0), "sum_square": np.full(MELS, 10 * (64 + 4.0))}
    np.savez(statistics / "feats_stats.npz", **sums)
    import torch

    torch.save(reference(statistics / "feats_stats.npz").state_dict(), folder / "valid.acc.ave.pth")
    return folder


def reference(statistics: Path) -> Any:
    """The same model put together by hand of ESPnet's classes, without the adapter."""
    import torch
    from espnet2.asr.ctc import CTC
    from espnet2.asr.decoder.transformer_decoder import TransformerDecoder
    from espnet2.asr.encoder.transformer_encoder import TransformerEncoder
    from espnet2.asr.espnet_model import ESPnetASRModel
    from espnet2.layers.global_mvn import GlobalMVN

    with mel_filters():
        from espnet2.asr.frontend.default import DefaultFrontend

    torch.manual_seed(20)
    return ESPnetASRModel(
        len(TOKENS),
        TOKENS,
        DefaultFrontend(n_mels=MELS),
        None,
        GlobalMVN(statistics),
        None,
        TransformerEncoder(MELS, **ENCODER),
        None,
        TransformerDecoder(len(TOKENS), 16, **DECODER),
        CTC(len(TOKENS), 16),
        None,
        ctc_weight=0.3,
    ).eval()


def load(folder: Path, weights: Any = "auto", **more: Any) -> Model:
    return load_model(ModelRequest(source=str(folder), type=KIND, weights=weights, folder=folder, **more))


def changed(folder: Path, target: Path, **keys: Any) -> Path:
    """A copy of a model's folder with other keys in its config.yaml; None takes a key out."""
    shutil.copytree(folder, target)
    config = {key: value for key, value in (CONFIG | keys).items() if value is not None}
    (target / "config.yaml").write_text(yaml.safe_dump(config))
    return target


def shrunk(name: str, rate: float = 5.3, **overrides: Any) -> Model:
    """A shipped model in the size of the tests."""
    folder = tiny.ARCHITECTURES / f"{name}-hybrid-ctc-attention"
    return load(folder, "random", tokens_per_second=rate, overrides=SHRUNK[name] | overrides)


def run(model: Model, seconds: float = 1.0, rows: int = 2, padding: float = 0.0) -> Any:
    return run_batch(model, Speech(tiny.SPEECH, model.rate).batch(seconds, rows, seed=3, padding=padding))


def run_batch(model: Model, batch: Batch) -> Any:
    import torch

    with torch.no_grad():
        return model.run(model.prepare(batch))


@contextmanager
def counting(monkeypatch: pytest.MonkeyPatch, model: Model) -> Iterator[Counter[str]]:
    """Counts steps of the search, and how often decoder and CTC are asked for scores."""
    from espnet.nets.batch_beam_search import BatchBeamSearch
    from espnet.nets.beam_search import BeamSearch
    from espnet.nets.scorers.ctc import CTCPrefixScorer

    calls: Counter[str] = Counter()

    def count(owner: Any, method: str, name: str) -> None:
        original = getattr(owner, method)

        def counted(*arguments: Any, **more: Any) -> Any:
            calls[name] += 1
            return original(*arguments, **more)

        patch.setattr(owner, method, counted)

    with monkeypatch.context() as patch:
        count(BatchBeamSearch, "search", "steps")
        count(BeamSearch, "search", "steps")
        count(CTCPrefixScorer, "batch_score_partial", "ctc")
        count(CTCPrefixScorer, "score_partial", "ctc")
        count(
            model.module.decoder, "batch_score" if hasattr(model.module.decoder, "batch_score") else "score", "decoder"
        )
        yield calls


# -- the shipped recipes


@pytest.mark.parametrize("name", SHRUNK)
def test_every_variant_is_the_whole_model_and_differs_in_the_weight_of_ctc(name: str) -> None:
    loaded = load_recipe(tiny.RECIPES / f"{name}.yaml", read_audio=False)
    weights = {
        variant: recipe.pretrained_model.overrides["ctc_weight"] for variant, recipe in loaded.by_variant.items()
    }
    assert weights == {"attention": 0, "hybrid": 0.3, "hybrid-lm": 0.3, "ctc": 1}
    for variant, recipe in loaded.by_variant.items():
        counts = count_parameters(build_for_counting(model_request(recipe, loaded.path.parent)))
        beside = {"lm": counts.components["lm"]} if variant == "hybrid-lm" else {}
        assert counts.total == (ROWS[name].parameters or 0) + sum(beside.values())
        assert counts.components == {**ROWS[name].components, **beside}


@pytest.mark.parametrize("name", SHRUNK)
@pytest.mark.parametrize(("weight", "used"), [(0.0, {"decoder"}), (0.3, {"decoder", "ctc"}), (1.0, {"ctc"})])
def test_untrained_search_takes_the_steps_of_speech_and_asks_the_scorers_that_have_weight(
    name: str, weight: float, used: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for rate in (5.3, 15):
        model = shrunk(name, rate, ctc_weight=weight)
        for seconds, rows in ((0.3, 1), (1.0, 2), (2.2, 1)):
            with counting(monkeypatch, model) as calls:
                texts = run(model, seconds, rows)
            steps = math.ceil(seconds * rate)
            assert calls["steps"] == rows * steps, (rate, seconds, rows)
            assert {name for name in ("decoder", "ctc") if calls[name]} == used
            assert len(texts) == rows
            assert all(len(text.split()) <= steps for text in texts)
        note = (
            f"With random weights the search is made to take {rate:g} steps per second of audio, as it does on speech."
        )
        assert note in model.notes


@pytest.mark.parametrize("seed", range(3))
def test_steps_depend_neither_on_the_weights_that_were_drawn_nor_on_the_beam(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for beam in (1, 20):  # one hypothesis alone; as many as there are tokens
        folder = tiny.ARCHITECTURES / "conformer-hybrid-ctc-attention"
        model = load(folder, "random", seed=seed, overrides=ESPNET_CONFORMER | {"beam_size": beam, "ctc_weight": 0.3})
        with counting(monkeypatch, model) as calls:
            run(model, 1, 1)
        assert calls["steps"] == 6


def test_each_row_of_a_padded_batch_takes_the_steps_of_its_own_length(monkeypatch: pytest.MonkeyPatch) -> None:
    model = shrunk("conformer", 10)
    batch = Speech(tiny.SPEECH, model.rate).batch(2, 3, seed=0, padding=0.6)
    with counting(monkeypatch, model) as calls:
        run_batch(model, batch)
    assert calls["steps"] == sum(math.ceil(length / model.rate * 10) for length in batch.lengths) < 60


def test_more_steps_than_frames_are_refused() -> None:
    with pytest.raises(ModelError, match=r"set a lower pretrained_model\.tokens_per_second"):
        run(shrunk("conformer", 100))


def test_notes_say_how_espnet_searches() -> None:
    together = "A batch is encoded together; ESPnet's beam search then takes its rows one after another."
    conformer, lstm, ctc = shrunk("conformer").notes, shrunk("lstm").notes, shrunk("lstm", ctc_weight=1).notes
    assert together in conformer
    assert any("one hypothesis at a time" in note for note in lstm)
    assert not any("one hypothesis at a time" in note for note in (*conformer, *ctc))
    assert any("the decoder is not run" in note for note in ctc)


@pytest.mark.slow
def test_show_prints_nothing_of_what_espnet_says() -> None:
    done = program.run("show", "recipes/lstm.yaml", "--counts", fresh=True)  # it speaks when it is imported
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "8,248,145" in done.stdout
    assert "Flash" not in done.stdout


# -- a user's own folder


def test_a_saved_model_has_its_very_weights(trained: Path) -> None:
    import torch

    model = load(trained)
    saved = torch.load(trained / "valid.acc.ave.pth")
    own = model.module.state_dict()
    assert model.weights == "pretrained"
    assert own.keys() == saved.keys()
    assert all(torch.equal(own[name], saved[name]) for name in saved)
    assert {name.split(".")[0] for name in saved} == {"frontend", "normalize", "encoder", "decoder", "ctc"}
    assert "The weights are those of valid.acc.ave.pth." in model.notes
    assert not any("random" in note for note in model.notes)


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_the_text_is_what_espnets_parts_give_by_themselves(weight: float, trained: Path) -> None:
    import torch
    from espnet.nets.batch_beam_search import BatchBeamSearch
    from espnet.nets.scorers.ctc import CTCPrefixScorer
    from espnet2.text.char_tokenizer import CharTokenizer

    lengths = {"maxlenratio": 0.3, "minlenratio": 0.1}
    model = load(trained, overrides={"ctc_weight": weight, "beam_size": 5, **lengths})
    batch = Speech(tiny.SPEECH, 16000).batch(1, 2, seed=0)
    texts = run_batch(model, batch)

    own = reference(trained.parent / "asr_stats" / "train" / "feats_stats.npz")
    search = BatchBeamSearch(
        {"decoder": own.decoder, "ctc": CTCPrefixScorer(own.ctc, own.eos)},
        {"decoder": 1 - weight, "ctc": weight},
        beam_size=5,
        vocab_size=len(TOKENS),
        sos=own.sos,
        eos=own.eos,
        pre_beam_score_key=None if weight == 1 else "full",
    )
    expected = []
    with torch.no_grad():
        encoded, _ = own.encode(torch.from_numpy(batch.waveforms), torch.from_numpy(batch.lengths))
        for row in encoded:
            numbers = search(row, **lengths)[0].yseq[1:-1].tolist()
            expected.append(CharTokenizer().tokens2text([TOKENS[number] for number in numbers if number]))
    assert texts == expected
    assert any(texts), "some text at all"


@pytest.mark.slow
def test_a_saved_model_goes_the_whole_road(trained: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    more = (
        f"{program.QUICK}variants: [{{name: hybrid}}, {{name: ctc, set: {{pretrained_model.overrides.ctc_weight: 1}}}}]"
    )
    overrides = "overrides: {beam_size: 3, ctc_weight: 0.3}"
    recipe.write_text(tiny.recipe_text(str(trained), KIND, seconds="[0.5]", batches="[2]", model=overrides, more=more))
    done = program.run(recipe, "--logdir", tmp_path / "logs", "--quiet", fresh=True)  # nothing is imported before
    assert done.returncode == 0, done.stdout + done.stderr
    results = program.results_in(tmp_path / "logs")
    assert [model["weights"] for model in results["models"]] == ["pretrained"] * 2
    assert [(cell["variant"], cell["status"]) for cell in results["cells"]] == [("hybrid", "ok"), ("ctc", "ok")]
    assert results["cells"][0]["timed_region"] == "waveforms in memory to text"


def test_files_that_config_names_are_looked_for_beside_it_too(trained: Path, tmp_path: Path) -> None:
    folder = changed(trained, tmp_path / "model", token_list="data/token_list/tokens.txt")
    (folder / "tokens.txt").write_text("\n".join(TOKENS) + "\n")
    assert run(load(folder)) == run(load(trained)), "mean and spread come with the weights"

    (folder / "tokens.txt").unlink()
    with pytest.raises(
        ModelError, match=r"data/token_list/tokens\.txt, which is not there; put it beside config\.yaml"
    ):
        load(folder)


def test_random_weights_need_only_the_description(trained: Path, tmp_path: Path) -> None:
    folder = changed(trained, tmp_path / "model")
    (folder / "valid.acc.ave.pth").unlink()
    model = load(folder)
    assert model.weights == "random"
    assert any("holds no weights" in note for note in model.notes)
    assert len(run(model)) == 2


def test_the_average_of_the_best_epochs_is_preferred_then_the_newest(tmp_path: Path) -> None:
    order = ["checkpoint.pth", "2epoch.pth", "1epoch.pth", "valid.loss.ave.pth", "valid.acc.ave.pth"]
    for age, name in enumerate(order):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1000 + age, 1000 + age))
        assert weights_file(tmp_path).name == name
    os.utime(tmp_path / "checkpoint.pth", (9000, 9000))
    assert weights_file(tmp_path).name == "valid.acc.ave.pth"


def test_a_packed_model_is_found_in_the_cache_of_the_hub(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    packed = tmp_path / "packed"
    shutil.copytree(trained.parent.parent, packed)
    (packed / "meta.yaml").write_text(yaml.safe_dump({"yaml_files": {"asr_train_config": "exp/asr/config.yaml"}}))
    cache = tmp_path / "cache"
    tiny.save_in_cache(packed, cache, "someone/asr")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    model = espnet.load_pretrained(ModelRequest(source="someone/asr", type=KIND), "someone/asr")
    assert run(model) == run(load(trained))


# -- what is served


SIZES: dict[str, dict[str, Any]] = {
    "branchformer": {"output_size": 16, "attention_heads": 2, "cgmlp_linear_units": 16, "num_blocks": 1},
    "conformer": ENCODER | {"cnn_module_kernel": 3},
    "e_branchformer": ENCODER | {"cgmlp_linear_units": 16},
    "rnn": {"num_layers": 1, "hidden_size": 8, "output_size": 8},
    "transformer": ENCODER,
    "vgg_rnn": {"num_layers": 1, "hidden_size": 8, "output_size": 8},
}


@pytest.mark.parametrize("encoder", PARTS["encoder"])
@pytest.mark.parametrize("mels", [MELS, 80])
def test_every_encoder_that_is_named_runs(encoder: str, mels: int, trained: Path, tmp_path: Path) -> None:
    sizes = {"encoder_conf": SIZES[encoder], "frontend_conf": {"n_mels": mels}}
    folder = changed(trained, tmp_path / "model", encoder=encoder, **sizes)
    assert len(run(load(folder, "random", overrides={"beam_size": 3}), padding=0.5)) == 2


@pytest.mark.parametrize("decoder", PARTS["decoder"])
def test_every_decoder_that_is_named_runs(decoder: str, trained: Path, tmp_path: Path) -> None:
    sizes: dict[str, Any] = {"hidden_size": 8} if decoder == "rnn" else DECODER
    sizes = sizes | ({"conv_wshare": 2, "conv_kernel_length": [3]} if decoder.endswith("conv") else {})
    folder = changed(trained, tmp_path / "model", decoder=decoder, decoder_conf=sizes)
    assert len(run(load(folder, "random", overrides={"beam_size": 3}))) == 2


@pytest.mark.parametrize(("weight", "left_out"), [(0.0, "CTC"), (1.0, "a decoder")])
def test_a_model_trained_with_one_part_alone_is_searched_with_that(
    weight: float, left_out: str, trained: Path, tmp_path: Path
) -> None:
    folder = changed(trained, tmp_path / "model", model_conf={"ctc_weight": weight})
    model = load(folder, "random", overrides={"beam_size": 3})
    assert len(run(model)) == 2
    assert ("ctc" in model.components, "decoder" in model.components) == (weight == 1, weight == 0)
    with pytest.raises(ModelError, match=rf"without {left_out} .* with ctc_weight {weight:g} only, not 0\.3"):
        load(folder, "random", overrides={"ctc_weight": 0.3})


def test_mel_filters_are_those_of_librosa() -> None:
    """Figures of librosa 0.11: sum and largest value of its matrices."""
    ensure_torchaudio()
    for options, total, largest in (
        ({"sr": 16000, "n_fft": 512, "n_mels": 80, "fmin": 0, "fmax": 8000, "htk": False}, 2.5582607, 0.026406592),
        ({"sr": 16000, "n_fft": 512, "n_mels": 80, "fmin": 0, "fmax": 8000, "htk": True}, 2.5534132, 0.038942114),
        ({"sr": 8000, "n_fft": 256, "n_mels": 40, "fmin": 20, "fmax": 3800, "htk": False}, 1.2799823, 0.01767744),
    ):
        filters = mel(**options)
        assert filters.shape == (options["n_mels"], options["n_fft"] // 2 + 1)
        assert filters.sum() == pytest.approx(total, rel=1e-5)
        assert filters.max() == pytest.approx(largest, rel=1e-5)


# -- mistakes


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"encoder": "conformr"},
            "the encoder `conformr` is not served here. Did you mean `conformer`? Served are: bra",
        ),
        ({"decoder": "transducer"}, "the decoder `transducer` is not served here."),
        ({"frontend": "s3prl"}, "the frontend `s3prl` is not served here. Served are: default, wav2vec_cnn."),
        ({"encoder_conf": {"num_block": 1}}, "takes no `num_block`. Did you mean `num_blocks`?"),
        ({"encoder_conf": {"num_blocks": "two"}}, 'argument "num_blocks" (str) is not an instance of int'),
        ({"encoder_conf": 3}, "encoder_conf is a section of keys"),
        ({"ctc_conf": {"dropout": 1}}, "takes no `dropout`. Did you mean `dropout_rate`?"),
        ({"token_list": None}, "has no vocabulary: expected token_list"),
        ({"input_size": 80}, "takes features"),
    ],
)
def test_a_wrong_config_is_named(keys: dict[str, Any], message: str, trained: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError) as raised:
        load(changed(trained, tmp_path / "model", **keys))
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_config_that_is_no_yaml_or_no_config_is_named(trained: Path, tmp_path: Path) -> None:
    folder = changed(trained, tmp_path / "model")
    for text, message in (("a: [1", "cannot be read"), ("- 1", "describes no model")):
        (folder / "config.yaml").write_text(text)
        with pytest.raises(ModelError, match=message):
            load(folder)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"beam_sizes": 3}, "has no `beam_sizes`. Did you mean `beam_size`?"),
        ({"encoder_cnf": {}}, "Did you mean `encoder_conf`?"),
        ({"encoder_conf.num_block": 1}, "Did you mean `num_blocks`?"),
        ({"ctc_weight": 1.5}, "ctc_weight lies between 0 and 1, not at 1.5"),
        ({"ctc_weight": "half"}, "ctc_weight must be a number, not 'half'"),
        ({"beam_size": 0}, "beam_size is a whole number from 1 on"),
        ({"beam_size": 18}, "beam_size 18 is larger than the vocabulary of 17 tokens"),
        ({"vocabulary_size": "many"}, "vocabulary_size is a whole number"),
    ],
)
def test_a_wrong_override_is_named(overrides: dict[str, Any], message: str, trained: Path) -> None:
    with pytest.raises(ModelError) as raised:
        load(trained, "random", overrides={"beam_size": 3} | overrides)
    assert message in str(raised.value)


def test_overrides_are_nested_or_dotted_and_another_part_starts_with_its_own_defaults(trained: Path) -> None:
    for overrides in ({"encoder_conf": {"num_blocks": 2}}, {"encoder_conf.num_blocks": 2}):
        assert len(load(trained, "random", overrides={"beam_size": 3, **overrides}).module.encoder.encoders) == 2
    small = {"encoder": "rnn", "encoder_conf": {"hidden_size": 8, "output_size": 8}, "beam_size": 3}
    encoder = load(trained, "random", overrides=small).module.encoder
    assert type(encoder).__name__ == "RNNEncoder"


def test_weights_that_do_not_fit_are_named(trained: Path, tmp_path: Path) -> None:
    import torch

    folder = changed(trained, tmp_path / "model")
    file = folder / "valid.acc.ave.pth"
    saved = torch.load(file)

    torch.save({name: tensor for name, tensor in saved.items() if not name.startswith("decoder.")}, file)
    with pytest.raises(ModelError, match=r"lack decoder\.embed\.0\.weight and \d+ more: are they those of this config"):
        load(folder)
    torch.save(saved | {"lm.weight": torch.zeros(1)}, file)
    with pytest.raises(ModelError, match=r"does not describe: lm\.weight: are they"):
        load(folder)
    torch.save(saved | {"ctc.ctc_lo.bias": torch.zeros(9)}, file)
    with pytest.raises(ModelError, match=r"ctc\.ctc_lo\.bias is \[9\] in them and \[17\] by config\.yaml"):
        load(folder)
    torch.save([1, 2], file)
    with pytest.raises(ModelError, match="holds no weights by name, but a list"):
        load(folder)
    file.write_bytes(b"not weights")
    with pytest.raises(ModelError, match="cannot be loaded: a file of weights cannot be read"):
        load(folder)


def test_a_checkpoint_to_go_on_from_is_read_where_there_is_nothing_else(trained: Path, tmp_path: Path) -> None:
    import torch

    folder = changed(trained, tmp_path / "model")
    file = folder / "valid.acc.ave.pth"
    torch.save({"model": torch.load(file), "optimizers": [], "schedulers": []}, folder / "checkpoint.pth")
    file.unlink()
    assert run(load(folder)) == run(load(trained))


def test_mistakes_end_the_program_with_status_2(trained: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(tiny.recipe_text(str(trained), KIND, model="overrides: {beam_sise: 3}"))
    done = program.run(recipe, "--logdir", tmp_path / "logs")
    assert done.returncode == 2
    assert "has no `beam_sise`. Did you mean `beam_size`?" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_espnet_the_command_that_installs_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "espnet2" else there(name))
    with pytest.raises(ModelError) as raised:
        check_type(KIND)
    assert "no module espnet2" in str(raised.value)
    assert 'pip install "speech-profiler[espnet]" && pip install --no-deps espnet==202511' in str(raised.value)


def test_without_espnet_the_program_says_so_before_anything_heavy(tmp_path: Path) -> None:
    hide = """
import sys
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("espnet", "espnet2"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hide())
"""
    (tmp_path / "sitecustomize.py").write_text(hide)
    done = program.run("recipes/lstm.yaml", env=os.environ | {"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 2
    assert "needs espnet, which is not installed (no module espnet2, espnet)" in done.stderr
    assert "pip install --no-deps espnet==202511" in done.stderr


# -- language models


def noting(asked: list[str], score: Any) -> Any:
    """The same function, which notes each call."""

    def noted(*arguments: Any) -> Any:
        asked.append("asked")
        return score(*arguments)

    return noted


def test_a_language_model_is_counted_and_run_where_it_has_a_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    alone, beside = shrunk("lstm", ctc_weight=0.3), shrunk("lstm", ctc_weight=0.3, lm_weight=0.5)
    assert "lm" not in count_parameters(alone).components
    assert count_parameters(beside).components["lm"] > 0
    assert beside.beside["search"].weights["lm"] == 0.5
    asked: list[str] = []
    score = type(beside.module.lm).score
    monkeypatch.setattr(type(beside.module.lm), "score", noting(asked, score))
    batched = type(beside.module.lm).batch_score
    monkeypatch.setattr(type(beside.module.lm), "batch_score", noting(asked, batched))
    run(beside, 0.5, 1)
    assert asked


def test_a_transformer_can_be_the_language_model() -> None:
    model = shrunk("conformer", lm="transformer", lm_weight=0.5, lm_conf={"att_unit": 16, "head": 2, "unit": 16})
    assert type(model.module.lm).__name__ == "TransformerLM"
    assert all(isinstance(text, str) for text in run(model, 0.5, 1))


@pytest.mark.parametrize(("name", "count"), [("lstm", 6_805_527), ("conformer", 85_822_600)])
def test_the_language_models_of_the_quantisation_lab(name: str, count: int) -> None:
    folder = tiny.ARCHITECTURES / f"{name}-hybrid-ctc-attention"
    request = ModelRequest(source=name, type=KIND, weights="random", architecture=folder, overrides={"lm_weight": 0.3})
    assert count_parameters(build_for_counting(request)).components["lm"] == count


def test_a_trained_language_model_is_taken_from_its_own_folder(trained: Path, tmp_path: Path) -> None:
    import torch
    from espnet2.lm.espnet_model import ESPnetLanguageModel
    from espnet2.lm.seq_rnn_lm import SequentialRNNLM

    lm = tmp_path / "lm"
    lm.mkdir()
    torch.manual_seed(4)
    saved = ESPnetLanguageModel(SequentialRNNLM(len(TOKENS), unit=8, nlayers=1), len(TOKENS))
    torch.save(saved.state_dict(), lm / "valid.loss.ave.pth")
    config = {"token_list": TOKENS, "lm": "seq_rnn", "lm_conf": {"unit": 8, "nlayers": 1}}
    (lm / "config.yaml").write_text(yaml.safe_dump(config))
    model = load(trained, overrides={"lm_weight": 0.4, "lm_train_config": str(lm / "config.yaml")})
    assert torch.equal(model.module.lm.decoder.weight, saved.lm.decoder.weight)
    assert any("valid.loss.ave.pth" in note for note in model.notes)

    (lm / "config.yaml").write_text(yaml.safe_dump(config | {"token_list": TOKENS[:-1]}))
    with pytest.raises(ModelError, match="the search needs the same ones"):
        load(trained, overrides={"lm_weight": 0.4, "lm_train_config": str(lm / "config.yaml")})


def test_a_weight_without_a_language_model_says_what_to_set(trained: Path) -> None:
    with pytest.raises(ModelError, match="lm_train_config"):
        load(trained, overrides={"lm_weight": 0.4})
