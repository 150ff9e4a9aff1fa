"""A small real server of speech recognition: a shipped trained model behind FastAPI and uvicorn, on 127.0.0.1.

python -m tests.helpers.asr_server PORT_FILE [KIND]    KIND: model, echo (no model), closes (every second connection)
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import soundfile
import uvicorn
from fastapi import FastAPI, File, Form, Request, Response
from fastapi.responses import JSONResponse

from profiler.audio import pad
from profiler.models.load import load_model
from profiler.models.model import ModelRequest
from tests.helpers.program import ROOT

FOLDER = ROOT / "recipes" / "models" / "lstm-commands"


def transcriber() -> Any:
    import torch

    torch.set_num_threads(1)
    model = load_model(ModelRequest(source="lstm-commands", type="EncoderDecoderASR", folder=FOLDER, trust=True))

    def transcribe(samples: np.ndarray[Any, Any]) -> str:
        with torch.no_grad():
            (text,) = model.run(model.prepare(pad([samples], model.rate)))
        return text if isinstance(text, str) else " ".join(text)

    return transcribe


def application(kind: str) -> FastAPI:
    app, transcribe = FastAPI(), transcriber() if kind == "model" else lambda samples: f"{len(samples)} samples"
    counted = {"requests": 0}

    @app.post("/v1/audio/transcriptions")
    def transcriptions(request: Request, file: Annotated[bytes, File()], model: Annotated[str, Form()]) -> Response:
        counted["requests"] += 1
        if kind == "closes" and counted["requests"] % 2 == 0:
            return Response(status_code=503)
        samples, _ = soundfile.read(io.BytesIO(file), dtype="float32")
        return JSONResponse({"text": transcribe(samples), "model": model})

    @app.get("/count")
    def count() -> dict[str, int]:
        return counted

    return app


def main() -> None:
    port_file, kind = Path(sys.argv[1]), (sys.argv[2:] or ["model"])[0]

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            port_file.write_text(str(self.servers[0].sockets[0].getsockname()[1]))

    Server(uvicorn.Config(application(kind), host="127.0.0.1", port=0, log_level="warning")).run()


if __name__ == "__main__":
    main()
