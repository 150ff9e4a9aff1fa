"""An adapter file: a model of any library, in any environment, loaded and called by a few functions of the user's.

    pretrained_model: {source: nvidia/parakeet-ctc-0.6b, type: nemo_adapter.py}
    variants: [{name: nemo, python: ../nemo/.venv/bin/python}]

The file runs in a worker that needs nothing of the profiler's (`execution/standalone_worker.py`); here is only what a
recipe's checks ask.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from profiler.errors import ModelError
from profiler.models.formats import Format, Found
from profiler.models.model import Model, ModelRequest
from profiler.user_path import user_path

LIBRARY = "an adapter file"
HOW_TO_RUN_ELSEWHERE = (
    "Install the profiler there ({} -m pip install speech-profiler), or let an adapter file run the model, which needs "
    "nothing of it (docs/add-a-library.md)."
)
ELSEWHERE = "the model of an adapter file is only loaded in a run, by that file, in its own environment"


def is_adapter_file(kind: str) -> bool:
    return kind.endswith(".py")


class _Files(Collection[str]):
    """Any file of Python; none has a name that is known beforehand."""

    def __contains__(self, kind: object) -> bool:
        return isinstance(kind, str) and is_adapter_file(kind)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class _AdapterFormat(Format):
    """The source is whatever the file's `load` takes."""

    weights_only = True

    def check(self, source: str, kind: str, base: Path) -> None:
        if not user_path(kind, base).is_file():
            raise ModelError(f"there is no adapter file {user_path(kind, base)} (the value of type)")

    def find(self, request: ModelRequest) -> Found:
        return Found(request.source)


INTERFACES = _Files()
FORMAT = _AdapterFormat()


def load_pretrained(request: ModelRequest, source: str) -> Model:
    raise ModelError(ELSEWHERE)


def build_random(request: ModelRequest, folder: Path | None) -> Model:
    raise ModelError(ELSEWHERE)
