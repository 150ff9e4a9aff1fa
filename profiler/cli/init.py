"""Write a recipe for a model: a hub id, a folder, a file (TorchScript, ONNX and others), a torchaudio bundle, a class.

Its library and interface are found by looking at names and files; nothing of the model is run or imported.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from profiler.recipe.init import write_recipe


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="such as openai/whisper-tiny, ./my-model, my_models.Encoder")
    parser.add_argument(
        "file", metavar="FILE", type=Path, nargs="?", help="where to write it (default: MODEL.yaml here)"
    )
    parser.add_argument("--force", action="store_true", help="replace the file if it is there")


def run(arguments: argparse.Namespace) -> int:
    written = write_recipe(arguments.model, arguments.file, arguments.force)
    print(f"Wrote {written.path}: {written.found.source} as {written.found.type}, because {written.found.because}.")
    if written.found.others:
        print(f"It could also be {', '.join(written.found.others)}: change `type` in the file.")
    if written.needs_trust:
        print("Code that comes with the model is run: hence --trust.")
    print(f"Run it: python profile.py {written.path}{' --trust' if written.needs_trust else ''}")
    return 0
