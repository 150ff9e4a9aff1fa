"""torchaudio's bundles by name: real weights from torch's own folder, or the same model with random ones."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from profiler.audio import Batch, Speech
from profiler.errors import ModelError
from profiler.measure.parameters import count_parameters
from profiler.models.load import build_for_counting, load_model
from profiler.models.model import Model, ModelRequest
from profiler.models.registry import check_source
from profiler.models.torchaudio.adapter import BUNDLES, CLASS_OF, files_of, greedy_text
from profiler.models.torchaudio.on_cpu import ensure_torchaudio
from profiler.models.torchaudio.transducer import _parameters
from tests.helpers import program, tiny
from tests.helpers.shipped import BUNDLE, EMFORMER

TRANSDUCER = "torchaudio:EMFORMER_RNNT_BASE_LIBRISPEECH"
ASR = "torchaudio:WAV2VEC2_ASR_BASE_960H"


def pipelines() -> Any:
    ensure_torchaudio()
    import torchaudio

    return torchaudio.pipelines


def batch(seconds: float, rows: int = 1, padding: float = 0.0) -> Batch:
    return Speech(tiny.SPEECH, 16000).batch(seconds, rows, seed=3, padding=padding)


def run(model: Model, given: Batch) -> Any:
    import torch

    with torch.no_grad():
        return model.run(model.prepare(given))


def random(source: str, **more: Any) -> Model:
    return load_model(ModelRequest(source=source, weights="random", **{"type": "Bundle", **more}))


# -- names


def test_the_names_are_those_of_torchaudio() -> None:
    found = pipelines()
    for kind, names in BUNDLES.items():
        for name in names:
            assert isinstance(getattr(found, name), getattr(found, kind)), name
    served = tuple(getattr(found, kind) for kind in BUNDLES)
    assert set(CLASS_OF) == {name for name in found.__all__ if isinstance(getattr(found, name), served)}


@pytest.mark.parametrize(
    ("source", "kind", "said"),
    [
        ("torchaudio:HUBERT_BAS", "Bundle", "Did you mean `HUBERT_BASE`?"),
        ("torchaudio:hubert_base", "Bundle", "Did you mean `HUBERT_BASE`?"),
        ("HUBERT_BASE", "Bundle", "write torchaudio: and its name"),
        ("torchaudio:HUBERT_BASE", "RNNTBundle", "set type: Wav2Vec2Bundle"),
        ("torchaudio:HUBERT_BASE", "RNNTStreaming", "set type: Wav2Vec2Bundle"),
        (ASR, "Wav2Vec2Bundle", "set type: Wav2Vec2ASRBundle"),
    ],
)
def test_a_wrong_name_says_what_to_write(source: str, kind: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        check_source(source, kind, tmp_path)
    assert said in str(caught.value)


@pytest.mark.parametrize(("name", "kind"), [(names[0], kind) for kind, names in BUNDLES.items()])
def test_a_bundle_goes_by_its_own_class_or_by_bundle(name: str, kind: str, tmp_path: Path) -> None:
    check_source(f"torchaudio:{name}", kind, tmp_path)
    check_source(f"torchaudio:{name}", "Bundle", tmp_path)


def test_names_are_checked_without_torch() -> None:
    script = """
import sys
from pathlib import Path
from profiler.models.registry import check_source, check_type
check_type("Bundle")
check_source("torchaudio:HUBERT_BASE", "Bundle", Path())
assert not {"torch", "torchaudio"} & set(sys.modules), "a heavy import"
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=program.ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


# -- sizes


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("WAV2VEC2_BASE", 94_370_944),
        ("HUBERT_BASE", 94_370_944),
        ("HUBERT_LARGE", 315_434_112),
        ("WAV2VEC2_ASR_BASE_960H", 94_370_944 + 768 * 29 + 29),
    ],
)
def test_a_bundle_has_its_exact_number_of_parameters(name: str, count: int) -> None:
    model = build_for_counting(ModelRequest(source=f"torchaudio:{name}", type="Bundle"))
    assert count_parameters(model).total == count


@pytest.mark.parametrize("name", [name for name in CLASS_OF if name != "EMFORMER_RNNT_BASE_LIBRISPEECH"])
def test_every_bundle_runs_in_a_reduced_size(name: str) -> None:
    model = random(f"torchaudio:{name}", overrides=BUNDLE)
    found = run(model, batch(0.5, 2, padding=0.5))
    if CLASS_OF[name] == "Wav2Vec2Bundle":
        assert model.output == "hidden states"
        assert found.shape == (2, 24, 16)
    else:
        assert model.output == "text"
        assert [type(text) for text in found] == [str, str]


def test_an_unknown_override_is_refused_with_the_nearest() -> None:
    with pytest.raises(ModelError, match="Did you mean `encoder_num_layers`"):
        random(ASR, overrides={"encoder_num_layer": 2})
    with pytest.raises(ModelError, match="Did you mean `transformer_num_layers`"):
        random(TRANSDUCER, overrides={"transformer_num_layer": 2})
    with pytest.raises(ModelError, match="beam_width is 0"):
        random(TRANSDUCER, overrides={"beam_width": 0})


def test_labels_fix_the_size_of_the_output() -> None:
    with pytest.raises(ModelError, match="29 labels"):
        random(ASR, overrides={**BUNDLE, "aux_num_out": 5})


# -- text and lengths


def test_greedy_text_joins_repetitions_and_drops_blanks() -> None:
    import torch

    labels = ("-", "|", "A", "B")
    assert greedy_text(torch.tensor([0, 2, 2, 0, 2, 3, 1, 1, 3, 0, 1]), labels) == "AAB B"
    assert greedy_text(torch.tensor([0, 0]), labels) == ""


def test_lengths_reach_the_model_where_rows_are_padded() -> None:
    model = random(ASR, overrides=BUNDLE)
    given: list[Any] = []
    model.module.register_forward_pre_hook(lambda module, arguments: given.append(arguments[1]))
    padded = batch(1, 3, padding=0.5)
    run(model, padded)
    run(model, batch(1, 3))
    assert given[0].tolist() == padded.lengths.tolist()
    assert given[1] is None


# -- weights: torch's own folder


@pytest.fixture
def torch_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def no_host(monkeypatch: pytest.MonkeyPatch, torch_home: Path) -> None:
    import requests

    def refuse(*arguments: Any, **more: Any) -> None:
        raise requests.ConnectionError("no route")

    monkeypatch.setattr(requests, "head", refuse)


def save(bundle: Any, monkeypatch: pytest.MonkeyPatch, extra_rows: int) -> dict[str, Any]:
    """Make a bundle tiny and put its weights where a download would have left them; those of an ASR model have three
    rows that torchaudio takes out, as the published files do."""
    import torch
    from torchaudio.pipelines._wav2vec2 import utils

    monkeypatch.setattr(bundle, "_params", {**bundle._params, **BUNDLE})
    torch.manual_seed(5)
    sizes = bundle._params if not extra_rows else {**bundle._params, "aux_num_out": 29 + extra_rows}
    state = utils._get_model(bundle._model_type, sizes).state_dict()
    ((_, file),) = files_of(bundle)
    file.parent.mkdir(parents=True)
    torch.save(state, file)
    return {name: value.clone() for name, value in state.items()}


@pytest.mark.usefixtures("torch_home")
@pytest.mark.parametrize(("name", "rows"), [("WAV2VEC2_ASR_BASE_960H", 3), ("HUBERT_BASE", 0), ("HUBERT_LARGE", 0)])
def test_weights_in_the_folder_are_loaded_without_network(
    name: str, rows: int, monkeypatch: pytest.MonkeyPatch, network: list[Any]
) -> None:
    import torch

    bundle = getattr(pipelines(), name)
    saved = save(bundle, monkeypatch, rows)
    model = load_model(ModelRequest(source=f"torchaudio:{name}", type="Bundle", seed=9))
    assert model.weights == "pretrained"
    assert model.notes == []
    assert network == []
    inner = getattr(model.module, "model", model.module)
    for key, value in inner.state_dict().items():
        expected = saved[key]
        if key.startswith("aux."):
            expected = torch.cat([expected[:1], expected[4:]])
        assert torch.equal(value, expected), key

    given = batch(1, 1)
    with torch.no_grad():
        expected, _ = bundle.get_model()(torch.from_numpy(given.waveforms))
    found = run(model, given)
    if rows:
        labels, previous, text = bundle.get_labels(), None, ""
        for number in expected[0].argmax(dim=-1).tolist():
            text += labels[number] if number != previous and number != 0 else ""
            previous = number
        assert found == [text.replace("|", " ").strip()]
    else:
        assert torch.equal(found, expected)


@pytest.mark.usefixtures("torch_home")
def test_overrides_of_sizes_do_not_fit_saved_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    save(pipelines().HUBERT_BASE, monkeypatch, 0)
    with pytest.raises(ModelError, match="overrides of sizes need weights: random"):
        load_model(
            ModelRequest(source="torchaudio:HUBERT_BASE", type="Bundle", overrides={"encoder_ff_interm_features": 8})
        )


@pytest.mark.usefixtures("torch_home")
def test_a_damaged_file_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = pipelines().HUBERT_BASE
    save(bundle, monkeypatch, 0)
    ((_, file),) = files_of(bundle)
    file.write_bytes(b"not weights")
    with pytest.raises(ModelError, match="torchaudio cannot load torchaudio:HUBERT_BASE: a file of weights"):
        load_model(ModelRequest(source="torchaudio:HUBERT_BASE", type="Bundle"))


@pytest.mark.usefixtures("no_host")
def test_without_weights_and_host_the_weights_are_random_and_it_is_said() -> None:
    model = load_model(ModelRequest(source=ASR, type="Bundle", overrides=BUNDLE))
    assert model.weights == "random"
    assert model.notes == [
        f"{ASR}: wav2vec2_fairseq_base_ls960_asr_ls960.pth is not in the local cache and download.pytorch.org cannot "
        "be reached; using random weights of the same architecture."
    ]


@pytest.mark.usefixtures("no_host")
@pytest.mark.parametrize("source", [ASR, TRANSDUCER])
def test_pretrained_without_weights_and_host_says_where_to_put_them(source: str) -> None:
    with pytest.raises(ModelError, match="No pretrained weights of") as caught:
        load_model(ModelRequest(source=source, type="Bundle", weights="pretrained"))
    assert "https://download.pytorch.org/torchaudio/models/" in str(caught.value)
    assert "TORCH_HOME" in str(caught.value)


@pytest.fixture
def hanging_host(monkeypatch: pytest.MonkeyPatch, torch_home: Path) -> Iterator[None]:
    import requests

    over = threading.Event()
    monkeypatch.setattr(requests, "head", lambda *arguments, **more: over.wait(600))
    yield
    over.set()


@pytest.mark.usefixtures("hanging_host")
def test_a_host_that_hangs_is_given_up_within_seconds() -> None:
    random(ASR, overrides=BUNDLE)  # so that imports are done
    start = time.monotonic()
    model = load_model(ModelRequest(source=ASR, type="Bundle", overrides=BUNDLE))
    assert time.monotonic() - start < 120, "of the ten minutes for which the host hangs"
    assert model.weights == "random"


# -- the transducer


@pytest.fixture
def saved_transducer(torch_home: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The bundle made tiny, with weights, statistics and a trained tokenizer where downloads would have left them."""
    bundle = pipelines().EMFORMER_RNNT_BASE_LIBRISPEECH
    import sentencepiece
    import torch
    from torchaudio.models import rnnt

    sizes = {**_parameters(bundle), **{name: value for name, value in EMFORMER.items() if name != "beam_width"}}
    monkeypatch.setattr(bundle, "_rnnt_factory_func", lambda: rnnt.emformer_rnnt_model(**sizes))
    monkeypatch.setattr(bundle, "_n_mels", 8)
    monkeypatch.setattr(bundle, "_blank", 20)
    files = [file for _, file in files_of(bundle)]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(6)
    torch.save(bundle._rnnt_factory_func().state_dict(), files[0])
    files[1].write_text(json.dumps({"mean": [1.0] * 8, "invstddev": [0.5] * 8}))
    sentences = torch_home / "sentences.txt"
    sentences.write_text("the cat sat on the mat\nthe hat is that\n" * 20)
    sentencepiece.SentencePieceTrainer.train(
        input=str(sentences), model_prefix=str(files[2].with_suffix("")), vocab_size=20, model_type="bpe"
    )
    return bundle


@pytest.mark.usefixtures("saved_transducer")
@pytest.mark.parametrize("kind", ["RNNTBundle", "RNNTStreaming"])
def test_a_saved_transducer_gives_what_torchaudio_gives(
    kind: str, saved_transducer: Any, monkeypatch: pytest.MonkeyPatch, network: list[Any]
) -> None:
    import torch

    model = load_model(ModelRequest(source=TRANSDUCER, type=kind, overrides={"beam_width": 4}))
    assert model.weights == "pretrained"
    assert network == []
    given = batch(1, 1)
    waveform = torch.from_numpy(given.waveforms[0])
    decoder, text = saved_transducer.get_decoder(), saved_transducer.get_token_processor()
    with torch.no_grad():
        if kind == "RNNTBundle":
            hypotheses = decoder(*saved_transducer.get_feature_extractor()(waveform), 4)
            assert len(model.notes) == 1, "only that rows follow one another"
        else:
            features, hypotheses, state = saved_transducer.get_streaming_feature_extractor(), None, None
            for start in range(0, 16000, 2560):
                piece = waveform[start : start + 3200]
                piece = torch.nn.functional.pad(piece, (0, 3200 - len(piece)))
                hypotheses, state = decoder.infer(*features(piece), 4, state=state, hypothesis=hypotheses)
            assert model.notes == []
    assert run(model, given) == [text(hypotheses[0][0])]


def test_a_transducer_of_which_one_file_is_missing_is_not_half_pretrained(saved_transducer: Any, no_host: None) -> None:
    files_of(saved_transducer)[1][1].unlink()
    model = load_model(ModelRequest(source=TRANSDUCER, type="RNNTBundle"))
    assert model.weights == "random"
    assert "global_stats_rnnt_librispeech.json is not in the local cache" in model.notes[0]


@pytest.mark.parametrize("kind", ["RNNTBundle", "RNNTStreaming"])
@pytest.mark.parametrize("rate", [1, 5.3, 40])
@pytest.mark.parametrize("seed", range(3))
def test_untrained_weights_emit_the_tokens_of_speech(kind: str, rate: float, seed: int) -> None:
    model = random(TRANSDUCER, type=kind, overrides=EMFORMER, tokens_per_second=rate, seed=seed)
    for seconds in (0.1, 0.5, 1, 2.7):
        (text,) = run(model, batch(seconds))
        assert len(text.split()) == math.ceil(seconds * rate), seconds
    assert any(f"made to emit {rate:g} tokens per second of audio" in note for note in model.notes)
    assert any("left as they are; tokens are written as numbers" in note for note in model.notes)


def test_emitted_tokens_are_spread_over_the_audio(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random(TRANSDUCER, type="RNNTStreaming", overrides=EMFORMER)
    original, after_chunk = model.module.infer, []

    def infer(*arguments: Any, **more: Any) -> Any:
        hypotheses, state = original(*arguments, **more)
        after_chunk.append(len(hypotheses[0][0]) - 1)
        return hypotheses, state

    monkeypatch.setattr(model.module, "infer", infer)
    run(model, batch(3.2))
    assert after_chunk == [math.ceil(math.ceil(3.2 * 5.3) * chunk / 20) for chunk in range(1, 21)]


def test_rows_of_a_batch_follow_one_another_and_that_is_said() -> None:
    model = random(TRANSDUCER, overrides=EMFORMER)
    assert len(run(model, batch(1, 3))) == 3
    assert any("one utterance at a time" in note for note in model.notes)
