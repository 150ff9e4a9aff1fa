"""Run recipes on other machines: Ray, SLURM, or this machine one after the other. Their results come home.

  profile.py fleet wav2vec2 hubert --on ray --address head:6379
  profile.py fleet recipes/*.yaml --on slurm --partition cpu --time 120
  profile.py fleet wav2vec2 --on ray --each kind      once on every kind of machine
  profile.py fleet --gallery gallery.md               all shipped recipes on one page

A job is one recipe on one whole machine (a whole GPU with --device cuda). Each
machine needs this project in the same version, and the recipes at the same
path. Results are ordinary runs in the log folder while they are made. What is
interrupted or failed goes on with --resume FLEET (its id, a part of it, or
latest).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import secrets
import shlex
import sys
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from profiler.cli.options import add_logdir
from profiler.device import check_device_name
from profiler.errors import Interrupted, UserError
from profiler.execution.fleet.engine import KINDS, Engine, make_engine
from profiler.execution.fleet.job import (
    FOLDER,
    GONE,
    EngineOptions,
    Fleet,
    Job,
    Machine,
    find_fleet,
    only_variants,
    read_fleet,
)
from profiler.execution.fleet.node import THREAD_SETTINGS, describe
from profiler.execution.record import hold
from profiler.processes import stopping
from profiler.report.fleet_progress import make_progress
from profiler.results import LOGDIR
from profiler.results.runs import check_logdir, now
from profiler.shipped import recipe_path, shipped_recipes

OF_RAY = ("address",)
OF_SLURM = ("partition", "constraint", "time", "gres", "share")
SETTLED = ("each", "split", "threads")  # when a fleet is started


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "recipes", metavar="RECIPE", nargs="*", help="recipes' files or names, and key=value for all of them"
    )
    parser.add_argument("--on", choices=KINDS, default="local", help="where to (default: local, one after the other)")
    parser.add_argument("--each", choices=["kind"], help="every recipe once on every kind of machine")
    parser.add_argument("--split", choices=["variants"], help="a job for each variant, instead of one for each recipe")
    parser.add_argument(
        "--resume", metavar="FLEET", help="take up what was interrupted or failed: a fleet's id, a part of it, latest"
    )
    parser.add_argument(
        "--gallery",
        metavar="FILE",
        type=Path,
        help="one cell of each model of the recipes (default: all that ship), and one table and one plot of them in a "
        "Markdown page",
    )
    parser.add_argument("--rebuild", metavar="FLEET", help="with --gallery: from the runs of a fleet; nothing is run")
    parser.add_argument("--address", metavar="HOST:PORT", help="Ray: the cluster (default: the one of this machine)")
    for name, what in (("partition", "NAME"), ("constraint", "FEATURES"), ("gres", "GRES")):
        parser.add_argument(f"--{name}", metavar=what, help=f"SLURM: passed on as --{name}")
    parser.add_argument(
        "--time",
        type=int,
        metavar="MIN",
        help="SLURM: minutes for a job (default: what the partition allows, up to 720)",
    )
    parser.add_argument("--share", action="store_true", help="SLURM: do not ask for whole nodes (--exclusive)")
    parser.add_argument(
        "--patience",
        type=float,
        default=10.0,
        metavar="MIN",
        help="give up jobs that no machine takes for so long (default: 10)",
    )
    parser.add_argument("--no-doctor", action="store_true", help="do not measure noise floors where there are none")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, xpu or mps, as for a run (default: cpu)")
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads, as for a run")
    parser.add_argument("--trust", action="store_true", help="allow tags in the recipes that run any code")
    add_logdir(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress, only the answer")


def run(arguments: argparse.Namespace) -> int:
    _check(arguments)
    if arguments.rebuild:
        _write_gallery(read_fleet(find_fleet(arguments.rebuild, arguments.logdir)), arguments)
        return 0
    check_logdir(arguments.logdir)
    if arguments.resume:
        from profiler.execution.fleet.driver import take_up

        folder = find_fleet(arguments.resume, arguments.logdir)
        lock = hold(folder, "fleet")
        fleet = read_fleet(folder)
        take_up(fleet)
        fleet.options = _options(arguments, fleet.options)
    else:
        fleet = _new_fleet(arguments)
        folder = arguments.logdir.resolve() / FOLDER / fleet.id
        folder.mkdir(parents=True)
        lock = hold(folder, "fleet")
    with closing(make_engine(fleet.engine, folder, fleet.device, fleet.options)) as engine:
        status = _drive(fleet, folder, engine, arguments)
    os.close(lock)
    return status


def _options(arguments: argparse.Namespace, earlier: EngineOptions) -> EngineOptions:
    """Those of the command line; a fleet that is taken up keeps what is not said anew."""
    given = {name: getattr(arguments, name) for name in (*OF_RAY, *OF_SLURM) if name != "share"}
    given |= {"exclusive": False} if arguments.share else {}
    return msgspec.structs.replace(earlier, **{name: value for name, value in given.items() if value is not None})


def _check(arguments: argparse.Namespace) -> None:
    for option in ("resume", "rebuild"):
        settled = ["recipes"] if arguments.recipes else [f"--{name}" for name in SETTLED if getattr(arguments, name)]
        if getattr(arguments, option) and settled:
            raise UserError(f"--{option} takes up the jobs of a fleet as they are: leave out {settled[0]}.")
    if arguments.rebuild and (arguments.resume or not arguments.gallery):
        raise UserError("--rebuild FLEET writes a page without running anything: it goes with --gallery FILE alone.")
    if arguments.gallery:
        from profiler.report.gallery import check_page

        check_page(arguments.gallery)
        if arguments.split:
            raise UserError("--gallery has a row for each model of a recipe: leave out --split.")
    if not (arguments.resume or arguments.rebuild or arguments.gallery or _named(arguments)):
        raise UserError("fleet: which recipes? For example `python profile.py fleet wav2vec2 hubert`.")
    for engine, names in (("ray", OF_RAY), ("slurm", OF_SLURM)):
        given = [name for name in names if getattr(arguments, name)]
        if given and arguments.on != engine and not arguments.resume:  # that fleet knows what it is on
            raise UserError(f"--{given[0]} is for --on {engine}; this fleet is --on {arguments.on}.")
    check_device_name(arguments.device)
    for name in ("threads", "time"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise UserError(f"--{name} {value}: expected a whole number greater than 0.")


def _new_fleet(arguments: argparse.Namespace) -> Fleet:
    """Jobs of recipes that were checked as a whole: nothing is sent anywhere with a mistake in it."""
    from profiler.cli.options import overrides
    from profiler.execution.fleet.gallery import quick_settings
    from profiler.recipe.load import load_recipe

    given = [word for word in arguments.recipes if _is_override(word)]
    values = overrides(given)
    jobs: list[Job] = []
    for name in _named(arguments) or shipped_recipes():
        path = recipe_path(name)
        loaded = load_recipe(path, values, arguments.trust)
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        parts = [(loaded.name, list[str]())]
        if arguments.gallery:
            words = quick_settings(loaded, loaded.overrides)
            load_recipe(path, values | overrides(words), arguments.trust)
            parts = [(loaded.name, words)]
        elif arguments.split:
            parts = [(f"{loaded.name}-{one.name}", [only_variants([one])]) for one in loaded.recipe.variants]
        jobs += [Job(identity, str(path.resolve()), sha256, words) for identity, words in parts]
    return Fleet(
        id=f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}",
        engine=arguments.on,
        started=now(),
        overrides=given,
        device=arguments.device,
        threads=arguments.threads,
        trust=arguments.trust,
        doctor=not arguments.no_doctor,
        options=_options(arguments, EngineOptions()),
        jobs=_named_apart(jobs),
    )


def _is_override(word: str) -> bool:
    return bool(re.match(r"[\w.]+=", word))


def _named(arguments: argparse.Namespace) -> list[str]:
    """The recipes among the words of the command line."""
    return [word for word in arguments.recipes if not _is_override(word)]


def _named_apart(jobs: list[Job]) -> list[Job]:
    """Two recipes of one name get numbers."""
    counts = Counter(job.id for job in jobs)
    numbers: Counter[str] = Counter()
    for job in jobs:
        name = job.id
        numbers[name] += 1
        if counts[name] > 1:
            job.id = f"{name}-{numbers[name]}"
    return jobs


def _drive(fleet: Fleet, folder: Path, engine: Engine, arguments: argparse.Namespace) -> int:
    from profiler.execution.fleet.driver import Driver
    from profiler.report.fleet import differences, job_table, machine_table, summary
    from profiler.report.terminal import show

    recipes = sorted({(job.recipe, job.sha256) for job in fleet.jobs if job.open})
    machines = engine.machines(recipes, {job.machine for job in fleet.jobs if job.handle and job.machine})
    _refuse_none(machines)
    _meet(fleet, machines)
    for line in differences(fleet.here, fleet.machines.values()):
        print(f"note: {line}", file=sys.stderr)
    if arguments.each and not arguments.resume:
        fleet.jobs = _on_each_kind(fleet)
    fleet.write(folder)
    environment = {name: os.environ[name] for name in THREAD_SETTINGS if name in os.environ}
    progress = make_progress(arguments.quiet)
    driver = Driver(fleet, folder, arguments.logdir.resolve(), engine, environment, 60 * arguments.patience, progress)
    interrupted = False
    try:
        with stopping():
            driver.run()
    except KeyboardInterrupt:
        interrupted = True
    finally:
        progress.close()
    print()
    show([job_table(fleet), machine_table(fleet), summary(fleet)])
    if arguments.each:
        done = [shlex.quote(str(arguments.logdir / job.run)) for job in fleet.jobs if job.status == "done"]
        print(f"Side by side: python profile.py machines {' '.join(done)}")
    if interrupted:
        given = {"gallery": arguments.gallery, "logdir": arguments.logdir if arguments.logdir != LOGDIR else None}
        more = "".join(f" --{name} {shlex.quote(str(value))}" for name, value in given.items() if value)
        raise Interrupted(f"interrupted; go on with: python profile.py fleet --resume {fleet.id}{more}")
    if arguments.gallery:
        _write_gallery(fleet, arguments)
    return 1 if any(job.status != "done" for job in fleet.jobs) else 0


def _write_gallery(fleet: Fleet, arguments: argparse.Namespace) -> None:
    from profiler.report.gallery import write_page

    for file in write_page(arguments.gallery, fleet, arguments.logdir):
        print(f"Wrote {file}.", file=sys.stderr)


def _meet(fleet: Fleet, machines: list[Machine]) -> None:
    """The machines that are there now. Of those that a fleet before this one knew it keeps the descriptions of nodes
    that could not be asked again, and of those that are gone, or have another name now, on which a run was begun: it
    goes on where the machine is the same."""
    before, there = fleet.machines, {machine.name: machine for machine in machines}
    begun = {job.machine for job in fleet.jobs if job.open and job.run} & before.keys() - there.keys()
    known = {name for name, machine in there.items() if not machine.described and name in before}
    fleet.here = describe()
    fleet.machines = there
    fleet.machines |= {name: msgspec.structs.replace(before[name], problem=there[name].problem) for name in known}
    fleet.machines |= {name: msgspec.structs.replace(before[name], problem=GONE) for name in sorted(begun)}


def _refuse_none(machines: list[Machine]) -> None:
    if not any(not machine.problem for machine in machines):
        listed = "\n".join(f"  {machine.name}: {machine.problem}" for machine in machines)
        raise UserError(f"No machine can run these recipes:\n{listed}")


def _on_each_kind(fleet: Fleet) -> list[Job]:
    """A copy of each job for each kind of machine, told apart by the name of a machine of it."""
    kinds: dict[str, str] = {}
    for machine in fleet.machines.values():
        if not machine.problem and machine.described:
            kinds.setdefault(machine.kind, machine.name)
    if not kinds:
        raise UserError("--each kind: all nodes are used by others, so nobody knows of which kind they are. Try later.")
    return [
        Job(f"{job.id}@{name}", job.recipe, job.sha256, job.arguments, kind)
        for job in fleet.jobs
        for kind, name in kinds.items()
    ]
