"""git is asked about folders of others: nothing that their configuration names is run."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from profiler.environment import read_repository
from profiler.errors import UserError
from profiler.git import worktree

CONFIG = """
[core]
	fsmonitor = touch {canary}/fsmonitor; false
	hooksPath = {canary}/hooks
	pager = touch {canary}/pager
[include]
	path = {canary}/included
[filter "evil"]
	clean = touch {canary}/clean; cat
	smudge = touch {canary}/smudge; cat
	required = true
[diff "evil"]
	textconv = touch {canary}/textconv; cat
[alias]
	status = !touch {canary}/alias
"""


@pytest.fixture
def git(tmp_path: Path) -> Callable[..., str]:
    def ask(*arguments: str) -> str:
        command = ["git", "-C", str(tmp_path / "repository"), "-c", "user.name=x", "-c", "user.email=x@example.org"]
        return subprocess.run([*command, *arguments], capture_output=True, text=True, check=True).stdout.strip()

    return ask


@pytest.fixture
def canaries(tmp_path: Path, git: Callable[..., str]) -> Path:
    """A repository with two commits, whose configuration then names programs; where these would leave their marks."""
    folder, canary = tmp_path / "repository", tmp_path / "canaries"
    (folder / "model").mkdir(parents=True)
    git("init", "-q", "-b", "main")
    for text in ("old", "new"):
        (folder / "model" / "code.py").write_text(f"version = '{text}'\n")
        (folder / ".gitattributes").write_text("*.py filter=evil diff=evil\n")
        git("add", ".")
        git("commit", "-q", "-m", text)
    (canary / "hooks").mkdir(parents=True)
    for place in (canary / "hooks", folder / ".git" / "hooks"):
        for name in ("post-checkout", "post-index-change", "reference-transaction"):
            hook = place / name
            hook.write_text(f"#!/bin/sh\ntouch {canary}/{name}\n")
            hook.chmod(0o755)
    (canary / "included").write_text(f"[core]\n\tfsmonitor = touch {canary}/by-include; false\n")
    with (folder / ".git" / "config").open("a") as file:
        file.write(CONFIG.format(canary=canary))
    return canary


def marks(canary: Path) -> set[str]:
    return {path.name for path in canary.iterdir()} - {"hooks", "included"}


def test_the_commit_is_read_and_nothing_of_the_configuration_is_run(
    canaries: Path, git: Callable[..., str], tmp_path: Path
) -> None:
    code = tmp_path / "repository" / "model" / "code.py"
    commit = (tmp_path / "repository" / ".git" / "refs" / "heads" / "main").read_text().strip()
    clean = read_repository(code.parent)
    assert clean is not None
    assert (clean.commit, clean.modified) == (commit, False)
    assert (clean.committed or "").startswith("20")
    code.write_text("version = 'mine'\n")
    changed = read_repository(code.parent)
    assert changed is not None
    assert (changed.commit, changed.modified) == (commit, True)
    assert marks(canaries) == set()
    git("status", "--porcelain")
    assert marks(canaries), "the repository is as dangerous as it is meant to be"


def test_another_revision_is_checked_out_and_nothing_of_the_configuration_is_run(
    canaries: Path, git: Callable[..., str], tmp_path: Path
) -> None:
    model = tmp_path / "repository" / "model"
    before = sorted(str(path) for path in (tmp_path / "repository" / ".git").rglob("*"))
    with worktree("main~1", model) as old:
        assert (old.folder / "code.py").read_text() == "version = 'old'\n"
        assert old.folder.name == "model"
        kept = old.folder
    assert not kept.exists()
    with pytest.raises(UserError, match="no such revision"), worktree("--upload-pack=x", model):
        pass
    assert marks(canaries) == set()
    assert sorted(str(path) for path in (tmp_path / "repository" / ".git").rglob("*")) == before
    git("checkout", "-q", "--force", "main~1")
    assert {"smudge", "post-checkout"} <= marks(canaries), "the repository is as dangerous as it is meant to be"


def test_a_worktree_of_git_and_a_folder_that_only_looks_like_a_repository(
    canaries: Path, git: Callable[..., str], tmp_path: Path
) -> None:
    for name in marks(canaries):
        (canaries / name).unlink()
    git("-c", "core.hooksPath=/dev/null", "worktree", "add", "-q", "--detach", str(tmp_path / "linked"), "main~1")
    for name in marks(canaries):
        (canaries / name).unlink()
    found = read_repository(tmp_path / "linked" / "model")
    assert found is not None
    assert found.commit != (tmp_path / "repository" / ".git" / "refs" / "heads" / "main").read_text().strip()
    for content in ("gitdir: /nowhere", "ref: refs/../../etc/passwd", "\x00", ""):
        odd = tmp_path / "odd"
        odd.mkdir(exist_ok=True)
        (odd / ".git").write_text(content)
        assert read_repository(odd) is None
    (tmp_path / "fake" / ".git").mkdir(parents=True)
    (tmp_path / "fake" / ".git" / "HEAD").write_text("ref: refs/../../../etc/passwd\n")
    assert read_repository(tmp_path / "fake") is None
    assert marks(canaries) == set()
