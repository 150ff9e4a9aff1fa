"""Adapter for a server that runs already and takes live audio over a websocket.

    pretrained_model: {source: ws://localhost:2700, type: WebSocketStream, overrides: {protocol: vosk}}

There is no standard for such servers: which messages open and end an utterance, how audio is written, and what an
answer means is a `Conversation`, in the overrides of the recipe; a protocol that is known by name fills it in. There is
nothing to load and nothing to count; live speakers of `mode: serving` alone make use of it (serving/sockets.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from profiler.errors import ModelError, did_you_mean
from profiler.models.model import Model, ModelRequest, refuse_unknown
from profiler.models.registry import Needs
from profiler.models.remote import NO_DESCRIPTION, Address

if TYPE_CHECKING:
    from profiler.audio import Batch

LIBRARY = "websockets"
NEEDS = Needs(("websockets",), 'pip install "speech-profiler[serving]"')
INTERFACES = ("WebSocketStream",)
ONE_AT_A_TIME = INTERFACES
SCENARIO = "streams"
Message = str | dict[str, Any]  # a text as it is, or a mapping that is written as JSON
AUDIO, RATE, MODEL = "$base64", "$rate", "$model"  # values in a message that are filled in


class Conversation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is said to the server, and how it answers."""

    url: str
    rate: int = 16000  # Hz of the audio
    chunk: float = 0.1  # seconds of audio in a message
    encoding: Literal["pcm16", "float32"] = "pcm16"  # little-endian
    model: str | None = None  # stands for $model in messages
    start: Message | list[Message] = msgspec.field(default_factory=list)  # sent first
    audio: Message | None = None  # that holds the audio as $base64; None: a binary message
    end: Message | None = None  # sent after the last audio of an utterance
    answers: Literal["each", "last"] = "each"  # one for each message of audio and the end; only the last is waited for
    text: list[str] = msgspec.field(default_factory=lambda: ["text"])  # keys of an answer, with dots into it
    last: Message | None = None  # what the last answer holds; None: the server closes the connection after it
    error: Message | None = None  # what an answer holds that tells of an error

    @property
    def opening(self) -> list[Message]:
        return self.start if isinstance(self.start, list) else [self.start]

    def write(self, message: Message, audio: str = "") -> str:
        """A message as it is sent; `audio` in base64."""
        if isinstance(message, str):
            return message.replace(AUDIO, audio)
        return msgspec.json.encode(_filled(message, {RATE: self.rate, MODEL: self.model, AUDIO: audio})).decode()

    def read(self, message: str | bytes) -> tuple[Any, str | None]:
        """An answer, and its text; None where it is no result."""
        try:
            answer = msgspec.json.decode(message)
        except msgspec.DecodeError:
            answer = message if isinstance(message, str) else message.decode("utf-8", "replace")
        for key in self.text:
            found = answer
            for part in key.split("."):
                found = found.get(part) if isinstance(found, dict) else None
            if found is not None:
                return answer, found if isinstance(found, str) else str(found or "")
        return answer, None if self.text else str(answer)


def _filled(value: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(inner, values) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, values) for inner in value]
    return values.get(value, value) if isinstance(value, str) else value


def holds(answer: Any, wanted: Message | None) -> bool:
    """Whether an answer is this text, or has these keys with these values."""
    if isinstance(wanted, dict):
        return isinstance(answer, dict) and all(answer.get(key) == value for key, value in wanted.items())
    return wanted is not None and bool(answer == wanted)


# As the servers' own sources and clients have it: alphacep/vosk-server, k2-fsa/sherpa-onnx (python-api-examples),
# modelscope/FunASR (runtime/python/websocket), vllm-project/vllm (/v1/realtime).
PROTOCOLS: dict[str, dict[str, Any]] = {
    "vosk": {
        "chunk": 0.2,
        "start": {"config": {"sample_rate": RATE}},
        "end": '{"eof" : 1}',  # compared letter by letter
        "text": ["text", "partial", "alternatives"],
    },
    "sherpa-onnx": {"encoding": "float32", "end": "Done", "answers": "last", "last": "Done!"},
    "funasr": {
        "chunk": 0.06,
        "start": {
            "mode": "2pass",
            "chunk_size": [5, 10, 5],
            "chunk_interval": 10,
            "encoder_chunk_look_back": 4,
            "decoder_chunk_look_back": 0,
            "audio_fs": RATE,
            "wav_name": "load",
            "wav_format": "pcm",
            "is_speaking": True,
            "itn": True,
        },
        "end": {"is_speaking": False, "is_end": True},
        "answers": "last",
        "last": {"mode": "2pass-offline"},
    },
    "vllm": {
        "start": [{"type": "session.update", "model": MODEL}, {"type": "input_audio_buffer.commit"}],
        "audio": {"type": "input_audio_buffer.append", "audio": AUDIO},
        "end": {"type": "input_audio_buffer.commit", "final": True},
        "answers": "last",
        "text": ["text", "delta"],
        "last": {"type": "transcription.done"},
        "error": {"type": "error"},
    },
}


def conversation(source: str, overrides: Mapping[str, Any]) -> Conversation:
    """Of a recipe: what its protocol says, and what is said beside. Raises ModelError."""
    given = dict(overrides)
    name = given.pop("protocol", None)
    fields = [field for field in Conversation.__struct_fields__ if field != "url"]
    refuse_unknown(overrides, ("protocol", *fields), "a conversation over a websocket")
    if name is not None and name not in PROTOCOLS:
        raise ModelError(
            f"pretrained_model.overrides: unknown protocol `{name}`.{did_you_mean(str(name), list(PROTOCOLS))} "
            f"Known are {', '.join(PROTOCOLS)}; others are described by {', '.join(fields)}"
        )
    try:
        made = msgspec.convert({**PROTOCOLS.get(str(name), {}), **given, "url": source}, Conversation)
    except msgspec.ValidationError as error:
        raise ModelError(f"pretrained_model.overrides: {str(error).replace('`$.', '`')}") from None
    if not (0 < made.chunk <= 60 and 1000 <= made.rate <= 192000):
        raise ModelError("pretrained_model.overrides: expected a chunk of up to 60 s and a rate from 1000 to 192000 Hz")
    if made.answers == "last" and made.end is None:
        raise ModelError("pretrained_model.overrides: answers: last needs `end`, the message that ends an utterance")
    if made.model is None and MODEL in str([made.start, made.audio, made.end]):
        raise ModelError("pretrained_model.overrides: set `model`, which the server is asked for by name")
    if made.audio is not None and AUDIO not in str(made.audio):
        raise ModelError(f"pretrained_model.overrides: `audio` has no {AUDIO}, in whose place the audio is put")
    return made


FORMAT = Address({"ws": 80, "wss": 443}, "expected the address of a server, such as ws://localhost:2700", queries=True)
port_of = FORMAT.port_of


def check_overrides(source: str, overrides: Mapping[str, Any]) -> None:
    """Before anything is sent."""
    conversation(source, overrides)


def load_pretrained(request: ModelRequest, source: str) -> Model:
    """A module without parameters; what is said to the server is said by its `talk`."""
    import torch

    talk = conversation(source, request.overrides)

    def prepare(batch: Batch) -> Batch:
        return batch

    def run(batch: Batch) -> list[str]:
        raise ModelError("a websocket is for live speakers; set serving.scenarios: [streams]")

    notes = [f"The model runs in the server at {source}: times are those of a client, connection included."]
    return Model(torch.nn.Identity(), prepare, run, "text", talk.rate, {}, notes, weights="no", talk=talk)


def build_random(request: ModelRequest, folder: Path | None) -> Model:
    raise ModelError(NO_DESCRIPTION)
