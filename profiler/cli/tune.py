"""Find the engine, precision, threads and batch size to run a model with, within limits, and write the recipe for it.

  profile.py tune whisper --under "memory 1 GB, latency 300 ms"
  profile.py tune recipes/accuracy.yaml --under "wer +0.5" --for rtf

All candidates get a quick look, and the better half goes on, round by round; the last few are measured properly, in
turns. Tables show the Pareto front and the pick, with the reason. Both runs stay in the log folder.

Exit status: 0, 1 no candidate keeps within the limits, 2 wrong input.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from profiler.cli.options import add_json, add_logdir, add_recipe, overrides
from profiler.device import check_device_name
from profiler.environment import allowed_cpus
from profiler.errors import Interrupted, UserError
from profiler.recipe.load import LoadedRecipe, load_recipe
from profiler.results.runs import check_logdir
from profiler.shipped import recipe_path, shipped_recipes
from profiler.tuning.candidates import Ranges, find_candidates, installed_runtimes
from profiler.tuning.halving import FINALISTS, Aim
from profiler.tuning.keep import check_target
from profiler.tuning.limits import GOALS, parse_limits
from profiler.tuning.search import Tuning


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_recipe(parser)
    parser.add_argument("--under", metavar="LIMITS", default="", help='such as "memory 1 GB, latency 300 ms, wer +0.5"')
    parser.add_argument(
        "--for",
        dest="goal",
        choices=GOALS,
        default="rtf",
        help="what to make small (default: rtf, so throughput large)",
    )
    parser.add_argument("--engines", metavar="LIST", help="such as torch,onnxruntime (default: those installed)")
    parser.add_argument("--precisions", metavar="LIST", help="default: float32,bfloat16,int8")
    parser.add_argument("--try-threads", metavar="LIST", help="default: 1, 2, 4, ... and all")
    parser.add_argument("--compile", action="store_true", help="try torch.compile, too: it takes minutes")
    parser.add_argument("--seconds", type=float, help="length of audio (default: the middle one of the recipe's)")
    parser.add_argument(
        "--budget",
        type=float,
        metavar="SECONDS",
        help="of timing for the finalists, all together (default: the recipe's measure.budget for each cell)",
    )
    parser.add_argument("--finalists", type=int, default=FINALISTS, metavar="N", help="default: %(default)s")
    parser.add_argument("--output", metavar="FILE", type=Path, help="the recipe to write (default: NAME-tuned.yaml)")
    parser.add_argument("--force", action="store_true", help="replace that file if it is there")
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted call with the same options")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, xpu, mps, or cuda:N (default: cpu)")
    add_logdir(parser)
    add_json(parser, "what was found")
    parser.add_argument("--quiet", action="store_true", help="no progress, only the answer")


def run(arguments: argparse.Namespace) -> int:
    check_device_name(arguments.device)
    for name in ("seconds", "budget", "finalists"):
        value = getattr(arguments, name)
        if value is not None and not value > 0:
            raise UserError(f"--{name} {value:g}: expected a number greater than 0.")
    path = recipe_path(arguments.recipe)
    settings = overrides(arguments.overrides)
    aim = Aim(arguments.goal, tuple(parse_limits(arguments.under)), arguments.finalists)
    loaded = load_recipe(path, settings, arguments.trust)
    ranges = Ranges(
        _names(arguments.engines),
        _names(arguments.precisions),
        _counts(arguments.try_threads),
        arguments.compile,
    )
    cores = len(allowed_cpus())
    candidates = find_candidates(loaded.recipe, ranges, installed_runtimes(), cores, cores)
    lengths = sorted(loaded.recipe.profiling_dimensions.audio_mockup_secs)
    seconds = arguments.seconds or lengths[(len(lengths) - 1) // 2]
    tuning = Tuning(loaded, settings, candidates, aim, seconds, arguments.budget)
    target = arguments.output or _default_target(loaded)
    check_target(loaded, target, arguments.force)
    check_logdir(arguments.logdir)
    tuning.check()
    if not arguments.quiet:
        print(_begin(tuning), file=sys.stderr)
    return _tune(tuning, target, arguments)


def _tune(tuning: Tuning, target: Path, arguments: argparse.Namespace) -> int:
    from profiler.api import tune
    from profiler.execution.run import Options
    from profiler.report.tune import plain_tuned, tuned_parts

    options = Options(arguments.logdir, arguments.device, command="profile.py tune")
    try:
        found = tune(tuning, target, options, arguments.quiet, signals=True, resume=arguments.resume)
    except Interrupted as error:
        raise Interrupted(f"{error}.\n  go on with the same command and --resume") from None
    if arguments.json:
        print(json.dumps(plain_tuned(tuning, found), ensure_ascii=False))
    else:
        from profiler.report.terminal import show

        print()
        show(tuned_parts(tuning, found))
    return 0 if found.recipe is not None else 1


def _begin(tuning: Tuning) -> str:
    batches = len(tuning.loaded.recipe.profiling_dimensions.batch_sizes)
    tried = len(tuning.names)
    return f"{tried} variants x {batches} batch sizes = {tried * batches} candidates, at {tuning.seconds:g} s of audio"


def _default_target(loaded: LoadedRecipe) -> Path:
    """Beside the recipe; here, where it is one that ships."""
    name = f"{loaded.name}-tuned.yaml"
    shipped = loaded.path.resolve() in {path.resolve() for path in shipped_recipes().values()}
    return Path(name) if shipped else loaded.path.with_name(name)


def _names(given: str | None) -> list[str] | None:
    return [name.strip() for name in given.split(",") if name.strip()] if given is not None else None


def _counts(given: str | None) -> list[int] | None:
    names = _names(given)
    if names is None:
        return None
    try:
        counts = sorted({int(name) for name in names})
    except ValueError:
        counts = []
    if not counts or counts[0] < 1:
        raise UserError(f"--try-threads {given}: expected whole numbers greater than 0, such as 1,2,4.")
    return counts
