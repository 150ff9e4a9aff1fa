"""The code of another git revision, in a folder of its own for as long as it is needed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from profiler.errors import UserError
from profiler.git import repository
from profiler.temporary import TemporaryFolder

NO_REPOSITORY = "is in no git repository; name the one that holds the model's code with --repo"


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
