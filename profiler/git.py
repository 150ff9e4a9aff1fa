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

from profiler.errors import UserError
from profiler.temporary import TemporaryFolder

SECONDS = 10.0  # longest answer
NO_REPOSITORY = "is in no git repository; name the one that holds the model's code with --repo"
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


@dataclass(frozen=True)
class Worktree:
    """The files of a revision."""

    folder: Path  # where the model's code is, as deep inside as the recipe is in its repository
    commit: str


@contextmanager
def worktree(revision: str, inside: Path) -> Iterator[Worktree]:
    """The files of a revision of the repository that holds a folder; gone afterwards. Raises UserError.

    They are as git keeps them: no hook and no filter (LFS, for one) is run, and the repository is not written to.
    """
    with repository(inside) as found, TemporaryFolder() as folder:
        if found is None:
            raise UserError(f"{inside} {NO_REPOSITORY}.")
        wrong = f"--rev {revision}: there is no such revision in {found.root}"
        checkout, index = folder / "checkout", str(folder / "index")
        checkout.mkdir()
        try:
            name = f"{revision}^{{commit}}"
            commit = found.ask("rev-parse", "--verify", "--quiet", "--end-of-options", name)
            wrong = f"Cannot check out {revision}"
            found.ask("read-tree", commit, GIT_INDEX_FILE=index)
            found.ask("checkout-index", "--all", "--quiet", GIT_INDEX_FILE=index, GIT_WORK_TREE=str(checkout))
        except FileNotFoundError:
            raise UserError("--rev needs git, which is not installed here.") from None
        except subprocess.SubprocessError as error:
            said = (getattr(error, "stderr", None) or "").strip().splitlines()
            raise UserError(f"{wrong}{f' ({said[-1]})' if said else ''}.") from None
        within = checkout / inside.resolve().relative_to(found.root)
        yield Worktree(within if within.is_dir() else checkout, commit)
