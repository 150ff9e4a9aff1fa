"""Texts of a run -> the same without paths of this machine that the user did not type.

A library's error names files with all folders above them: the home folder, an environment, a temporary folder. What a
reader needs is the file and where it belongs, so each such folder is written as a short name. Nothing else is changed.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from profiler.results.types import Run

ROOT = Path(__file__).resolve().parents[2]
# A part of a path ends where a sentence, a list or a quotation goes on.
PART = r"[^\s/'\"`,;:()<>|\[\]{}\\=]+"
# Of any environment: that of `ab --python` is not this one.
INSTALLED = rf"(?:/{PART})+/(?:site|dist)-packages"
STANDARD = rf"(?:/{PART})+/lib/python3\.\d+"
BEFORE = r"(?<![\w.~/<}-])"
EVERYWHERE = ("/", "/usr", "/usr/local")  # they tell nothing about a machine
END = r"(?![\w-]|\.\w)"


class LocalPaths:
    """Made for one run: it knows its folder, its recipe, and what was typed."""

    def __init__(self, folder: Path, run: Run) -> None:
        self._sides = run.sides is not None  # settings of an A/B run have paths that were found, not typed
        short = {
            sys.base_prefix: "{python}",
            sys.prefix: "{python}",
            tempfile.gettempdir(): "{tmp}",
            os.path.expanduser("~"): "~",  # noqa: PTH111 - where there is no home, pathlib raises
            str(ROOT): "{profiler}",
            _here(): ".",
            sysconfig.get_path("stdlib"): "{python}",
            sysconfig.get_path("purelib"): "{site-packages}",
            sysconfig.get_path("platlib"): "{site-packages}",
        }
        if run.recipe in run.command:  # else it is a shipped one, known by its name
            short[os.path.join(_here(), Path(run.recipe).parent)] = "{recipe folder}"  # noqa: PTH118
        short[os.path.join(_here(), folder)] = "{run}"  # noqa: PTH118
        short = {path: name for path, name in short.items() if path.startswith("/") and path not in EVERYWHERE}
        self._short = short | {os.path.realpath(path): name for path, name in short.items()}
        typed = {path for text in self._typed(run) for path in (text.rstrip("/"),) if path.startswith("/") and path}
        known = [*_longest_first(typed), f"(?P<installed>{INSTALLED})", f"(?P<standard>{STANDARD})"]
        pattern = "|".join([*known, *_longest_first(self._short)])
        self._pattern = re.compile(rf"{BEFORE}(?:{pattern}){END}")

    def _typed(self, run: Run) -> Iterator[str]:
        try:
            words = shlex.split(run.command)
        except ValueError:  # a quotation that does not end
            words = run.command.split()
        for word in (*words, run.recipe if run.recipe in run.command else ""):
            yield from (word, word.partition("=")[2])
        if run.sides is None:
            yield from _strings(run.resolved)
        else:
            yield from (word for about in run.sides.about.values() for word in about.split())

    def text(self, text: str) -> str:
        return self._pattern.sub(self._name, text) if "/" in text else text

    def _name(self, match: re.Match[str]) -> str:
        if match["installed"] or match["standard"]:
            return "{site-packages}" if match["installed"] else "{python}"
        return self._short.get(match[0], match[0])

    def value(self, value: Any) -> Any:
        """The same for everything inside lists and mappings."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {key: self.value(inner) for key, inner in value.items()}
        return [self.value(inner) for inner in value] if isinstance(value, list) else value

    def head(self, data: dict[str, Any]) -> dict[str, Any]:
        """All of a run but its cells; command and settings are what was typed."""
        typed = ("command",) if self._sides else ("command", "resolved")
        run = self.value(data["run"]) | {name: data["run"][name] for name in typed}
        return {key: run if key == "run" else self.value(value) for key, value in data.items()}


def _here() -> str:
    try:
        return str(Path.cwd())
    except OSError:  # it was removed
        return ""


def _longest_first(paths: Any) -> list[str]:
    return [re.escape(path) for path in sorted(paths, key=len, reverse=True)]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)
