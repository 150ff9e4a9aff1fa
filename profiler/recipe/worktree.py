"""The code of another git revision, in a folder of its own for as long as it is needed."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from profiler.errors import UserError

# Nothing that the repository's own configuration names is run: no hooks, no file watcher.
GIT = ("git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
NO_REPOSITORY = "is in no git repository; name the one that holds the model's code with --repo"


@dataclass(frozen=True)
class Worktree:
    """A checkout of a revision."""

    folder: Path  # where the model's code is, as deep inside as the recipe is in its repository
    commit: str


@contextmanager
def worktree(revision: str, inside: Path) -> Iterator[Worktree]:
    """Check out the revision of the repository that holds a folder; gone afterwards. Raises UserError."""
    root = Path(_git(inside, f"{inside} {NO_REPOSITORY}", "rev-parse", "--show-toplevel"))
    wrong = f"--rev {revision}: there is no such revision in {root}"
    commit = _git(root, wrong, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    with tempfile.TemporaryDirectory(prefix="speech-profiler-") as folder:
        checkout = Path(folder) / "checkout"
        _git(root, f"Cannot check out {revision}", "worktree", "add", "--detach", "--quiet", str(checkout), commit)
        try:
            within = checkout / inside.resolve().relative_to(root.resolve())
            yield Worktree(within if within.is_dir() else checkout, commit)
        finally:
            subprocess.run([*GIT, "-C", str(root), "worktree", "remove", "--force", str(checkout)], capture_output=True)


def _git(folder: Path, wrong: str, *arguments: str) -> str:
    try:
        done = subprocess.run([*GIT, "-C", str(folder), *arguments], capture_output=True, text=True)
    except FileNotFoundError:
        raise UserError("--rev needs git, which is not installed here.") from None
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise UserError(f"{wrong}{f' ({said[-1]})' if said else ''}.")
    return done.stdout.strip()
