"""What is private in a run, and how it is taken out: host and user names, and paths that say how a disk is laid out.

A path is cut to its last part, which is what a reader needs of it; a name becomes `host` or `user`. The kernel's own
paths (/sys, /proc, /dev) are the same everywhere and stay.
"""

from __future__ import annotations

import getpass
import re
import shlex
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from profiler.results.local_paths import BEFORE, PART
from profiler.results.types import Results

ABSOLUTE = re.compile(rf"{BEFORE}~?/(?!/){PART}(?:/+{PART})*/?")
WINDOWS = re.compile(r"(?<![A-Za-z])[A-Za-z]:\\(?:[^\s\\'\"`,;<>|]+\\)*([^\s\\'\"`,;<>|]*)")
HOME = re.compile(r"(?:/home/|/Users/|\b[A-Za-z]:\\Users\\)([^\s/\\'\"`,;:]+)")
PUBLIC = ("/sys/", "/proc/", "/dev/")
# Account names that many machines have and that name nobody.
NOBODY = frozenset(
    {"root", "user", "users", "admin", "ubuntu", "debian", "runner", "docker", "nobody", "shared", "public"}
)
NO_HOST = frozenset({"localhost", ""})
TOO_LONG = 4096


class Scrubber:
    """Takes private names and paths out of texts. Made for one run: it knows which names and paths that run has."""

    def __init__(self, hosts: Iterable[str], users: Iterable[str], paths: Iterable[str]) -> None:
        self.hosts = sorted({name for name in hosts if name.lower() not in NO_HOST}, key=len, reverse=True)
        self.users = sorted({name for name in users if name.lower() not in NOBODY}, key=len, reverse=True)
        self.paths = sorted({path.rstrip("/") for path in paths}, key=len, reverse=True)
        names = [*((name, "host") for name in self.hosts), *((name, "user") for name in self.users)]
        self._replacements = [*self._path_patterns(), *((_name_pattern(name), said) for name, said in names)]

    @classmethod
    def of(cls, results: Results) -> Scrubber:
        """Knows the names and paths that the results mention, and those of this machine and user."""
        data = results.model_dump(mode="json", by_alias=True)
        strings = list(_strings(data))
        users = [found for text in strings for found in HOME.findall(text)]
        hosts = [str(results.environment.host or ""), socket.gethostname()]
        here = [str(Path.cwd()), str(Path.home())]
        words = _words(results.run.command)
        whole = [text for text in (*strings, *words) if _is_path(text)]
        return cls(hosts, [*users, _this_user(), Path.home().name], [*whole, *here])

    def text(self, text: str) -> str:
        for pattern, replacement in self._replacements:
            text = pattern.sub(replacement, text)
        text = ABSOLUTE.sub(_last_part, text)
        return WINDOWS.sub(r"\1", text)

    def value(self, value: Any) -> Any:
        """The same for everything inside lists and mappings, their keys included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(key) if isinstance(key, str) else key: self.value(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.value(inner) for inner in value]
        return value

    def left_in(self, text: str) -> list[str]:
        """Private names that a text still has: none, unless something here is wrong."""
        return [name for name in (*self.hosts, *self.users) if _name_pattern(name).search(text)]

    def _path_patterns(self) -> Iterator[tuple[re.Pattern[str], str]]:
        """Known paths first, whole and as the beginning of others: these may have spaces in them."""
        for path in self.paths:
            if not path.startswith(PUBLIC):
                yield re.compile(rf"{BEFORE}{re.escape(path)}(?![\w.-]|/+{PART})/?"), Path(path).name
        known = [Path(path) for path in self.paths if path.startswith("/")]
        folders = {str(folder) for path in known for folder in (path, *path.parents)} - {"/"}
        for folder in sorted(folders, key=len, reverse=True):
            if not f"{folder}/".startswith(PUBLIC):
                yield re.compile(rf"{BEFORE}{re.escape(folder)}/+(?:{PART}/+)*"), ""


def without_private(results: Results, scrubber: Scrubber) -> Results:
    """The results as they may be given to anybody."""
    data = results.model_dump(mode="json", by_alias=True)
    data["environment"].pop("host", None)
    for gpu in data["environment"].get("gpu") or []:
        gpu.pop("uuid", None)  # of this very device
    for model in data["models"]:
        (model.get("device") or {}).pop("uuid", None)
    data["run"]["command"] = shlex.join(scrubber.text(word) for word in _words(data["run"]["command"]))
    return Results.model_validate(scrubber.value(data))


def _name_pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", re.IGNORECASE)


def _last_part(match: re.Match[str]) -> str:
    path = match[0]
    return path if path.startswith(PUBLIC) else path.rstrip("/").rsplit("/", 1)[-1]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _strings(key)
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # a quotation that does not end
        return command.split()


def _is_path(text: str) -> bool:
    return len(text) > 1 and text.startswith("/") and "\n" not in text and len(text) < TOO_LONG


def _this_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        return ""
