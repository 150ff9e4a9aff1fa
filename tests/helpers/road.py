"""A run of the real program that came to its end, and what it left."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, NamedTuple

from tests.helpers import program

QUICK = ("measure.rounds=1", "measure.budget=0.1", "measure.warmup=1")


class Done(NamedTuple):
    """A run that came to its end."""

    stdout: str
    stderr: str
    logdir: Path

    @property
    def folder(self) -> Path:
        return program.run_folder(self.logdir)

    @property
    def results(self) -> dict[str, Any]:
        return program.results_in(self.logdir)

    @property
    def tables(self) -> str:
        return (self.folder / "tables.md").read_text()

    def traces(self, cell: dict[str, Any]) -> list[Path]:
        return sorted((self.folder / cell["trace"]).parent.glob("*.pt.trace.json.gz"))


def go(recipe: str | Path, logdir: Path, *arguments: str, fresh: bool = False) -> Done:
    done = program.run(recipe, *arguments, "--logdir", logdir, fresh=fresh)
    assert done.returncode == 0, done.stdout + done.stderr
    return Done(done.stdout, done.stderr, logdir)


def read_trace(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt") as file:
        events: list[dict[str, Any]] = json.load(file)["traceEvents"]
    return events
