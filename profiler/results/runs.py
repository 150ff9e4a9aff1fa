"""Runs on disk: making a run's folder, listing, finding and opening runs.

A run is named by its folder, its id or a part of it that no other has, a recipe's name (its latest run), `latest`,
`latest~1` (the one before), a log folder (its latest run), or an exported zip file.
"""

from __future__ import annotations

import contextlib
import glob
import re
import secrets
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from profiler.errors import StorageError, UserError, did_you_mean
from profiler.results.export.unpack import is_archive, unpack
from profiler.results.store import read_as_much, read_results
from profiler.results.types import FILE, JOURNAL, Results
from profiler.results.untrusted import inside, read_bytes

MOST_NAMED = 5  # runs that a message lists
DEPTHS = ("*", "*/*", "*/*/*")  # runs of other machines are dropped in with or without a folder around them


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def new_run_folder(logdir: Path, recipe: str) -> Path:
    """logs/<recipe>/<run id>, where the id sorts by time."""
    identity = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    folder = logdir / recipe / identity
    with _writing(logdir):
        folder.mkdir(parents=True)
    return folder


@contextmanager
def _writing(logdir: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(
            f"Cannot write in the log folder {logdir}: {error.strerror}. Choose another one with --logdir."
        ) from None


def check_logdir(logdir: Path) -> None:
    """Raise UserError unless a run's folder could be made there."""
    with _writing(logdir):
        logdir.mkdir(parents=True, exist_ok=True)
        test = logdir / f".write-test-{secrets.token_hex(4)}"
        test.touch()
        test.unlink()


def list_runs(logdir: Path, recipe: str | None = None) -> list[Path]:
    """Folders of all runs below the log folder, or of one recipe's, oldest first."""
    name = "*" if recipe is None else glob.escape(recipe)
    return sorted((file.parent for file in logdir.glob(f"{name}/*/{FILE}")), key=lambda folder: folder.name)


NAMES = "a run's folder, its id or a part of it, a recipe's name (its latest), latest, latest~1"
LATEST = re.compile(r"latest(?:~(\d{1,6}))?")


def find_run(name: str, logdir: Path, recipe: str | None = None) -> Path:
    """The folder of a run, by any of its names. `recipe`: among the runs of this recipe."""
    path = Path(name)
    try:
        if (path / FILE).is_file():
            return path
        if path.name == FILE and path.is_file():
            return path.parent
    except OSError as error:
        raise UserError(f"Cannot read the run {name}: {error.strerror}.") from None
    runs = list_runs(logdir, recipe)
    whose = f"of {recipe} in {logdir}" if recipe else f"in {logdir}"
    if (latest := LATEST.fullmatch(name)) and runs:
        back = int(latest[1] or 0)
        if back < len(runs):
            return runs[-1 - back]
        raise UserError(f"There is no run {name} {whose}: there {'is' if len(runs) == 1 else 'are'} {len(runs)}.")
    for folder in runs:
        if folder.name == name or str(folder.relative_to(logdir)) == name:
            return folder
    of_recipe = [folder for folder in runs if folder.parent.name == path.name.removesuffix(".yaml")]
    if of_recipe and (path.name == name or path.suffix == ".yaml"):
        return of_recipe[-1]
    if path.is_dir():
        inside = [*list_runs(path), *(file.parent for file in path.glob(f"*/{FILE}"))]
        if inside:
            return max(inside, key=lambda folder: folder.name)
        raise UserError(f"{path} is not a run: there is no {FILE} in it.")
    if not runs and recipe:
        raise UserError(f"There is no run {whose} to resume.")
    if not runs:
        raise UserError(f"There is no run {name} {whose}, nor any other yet. `python profile.py RECIPE` makes one.")
    fitting = [folder.name for folder in reversed(runs) if name in folder.name]
    if len(fitting) == 1:
        return next(folder for folder in runs if folder.name == fitting[0])
    if fitting:
        shown = ", ".join(fitting[:MOST_NAMED]) + (", ..." if len(fitting) > MOST_NAMED else "")
        raise UserError(f"`{name}` is a part of the id of {len(fitting)} runs: {shown}. Give more of it.")
    recipes = sorted({folder.parent.name for folder in runs})
    known = did_you_mean(name, ["latest", *recipes, *(run.name for run in reversed(runs))])
    raise UserError(f"There is no run {name} {whose}.{known} `python profile.py runs` lists them.")


def run_before(folder: Path) -> Path | None:
    """The run of the same recipe that was made before this one."""
    recipe = folder.resolve().parent
    return max((run for run in list_runs(recipe.parent, recipe.name) if run.name < folder.resolve().name), default=None)


class _About(msgspec.Struct):
    """The small part of results.json that a list of runs shows; the rest is skipped while reading."""

    class Run(msgspec.Struct):
        recipe: str
        started: str
        status: str

    class Model(msgspec.Struct):
        source: str

    class Environment(msgspec.Struct):
        device: str | None = None

    class Cell(msgspec.Struct):
        variant: str
        seconds: float
        batch_size: int
        status: str
        rtf: float | None = None

    run: Run
    models: list[Model] = []
    environment: Environment = msgspec.field(default_factory=Environment)
    cells: list[Cell] = []


@dataclass(frozen=True)
class RunSummary:
    """A run in one line."""

    id: str
    folder: str
    started: str
    recipe: str
    models: list[str]
    device: str | None
    cells: dict[str, int]  # how many are ok, skipped, failed
    rtf: tuple[float, float] | None  # lowest and highest
    status: str


def summarise(folder: Path) -> RunSummary:
    """Reads no more than it needs: a log folder may hold hundreds of runs."""
    try:
        found = msgspec.json.decode(read_bytes(inside(folder, FILE)), type=_About)
    except (OSError, UserError, ValueError, RecursionError):
        return RunSummary(folder.name, str(folder), "", folder.parent.name, [], None, {}, None, "damaged")
    cells = {(cell.variant, cell.seconds, cell.batch_size): cell for cell in [*found.cells, *_journal(folder)]}.values()
    counts = Counter(cell.status for cell in cells)
    speeds = [cell.rtf for cell in cells if cell.rtf is not None]
    return RunSummary(
        id=folder.name,
        folder=str(folder),
        started=found.run.started,
        recipe=Path(found.run.recipe).stem,
        models=list(dict.fromkeys(model.source for model in found.models)),
        device=found.environment.device,
        cells={status: counts[status] for status in ("ok", "skipped", "failed")},
        rtf=(min(speeds), max(speeds)) if speeds else None,
        status=found.run.status,
    )


def _journal(folder: Path) -> list[_About.Cell]:
    """Cells of a run that goes on, or was killed."""
    found = []
    with contextlib.suppress(OSError, UserError):
        for line in read_bytes(inside(folder, JOURNAL)).splitlines():
            with contextlib.suppress(ValueError, RecursionError):  # the last line may be cut off
                found.append(msgspec.json.decode(line, type=_About.Cell))
    return found


def make_folder(folder: Path) -> None:
    """A folder inside a run's. The run's own is not made again: where it vanished, so did the results."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise StorageError(f"Cannot make the folder {folder}: {error.strerror}.") from None


@contextmanager
def opened(name: str, logdir: Path, only: tuple[str, ...] = ()) -> Iterator[Path]:
    """The run's folder; that of an archive is gone again at the end, and may have `only` these files."""
    if not is_archive(Path(name)):
        yield find_run(name, logdir)
        return
    with tempfile.TemporaryDirectory(prefix="speech-profiler-") as temporary:
        unpack(Path(name), Path(temporary), only)
        yield Path(temporary)


def open_run(name: str, logdir: Path) -> tuple[Path, Results]:
    """Where the run is, and all that it measured. Raises UserError where there is none, or it is damaged."""
    with opened(name, logdir, (FILE, JOURNAL)) as folder:
        return Path(name) if is_archive(Path(name)) else folder, read_results(folder)


def open_as_much(name: str, logdir: Path) -> tuple[Results, str | None]:
    """What is whole of a run, and what is wrong with it. Raises UserError where nothing can be shown."""
    with opened(name, logdir, (FILE, JOURNAL)) as folder:
        return read_as_much(folder)


def runs_of(recipe: str, logdir: Path, further: list[str]) -> tuple[list[Results], list[str]]:
    """The recipe's runs, oldest first, and what is wrong with files that cannot be read."""
    name = Path(recipe).name.removesuffix(".yaml")
    files = {file.resolve(): file for depth in DEPTHS for file in sorted(logdir.glob(f"{depth}/{FILE}"))}
    runs, problems, others = [], [], set()
    for file in files.values():
        try:
            results = read_results(file)
        except UserError as error:
            # Whose run it is cannot be read either; its folder tells.
            problems += [str(error)] if file.parent.parent.name == name else []
            continue
        if Path(results.run.recipe).stem == name:
            runs.append(results)
        else:
            others.add(Path(results.run.recipe).stem)
    for given in further:
        try:
            runs += [open_run(name, logdir)[1] for name in _given(given)]
        except UserError as error:
            problems.append(str(error))
    if not runs:
        known = did_you_mean(name, sorted(others)) if others else " `python profile.py RECIPE` makes one."
        raise UserError("\n".join([f"There is no run of `{name}` in {logdir}.{known}", *problems]))
    by_id = {results.run.id: results for results in runs}
    return sorted(by_id.values(), key=lambda results: (results.run.started, results.run.id)), problems


def _given(name: str) -> list[str]:
    """A run, or a folder that holds several."""
    folder = Path(name)
    if folder.is_dir() and not (folder / FILE).is_file():
        found = sorted(str(file.parent) for depth in DEPTHS for file in folder.glob(f"{depth}/{FILE}"))
        if found:
            return found
    return [name]
