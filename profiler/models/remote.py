"""Adapter for a server that runs already: the model is somewhere else, and a call is a request to it.

    pretrained_model: {source: http://localhost:8000/v1, type: OpenAITranscription}

It speaks the audio endpoint of OpenAI's API (POST audio/transcriptions, a WAV file as multipart form), which many
servers of speech models have. There is nothing to load and nothing to count; `mode: serving` alone makes use of it.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from profiler.errors import ModelError
from profiler.models.formats import Format, Found
from profiler.models.model import Model, ModelRequest, refuse_unknown
from profiler.models.registry import Needs

if TYPE_CHECKING:
    from profiler.audio import Batch

LIBRARY = "httpx"
NEEDS = Needs(("httpx",), 'pip install "speech-profiler[serving]"')
OPENAI = "OpenAITranscription"
INTERFACES = (OPENAI,)
ONE_AT_A_TIME = INTERFACES
SCENARIO = "server"
RATE = 16000
PATH = "/audio/transcriptions"
SECONDS = 600.0  # for an answer, at most; a client gives up before, after serving.timeout
LONGEST_ANSWER = 1 << 20  # bytes
FIELDS = ("model", "language", "prompt", "temperature")
NO_DESCRIPTION = "A server has no description of its model; set weights: auto."


class Address(Format):
    """A server's, by its scheme and port."""

    weights_only = True

    def __init__(self, ports: Mapping[str, int], expected: str, queries: bool = False) -> None:
        self.ports, self.expected = ports, expected
        self.queries = queries  # whether it may have one: ?language=en

    def port_of(self, source: str) -> int:
        """The only port that the worker may connect to. Raises ModelError for what is no address."""
        try:
            parts = urlsplit(source)
            port = parts.port
        except ValueError:
            raise ModelError(f"'{source}': {self.expected}") from None
        wrong = parts.scheme not in self.ports or not parts.hostname or parts.username or parts.fragment
        if wrong or (parts.query and not self.queries):
            raise ModelError(f"'{source}': {self.expected}")
        return port or self.ports[parts.scheme]

    def check(self, source: str, kind: str, base: Path) -> None:
        self.port_of(source.removesuffix("/"))

    def find(self, request: ModelRequest) -> Found:
        return Found(request.source)

    def description(self, request: ModelRequest, reason: str) -> Path | None:
        raise ModelError(NO_DESCRIPTION)


FORMAT = Address({"http": 80, "https": 443}, "expected the address of a server, such as http://localhost:8000/v1")
port_of = FORMAT.port_of


def load_pretrained(request: ModelRequest, source: str) -> Model:
    """A module without parameters, whose call posts a recording and waits for its text."""
    import httpx
    import torch

    refuse_unknown(request.overrides, FIELDS, "a request to this endpoint")
    fields = {"model": "whisper-1"} | {name: str(value) for name, value in request.overrides.items()}
    address = source.rstrip("/") + PATH
    clients: list[Any] = []  # one per process, which keeps its connection; made in the process that uses it

    def prepare(batch: Batch) -> bytes:
        import soundfile

        if len(batch.lengths) > 1:
            raise ModelError("a request is one recording; set serving.batch.size: 1")
        file = io.BytesIO()
        soundfile.write(file, batch.waveforms[0][: batch.lengths[0]], batch.rate, "PCM_16", format="WAV")
        return file.getvalue()

    def run(recording: bytes) -> list[str]:
        if not clients:
            # No proxy, no redirect: load goes to the address that was given, and nowhere else.
            clients.append(httpx.Client(timeout=SECONDS, trust_env=False, follow_redirects=False))
        files = {"file": ("audio.wav", recording, "audio/wav")}
        with clients[0].stream("POST", address, data=fields, files=files) as answer:
            size, parts = 0, []
            for part in answer.iter_bytes():
                size += len(part)
                if size > LONGEST_ANSWER:
                    raise ModelError(f"the server's answer is longer than {LONGEST_ANSWER:,} bytes")
                parts.append(part)
        if answer.status_code != 200:
            raise ModelError(f"the server answered {answer.status_code} {answer.reason_phrase}".strip())
        return [b"".join(parts).decode("utf-8", "replace")]

    notes = [f"The model runs in the server at {source}: times are those of a client, connection included."]
    return Model(torch.nn.Identity(), prepare, run, "text", RATE, {}, notes, weights="no")


def build_random(request: ModelRequest, folder: Path | None) -> Model:
    raise ModelError(NO_DESCRIPTION)
