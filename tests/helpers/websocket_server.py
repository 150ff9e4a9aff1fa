"""A small real websocket server of speech recognition in a process of its own, on 127.0.0.1.

python -m tests.helpers.websocket_server PORT_FILE [model]

The path of an address says how it behaves. /vosk answers each message, at the end with the text of the shipped trained
model, if it was asked for; /vllm speaks JSON and answers at the end; /hangs-up sends a last text and closes; /refuses
answers 503; /closes closes after some messages; /silent answers nothing; /slow answers late. How many messages of audio
it had stands in the file `counted` beside PORT_FILE.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from http import HTTPStatus
from pathlib import Path
from typing import Any

import numpy as np
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

CLOSES_AFTER = 3
SLOW_SECONDS = 0.3


class Server:
    def __init__(self, port_file: Path, with_model: bool) -> None:
        self.counted, self.audio = port_file.with_name("counted"), 0
        self.transcribe: Any = lambda samples: f"{len(samples)} samples"
        if with_model:
            from tests.helpers.asr_server import transcriber

            self.transcribe = transcriber()

    def refuse(self, connection: ServerConnection, request: Request) -> Response | None:
        return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, "full\n") if request.path == "/refuses" else None

    async def talk(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        kind, heard = connection.request.path, list[bytes]()
        try:
            async for message in connection:
                await self._answer(connection, kind, message, heard)
        except ConnectionClosed:
            pass

    async def _answer(self, connection: ServerConnection, kind: str, message: str | bytes, heard: list[bytes]) -> None:
        if isinstance(message, bytes):
            self._count(heard, message)
        if kind == "/closes" and len(heard) == CLOSES_AFTER:
            await connection.close(1011, "worker lost")
        elif kind == "/hangs-up" and message == "Done":
            await connection.send(json.dumps({"text": "the end"}))
            await connection.close()
        elif kind in ("/vosk", "/closes", "/slow"):
            await asyncio.sleep(SLOW_SECONDS if kind == "/slow" else 0)
            for answer in self._vosk(message, heard):
                await connection.send(json.dumps(answer))
        elif kind == "/vllm" and isinstance(message, str):
            for answer in self._vllm(json.loads(message), heard):
                await connection.send(json.dumps(answer))

    def _count(self, heard: list[bytes], audio: bytes) -> None:
        heard.append(audio)
        self.audio += 1
        self.counted.write_text(str(self.audio))

    def _vosk(self, message: str | bytes, heard: list[bytes]) -> list[dict[str, str]]:
        if isinstance(message, bytes):
            return [{"partial": "a" if len(heard) > 1 else ""}]
        if message != '{"eof" : 1}':
            assert json.loads(message) == {"config": {"sample_rate": 16000}}
            return []
        return [{"text": self.transcribe(np.frombuffer(b"".join(heard), "<i2").astype(np.float32) / 32768.0)}]

    def _vllm(self, message: dict[str, Any], heard: list[bytes]) -> list[dict[str, str]]:
        if message["type"] == "session.update" and message["model"] != "tiny":
            return [{"type": "error", "text": "no such model"}]
        if message["type"] == "input_audio_buffer.append":
            self._count(heard, base64.b64decode(message["audio"]))
            return [{"type": "transcription.delta", "delta": "a "}]
        return [{"type": "transcription.done", "text": "a b"}] if message.get("final") else []


async def main() -> None:
    port_file = Path(sys.argv[1])
    made = Server(port_file, "model" in sys.argv[2:])
    async with serve(made.talk, "127.0.0.1", 0, process_request=made.refuse) as server:
        port_file.write_text(str(server.sockets[0].getsockname()[1]))
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
