"""Measure two things turn by turn in one run, and say which is faster.

  profile.py ab old.yaml new.yaml                        two recipes: A and B
  profile.py ab my.yaml --b measure.seed=1               B is the same recipe with other settings
  profile.py ab my.yaml --rev main --trust               A is the model's code at a git revision, B the working tree
  profile.py ab my.yaml --python ../old/.venv/bin/python A runs in another environment, B in this one

Each cell is called faster, slower, same or unclear: B against A, with the ratio and its CI.
Exit status: 0, 3 slower, 4 unclear (with --strict), 1 some cell failed, 2 wrong input.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from profiler.api import AB_SECONDS, ab
from profiler.cli.compare import FORMATS, SLOWER, UNCLEAR, choose_format, parse_percent, show_comparison
from profiler.cli.options import add_json, add_logdir, overrides
from profiler.comparison.judge import THRESHOLD
from profiler.errors import UserError
from profiler.shipped import recipe_path

WAYS = "Say what B is: another recipe, --b key=value, --rev REVISION or --python INTERPRETER."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "recipes", metavar="RECIPE", nargs="+", help="A, and B where it is another recipe; key=value for both"
    )
    parser.add_argument("--b", metavar="key=value", action="append", default=[], help="a setting of B alone")
    parser.add_argument("--rev", metavar="REVISION", help="A is the model's code at this git revision, B as it is now")
    parser.add_argument(
        "--repo", metavar="FOLDER", type=Path, help="with --rev, where the code is (default: the recipe's)"
    )
    parser.add_argument("--python", metavar="FILE", help="A runs with this interpreter, B with this one here")
    parser.add_argument(
        "--threshold",
        metavar="PERCENT",
        default=f"{THRESHOLD:.0%}",
        help="smaller changes are of no interest (default: %(default)s)",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=AB_SECONDS,
        help="for each cell at most, beyond its first rounds (default: %(default)g)",
    )
    parser.add_argument("--strict", action="store_true", help="exit with 4 where a cell is unclear")
    parser.add_argument("--trust", action="store_true", help="allow code that the recipes name")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, xpu, mps, or cuda:N (default: cpu)")
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads (default: all that may be used)")
    add_logdir(parser)
    parser.add_argument("--format", choices=FORMATS, help="default: by the suffix of --output, else terminal")
    parser.add_argument(
        "--output", metavar="FILE", type=Path, help="write the comparison to a file (.md, .html, .json)"
    )
    add_json(parser, "the comparison")
    parser.add_argument("--quiet", action="store_true", help="no progress, only the comparison")


def run(arguments: argparse.Namespace) -> int:
    threshold = parse_percent("--threshold", arguments.threshold)
    style = choose_format(arguments)
    recipes = [given for given in arguments.recipes if "=" not in given or Path(given).exists()]
    common = overrides([given for given in arguments.recipes if given not in recipes])
    if len(recipes) > 2:
        raise UserError(f"ab compares two things; {len(recipes)} recipes are given: {', '.join(recipes)}.")
    ways = [len(recipes) == 2, bool(arguments.b), arguments.rev is not None, arguments.python is not None]
    if sum(ways) != 1:
        raise UserError(WAYS if not any(ways) else "Only one thing can differ. " + WAYS)
    if arguments.seconds <= 0:
        raise UserError(f"--seconds {arguments.seconds:g}: expected a number greater than 0.")
    if arguments.threads is not None and arguments.threads < 1:
        raise UserError(f"--threads {arguments.threads}: expected a whole number greater than 0.")
    found = ab(
        recipe_path(recipes[0]),
        recipe_path(recipes[1]) if len(recipes) == 2 else None,
        common,
        b=overrides(arguments.b),
        rev=arguments.rev,
        repo=arguments.repo,
        python=arguments.python,
        threshold=threshold,
        seconds=arguments.seconds,
        logdir=arguments.logdir,
        device=arguments.device,
        threads=arguments.threads,
        trust=arguments.trust,
        quiet=arguments.quiet,
        signals=True,
    )
    show_comparison(found.comparison, style, arguments.output)
    print(f"Run: {found.folder}   Report: {found.folder / 'report.html'}", file=sys.stderr)
    if found.comparison.regressions(0.0):
        return SLOWER
    if found.results.has_failures:
        return 1
    return UNCLEAR if arguments.strict and any(other.called("unclear") for other in found.comparison.others) else 0
