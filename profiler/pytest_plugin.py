"""Profiling as part of testing: what pytest gets when the profiler is installed (docs/profiling-in-tests.md).

    def test_it_is_fast(speech_profile):
        found = speech_profile("recipe.yaml")          # or a function
        found.assert_faster_than(0.5, "rtf")
        found.assert_not_slower("baseline")

An assertion decides with the 95 % CI: it fails where the whole CI is on the wrong side, and is `unclear`, with a
warning, where the CI lies on both. Nothing but pytest is imported until a test profiles something.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from profiler.api import LoadedRun
    from profiler.results.metric import Metric
    from profiler.results.types import CellResult, Results

PROPERTY = "speech_profile"  # of a test's report, so that it comes from xdist's workers too
FOLDER = ".speech-profile"  # in pytest's root folder: baselines
CALLS, LEAST_CALLS = 50, 10  # of a function that are timed: at most, and whatever they take
SECONDS = 5.0  # for them
WARM = 2  # steps before the first timed one: one warms up, one is for the memory
FIGURES = ("rtf", "rtfx", "latency")


class SpeechProfileUnclear(pytest.PytestWarning):
    """A profile could not decide: its interval lies on both sides."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("speech-profile", "profiling speech models (fixture speech_profile)")
    group.addoption(
        "--speech-profile-report", metavar="DIR", type=Path, help="leave runs, with a page each, in this folder"
    )
    group.addoption("--speech-profile-strict", action="store_true", help="fail where a profile is unclear")
    group.addoption(
        "--speech-profile-update", action="store_true", help="keep the figures of this session as baselines"
    )
    group.addoption(
        "--speech-profile-baselines",
        metavar="DIR",
        type=Path,
        help=f"where baselines are, in a folder for each machine (default: {FOLDER} in pytest's root folder)",
    )


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One line per profile."""
    reports = [report for found in terminalreporter.stats.values() for report in found if hasattr(report, "when")]
    lines = [
        value
        for report in reports
        if report.when == "teardown"  # the last of a test: it has what its fixtures said
        for name, value in getattr(report, "user_properties", ())
        if name == PROPERTY
    ]
    if lines:
        terminalreporter.section("speech profiles")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture
def speech_profile(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpeechProfile]:
    """Profile a recipe or a function; what it gives has figures with intervals, and asserts them."""
    config = request.config
    report = config.getoption("speech_profile_report")
    profiles = SpeechProfile(
        node=request.node,
        logdir=Path(report).resolve() if report else tmp_path_factory.mktemp("speech_profile"),
        pages=report is not None,
        baselines=Path(config.getoption("speech_profile_baselines") or config.rootpath / FOLDER),
        strict=config.getoption("speech_profile_strict"),
        update=config.getoption("speech_profile_update"),
    )
    yield profiles
    for made in profiles.made:
        request.node.user_properties.append((PROPERTY, made.line()))


@dataclass
class SpeechProfile:
    """What the fixture gives."""

    node: pytest.Item
    logdir: Path
    pages: bool
    baselines: Path
    strict: bool
    update: bool
    made: list[Measured] = field(default_factory=list)

    def __call__(
        self,
        what: str | Path | Callable[..., Any],
        *arguments: Any,
        overrides: Mapping[str, Any] | None = None,
        name: str | None = None,
        seconds: float = 0.0,
        batch_size: int = 1,
        trust: bool = False,
        threads: int | None = None,
    ) -> Measured:
        """A recipe, with `overrides`; or a function, called with `arguments` many times in this process.

        `seconds` and `batch_size`: of the audio that a call of the function takes, so that it has an RTF. Profiles are
        made one at a time, also where several processes test.
        """
        __tracebackhide__ = True
        from profiler.errors import ProfilerError

        wrong = ""
        with one_at_a_time():
            try:
                if callable(what):
                    run = self._function(what, arguments, name, seconds, batch_size)
                else:
                    run = self._recipe(Path(what), overrides, trust, threads)
            except ProfilerError as error:
                wrong = str(error)
        if wrong:
            pytest.fail(wrong)  # a sentence, without our own lines above it
        if self.pages:
            from profiler.report.write import write_views

            write_views(run.results, run.folder)
        name = name or Path(run.results.run.recipe).stem
        same = sum(made.name.partition("#")[0] == name for made in self.made)
        self.made.append(Measured(run, self, f"{name}#{same + 1}" if same else name))  # each has a baseline of its own
        return self.made[-1]

    def _recipe(self, recipe: Path, overrides: Mapping[str, Any] | None, trust: bool, threads: int | None) -> LoadedRun:
        from profiler.api import profile_recipe

        beside = self.node.path.parent / recipe
        found = beside if not recipe.exists() and beside.exists() else recipe
        run = profile_recipe(found, overrides, logdir=self.logdir, trust=trust, threads=threads)
        failed = next((cell for cell in run.cells if cell.status == "failed"), None)
        assert failed is None, f"{recipe}: {failed.place} failed: {failed.reason}" if failed else ""
        return run

    def _function(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        name: str | None,
        seconds: float,
        batch_size: int,
    ) -> LoadedRun:
        from profiler.decorators import Options, Profile
        from profiler.errors import UserError
        from profiler.measure.latency import no_garbage_collection
        from profiler.steps.recorder import Instruments, nothing_recorded

        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            raise UserError(
                f"A call of {function.__name__} does nothing yet: profile a function that takes its items, or runs it."
            )
        schedule = None if self.pages else nothing_recorded()  # a trace takes longer than what is tested here
        options = Options(seconds, batch_size, schedule, logdir=self.logdir, quiet=True)
        handle = Profile(None, Instruments(), options)
        handle.enabled, handle.switched_off = True, False  # SPEECH_PROFILE=0 is about the code, not about its tests
        profiled = handle(function)
        handle.rename(name)
        calls, until = 0, time.monotonic() + SECONDS
        try:
            with no_garbage_collection():
                while calls < WARM + LEAST_CALLS or (calls < WARM + CALLS and time.monotonic() < until):
                    profiled(*arguments)
                    calls += 1
        finally:
            run = handle.finish()
        assert run is not None
        return run


@dataclass
class Measured:
    """The figures of one profile, and what they are held against."""

    run: LoadedRun
    _of: SpeechProfile
    name: str
    _said: list[str] = field(default_factory=list)

    @property
    def results(self) -> Results:
        return self.run.results

    @property
    def rtf(self) -> Figure:
        return self.figure("rtf")

    @property
    def latency(self) -> Figure:
        """Seconds of a call."""
        return self.figure("latency")

    @property
    def peak_memory(self) -> Figure:
        """Bytes of the process."""
        return self.figure("memory")

    def figure(self, key: str = "rtf") -> Figure:
        """Of the only cell, or of the one with the largest value; its interval where it has one."""
        return max(self._figures(key), key=lambda found: found.value)

    def assert_faster_than(self, limit: float, figure: str = "rtf") -> None:
        """Every cell: RTF (or seconds of a call, with "latency") below a limit; with "rtfx" above it."""
        __tracebackhide__ = True
        if figure not in FIGURES:
            raise ValueError(f"assert_faster_than takes one of {', '.join(FIGURES)}, not {figure!r}.")
        self._hold(limit, figure, "faster than")

    def assert_less_memory_than(self, limit: float) -> None:
        """Every cell: peak bytes of the process below a limit."""
        __tracebackhide__ = True
        self._hold(limit, "memory", "below")

    def assert_not_slower(self, baseline: str = "baseline", threshold: float = 0.02) -> None:
        """No cell is slower than in the baseline of that name, which this machine made; the first run makes it."""
        __tracebackhide__ = True
        from profiler.api import compare
        from profiler.errors import UserError
        from profiler.results.store import read_results

        file = self._baseline(baseline)
        if self._of.update or not file.is_file():
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.run.folder / "results.json", file)
            self._said.append(f"kept as {baseline}")
            return
        try:
            found = compare(read_results(file), self.results, threshold=threshold).others[0]
        except UserError as error:
            self._fail(f"cannot be compared with {baseline}: {error} --speech-profile-update keeps a new one")
            return
        for cell in found.cells:
            speed = cell.speed
            ratio = f", ratio {speed.ratio:.3g}" if speed.ratio is not None else ""
            ci = f" [{speed.ci[0]:.3g}, {speed.ci[1]:.3g}]" if speed.ci else ""
            said = f"{cell.label} {speed.verdict} against {baseline}{ratio}{ci}"
            if speed.is_slower(0.0) or cell in found.newly_failed:
                self._fail(said)
            if speed.verdict in ("unclear", "not judged"):
                self._unclear(f"{said}{f' ({speed.reason})' if speed.reason else ''}")
            else:
                self._said.append(said)

    def line(self) -> str:
        """What the summary says of it."""
        from profiler.metrics import LATENCY, METRICS

        key = "rtf" if any(cell.rtf is not None for cell in self.run.cells) else "latency"
        try:
            shown = self.figure(key).text(METRICS[key] if key == "rtf" else LATENCY)
        except ValueError:
            shown = "no figure"
        return f"{self._of.node.nodeid} {self.name}: {'; '.join([shown, *self._said])}"

    # -- how it is decided

    def _figures(self, key: str) -> list[Figure]:
        from profiler.metrics import find_metric

        metric = find_metric(key)
        cells = [cell for cell in self.run.cells if metric.in_cell(cell) is not None]
        if not cells:
            more = " Give seconds=..., the length of audio that a call takes." if key in ("rtf", "rtfx") else ""
            raise ValueError(f"{self.name} has no figure `{key}`.{more}")
        return [Figure.of(metric, cell) for cell in cells]

    def _hold(self, limit: float, key: str, word: str) -> None:
        __tracebackhide__ = True
        from profiler.metrics import find_metric

        metric = find_metric(key)
        for found in self._figures(key):
            low, high = found.ci95 or (found.value, found.value)
            if metric.better == "higher":
                good, bad = low > limit, high <= limit
            else:
                good, bad = high < limit, low >= limit
            said = f"{found.text(metric)}, {word} {metric.text(limit)}"
            if metric.ci95 is not None and found.ci95 is None:
                self._unclear(f"{said}: unclear, for there are too few rounds for a 95 % CI")
            elif good:
                self._said.append(f"{said}: yes")
            elif bad:
                self._fail(f"{said}: no")
            else:
                self._unclear(f"{said}: unclear")

    def _fail(self, said: str) -> None:
        __tracebackhide__ = True
        self._said.append(said)
        raise AssertionError(f"{self.name}: {said}. Run: {self.run.folder}")

    def _unclear(self, said: str) -> None:
        """No failure by chance, and no success by chance that nobody is told of."""
        __tracebackhide__ = True
        if self._of.strict:
            self._fail(f"{said} (--speech-profile-strict)")
        self._said.append(said)
        self._of.node.warn(SpeechProfileUnclear(f"{self.name}: {said}"))

    def _baseline(self, name: str) -> Path:
        from profiler.conditions.floor import this_machine

        test = re.sub(r"[^\w.-]+", "-", f"{self._of.node.nodeid}-{self.name}", flags=re.ASCII).strip("-.")
        wanted = re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII).strip("-.")
        return self._of.baselines / this_machine() / wanted / f"{test}.json"


@dataclass(frozen=True)
class Figure:
    """A value and its 95 % CI over rounds; None where it has none."""

    value: float
    ci95: tuple[float, float] | None
    place: str = ""

    @classmethod
    def of(cls, metric: Metric, cell: CellResult) -> Figure:
        return cls(float(metric.in_cell(cell)), metric.ci95(cell) if metric.ci95 else None, cell.place)

    def text(self, metric: Metric) -> str:
        ends = f" [{metric.number(self.ci95[0])}, {metric.number(self.ci95[1])}]" if self.ci95 else ""
        return f"{self.place} {metric.short} {metric.text(self.value)}{ends}"


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Of all processes of this user that test: two profiles at once would measure each other."""
    import fcntl

    from platformdirs import user_cache_path

    folder = user_cache_path("speech-profiler")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / "pytest.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:  # no home to write to: then no others can be told of
        yield
        return
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
