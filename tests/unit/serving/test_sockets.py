"""Live speakers at a real websocket server, in a process of its own: each message of audio once, whatever it does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profiler.models.websocket import conversation
from profiler.results.types import ServingStep
from profiler.serving.figures import step_of
from profiler.serving.records import Load, Request
from profiler.serving.sockets import Sockets, parts_of
from profiler.serving.streams import Speakers
from tests.helpers.servers import running

CHUNK = {"chunk": 0.05}
UTTERANCE = 0.2  # seconds, of four chunks


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[str]:
    with running("tests.helpers.websocket_server", folder) as (port, _):
        yield f"ws://127.0.0.1:{port}"


def counted(folder: Path) -> int:
    file = folder / "counted"
    return int(file.read_text()) if file.exists() else 0


def speak(
    url: str, protocol: dict[str, Any], speakers: int = 2, requests: int = 16, timeout: float = 20.0, **more: Any
) -> tuple[ServingStep, list[Request]]:
    """What became of so many results that were waited for."""
    talk = conversation(url, {**protocol, **CHUNK})
    turn, parts = parts_of(talk, [np.zeros(round(UTTERANCE * talk.rate), np.float32)])
    settings = {"load": speakers, "requests": requests, "seconds": 20.0, "limit": 10.0, "timeout": timeout, **more}
    load = Load(scenario="streams", **settings)
    found: list[Request] = []

    def done(request: Request) -> None:
        found.append(request)
        source.finished(request)

    sockets = Sockets(talk, parts, speakers, done, timeout)
    source = Speakers(load, turn, sockets.submit, kept=True)
    with closing(sockets):
        assert sockets.start(30)
        end = source.run(lambda: None)
    return step_of(load, 50, found, source.issued, end), found


def test_every_chunk_has_one_answer_and_one_result(server: str, folder: Path) -> None:
    before = counted(folder)
    step, found = speak(f"{server}/vosk", {"protocol": "vosk"})
    assert (step.requests.sent, step.requests.ok) == (16, 16)
    assert sorted(request.number for request in found) == list(range(16))
    assert counted(folder) - before == 16
    assert all(request.due <= request.issued <= request.sent <= request.done for request in found)
    ends = [request for request in found if request.first_text]
    assert len(ends) == 4, "utterances of four chunks"
    assert all(request.first_text - request.spoken_from > 2 * CHUNK["chunk"] for request in ends), "at the second chunk"


@pytest.mark.parametrize(
    ("path", "protocol"),
    [("vllm", {"protocol": "vllm", "model": "tiny"}), ("hangs-up", {"protocol": "sherpa-onnx"})],
)
def test_where_answers_come_as_they_like_the_last_one_is_waited_for(
    path: str, protocol: dict[str, Any], server: str, folder: Path
) -> None:
    before = counted(folder)
    step, found = speak(f"{server}/{path}", protocol, requests=4)
    assert (step.requests.sent, step.requests.ok) == (4, 4), "utterances"
    assert {request.seconds for request in found} == {UTTERANCE}
    assert counted(folder) - before >= 16, "all their audio was sent"
    assert step.first_token_s is not None


@pytest.mark.parametrize(
    ("path", "protocol", "reason"),
    [
        ("closes", {"protocol": "vosk"}, "the server closed the connection (1011 worker lost)"),
        ("refuses", {"protocol": "vosk"}, "the server answered 503"),
        ("vllm", {"protocol": "vllm", "model": "other"}, "the server answered no such model"),
    ],
)
def test_a_server_that_fails_costs_the_results_of_that_utterance(
    path: str, protocol: dict[str, Any], reason: str, server: str
) -> None:
    step, found = speak(f"{server}/{path}", protocol, requests=8)
    counts = step.requests
    assert counts.sent == 8 == len({request.number for request in found})
    assert counts.ok + counts.errors == 8
    assert reason in counts.reasons
    assert (counts.ok > 0) == (path == "closes"), "the first chunks of each connection were answered"


def test_a_server_that_is_not_there_is_an_error_of_every_request() -> None:
    step, _ = speak("ws://127.0.0.1:9/", {"protocol": "vosk"}, requests=8)
    assert step.requests.errors == 8
    assert "Connect" in next(iter(step.requests.reasons))


def test_a_client_gives_up_and_counts_it_once(server: str) -> None:
    step, found = speak(f"{server}/silent", {"protocol": "vosk"}, requests=8, timeout=0.3)
    assert step.requests.timeouts == 8 == len({request.number for request in found})
    assert step.status == "failed"


def test_a_slow_server_is_late_and_the_speakers_are_not(server: str) -> None:
    step, _ = speak(f"{server}/slow", {"protocol": "vosk"}, requests=8)
    assert step.requests.ok == 8
    assert step.latency_s is not None
    assert step.latency_s.median > 0.3
    assert step.rise_s is None, "too few to tell"
    assert max(count for _, count in step.queue) >= 4, "speakers go on speaking while answers are outstanding"


def test_a_server_that_says_nothing_is_not_burdened_to_the_end(server: str) -> None:
    step, _ = speak(f"{server}/silent", {"protocol": "vosk"}, requests=400, limit=0.1, allowed=3)
    assert step.reason == "more results were late than the limit allows"
    assert step.requests.sent < 400
    assert step.requests.late == step.requests.unfinished == step.requests.sent > 3
