"""Runs on disk: making a run's folder, and finding one by folder, id or `latest`."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from pathlib import Path

from profiler.errors import StorageError, UserError
from profiler.nearest import nearest
from profiler.results import FILE


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def new_run_folder(logdir: Path, recipe: str) -> Path:
    """logs/<recipe>/<run id>, where the id sorts by time."""
    identity = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    folder = logdir / recipe / identity
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise UserError(
            f"Cannot write in the log folder {logdir}: {error.strerror}. Choose another one with --logdir."
        ) from None
    return folder


def check_logdir(logdir: Path) -> None:
    """Raise UserError unless a run's folder could be made there."""
    try:
        logdir.mkdir(parents=True, exist_ok=True)
        test = logdir / f".write-test-{secrets.token_hex(4)}"
        test.touch()
        test.unlink()
    except OSError as error:
        raise UserError(
            f"Cannot write in the log folder {logdir}: {error.strerror}. Choose another one with --logdir."
        ) from None


def list_runs(logdir: Path) -> list[Path]:
    """Folders of all runs below the log folder, oldest first."""
    return sorted((file.parent for file in logdir.glob(f"*/*/{FILE}")), key=lambda folder: folder.name)


def find_run(name: str, logdir: Path) -> Path:
    """The folder of a run: its path, its id, the newest for `latest`; of a log folder, the newest in there."""
    path = Path(name)
    try:
        if (path / FILE).is_file():
            return path
        if path.name == FILE and path.is_file():
            return path.parent
    except OSError as error:
        raise UserError(f"Cannot read the run {name}: {error.strerror}.") from None
    runs = list_runs(logdir)
    if name == "latest" and runs:
        return runs[-1]
    for folder in runs:
        if folder.name == name or str(folder.relative_to(logdir)) == name:
            return folder
    if path.is_dir():
        inside = [*list_runs(path), *(file.parent for file in path.glob(f"*/{FILE}"))]
        if inside:
            return max(inside, key=lambda folder: folder.name)
        raise UserError(f"{path} is not a run: there is no {FILE} in it.")
    if not runs:
        raise UserError(f"There is no run {name} in {logdir}, nor any other yet. `python profile.py RECIPE` makes one.")
    raise UserError(f"There is no run {name} in {logdir}.{nearest(name, [run.name for run in reversed(runs)])}")


def make_folder(folder: Path) -> None:
    """A folder inside a run's. The run's own is not made again: where it vanished, so did the results."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise StorageError(f"Cannot make the folder {folder}: {error.strerror}.") from None
