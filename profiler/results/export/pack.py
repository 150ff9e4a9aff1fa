"""A run -> one zip file: results, recipe, report and breakdowns; on request traces and transcripts too.

Only what is listed here goes in, after private names and paths were taken out. Logs of workers, event files and
whatever else lies in the folder stay: `report FILE.zip` makes anew what can be made from the results.
"""

from __future__ import annotations

import gzip
import json
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from profiler.errors import ProfilerError, UserError
from profiler.results.export.private import Scrubber, without_private
from profiler.results.store import ResultsFile, read_results, replacing
from profiler.results.types import FILE, CellResult, Results
from profiler.results.untrusted import inside, read_bytes, read_json

RECIPE = "recipe.yaml"
NOT_EXPORTED = "traces were left out when this run was exported"
REMOVED = "Private paths, user and host names were removed when this run was exported."
TRACES = "*.pt.trace.json.gz"
LONGEST_LINE = 50_000_000  # characters of a trace, which has some lines for every event
LARGEST_TRACE = 4_000_000_000
TEXTS = {".json", ".html", ".md", ".csv", ".svg", ".yaml"}
EARLIEST = (1980, 1, 1, 0, 0, 0)  # what zip can say; when the files were packed is nobody's business

Clean = Callable[[str], str]
Views = Callable[[Results, Path], object]


@dataclass
class Packed:
    """What went into a file, and what stayed."""

    path: Path
    files: list[str] = field(default_factory=list)
    traces_left_out: int = 0
    transcripts_left_out: int = 0


def pack(
    folder: Path,
    target: Path,
    with_names: bool = False,
    with_traces: bool = False,
    with_transcripts: bool = False,
    write_views: Views = lambda results, folder: None,
) -> Packed:
    """Write the archive beside its place first: an old one is replaced by a whole new one, or not at all.

    `write_views` writes what else shall be in it, from the results as they are given away.
    """
    results = read_results(folder)
    scrubber = None if with_names else Scrubber.of(results)
    packed = Packed(target)
    with tempfile.TemporaryDirectory(prefix="speech-profiler-") as temporary:
        staged = Path(temporary)
        shared = _stage(results, folder, staged, scrubber, with_traces, with_transcripts, packed)
        write_views(shared, staged)
        if scrubber is not None:
            _check(staged, scrubber)
        _write(staged, results.run.id, target, packed)
    return packed


def _stage(
    results: Results,
    folder: Path,
    staged: Path,
    scrubber: Scrubber | None,
    with_traces: bool,
    with_transcripts: bool,
    packed: Packed,
) -> Results:
    """Everything that is to be packed but for views, in a folder of its own; gives the results in it."""
    clean: Clean = scrubber.text if scrubber else str
    if scrubber is not None:
        shared = without_private(results, scrubber)
        shared.run.notes.append(REMOVED)
    else:
        shared = results.model_copy(deep=True)
    for cell, original in zip(shared.cells, results.cells, strict=True):
        _stage_breakdown(cell, original, folder, staged, scrubber)
        _stage_traces(cell, original, folder, staged, clean if with_traces else None, packed)
    _stage_transcripts(shared, results, folder, staged, with_transcripts, packed)
    ResultsFile(staged, shared).write()
    if (folder / RECIPE).is_file():
        text = read_bytes(inside(folder, RECIPE)).decode("utf-8", "replace")
        (staged / RECIPE).write_text(clean(text), encoding="utf-8")
    return shared


def _stage_breakdown(
    cell: CellResult, original: CellResult, folder: Path, staged: Path, scrubber: Scrubber | None
) -> None:
    """The file with modules and operators, which `report --by module` reads; a damaged one is left out."""
    name, source = (found.breakdown.file if found.breakdown else None for found in (cell, original))
    if not name or not source:
        return
    try:
        details = read_json(inside(folder, source))
    except (OSError, ValueError, UserError):
        return
    target = staged / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(scrubber.value(details) if scrubber else details), encoding="utf-8")


def _stage_traces(
    cell: CellResult, original: CellResult, folder: Path, staged: Path, clean: Clean | None, packed: Packed
) -> None:
    """All traces of a cell; with `clean=None` none, and the cell says so. A damaged one is left out."""
    if not cell.trace or not original.trace:
        return
    sources = sorted((folder / original.trace).parent.glob(TRACES))
    if clean is None:
        cell.trace, cell.trace_reason = None, NOT_EXPORTED
        packed.traces_left_out += len(sources)
        return
    target = staged / Path(cell.trace).parent
    target.mkdir(parents=True, exist_ok=True)
    for source in sources:
        place = target / clean(source.name)
        try:
            _copy_trace(inside(folder, str(source.relative_to(folder))), place, clean)
        except (OSError, EOFError, ValueError, zlib.error):  # of gzip, and of what is no text
            place.unlink(missing_ok=True)
            packed.traces_left_out += 1


def _copy_trace(source: Path, target: Path, clean: Clean) -> None:
    """Line by line. Raises ValueError where one is too long, as in a file that is no trace."""
    with gzip.open(source, "rt", encoding="utf-8") as old, gzip.open(target, "wt", encoding="utf-8") as new:
        left = LARGEST_TRACE
        while line := old.readline(LONGEST_LINE):
            left -= len(line)
            if left < 0 or (len(line) == LONGEST_LINE and not line.endswith("\n")):
                raise ValueError
            new.write(clean(line))


def _stage_transcripts(
    shared: Results, results: Results, folder: Path, staged: Path, wanted: bool, packed: Packed
) -> None:
    """What was said and what the models wrote, word for word: a cleaned text would be another text to score."""
    for record, original in zip(shared.accuracy, results.accuracy, strict=True):
        if original.transcripts is None:
            continue
        if not wanted or record.transcripts is None or not inside(folder, original.transcripts).is_file():
            record.transcripts = None
            packed.transcripts_left_out += 1
            continue
        target = staged / record.transcripts
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / original.transcripts, target)


def _check(staged: Path, scrubber: Scrubber) -> None:
    """No name may be left: a last look at everything that is text."""
    for path in staged.rglob("*"):
        said = path.name
        if path.suffix in TEXTS:
            said += path.read_text(encoding="utf-8")
        found = scrubber.left_in(said)
        if found:
            raise ProfilerError(
                f"Nothing was exported: {path.relative_to(staged)} would still name {', '.join(found)}. "
                "Please report this; --with-names exports the run as it is."
            )


def _write(staged: Path, run: str, target: Path, packed: Packed) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target, to_disk=False) as file, zipfile.ZipFile(file, "w") as archive:
            for path in sorted(staged.rglob("*"), key=lambda path: (path.name != FILE, path)):
                if path.is_file():
                    name = path.relative_to(staged).as_posix()
                    entry = zipfile.ZipInfo(f"{run}/{name}", EARLIEST)
                    entry.compress_type = zipfile.ZIP_DEFLATED
                    entry.external_attr = 0o644 << 16
                    archive.writestr(entry, path.read_bytes())
                    packed.files.append(name)
    except OSError as error:
        raise UserError(f"Cannot write {target}: {error.strerror}.") from None
