"""Compare runs: is each cell faster, slower, the same or unclear? What else changed? The first run is the baseline.

  profile.py compare latest                          the latest run with the one before it of the same recipe
  profile.py compare RUN RUN                         two runs of a recipe, or of two models, cell by cell
  profile.py compare RUN --variants float32 int8     two variants of one run, which took turns
  profile.py compare RUN --variant int8              one of them with the baseline that the recipe gives it
  profile.py compare RUN RUN --fail-over 5%          exit status 3 when a cell got slower by more than 5 %

Needs no model and no torch. Exit status: 0; 3 with --fail-over and a slower cell; 4 with --strict and an unclear one; 2
wrong input.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from profiler.cli.options import add_json, add_logdir
from profiler.comparison.compare import compare_results
from profiler.comparison.judge import THRESHOLD
from profiler.comparison.result import CellComparison, Comparison
from profiler.errors import StorageError, UserError, did_you_mean
from profiler.report.comparison import detectable_text, terminal_parts
from profiler.report.terminal import show
from profiler.results.export.unpack import is_archive
from profiler.results.runs import NAMES, find_run, open_as_much, run_before
from profiler.results.store import write_atomically
from profiler.results.types import Results
from profiler.units import many

SLOWER, UNCLEAR = 3, 4  # exit status
FORMATS = ("terminal", "markdown", "html", "json")
SUFFIXES = {".md": "markdown", ".html": "html", ".htm": "html", ".json": "json", ".txt": "terminal"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs",
        metavar="RUN",
        nargs="+",
        help=f"{NAMES}, or a FILE.zip; the baseline first; one alone is compared with the run before it",
    )
    add_logdir(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--variants", nargs=2, metavar=("A", "B"), help="A of the baseline against B of the others, or of the same run"
    )
    which.add_argument(
        "--variant", metavar="B", help="B against the variant that the recipe names as its `baseline`, else the first"
    )
    parser.add_argument(
        "--threshold",
        metavar="PERCENT",
        default=f"{THRESHOLD:.0%}",
        help="the smallest change of interest: same means less than it (default: %(default)s)",
    )
    parser.add_argument(
        "--fail-over", metavar="PERCENT", help="exit with 3 when a cell is slower by more than this, or fails now"
    )
    parser.add_argument("--strict", action="store_true", help="exit with 4 when a cell is unclear, and none too slow")
    parser.add_argument(
        "--across-machines", action="store_true", help="judge speed across machines, with ratios at equal machine speed"
    )
    parser.add_argument("--format", choices=FORMATS, help="default: by the suffix of --output, else terminal")
    parser.add_argument("--output", metavar="FILE", type=Path, help="write to a file (.md, .html, .json) instead")
    add_json(parser, "the comparison")


def run(arguments: argparse.Namespace) -> int:
    threshold = parse_percent("--threshold", arguments.threshold)
    over = parse_percent("--fail-over", arguments.fail_over) if arguments.fail_over is not None else None
    style = choose_format(arguments)
    variants = tuple(arguments.variants) if arguments.variants else None
    if len(arguments.runs) == 1 and variants is None and arguments.variant is None:
        arguments.runs = _with_the_one_before(arguments.runs[0], arguments.logdir)
    runs, problems = _read(arguments.runs, arguments.logdir)
    if runs and arguments.variant is not None:
        variants = _baseline_of(arguments.variant, runs[0]), arguments.variant
    comparison = None
    if runs and (len(runs) > 1 or len(arguments.runs) == 1):
        comparison, unpaired = _compare(runs, variants, arguments.across_machines, threshold)
        problems += unpaired
    if comparison is not None:
        show_comparison(comparison, style, arguments.output)
        problems += _unjudged(comparison) if over is not None or arguments.strict else []
    if problems:
        raise UserError("\n".join(problems))
    assert comparison is not None
    return _exit_status(comparison, over, arguments.strict)


def _baseline_of(variant: str, run: Results) -> str:
    if variant not in run.variants:
        raise UserError(f"{run.run.id} has no variant {variant}.{did_you_mean(variant, run.variants)}")
    if (baseline := run.baseline(variant)) == variant:
        raise UserError(f"{variant} is the baseline of {run.run.id} itself: name another variant, or two.")
    return baseline


def _with_the_one_before(name: str, logdir: Path) -> list[str]:
    """A run alone is compared with the run before it of the same recipe."""
    before = None if is_archive(Path(name)) else run_before(find_run(name, logdir))
    return [name] if before is None else [str(before), name]


def parse_percent(option: str, text: str) -> float:
    """'5%', '5 %' or '5' -> 0.05."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%?\s*", text)
    if match is None or float(match[1]) >= 1000:
        raise UserError(f"{option} {text}: expected a percentage from 0 to 999, such as 5%.")
    return float(match[1]) / 100


def render(comparison: Comparison, style: str) -> str:
    """In one of the FORMATS."""
    if style == "json":
        return comparison.model_dump_json(indent=1) + "\n"
    if style == "html":
        from profiler.report.comparison import render_page

        return render_page(comparison)
    from profiler.report.comparison import render_markdown, render_terminal

    return render_markdown(comparison) if style == "markdown" else render_terminal(comparison)


def choose_format(arguments: argparse.Namespace) -> str:
    if arguments.json:
        return "json"
    if arguments.format is not None:
        return str(arguments.format)
    if arguments.output is None:
        return "terminal"
    suffix = arguments.output.suffix.lower()
    if suffix not in SUFFIXES:
        raise UserError(f"--output {arguments.output}: say --format, or end the name in {', '.join(SUFFIXES)}.")
    return SUFFIXES[suffix]


def _read(names: list[str], logdir: Path) -> tuple[list[Results], list[str]]:
    """What can be read of the runs, and what is wrong. Without the baseline there is nothing to say."""
    runs, problems = [], []
    for number, name in enumerate(names):
        try:
            results, problem = open_as_much(name, logdir)
        except UserError as error:
            if number == 0:
                raise
            problems.append(str(error))
        else:
            runs.append(results)
            problems += [problem] if problem else []
    return runs, problems


def _compare(
    runs: list[Results], variants: tuple[str, str] | None, across_machines: bool, threshold: float
) -> tuple[Comparison | None, list[str]]:
    """Run by run, so that one that does not fit leaves the others to be shown."""
    if len(runs) == 1:
        return compare_results(runs, variants, across_machines, threshold), []
    comparison, problems = None, []
    for other in runs[1:]:
        try:
            found = compare_results([runs[0], other], variants, across_machines, threshold)
        except UserError as error:
            problems.append(str(error))
            continue
        if comparison is None:
            comparison = found
        else:
            comparison.others += found.others
    return comparison, problems


def _unjudged(comparison: Comparison) -> list[str]:
    """Where nothing was judged, `no regression` would be a lie."""
    return [
        f"The speed of {other.run.id} could not be judged"
        + ("." if other.judged else ": it comes from another machine. Run both on one, or add --across-machines.")
        for other in comparison.others
        if all(cell.speed.verdict == "not judged" for cell in other.cells) and not other.newly_failed
    ]


def show_comparison(comparison: Comparison, style: str, output: Path | None) -> None:
    """In a terminal, fitted to its width; else as a text in one of the FORMATS, printed or written."""
    if output is None and style == "terminal":
        show(terminal_parts(comparison))
        return
    text = render(comparison, style)
    if output is None:
        print(text, end="")
        return
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(output, text)
    except (OSError, StorageError) as error:
        raise UserError(f"Cannot write {output}: {getattr(error, 'strerror', None) or error}.") from None
    print(f"Wrote {output}.", file=sys.stderr)


def _exit_status(comparison: Comparison, over: float | None, strict: bool) -> int:
    slower = comparison.regressions(over) if over is not None else []
    unclear = [cell for other in comparison.others for cell in other.called("unclear")]
    for cell in slower:
        print(f"profile.py: regression: {cell.variants[1]} {cell.label} {_what(cell, over or 0.0)}.", file=sys.stderr)
    if unclear and (strict or over is not None):
        print(
            f"profile.py: {many(len(unclear), comparison.others[0].noun)} unclear: {detectable_text(unclear)}. "
            "More rounds make it smaller; `ab`, which measures both in turns, much smaller.",
            file=sys.stderr,
        )
    if slower:
        return SLOWER
    return UNCLEAR if strict and unclear else 0


def _what(cell: CellComparison, over: float) -> str:
    """What is wrong with a cell that is a regression."""
    if cell.status[1] == "failed":
        return "fails now"
    slow = cell.speed.slow_calls
    if slow is not None and not (cell.speed.verdict == "slower" and (cell.speed.ratio or 0.0) > 1.0 + over):
        return f"has slow calls (90th percentile) that are {(slow.ratio or 1) - 1:.0%} slower"
    return f"is {(cell.speed.ratio or 1) - 1:.0%} slower"
