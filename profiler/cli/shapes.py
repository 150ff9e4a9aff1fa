"""Write a file of shapes: how long recordings are, and their transcripts where they have some. No audio goes into it.

AUDIO is any number of audio files, folders of audio (with LibriSpeech's *.trans.txt beside), and manifests (CSV, JSON
lines, lhotse, Kaldi). A recipe takes the file with `dataset: {source: FILE}`.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections import Counter
from pathlib import Path

from profiler.dataset import shapes
from profiler.dataset.checks import FRAMES_PER_SECOND, ManifestEntry, take
from profiler.dataset.folders import AUDIO
from profiler.dataset.items import DatasetError, Problem, Reading, Utterance
from profiler.dataset.manifest import read_dataset
from profiler.errors import UserError
from profiler.units import seconds_text

REPORT_EVERY = 500  # files
CHARACTER_FRAMES = 50.0  # a second, of the models that write characters
TARGETS = {"characters": CHARACTER_FRAMES, "words": FRAMES_PER_SECOND, "none": FRAMES_PER_SECOND}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("audio", metavar="AUDIO", nargs="+", type=Path, help="audio files, folders, manifests")
    parser.add_argument("file", metavar="FILE", type=Path, help="where to write, such as my-set.shapes.tsv")
    parser.add_argument(
        "--targets",
        choices=tuple(TARGETS),
        default="characters",
        help="how to count transcripts (default: %(default)s)",
    )
    parser.add_argument("--skip", action="store_true", help="leave out what cannot be read, and say how much")
    parser.add_argument("--force", action="store_true", help="replace the file if it is there")


def run(arguments: argparse.Namespace) -> int:
    target: Path = arguments.file
    if target.suffix.lower() in AUDIO or target.is_dir():
        raise UserError(f"The last argument is the file to write, and {target} is audio or a folder; add its name.")
    if target.exists() and not arguments.force:
        raise UserError(f"{target} is there already; choose another name, or replace it with --force.")
    utterances, problems, notes = _read(arguments.audio, arguments.targets)
    for note in notes:
        print(note, file=sys.stderr)
    if problems and not arguments.skip:
        advice = "Fix them, or leave them out with --skip."
        raise DatasetError.of(_named(arguments.audio), problems, "nothing was written", advice)
    if not utterances:
        raise DatasetError(f"{_named(arguments.audio)} holds no utterance that can be used; nothing was written.")
    comments = [
        f"Lengths of {len(utterances)} utterances of {_named(arguments.audio).name}: id, seconds of audio, target."
    ]
    if arguments.targets != "none" and any(utterance.target_tokens is not None for utterance in utterances):
        comments.append(f"target: {arguments.targets} of the transcript")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shapes.write(target, utterances, comments, TARGETS[arguments.targets])
    except OSError as error:
        raise UserError(f"Cannot write {target}: {error.strerror}.") from None
    total = sum(utterance.seconds for utterance in utterances)
    print(f"Wrote {target}: {len(utterances):,} utterances, {seconds_text(total)} of audio{_left_out(problems)}.")
    without = sum(utterance.target_tokens is None for utterance in utterances)
    if 0 < without < len(utterances):
        print(f"{without:,} of them have no transcript; their target is empty.", file=sys.stderr)
    return 0


def _read(sources: list[Path], kind: str) -> tuple[list[Utterance], list[Problem], list[str]]:
    """All sources one after another. Ids that several of them have get the source's name before them."""
    files = [source for source in sources if source.is_file() and source.suffix.lower() in AUDIO]
    readings = [read_dataset(source, progress=_progress) for source in sources if source not in files]
    if files:
        alone = Reading(Path(), "files", progress=_progress)
        readings.insert(0, take((ManifestEntry(str(file), audio=file) for file in files), alone, Path()))
    counts = Counter(utterance.id for reading in readings for utterance in reading.utterances)
    utterances: list[Utterance] = []
    problems: list[Problem] = []
    taken: set[str] = set()
    for reading in readings:
        where = f"{reading.source}, " if len(readings) > 1 and reading.format != "files" else ""
        problems += [Problem(where + problem.place, problem.message) for problem in reading.problems]
        for utterance in reading.utterances:
            name = f"{reading.source.name}/{utterance.id}" if counts[utterance.id] > 1 else utterance.id
            target = _target(utterance, kind)
            if target is not None and target > utterance.seconds * TARGETS[kind]:
                message = f"the transcript is longer than its audio: {target} {kind} in {utterance.seconds:.2f} s"
                problems.append(Problem(where + utterance.id, message))
            elif name in taken:
                problems.append(Problem(where + utterance.id, "another source has an utterance of this name"))
            else:
                taken.add(name)
                utterances.append(dataclasses.replace(utterance, id=name, target_tokens=target))
    return utterances, problems, [note for reading in readings for note in reading.notes]


def _target(utterance: Utterance, kind: str) -> int | None:
    if kind == "none" or utterance.text is None:
        return None
    return len(utterance.text) if kind == "characters" else len(utterance.text.split())


def _progress(entries: int) -> None:
    if entries % REPORT_EVERY == 0 and sys.stderr.isatty():
        print(f"\r{entries:,} files", end="", file=sys.stderr, flush=True)


def _named(sources: list[Path]) -> Path:
    return sources[0] if len(sources) == 1 else Path(f"{sources[0]} and {len(sources) - 1} more")


def _left_out(problems: list[Problem]) -> str:
    if not problems:
        return ""
    named = "; ".join(str(problem) for problem in problems[:3])
    more = f"; and {len(problems) - 3} more" if len(problems) > 3 else ""
    return f". Left out {len(problems):,} that cannot be used: {named}{more}"
