"""Asks git about a folder without running anything that the folder's own repository names.

A repository's configuration can name programs: a file watcher, filters, hooks, a pager, helpers of remotes. A folder
that came as an archive may have such a `.git`. So git never sees it: it is given a git folder of ours, without
configuration, that points to the repository's objects, references and index, which are data.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SECONDS = 10.0  # longest answer
LONGEST = 4096  # bytes of a file that only names another one
SHARED = ("objects", "refs", "packed-refs", "logs", "shallow")
HEAD = re.compile(r"ref: refs/[^\s]+|[0-9a-f]{40}")
CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"


@dataclass(frozen=True)
class Repository:
    """`root` holds the files; `folder` is our git folder."""

    root: Path
    folder: Path
    index: Path

    def ask(self, *arguments: str, **environment: str) -> str:
        """What git says. Raises CalledProcessError, or FileNotFoundError where git is not installed."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        ours = {
            "GIT_DIR": str(self.folder),
            "GIT_WORK_TREE": str(self.root),
            "GIT_INDEX_FILE": str(self.index),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_OPTIONAL_LOCKS": "0",  # the index is not written
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_PAGER": "cat",
        }
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.root,
            env={**kept, **ours, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=True,
        )
        return done.stdout.strip()


@contextmanager
def repository(inside: Path) -> Iterator[Repository | None]:
    """The repository that a folder lies in; None outside of one, or where it has a form that is not read here."""
    inside = inside.resolve()
    root = next((folder for folder in (inside, *inside.parents) if (folder / ".git").exists()), None)
    with tempfile.TemporaryDirectory(prefix="speech-profiler-") as ours:
        yield _open(root, Path(ours)) if root is not None else None


def _open(root: Path, ours: Path) -> Repository | None:
    try:
        theirs = _pointed_to(root / ".git", "gitdir: ")
        common = _pointed_to(theirs / "commondir", "") if (theirs / "commondir").exists() else theirs
        head = _start(theirs / "HEAD")
        if not HEAD.fullmatch(head) or ".." in head:
            return None
        (ours / "HEAD").write_text(f"{head}\n")
        (ours / "config").write_text(CONFIG)
        for name in SHARED:
            if (common / name).exists():
                (ours / name).symlink_to(common / name)
    except (OSError, ValueError):
        return None
    return Repository(root, ours, theirs / "index")


def _pointed_to(file: Path, prefix: str) -> Path:
    """A folder, or the one that a file names: worktrees and submodules have such files."""
    return file if file.is_dir() else (file.parent / _start(file).removeprefix(prefix)).resolve()


def _start(file: Path) -> str:
    if not file.is_file():  # a pipe would never end
        raise FileNotFoundError(file)
    with file.open("rb") as opened:
        return opened.read(LONGEST).decode().strip()
