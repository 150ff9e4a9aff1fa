"""The profiler in one's own code: `@profile`, `@profile_analyst`, `@profile_optimiser`, and `with profile("name"):`.

    @profile                          a function or a method: each call is a step
    @profile(seconds=5, batch_size=4) the same, with the audio of a call, so that there is an RTF
    with profile("encode"):           each time the block is entered is a step
    with profile("train") as steps:   a loop: each steps.step() ends a step
    for batch in profile("train").steps(loader):
    profile(brain)                    a SpeechBrain Brain, or its class: each batch of `fit` is a step

What was measured is an ordinary run in `logs/<name>/`: docs/in-your-own-code.md. What a step is made of is in
profiler/steps/. With SPEECH_PROFILE=0 in the environment nothing is profiled, and functions are given back as they are.
"""

from __future__ import annotations

import atexit
import functools
import inspect
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Any, Self

from profiler.device import Device
from profiler.errors import ModelError, ProfilerError, UserError, did_you_mean
from profiler.results import LOGDIR
from profiler.results.runs import check_logdir, new_run_folder
from profiler.results.types import WIDTH
from profiler.steps.recorder import Instruments, Recorder
from profiler.steps.waiting import waited_for

if TYPE_CHECKING:
    from profiler.api import LoadedRun
    from profiler.measure.breakdown.labels import Chains
    from profiler.results.types import Results
    from profiler.steps.recorder import Schedule
    from profiler.steps.result import Profiled

SWITCH = "SPEECH_PROFILE"  # in the environment
OFF = ("0", "off", "no", "false")
ANALYST = Instruments(shapes=True, stacks=True, modules=True)
OPTIMISER = Instruments(memory=False, labels=False)
AS_TORCH = {"record_shapes": "shapes", "profile_memory": "memory", "with_stack": "stacks", "with_modules": "modules"}
BATCHES = {"evaluate": "evaluate_batch"}  # of a Brain: what is a step in it; else a batch of its training


@dataclass(frozen=True)
class Options:
    """What may be said of a profile."""

    seconds: float = 0.0  # of audio in each row of a step's batch; 0: not said, there is no RTF
    batch_size: int = 1
    schedule: Schedule | None = None  # as torch.profiler.schedule makes it
    labels: Mapping[str, str | list[str]] | None = None  # name -> pattern of names of the model's modules
    model: Any = None  # whose modules are meant; found in the arguments where it is not given
    logdir: str | Path = LOGDIR
    width: float = WIDTH  # wanted of the 95 % CI
    enabled: bool = True
    quiet: bool = False  # no line on stderr at the end

    def check(self) -> None:
        if not isinstance(self.seconds, int | float) or not self.seconds >= 0:
            raise UserError(f"seconds={self.seconds!r}: expected the seconds of audio in a row of the batch.")
        if not isinstance(self.batch_size, int) or self.batch_size < 1:
            raise UserError(f"batch_size={self.batch_size!r}: expected a whole number greater than 0.")
        if self.labels is not None and not isinstance(self.labels, Mapping):
            raise UserError(
                f"labels={self.labels!r}: expected names with patterns of modules, such as {{'enc': 'encoder'}}."
            )
        if self.schedule is not None and not callable(self.schedule):
            raise UserError("schedule: expected what torch.profiler.schedule(wait=..., warmup=..., active=...) gives.")


def profile(what: Any = None, /, **options: Any) -> Any:
    """Time, memory, breakdown by label and trace of a function, a loop, a block or a Brain."""
    return _made(what, Instruments(), options)


def profile_analyst(what: Any = None, /, **options: Any) -> Any:
    """The same with all details in the recorded steps: shapes, stacks, memory, every module."""
    return _made(what, ANALYST, options)


def profile_optimiser(what: Any = None, /, **options: Any) -> Any:
    """The same with as little switched on as can be: time, and a trace of operators."""
    return _made(what, OPTIMISER, options)


def schedule(wait: int = 2, warmup: int = 2, active: int = 2, repeat: int = 1, skip_first: int = 0) -> Schedule:
    """Which steps are recorded: torch.profiler's, with defaults that warm up."""
    from torch.profiler import schedule as of_torch

    made: Schedule = of_torch(wait=wait, warmup=warmup, active=active, repeat=repeat, skip_first=skip_first)
    return made


def step() -> None:
    """End a step of the innermost profile that is open in this thread; nothing where there is none."""
    for open_one in reversed(_entered):
        if open_one.is_open_here:
            open_one.step()
            return


_entered: list[Profile] = []
_entering = threading.Lock()
_unfinished: list[Profile] = []  # blocks of one name are steps of one run


def _made(what: Any, instruments: Instruments, options: dict[str, Any]) -> Any:
    instruments = replace(instruments, **{AS_TORCH[name]: options.pop(name) for name in AS_TORCH if name in options})
    known = [field.name for field in fields(Options)]
    for name in options:
        if name not in known:
            raise UserError(f"A profile has no option `{name}`.{did_you_mean(name, [*known, *AS_TORCH])}")
    asked = Options(**options)
    if what is None:
        return Profile(None, instruments, asked)
    if not isinstance(what, str):
        return Profile(None, instruments, asked)(what)
    found = next((each for each in _unfinished if each.is_same(what, instruments, asked)), None)
    return found or Profile(what, instruments, asked)


class Profile:
    """One series of steps, and the run that is made of it."""

    def __init__(self, name: str | None, instruments: Instruments, options: Options) -> None:
        options.check()
        self.switched_off = os.environ.get(SWITCH, "").lower() in OFF
        self.enabled = options.enabled and not self.switched_off
        self.options, self.instruments = options, instruments
        self.run: LoadedRun | None = None  # the last one that was finished
        self._asked, self._name = name, _folder_name(name or "")
        self._source, self._kind, self._file = name or "", "code", _file_of_caller() if name else None
        self._model: Any = _module_of(options.model)
        self._recorder: Recorder | None = None
        self._results: Results | None = None
        self._folder: Path | None = None
        self._written: object = None  # the recording that is on disk already
        self._thread: int | None = None  # in which a step goes on
        self._depth = 0
        self._stepped = self._loop = False
        self._process = os.getpid()

    def rename(self, name: str | None) -> None:
        """Before the first step."""
        self._name = _folder_name(name or "") or self._name

    def is_same(self, name: str, instruments: Instruments, options: Options) -> bool:
        """Whether a block of these belongs here. One schedule cannot be told from another: the first one counts."""
        same = replace(options, schedule=self.options.schedule)
        return (self._asked, self.instruments, self.options) == (name, instruments, same)

    @property
    def is_open_here(self) -> bool:
        """Whether this thread is in a step."""
        return self._depth > 0 and self._thread == threading.get_ident()

    # -- a decorator

    def __call__(self, decorated: Any) -> Any:
        """A function, a method, a generator of steps, a Brain or its class, profiled."""
        if inspect.isasyncgenfunction(decorated):
            raise UserError(
                f"{decorated.__qualname__} is an asynchronous generator: use `with profile(...)` around what is a step."
            )
        if isinstance(decorated, staticmethod | classmethod):
            return type(decorated)(self(decorated.__func__))
        if _is_brain(decorated) or (isinstance(decorated, type) and hasattr(decorated, "fit_batch")):
            return self._of_brain(decorated)
        if isinstance(decorated, type) or not callable(decorated):
            raise UserError(f"{decorated!r} cannot be profiled: expected a function, a method, a Brain or its class.")
        self._about(decorated)
        if self.switched_off:
            return decorated
        make = self._of_function
        if inspect.isgeneratorfunction(decorated):
            make = self._of_generator
        elif inspect.iscoroutinefunction(decorated):
            make = self._of_coroutine
        profiled = functools.wraps(decorated)(make(decorated))
        profiled.profile = self  # type: ignore[attr-defined]
        return profiled

    def _about(self, function: Any) -> None:
        named = inspect.unwrap(function)
        name = getattr(named, "__qualname__", type(named).__name__).replace("<locals>.", "")
        self._source = f"{getattr(named, '__module__', None) or '?'}.{name}"
        self._name = self._name or _folder_name(name)
        self._kind = "function"
        code = getattr(named, "__code__", None)
        self._file = Path(code.co_filename) if code is not None and Path(code.co_filename).is_file() else None

    def _of_function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        batches = BATCHES.get(getattr(function, "__name__", ""), "fit_batch")

        def profiled(*arguments: Any, **more: Any) -> Any:
            if not self.enabled:
                return function(*arguments, **more)
            if self._depth:  # a call within a call, or in another thread meanwhile
                return function(*arguments, **more)
            given = (getattr(function, "__self__", None), *arguments, *more.values())
            self._find_model(given)
            brain = next((each for each in given if _is_brain(each)), None)
            with self, _batches_as_steps(brain, batches, self) if brain is not None else nullcontext():
                return function(*arguments, **more)

        return profiled

    def _of_coroutine(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """From the call to its result, with what other tasks do while it waits; of calls at the same time, one."""

        async def profiled(*arguments: Any, **more: Any) -> Any:
            if not self.enabled or self._depth:
                return await function(*arguments, **more)
            self._find_model((*arguments, *more.values()))
            with self:
                return await function(*arguments, **more)

        return profiled

    def _of_generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """What the generator does from one `yield` to the next is a step; what its caller does is none."""

        def profiled(*arguments: Any, **more: Any) -> Any:
            if not self.enabled or self._depth:
                return (yield from function(*arguments, **more))
            self._find_model((*arguments, *more.values()))
            steps = function(*arguments, **more)
            go_on = functools.partial(next, steps)
            try:
                while True:
                    with self:
                        try:
                            value = go_on()
                        except StopIteration as ended:
                            self._leave_out()
                            return ended.value
                    try:
                        go_on = functools.partial(steps.send, (yield value))
                    except GeneratorExit:
                        raise
                    except BaseException as thrown:
                        go_on = functools.partial(steps.throw, thrown)
            finally:
                steps.close()
                self._write(None)

        return profiled

    def _of_brain(self, brain: Any) -> Any:
        """`fit` and `evaluate` of a Brain, or of all Brains of a class: a run each, a step for each batch."""
        if self.switched_off:
            return brain
        kind = brain if isinstance(brain, type) else type(brain)
        for name in ("fit", "evaluate"):
            own = Profile(f"{self._asked or kind.__name__}.{name}", self.instruments, self.options)
            own.enabled = self.enabled
            setattr(brain, name, own(getattr(brain, name)))
            own._kind = "Brain"
        return brain

    # -- a block, a loop

    def __enter__(self) -> Self:
        if not self.enabled:
            return self
        with _entering:  # of several threads one is profiled
            if self._depth:
                self._depth += self._thread == threading.get_ident()
                return self
            self._depth, self._thread, self._stepped = 1, threading.get_ident(), False
            _entered.append(self)
        try:
            self._begun().begin()
        except BaseException:
            self._close(raised=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if not self.is_open_here or self._recorder is None:
            return
        if self._depth > 1 and error is None:  # a callback within a block; an error ends both
            self._depth -= 1
            return
        recorder = self._recorder
        if error is None and not self._stepped:
            recorder.end()
        self._close(raised=error is not None)
        if self._stepped:
            self._finish(error)
        elif error is not None or recorder.steps.recorded is not self._written:
            self._write(error if not recorder.steps.seen else None)

    def _close(self, raised: bool) -> None:
        """Nothing is left switched on, whatever happened."""
        if self in _entered:
            _entered.remove(self)
        try:
            if self._recorder is not None and (raised or self._stepped):
                self._recorder.drop(raised)
        finally:
            self._depth, self._thread = 0, None

    def step(self) -> None:
        """What was done since the last one, or since the loop began, is a step."""
        if not self.enabled or self._recorder is None or not self.is_open_here:
            return
        self._stepped = self._loop = True
        self._recorder.apart = False
        self._recorder.end()
        self._recorder.begin()

    def restart(self) -> None:
        """What was done since the last step belongs to none: a validation, a checkpoint."""
        if self._recorder is not None and self.is_open_here:
            self._recorder.again()

    def _leave_out(self) -> None:
        """What was begun was no step, and no error."""
        if self._recorder is not None and self.is_open_here:
            self._close(raised=False)
            self._recorder.drop()

    def steps(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The batches, each a step from when it is asked for until the next one is; waiting for it is told apart."""
        if not self.enabled:
            yield from batches
            return
        self._loop = True
        with self:
            for batch in waited_for(batches):
                yield batch
                self.step()

    # -- the run

    def finish(self) -> LoadedRun | None:
        """Write what is known, and give it; None where there was no step. What is called later is another run."""
        self._finish(None)
        return self.run

    def _begun(self) -> Recorder:
        if self._recorder is None:
            import torch  # noqa: F401  before the machine is looked at

            from profiler.steps.result import begin_run

            check_logdir(Path(self.options.logdir))
            self._name = self._name or "code"
            self._folder = new_run_folder(Path(self.options.logdir), self._name)
            self._results = begin_run(self._folder, self._profiled())
            self._recorder = Recorder(
                self.instruments,
                self.options.schedule,
                self._device(),
                self._folder,
                f"{self._name}/{self.options.seconds:g}s_x{self.options.batch_size}",
                self.options.seconds * self.options.batch_size or None,
                self._parts,
            )
            self._recorder.apart = not self._loop
            self._process, self._written = os.getpid(), None
            _unfinished.append(self)
        return self._recorder

    def _profiled(self) -> Profiled:
        from profiler.steps.result import Profiled

        options = self.options
        settings = {
            "seconds": options.seconds,
            "batch_size": options.batch_size,
            "labels": dict(options.labels or {}),
            "instruments": vars(self.instruments),
        }
        return Profiled(
            name=self._name,
            source=self._source or self._name,
            kind=self._kind,
            settings=settings,
            seconds=options.seconds,
            batch_size=options.batch_size,
            width=options.width,
            loop=self._loop,
            device=self._device().name,
            file=self._file,
        )

    def _write(self, error: BaseException | None, final: bool = False) -> None:
        from profiler.api import LoadedRun
        from profiler.steps.result import write_run

        recorder, results, folder = self._recorder, self._results, self._folder
        if recorder is None or results is None or folder is None:
            return
        self._written = recorder.steps.recorded
        write_run(folder, results, self._profiled(), recorder.steps, self._model, error, final)
        if final:
            self.run = LoadedRun(folder, results)

    def _finish(self, error: BaseException | None) -> None:
        if self._recorder is None or self._process != os.getpid():
            return
        if self.is_open_here:  # in the middle of a block
            self._close(raised=False)
        self._recorder.drop()  # between two recorded steps the instruments are on
        try:
            self._write(error, final=True)
            if not self.options.quiet:
                print(self._line(), file=sys.stderr)
        except (OSError, ProfilerError) as problem:  # the user's own work goes on
            print(f"profile {self._name}: {problem}", file=sys.stderr)
        finally:
            self._recorder = self._results = self._folder = None
            self._model = _module_of(self.options.model)
            _unfinished.remove(self)

    def _line(self) -> str:
        """What is said at the end."""
        from profiler.steps.result import summary

        assert self.run is not None
        return f"profile {self._name}: {summary(self.run.results)}. {self.run.folder}"

    # -- the model

    def _find_model(self, given: Iterable[Any]) -> None:
        if self._model is None:
            self._model = next((found for each in given if (found := _module_of(each)) is not None), None)

    def watch_model(self, model: Any) -> None:
        """The model whose modules are meant, where it is known only once the loop begins."""
        self._find_model([model])
        if self._recorder is not None:
            self._recorder.device = self._device()

    def _device(self) -> Device:
        parameter = next(iter(self._model.parameters()), None) if self._model is not None else None
        return Device(str(parameter.device) if parameter is not None else "cpu")

    def _parts(self) -> Chains | None:
        from profiler.measure.breakdown import find_parts

        patterns = self.options.labels or {}
        if self._model is None:
            if patterns:
                raise UserError(f"labels of {self._name}: no model is among the arguments; say which with model=...")
            return None
        model: Any = SimpleNamespace(module=self._model, components={}, beside={}, graph=None)
        try:
            return find_parts(model, patterns)
        except ModelError as error:
            raise UserError(str(error).replace("trace.labels.", "labels: ")) from None


def _is_brain(value: Any) -> bool:
    """A SpeechBrain Brain, known without importing SpeechBrain."""
    return not isinstance(value, type) and hasattr(value, "fit_batch") and hasattr(value, "evaluate_batch")


@contextmanager
def _batches_as_steps(brain: Any, method: str, open_one: Profile) -> Iterator[None]:
    """Each batch of a Brain is a step; the clock starts again where an epoch does, so that validation is in none."""
    plain, epoch = getattr(brain, method), getattr(brain, "on_stage_start", None)

    def batch(*arguments: Any, **more: Any) -> Any:
        found = plain(*arguments, **more)
        open_one.step()
        return found

    def begin(*arguments: Any, **more: Any) -> Any:
        found = epoch(*arguments, **more) if epoch is not None else None
        open_one.restart()
        return found

    before = {name: vars(brain)[name] for name in (method, "on_stage_start") if name in vars(brain)}
    setattr(brain, method, batch)
    brain.on_stage_start = begin
    try:
        yield
    finally:
        for name in (method, "on_stage_start"):
            vars(brain).pop(name, None)
        vars(brain).update(before)


def _module_of(value: Any) -> Any:
    """The module of torch that a value is or holds; None where torch is not even imported."""
    torch = sys.modules.get("torch")
    if torch is None or value is None:
        return None
    if isinstance(value, torch.nn.Module):
        return value
    held = getattr(value, "modules", None) if _is_brain(value) else None
    return held if isinstance(held, torch.nn.Module) else None


def _folder_name(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII).strip(".-")


def _file_of_caller() -> Path | None:
    """The file whose code asked for a profile, to know its repository."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    found = Path(frame.f_code.co_filename) if frame is not None else None
    return found if found is not None and found.is_file() else None


@atexit.register
def _finish_all() -> None:
    for each in list(_unfinished):
        each.finish()
