"""Models that are named by their hub id: from the cache, from the hub, or random when neither can be had."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from profiler.errors import ModelError
from profiler.models.load import load_model
from profiler.models.model import ModelRequest
from tests.conftest import TinyModel
from tests.helpers import program, tiny

pytestmark = pytest.mark.slow

GetTiny = Callable[[str], TinyModel]

WAV2VEC2 = ModelRequest(
    source="facebook/wav2vec2-base-960h",
    type="AutoModelForCTC",
    architecture=tiny.ARCHITECTURES / "wav2vec2-base-960h",
    overrides=tiny.WAV2VEC2,
)


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    return tmp_path / "cache"


@pytest.fixture
def unreachable_hub(monkeypatch: pytest.MonkeyPatch, empty_cache: Path) -> None:
    import requests

    def refuse(*arguments: Any, **more: Any) -> None:
        raise requests.ConnectionError("no route")

    monkeypatch.setattr(requests, "head", refuse)


@pytest.fixture
def hanging_hub(monkeypatch: pytest.MonkeyPatch, empty_cache: Path) -> Iterator[None]:
    """Looking up the hub's name never answers, past any timeout that was given to the request."""
    import requests

    over = threading.Event()
    monkeypatch.setattr(requests, "head", lambda *arguments, **more: over.wait(600))
    yield
    over.set()


@pytest.mark.usefixtures("unreachable_hub")
def test_auto_takes_random_weights_when_the_hub_cannot_be_reached() -> None:
    model = load_model(WAV2VEC2)
    assert model.weights == "random"
    (note,) = model.notes
    assert note == (
        "facebook/wav2vec2-base-960h: the weights are not in the local cache and the hub cannot be reached; "
        "using random weights of the same architecture."
    )


@pytest.mark.usefixtures("hanging_hub")
def test_auto_decides_within_seconds_when_the_network_hangs() -> None:
    load_model(ModelRequest(**{**vars(WAV2VEC2), "weights": "random"}))  # so that imports are done
    from huggingface_hub import constants

    constants.HF_HUB_OFFLINE = False
    start = time.monotonic()
    model = load_model(WAV2VEC2)
    assert time.monotonic() - start < 120, "of the ten minutes for which the hub hangs"
    assert model.weights == "random"
    assert "cannot be reached" in model.notes[0]


@pytest.mark.usefixtures("unreachable_hub")
def test_pretrained_fails_when_weights_cannot_be_had_and_says_how_to_get_them() -> None:
    with pytest.raises(ModelError) as caught:
        load_model(ModelRequest(**{**vars(WAV2VEC2), "weights": "pretrained"}))
    message = str(caught.value)
    assert "No pretrained weights of facebook/wav2vec2-base-960h" in message
    assert "HF_HOME" in message
    assert "pretrained_model.source" in message


@pytest.mark.usefixtures("unreachable_hub")
def test_a_model_that_nobody_described_needs_an_architecture() -> None:
    with pytest.raises(ModelError, match=r"pretrained_model\.architecture") as caught:
        load_model(ModelRequest(source="someone/some-model", type="AutoModelForCTC"))
    assert "config.json" in str(caught.value)


LOAD_AND_REPORT = """
import json, sys
from pathlib import Path
import socket
attempts = []
if sys.argv[2] == "offline":
    def refuse(*arguments, **more):
        attempts.append(repr(arguments))
        raise OSError("no network")
    socket.socket.connect = socket.getaddrinfo = refuse
from profiler.audio import Speech
from profiler.errors import ModelError
from profiler.models.load import load_model
from profiler.models.model import ModelRequest
reports = {}
for source, kind, folder in json.loads(sys.argv[1]):
    try:
        model = load_model(ModelRequest(source=source, type=kind, architecture=Path(folder) if folder else None))
    except ModelError as error:
        reports[source] = {"error": str(error)}
        continue
    text = model.run(model.prepare(Speech(None, 16000).batch(0.5, 1, 0)))
    first = next(p for p in model.module.parameters() if p.dim() > 1)
    reports[source] = {"weights": model.weights, "notes": model.notes, "text": text, "attempts": list(attempts),
                       "sum": first.double().sum().item()}
print(json.dumps(reports))
"""
Wanted = list[tuple[str, str, str | None]]


def load_by_id(wanted: Wanted, cache: Path, endpoint: str, network: str) -> dict[str, Any]:
    """Load models in a process of its own: huggingface_hub reads its settings when it is imported."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    done = subprocess.run(
        [sys.executable, "-c", LOAD_AND_REPORT, json.dumps(wanted), network],
        cwd=program.ROOT,
        env=environment | {"HF_HUB_CACHE": str(cache), "HF_ENDPOINT": endpoint},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    reports: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return reports


def first_weights(made: TinyModel) -> float:
    model = load_model(ModelRequest(source=str(made.folder), type=made.type, folder=made.folder))
    first = next(parameter for parameter in model.module.parameters() if parameter.dim() > 1)
    return float(first.double().sum().item())


# -- in the cache


@pytest.fixture(scope="module")
def from_cache(tiny_model: GetTiny, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Three models in a cache, loaded by their id with no network at all."""
    cache = tmp_path_factory.mktemp("cache")
    for name in ("ctc", "crdnn"):
        tiny.save_in_cache(tiny_model(name).folder, cache, f"tiny/{name}")
    snapshot = tiny.save_in_cache(tiny_model("ctc").folder, cache, "tiny/no-weights")
    (snapshot / "model.safetensors").unlink()
    wanted: Wanted = [
        ("tiny/ctc", "AutoModelForCTC", None),
        ("tiny/crdnn", "EncoderDecoderASR", None),
        ("tiny/no-weights", "AutoModelForCTC", str(snapshot)),
    ]
    return load_by_id(wanted, cache, "http://hub.invalid", "offline")


@pytest.mark.parametrize("name", ["ctc", "crdnn"])
def test_a_model_in_the_cache_is_loaded_without_network(
    name: str, from_cache: dict[str, Any], tiny_model: GetTiny
) -> None:
    report = from_cache[f"tiny/{name}"]
    assert report["weights"] == "pretrained"
    assert report["attempts"] == []
    assert report["notes"] == []
    assert len(report["text"]) == 1
    assert report["sum"] == first_weights(tiny_model(name))


def test_a_cache_that_holds_only_the_description_is_no_model(from_cache: dict[str, Any]) -> None:
    report = from_cache["tiny/no-weights"]
    assert report["weights"] == "random"
    assert "using random weights" in report["notes"][0]


# -- on a hub


class Hub(http.server.BaseHTTPRequestHandler):
    """As much of a hub as the libraries ask for: what a model holds, and its files."""

    models: dict[str, Path]
    revision = "0123456789abcdef0123456789abcdef01234567"

    def log_message(self, *arguments: Any) -> None:
        pass

    def do_GET(self) -> None:
        data = self._find(self.path.split("?")[0])
        self.send_response(200 if data is not None else 404)
        self.send_header("X-Repo-Commit", self.revision)
        if data is None:
            known = any(name in self.path for name in self.models)
            self.send_header("X-Error-Code", "EntryNotFound" if known else "RepoNotFound")
        else:
            self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
        self.send_header("Content-Length", str(len(data or b"")))
        self.end_headers()
        if data and self.command == "GET":
            self.wfile.write(data)

    do_HEAD = do_GET

    def _find(self, path: str) -> bytes | None:
        if path == "/":
            return b"hub"
        for name, folder in self.models.items():
            if path in (f"/api/models/{name}", f"/api/models/{name}/revision/main"):
                files = [{"rfilename": file.name} for file in folder.iterdir()]
                return json.dumps({"id": name, "sha": self.revision, "siblings": files}).encode()
            for revision in ("main", self.revision):
                start = f"/{name}/resolve/{revision}/"
                if path.startswith(start) and (folder / path.removeprefix(start)).is_file():
                    return (folder / path.removeprefix(start)).read_bytes()
        return None


@pytest.fixture(scope="module")
def from_hub(tiny_model: GetTiny, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Models loaded by their id from a hub on this machine, with an empty cache."""
    models = {f"tiny/{name}": tiny_model(name).folder for name in ("ctc", "crdnn")}
    handler = type("TinyHub", (Hub,), {"models": models})
    with http.server.ThreadingHTTPServer(("localhost", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        wanted: Wanted = [
            ("tiny/ctc", "AutoModelForCTC", None),
            ("tiny/crdnn", "EncoderDecoderASR", None),
            ("tiny/misspelt", "AutoModelForCTC", None),
        ]
        endpoint = f"http://localhost:{server.server_port}"
        yield load_by_id(wanted, tmp_path_factory.mktemp("cache"), endpoint, "online")
        server.shutdown()


@pytest.mark.parametrize("name", ["ctc", "crdnn"])
def test_a_hub_that_can_be_reached_gives_the_weights(name: str, from_hub: dict[str, Any], tiny_model: GetTiny) -> None:
    report = from_hub[f"tiny/{name}"]
    assert report["weights"] == "pretrained"
    assert report["notes"] == []
    assert report["sum"] == first_weights(tiny_model(name))


def test_an_id_that_the_hub_does_not_know_is_an_error_and_not_a_random_model(from_hub: dict[str, Any]) -> None:
    assert "tiny/misspelt" in from_hub["tiny/misspelt"]["error"]
