"""Run recipes on other machines: Ray, SLURM, or this machine one after the other. Their results come home.

  profile.py fleet wav2vec2 hubert --on ray --address head:6379
  profile.py fleet recipes/*.yaml --on slurm --partition cpu --time 120
  profile.py fleet wav2vec2 --on ray --each kind      once on every kind of machine

A job is one recipe on one whole machine (a whole GPU with --device cuda). Each
machine needs this project in the same version, and the recipes at the same
path. Results are ordinary runs in the log folder while they are made. What is
interrupted goes on with --resume FLEET (its id, a part of it, or latest).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import secrets
import shlex
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from profiler.cli.options import add_logdir
from profiler.device import check_device_name
from profiler.errors import Interrupted, UserError
from profiler.execution.fleet.engine import KINDS, Engine, EngineOptions, make_engine
from profiler.execution.fleet.job import FOLDER, Fleet, Job, Machine, find_fleet, read_fleet
from profiler.execution.fleet.node import THREAD_SETTINGS, describe
from profiler.processes import stopping
from profiler.report.fleet_progress import make_progress
from profiler.results.runs import check_logdir, now
from profiler.shipped import recipe_path

OF_RAY = ("address",)
OF_SLURM = ("partition", "constraint", "time", "gres", "share")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "recipes", metavar="RECIPE", nargs="*", help="recipes' files or names, and key=value for all of them"
    )
    parser.add_argument("--on", choices=KINDS, default="local", help="where to (default: local, one after the other)")
    parser.add_argument("--each", choices=["kind"], help="every recipe once on every kind of machine")
    parser.add_argument("--split", choices=["variants"], help="a job for each variant, instead of one for each recipe")
    parser.add_argument("--resume", metavar="FLEET", help="take up an interrupted fleet: its id, a part of it, latest")
    parser.add_argument("--address", metavar="HOST:PORT", help="Ray: the cluster (default: the one of this machine)")
    for name, what in (("partition", "NAME"), ("constraint", "FEATURES"), ("gres", "GRES")):
        parser.add_argument(f"--{name}", metavar=what, help=f"SLURM: passed on as --{name}")
    parser.add_argument("--time", type=int, metavar="MIN", help="SLURM: minutes for a job (default: 720)")
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
    if arguments.resume:
        from profiler.execution.fleet.driver import take_up

        folder = find_fleet(arguments.resume, arguments.logdir)
        fleet = read_fleet(folder)
        take_up(fleet)
    else:
        fleet = _new_fleet(arguments)
        folder = arguments.logdir.resolve() / FOLDER / fleet.id
    check_logdir(arguments.logdir)
    folder.mkdir(parents=True, exist_ok=True)
    options = EngineOptions(
        arguments.address,
        arguments.partition,
        arguments.constraint,
        arguments.time,
        not arguments.share,
        arguments.gres,
    )
    engine = make_engine(fleet.engine, folder, fleet.device, options)
    try:
        return _drive(fleet, folder, engine, arguments)
    finally:
        engine.close()


def _check(arguments: argparse.Namespace) -> None:
    if arguments.resume and arguments.recipes:
        raise UserError("--resume takes up the jobs of a fleet as they are: leave out recipes.")
    if not arguments.resume and not [name for name in arguments.recipes if "=" not in name]:
        raise UserError("fleet: which recipes? For example `python profile.py fleet wav2vec2 hubert`.")
    for engine, names in (("ray", OF_RAY), ("slurm", OF_SLURM)):
        given = [name for name in names if getattr(arguments, name)]
        if given and arguments.on != engine and not arguments.resume:
            raise UserError(f"--{given[0]} is for --on {engine}; this fleet is --on {arguments.on}.")
    check_device_name(arguments.device)
    if arguments.threads is not None and arguments.threads < 1:
        raise UserError(f"--threads {arguments.threads}: expected a whole number greater than 0.")


def _new_fleet(arguments: argparse.Namespace) -> Fleet:
    """Jobs of recipes that were checked as a whole: nothing is sent anywhere with a mistake in it."""
    from profiler.cli.options import overrides
    from profiler.recipe.load import load_recipe

    given = [word for word in arguments.recipes if re.match(r"[\w.]+=", word)]
    values = overrides(given)
    jobs: list[Job] = []
    for name in (word for word in arguments.recipes if word not in given):
        path = recipe_path(name)
        loaded = load_recipe(path, values, arguments.trust)
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        variants = loaded.recipe.variants if arguments.split else []
        alone = [each.model_dump(mode="json", exclude_defaults=True, exclude={"baseline"}) for each in variants]
        parts = [(f"{loaded.name}-{one['name']}", [f"variants={json.dumps([one])}"]) for one in alone]
        for identity, words in parts or [(loaded.name, [])]:
            jobs.append(Job(identity, str(path.resolve()), sha256, words))
    return Fleet(
        id=f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}",
        engine=arguments.on,
        started=now(),
        overrides=given,
        device=arguments.device,
        threads=arguments.threads,
        trust=arguments.trust,
        doctor=not arguments.no_doctor,
        jobs=_named_apart(jobs),
    )


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
    from profiler.report.fleet import job_table, machine_table, summary
    from profiler.report.terminal import show

    machines = engine.machines(sorted({(job.recipe, job.sha256) for job in fleet.jobs if job.open}))
    fleet.machines = {machine.name: machine for machine in machines}
    _refuse_none(machines)
    if arguments.each and not arguments.resume:
        fleet.jobs = _on_each_kind(fleet)
    fleet.write(folder)
    for line in _differences(machines):
        print(f"note: {line}", file=sys.stderr)
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
        raise Interrupted(f"interrupted; go on with: python profile.py fleet --resume {fleet.id}")
    return 1 if any(job.status != "done" for job in fleet.jobs) else 0


def _refuse_none(machines: list[Machine]) -> None:
    if not any(not machine.problem for machine in machines):
        listed = "\n".join(f"  {machine.name}: {machine.problem}" for machine in machines)
        raise UserError(f"No machine can run these recipes:\n{listed}")


def _on_each_kind(fleet: Fleet) -> list[Job]:
    """A copy of each job for each kind of machine, told apart by the name of a machine of it."""
    kinds: dict[str, str] = {}
    for machine in fleet.machines.values():
        if not machine.problem:
            kinds.setdefault(machine.kind, machine.name)
    return [
        Job(f"{job.id}@{name}", job.recipe, job.sha256, job.arguments, kind)
        for job in fleet.jobs
        for kind, name in kinds.items()
    ]


def _differences(machines: list[Machine]) -> list[str]:
    """What is not the same on the machines as here, said before anything runs."""
    here = describe()
    found = []
    for machine in machines:
        if machine.problem:
            found.append(f"{machine.name} is left out: {machine.problem}")
            continue
        names = sorted({*here.versions, *machine.versions})
        differing = [
            f"{name} {machine.versions.get(name, 'not there')} ({here.versions.get(name, 'not')} here)"
            for name in names
            if machine.versions.get(name) != here.versions.get(name)
        ]
        if machine.commit != here.commit:
            differing.append(f"the profiler's commit {machine.commit[:9]} ({here.commit[:9]} here)")
        if differing:
            found.append(f"{machine.name} has other versions: {', '.join(differing)}")
        if machine.busy:
            found.append(f"{machine.name} is busy: load {machine.load:.1f} of {machine.cores} cores")
    return found
