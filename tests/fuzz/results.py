"""Mutated results.json and zip files, given to every command that reads them.

There shall be no traceback, no hang and no file written outside of where a command is to write:

    python -m tests.fuzz.results --count 1000 --seed 7

Prints one line per finding, and the seed of each, so that it can be made again alone: `--seed N --count 1`.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from profiler.cli import main
from profiler.report.plots import style
from tests.helpers.synthetic import Made, make
from tests.unit.report.runs import full

HANG_S = 10.0  # of CPU
COMMANDS = ("report", "report zip", "compare", "history", "export", "machines", "tradeoff", "report --by")
EXITS = (0, 1, 2, 3, 4)
NAMES = (
    "../../escaped",
    "/escaped",
    "..",
    ".",
    "",
    "a/b",
    "a\\b",
    "C:x",
    "nul\0",
    "x" * 300,
    "~root",
    "-rf",
    "\x1b[31m",
)
TEXTS = (*NAMES, "<script>alert(1)</script>", "=1+1", "$\\frac{$", "{{7*7}}", "%s%n", "a|b\nc", "\u202e", "x" * 100_000)
NUMBERS = (0, -1, 1, 1e-300, 1e300, -1e300, 10**30, 2**63, 0.1, 1e18)
ODD: tuple[Any, ...] = (None, True, [], {}, [[]], {"a": {}}, [None], "text", *NUMBERS)
RAW = (
    b"",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"\xff\xfe",
    b"NaN",
    b"null",
    b"9" * 5000,
    b'{"schema": 2}',
    b'"\\ud800"',
)


@dataclass
class Found:
    """What a run of the fuzzer saw; problems are printed at once."""

    exits: Counter[tuple[str, int]] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    longest_s: float = 0.0

    def add(self, problem: str) -> None:
        self.problems.append(problem)
        print(problem, flush=True)


def seeds() -> list[dict[str, Any]]:
    """Results that have everything: what a mutation can hit."""
    made = full("float32", "int8")
    rate = {"value": 0.1, "substitutions": 1, "insertions": 1, "deletions": 1, "units": 30, "ci95": [0.05, 0.2]}
    data = made.model_dump(mode="json", by_alias=True)
    data["run"]["sides"] = {"about": {"A": "a", "B": "b"}, "pairs": [["float32", "int8"]], "threshold": 0.01}
    data["accuracy"] = [
        {"variant": name, "dataset": "d.csv", "utterances": 3, "of_utterances": 3, "normalisation": "basic"}
        | {"wer": rate, "cer": rate, "rtf": 0.1, "transcripts": f"{name}/transcripts.jsonl"}
        for name in ("float32", "int8")
    ]
    spread = {"min": 1.0, "median": 2.0, "mean": 2.0, "max": 3.0, "p10": 1.0, "p90": 3.0}
    drawn = {"utterances": 3, "batches": 3, "of_utterances": 3, "of_batches": 3}
    data["datasets"] = [
        {"variant": name, "dataset": "d.csv", "format": "csv", "order": "corpus", "batching": "batches of 1"}
        | {"drawn": drawn, "seconds": spread, "expected_share_of_padding": 0.1, "share_of_padding_in_set": 0.1}
        | {"rtf": 0.1, "rtfx": 10.0, "rounds": [0.1, 0.1], "spread": 0.01, "utterances": 3, "batches": 3}
        for name in ("float32", "int8")
    ]
    for cell in data["cells"]:
        cell["trace"] = f"{cell['variant']}/1s_x1/worker.pt.trace.json.gz"
        cell["training"] = {"phases": {"forward": {"median_s": 0.1, "share": 0.5}}, "loss": {"first": 2.0, "last": 1.0}}
    return [data, make(Made(seed=1)).model_dump(mode="json", by_alias=True)]


def mutated(chance: random.Random, seeds: list[dict[str, Any]]) -> bytes:
    """A seed with one to four changes, now and then of its bytes."""
    if chance.random() < 0.04:
        return chance.choice(RAW)
    data = copy.deepcopy(chance.choice(seeds))
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        holder, key = _place(chance, data)
        value = holder[key]
        kind = chance.random()
        if kind < 0.1 and isinstance(holder, dict):
            del holder[key]
        elif kind < 0.9 and isinstance(value, str):
            holder[key] = chance.choice(TEXTS)
        elif kind < 0.9 and isinstance(value, int | float):  # of the right type most often, to get past the reading
            holder[key] = chance.choice(NUMBERS)
        elif kind < 0.9 and isinstance(value, list):
            holder[key] = chance.choice(([], value * 3, value[:1], [*value, None]))
        else:
            holder[key] = chance.choice((*ODD, *TEXTS))
    content = json.dumps(data).encode()
    if chance.random() < 0.1:
        at = chance.randrange(len(content))
        content = chance.choice((content[:at], content[:at] + b"\0" + content[at:], content[:at] + content[at + 9 :]))
    return content


def _place(chance: random.Random, data: Any) -> tuple[Any, Any]:
    """A random place, as likely near the root as deep inside."""
    while True:
        key = chance.choice(list(data)) if isinstance(data, dict) else chance.randrange(len(data))
        inner = data[key]
        if not isinstance(inner, dict | list) or not inner or chance.random() < 0.15:
            return data, key
        data = inner


class Hang(Exception):
    """The command used more CPU than it may."""


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    def stop(number: int, frame: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def arguments(command: str, folder: Path) -> list[str]:
    run, logs, other = str(folder / "logs/r/20260101-000000-aaaa"), str(folder / "logs"), str(folder / "other")
    return {
        "report": ["report", run, "--output", str(folder / "out/report")],
        "report zip": ["report", str(folder / "given.zip"), "--output", str(folder / "out/zip")],
        "report --by": ["report", run, "--by", "module"],
        "compare": ["compare", run, other, "--output", str(folder / "out/compare.html")],
        "history": ["history", "r", "--logdir", logs, "--output", str(folder / "out/history")],
        "export": ["export", run, str(folder / "out/export.zip"), "--with-traces", "--with-transcripts", "--force"],
        "machines": ["machines", run, other],
        "tradeoff": ["tradeoff", run, "--out", str(folder / "out/tradeoff")],
    }[command]


def lay_out(folder: Path, content: bytes, whole: bytes) -> None:
    """A log folder with the run, the same in a zip, and a whole run to compare with."""
    for place, text in (("logs/r/20260101-000000-aaaa", content), ("other", whole)):
        (folder / place).mkdir(parents=True, exist_ok=True)
        (folder / place / "results.json").write_bytes(text)
    for made in (folder / "out").glob("*"):
        shutil.rmtree(made) if made.is_dir() else made.unlink()
    (folder / "out").mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / "given.zip", "w") as archive:
        archive.writestr("run/results.json", content)


def outside(folder: Path) -> set[str]:
    """Everything below the folder but what commands are to write."""
    written = (str(folder / "out"), str(folder / "logs/r/20260101-000000-aaaa"))
    return {path for path in map(str, folder.parent.rglob("*")) if not path.startswith(written)}


def fuzz(count: int, seed: int, folder: Path, commands: int = len(COMMANDS)) -> Found:
    """`count` files, each given to so many of the commands."""
    found, known = Found(), seeds()
    whole = json.dumps(known[1] | {"run": known[1]["run"] | {"id": "whole"}}).encode()
    here = folder / "a" / "b" / "c" / "d"
    here.mkdir(parents=True)
    lay_out(here, whole, whole)
    before = outside(here)
    cwd, dpi = Path.cwd(), style.DPI
    style.DPI = 30  # what is drawn matters here, not how fine
    os.chdir(here / "out")
    try:
        for number in range(seed, seed + count):
            chance = random.Random(number)
            lay_out(here, mutated(chance, known), whole)
            for command in chance.sample(COMMANDS, commands):
                _one(command, here, number, found)
            if outside(here) != before:
                found.add(f"seed {number}: wrote {sorted(outside(here) - before)[:3]}")
                before = outside(here)
    finally:
        os.chdir(cwd)
        style.DPI = dpi
    return found


def _one(command: str, folder: Path, number: int, found: Found) -> None:
    start = time.process_time()
    said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    try:
        with limited(HANG_S), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = main(arguments(command, folder))
            said.flush()
        found.exits[command, code] += 1
        if code not in EXITS:
            found.add(f"seed {number}, {command}: exit {code}")
    except Hang:
        found.add(f"seed {number}, {command}: more than {HANG_S:g} s of CPU")
    except (Exception, SystemExit):
        *_, last = traceback.format_exc().strip().splitlines()
        place = [line.strip() for line in traceback.format_exc().splitlines() if "/profiler/" in line]
        found.add(f"seed {number}, {command}: {last[:200]} {place[-1:]}")
    found.longest_s = max(found.longest_s, time.process_time() - start)


def run() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="speech-profiler-fuzz-") as folder:
        found = fuzz(given.count, given.seed, Path(folder))
    for (command, code), times in sorted(found.exits.items()):
        print(f"{command}: exit {code}, {times} times")
    print(f"{given.count} files, {len(found.problems)} problems, longest command {found.longest_s:.1f} s of CPU")
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(run())
