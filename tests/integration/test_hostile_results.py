"""Runs, zip files, traces and log folders that were made to do harm: each ends in a sentence, and nothing is written,
nor shown, of what lies outside. Every case has a canary: a file or folder that would appear, change or be told.
"""

from __future__ import annotations

import gzip
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tensorboard.plugins.base_plugin import TBContext
from werkzeug.test import Client

from profiler.cli import main
from profiler.tensorboard_plugin.plugin import SpeechProfilePlugin
from profiler.tensorboard_plugin.trace.store import TraceStore
from tests.fuzz.results import fuzz, seeds

SECRET = "the secret of another folder"
ID = "20260101-000000-aaaa"
Data = dict[str, Any]
Case = Callable[[Path], list[str]]


def data(**cell: Any) -> Data:
    """A whole run whose first cell says something else."""
    found = seeds()[0]
    found["run"]["id"] = ID
    found["cells"][0] |= cell
    return found


def in_folder(folder: Path, found: Data, *command: str) -> list[str]:
    run = folder / "logs" / "r" / ID
    run.mkdir(parents=True)
    (run / "results.json").write_text(json.dumps(found))
    return [part.replace("RUN", str(run)).replace("OUT", str(folder / "out")) for part in command]


def in_zip(folder: Path, found: Data, **more: str | bytes) -> list[str]:
    with zipfile.ZipFile(folder / "given.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("run/results.json", json.dumps(found))
        for name, content in more.items():
            archive.writestr(name, content)
    return ["report", str(folder / "given.zip"), "--output", str(folder / "out")]


def named(name: str) -> Case:
    return lambda folder: in_zip(folder, data(variant=name))


def entry(name: str, content: bytes = b"x") -> Case:
    return lambda folder: in_zip(folder, data(), **{name: content})


def linked(names: str, *command: str, target: str = "secret/file") -> Case:
    """Files of the run that are links to one outside."""

    def make(folder: Path) -> list[str]:
        given = in_folder(folder, data(), *command)
        for name in names.split():
            place = folder / "logs" / "r" / ID / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.unlink(missing_ok=True)
            place.symlink_to(folder / target)
        return given

    return make


def breakdown(file: str, *command: str) -> Case:
    def make(folder: Path) -> list[str]:
        found = data()
        for cell in found["cells"]:
            cell["breakdown"]["file"] = file
        return in_folder(folder, found, *command)

    return make


def transcripts(file: str, *command: str) -> Case:
    def make(folder: Path) -> list[str]:
        found = data()
        found["accuracy"][0]["transcripts"] = file
        return in_folder(folder, found, *command)

    return make


def run_id(folder: Path) -> list[str]:
    found = data()
    found["run"]["id"] = "../../../escaped"
    return in_folder(folder, found, "export", "RUN", "OUT/x.zip", "--with-names")


def pipe(folder: Path) -> list[str]:
    given = in_folder(folder, data(), "report", "RUN", "--output", "OUT")
    (folder / "logs" / "r" / ID / "results.json").unlink()
    os.mkfifo(folder / "logs" / "r" / ID / "results.json")
    return given


def bomb(folder: Path) -> list[str]:
    with zipfile.ZipFile(folder / "given.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("run/results.json", b" " * 100_000_000)
    return ["report", str(folder / "given.zip"), "--output", str(folder / "out")]


def understated(folder: Path) -> list[str]:
    """The archive says that an entry is smaller than it is."""
    given = in_zip(folder, data(), **{"run/trace.bin": b"a" * 5_000_000})
    raw = (folder / "given.zip").read_bytes()
    (folder / "given.zip").write_bytes(raw.replace((5_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    return given


def raw(content: bytes) -> Case:
    def make(folder: Path) -> list[str]:
        given = in_folder(folder, data(), "report", "RUN", "--output", "OUT")
        (folder / "logs" / "r" / ID / "results.json").write_bytes(content)
        return given

    return make


REPORT = ("report", "RUN", "--output", "OUT")
IN_PLACE = ("report", "RUN")
EXPORT = ("export", "RUN", "OUT/x.zip", "--with-names", "--with-traces", "--with-transcripts")
CASES: dict[str, tuple[Case, tuple[int, ...]]] = {
    "a variant that leads up": (named("../../escaped"), (2,)),
    "a variant that is absolute": (named("/escaped"), (2,)),
    "a variant that is the folder above": (named(".."), (2,)),
    "a variant in a folder": (named("a/b"), (2,)),
    "a variant with a backslash": (named("..\\escaped"), (2,)),
    "a variant with a zero byte": (named("a\0b"), (2,)),
    "a variant with a line break": (named("a\n"), (2,)),
    "a variant of megabytes": (named("x" * 5_000_000), (2,)),
    "a variant that steers the terminal": (named("\x1b]0;title\x07"), (2,)),
    "a run id that leads up": (run_id, (2,)),
    "a trace that leads up": (lambda folder: in_folder(folder, data(trace="../../../secret/file"), *EXPORT), (2,)),
    "a trace that is absolute": (lambda folder: in_folder(folder, data(trace="/escaped/x"), *EXPORT), (2,)),
    "a breakdown elsewhere": (breakdown("../../../secret/file", "report", "RUN", "--by", "module"), (2,)),
    "a breakdown elsewhere, exported": (breakdown("../../../secret/file", *EXPORT), (2,)),
    "transcripts elsewhere": (transcripts("../../../secret/file", *EXPORT), (2,)),
    "transcripts elsewhere, scored": (transcripts("../../../secret/file", "report", "RUN", "--rescore"), (2,)),
    "results.json is a link": (linked("results.json", *REPORT), (2,)),
    "the journal is a link": (linked("results.journal", *REPORT), (2,)),
    "a variant's folder is a link": (linked("float32", *IN_PLACE, target="secret"), (2,)),
    "pages and plots are links": (linked("tables.md .report.html.part .results.csv.part rtfx.svg", *IN_PLACE), (0,)),
    "the recipe is a link": (linked("recipe.yaml", *EXPORT), (2,)),
    "a trace is a link": (linked("float32/1s_x1/a.pt.trace.json.gz", *EXPORT), (0, 2)),
    "the transcripts are a link": (linked("float32/transcripts.jsonl", *EXPORT), (2,)),
    "the breakdown is a link": (linked("breakdown.json", "report", "RUN", "--by", "module"), (2,)),
    "results.json is a pipe": (pipe, (2,)),
    "an entry that leads up": (entry("run/../../escaped"), (2,)),
    "an entry that is absolute": (entry("/escaped"), (2,)),
    "an entry with a backslash": (entry("run\\..\\..\\escaped"), (2,)),
    "an entry in place of a variant's folder": (entry("run/float32"), (0, 1)),
    "results.json unpacks without end": (bomb, (2,)),
    "an entry larger than it says": (understated, (2,)),
    "nested without end": (raw(b'{"schema": 2, "run": ' + b"[" * 100_000), (2,)),
    "only spaces": (raw(b" " * 10_000_000), (2,)),
}


def tree(everything: Path, folder: Path) -> dict[Path, bytes]:
    """All but what a command may write."""
    may = (folder / "out", folder / "logs" / "r" / ID)
    return {
        path: path.read_bytes() if path.is_file() else b""
        for path in everything.rglob("*")
        if not any(path.is_relative_to(place) for place in may)
    }


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_written_or_told_of_what_lies_outside(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "a" / "b" / "here"
    (folder / "secret").mkdir(parents=True)
    (folder / "secret" / "file").write_text(SECRET)
    (folder / "out").mkdir()
    make, codes = CASES[name]
    given = make(folder)
    if "--output" in given:
        (folder / "out").rmdir()
    before = tree(tmp_path, folder)
    assert main(given) in codes
    assert tree(tmp_path, folder) == before
    said = capsys.readouterr()
    assert SECRET not in said.out + said.err
    assert len(said.err) < 2000
    if name.startswith("a variant "):
        assert "cells.0.variant" in said.err
    packed = folder / "out" / "x.zip"
    if packed.is_file():
        with zipfile.ZipFile(packed) as archive:
            for entry in archive.namelist():
                content = archive.read(entry)
                assert SECRET.encode() not in (gzip.decompress(content) if entry.endswith(".gz") else content)
                assert ".." not in entry


@pytest.mark.parametrize("command", ["compare", "history", "machines", "tradeoff", "export"])
def test_every_command_names_the_field_of_a_bad_name(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, *_ = in_folder(tmp_path, data(variant="../x"), "RUN")
    given = {
        "compare": [run, run],
        "history": ["r", "--logdir", str(tmp_path / "logs")],
        "export": [run, str(tmp_path / "x.zip")],
    }.get(command, [run])
    assert main([command, *given]) == 2
    assert "cells.0.variant: '../x' cannot be the name of a file or folder" in capsys.readouterr().err


def test_a_log_of_a_worker_is_never_exported(tmp_path: Path) -> None:
    given = in_folder(tmp_path, data(), *EXPORT)
    for place in ("worker.log", "float32/worker.log", "float32/1s_x1/worker.log"):
        file = tmp_path / "logs" / "r" / ID / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(SECRET)
    (tmp_path / "out").mkdir()
    assert main(given) == 0
    with zipfile.ZipFile(tmp_path / "out" / "x.zip") as archive:
        assert [name for name in archive.namelist() if name.endswith(".log")] == []
        assert all(SECRET.encode() not in archive.read(name) for name in archive.namelist())


def test_traces_without_end_are_answered_in_a_sentence_and_others_meanwhile(tmp_path: Path) -> None:
    """In a folder with links that go round and out."""
    logs = tmp_path / "logs"
    (logs / "traces").mkdir(parents=True)
    (logs / "traces" / "loop").symlink_to(logs)
    (logs / "traces" / "out").symlink_to(tmp_path)
    (tmp_path / "secret.pt.trace.json").write_text(SECRET)
    (logs / "traces" / "link.pt.trace.json").symlink_to(tmp_path / "secret.pt.trace.json")
    (logs / "traces" / "a.pt.trace.json.gz").write_bytes(gzip.compress(b'{"traceEvents": [' + b" " * 100_000_000))
    plugin = SpeechProfilePlugin(TBContext(logdir=str(logs)), TraceStore(tmp_path / "cache"))
    apps = plugin.get_plugin_apps()

    def ask(route: str, **values: str) -> tuple[int, str]:
        answer = Client(apps[route]).get("/", query_string=values)
        return answer.status_code, answer.text

    assert ask("/trace", run="traces", trace="a.pt.trace.json.gz")[0] == 422
    for name in ("link.pt.trace.json", "out/secret.pt.trace.json", "../../secret.pt.trace.json"):
        for route in ("/trace", "/download"):
            code, text = ask(route, run="traces", trace=name)
            assert code == 404
            assert SECRET not in text
    assert ask("/run", run="traces")[1].count("pt.trace.json") == 1
    assert [ask("/run", run=name)[0] for name in (".", "", "..", "traces/out", "traces/../..")] == [404] * 5


def test_mutated_results_do_no_harm(tmp_path: Path) -> None:
    """`python -m tests.fuzz.results` is the long run of the same."""
    found = fuzz(count=10, seed=7, folder=tmp_path, commands=4)
    assert found.problems == []
    assert sum(found.exits.values()) == 40
