"""Decorators and blocks on small code of one's own: the runs that they leave; nothing is left switched on."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import sys
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from jsonschema import Draft202012Validator
from torch.nn.modules import module as torch_module
from torch.profiler import record_function
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from profiler import compare, load_run
from profiler.decorators import profile, profile_analyst, profile_optimiser, schedule, step
from profiler.errors import UserError
from tests.helpers.program import ROOT

MANY = 17  # steps: the first recording, the memory, ten timed, the second recording


@pytest.fixture
def profiled(tmp_path: Path) -> Callable[..., Any]:
    return functools.partial(profile, logdir=tmp_path, quiet=True)


@pytest.fixture(autouse=True)
def nothing_left_on() -> Iterator[None]:
    hooks, following, backward = _hooks(), _BaseDataLoaderIter.__next__, torch.autograd.backward
    yield
    assert not torch.autograd._profiler_enabled()
    assert _hooks() == hooks
    assert (_BaseDataLoaderIter.__next__, torch.autograd.backward) == (following, backward)


def _hooks() -> int:
    return len(torch_module._global_forward_hooks) + len(torch_module._global_forward_pre_hooks)


class Encoder(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.frames = torch.nn.Linear(40, 32)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(32, 32) for _ in range(2))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        hidden = self.frames(features)
        for layer in self.layers:
            hidden = torch.relu(layer(hidden))
        return hidden


def _labels(run: Any) -> list[str]:
    return [row.name for row in run.cells[0].breakdown.labels]


def test_a_function_called_often_has_time_by_round_memory_labels_and_a_trace(profiled: Callable[..., Any]) -> None:
    @profiled(seconds=2, batch_size=3)
    def encode(features: torch.Tensor) -> torch.Tensor:
        """Says what it did."""
        with record_function("squares"):
            return features @ features.T

    values = [encode(torch.ones(50, 40)) for _ in range(30)]
    assert values[-1].shape == (50, 50)
    assert (encode.__name__, encode.__doc__) == ("encode", "Says what it did.")
    run = encode.profile.finish()
    cell = run.cell(2, 3)
    assert cell.latency_s.n == 30 - 1 - 2 - 4  # a first recording, warm-up and memory, a second recording
    assert len(cell.latency_s.rounds) == 10
    assert cell.latency_s.ci95 is not None
    assert cell.rtf == pytest.approx(cell.latency_s.median / 6)
    assert cell.peak_memory_bytes.tensors == 50 * 50 * 4
    assert cell.peak_memory_bytes.process > cell.peak_memory_bytes.above_baseline
    assert _labels(run) == ["squares", "(rest)", "(whole call)"]
    assert cell.breakdown.calls == 1  # nothing is on between calls
    assert [path.name for path in run.folder.glob("*/*/*.pt.trace.json.gz")] == [Path(cell.trace).name]


def test_the_run_is_an_ordinary_one(profiled: Callable[..., Any], tmp_path: Path) -> None:
    """It validates against the schema, is opened by its name, and compared with the one before it."""
    for _ in range(2):
        made = profiled(name := "encode")
        for _ in range(MANY):
            with made:
                torch.ones(20).sum()
        made.finish()
    run = load_run(name, tmp_path)
    written = json.loads((run.folder / "results.json").read_text())
    Draft202012Validator(json.loads((ROOT / "docs" / "results.schema.json").read_text())).validate(written)
    assert written["run"]["status"] == "complete"
    other, before = sorted((tmp_path / "encode").iterdir())
    (cell,) = compare(other, before).others[0].cells
    assert cell.speed.verdict in ("same", "unclear", "faster", "slower")
    assert cell.label == "call"


def test_a_method_and_a_static_method(profiled: Callable[..., Any]) -> None:
    class Front:
        scale = 3

        @profiled
        def scaled(self, value: int) -> int:
            return self.scale * value

        @staticmethod
        @profiled
        def twice(value: int) -> int:
            return 2 * value

    assert [Front().scaled(2), Front.twice(4)] == [6, 8]
    assert Front.scaled.profile.finish().results.models[0].source.endswith("Front.scaled")
    assert Front.twice.profile.finish().cells[0].status == "ok"


def test_a_generator_of_steps_is_timed_between_its_yields(profiled: Callable[..., Any]) -> None:
    @profiled
    def batches() -> Iterator[int]:
        for number in range(MANY):
            torch.ones(10).sum()
            yield number

    assert list(batches()) == list(range(MANY))
    assert batches.profile.finish().cells[0].latency_s.n == 10


def test_a_generator_takes_what_is_sent_and_thrown(profiled: Callable[..., Any]) -> None:
    @profiled
    def echo() -> Generator[Any, Any, str]:
        sent = yield "begin"
        try:
            yield sent
        except KeyError as error:
            yield f"caught {error}"
        return "end"

    steps = echo()
    assert [next(steps), steps.send(3), steps.throw(KeyError("k"))] == ["begin", 3, "caught 'k'"]
    with pytest.raises(StopIteration, match="end"):
        next(steps)
    assert echo.profile.finish().results.run.status == "complete"


def test_modules_are_labels_and_patterns_name_them(profiled: Callable[..., Any], tmp_path: Path) -> None:
    encoder = Encoder()

    @profiled
    def automatic(model: torch.nn.Module) -> torch.Tensor:
        return model(torch.ones(5, 40))

    @functools.partial(profile_analyst, logdir=tmp_path, quiet=True, labels={"front": "frames", "stack": "layers.*"})
    def by_pattern(model: torch.nn.Module) -> torch.Tensor:
        return model(torch.ones(5, 40))

    automatic(encoder)
    by_pattern(encoder)
    run = by_pattern.profile.finish()
    assert _labels(automatic.profile.finish())[:1] == ["frames"]
    assert _labels(run)[:2] == ["front", "stack"]
    details = json.loads((run.folder / run.cells[0].breakdown.file).read_text())
    assert "layers.*" in [row["name"] for row in details["modules"]]
    assert "aten::relu" in [row["name"] for row in details["operators"]]
    assert run.results.models[0].parameters.total == sum(each.numel() for each in encoder.parameters())


def test_the_lean_one_records_no_memory_and_no_labels(tmp_path: Path) -> None:
    with profile_optimiser("lean", logdir=tmp_path, quiet=True) as open_one:
        Encoder()(torch.ones(5, 40))
    cell = open_one.finish().cells[0]
    assert cell.trace is not None
    assert cell.peak_memory_bytes.tensors is None
    assert [row.name for row in cell.breakdown.labels] == ["(rest)", "(whole call)"]


def test_a_block_entered_once_is_recorded_and_says_that_it_has_no_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with profile("once", logdir=tmp_path):
        torch.ones(10).sum()
    run = profile("once", logdir=tmp_path).finish()
    assert run.cells[0].latency_s is None
    assert run.cells[0].trace is not None
    assert "profile once: no time: every step was recorded" in capsys.readouterr().err


def test_a_loop_tells_waiting_for_data_from_the_work(profiled: Callable[..., Any]) -> None:
    """The data set takes far longer than the model here, and the other way round."""

    class Slow(torch.utils.data.Dataset[Any]):
        def __init__(self, work: int) -> None:
            self.work = work

        def __len__(self) -> int:
            return MANY + 10

        def __getitem__(self, number: int) -> torch.Tensor:
            return torch.stack([torch.ones(200, 200) @ torch.ones(200, 200) for _ in range(self.work)]).sum()

    shares = []
    for data, work in ((8, 1), (1, 8)):
        with profiled("loop") as loop:
            for _ in DataLoader(Slow(data)):
                Slow(work)[0]
                loop.step()
        phases = loop.run.cells[0].training.phases
        assert list(phases) == ["data", "compute"]
        shares.append(phases["data"].share)
        assert "data loader" in _labels(loop.run)
    assert shares[0] > 0.5 > shares[1]


def test_any_iterable_is_a_loop(profiled: Callable[..., Any]) -> None:
    loop = profiled("list")
    assert list(loop.steps([1, 2, 3, 4])) == [1, 2, 3, 4]
    assert loop.run.cells[0].latency_s.n == 1
    assert loop.run.results.run.resolved["mode"] == "training"


def test_step_ends_a_step_of_the_profile_that_is_open(profiled: Callable[..., Any]) -> None:
    @profiled
    def train() -> None:
        for _ in range(5):
            step()

    step()  # none is open: nothing happens
    train()
    assert train.profile.run.cells[0].latency_s.n == 2


def test_a_schedule_says_which_steps_are_recorded(profiled: Callable[..., Any]) -> None:
    loop = profiled("scheduled", schedule=schedule(wait=6, warmup=1, active=2))
    for _ in loop.steps(range(12)):
        torch.ones(3).sum()
    cell = loop.run.cells[0]
    assert cell.breakdown.calls == 2
    assert cell.latency_s.n == 12 - 3 - 2  # three with instruments; warm-up and memory


def test_a_step_that_raises_is_in_no_figure_and_the_error_comes_out(profiled: Callable[..., Any]) -> None:
    @profiled
    def divide(by: int) -> float:
        return 1 / by

    with pytest.raises(ZeroDivisionError):
        divide(0)
    for _ in range(6):
        divide(2)
    with contextlib.suppress(ZeroDivisionError):
        divide(0)
    run = divide.profile.finish()
    assert run.cells[0].latency_s.n == 3
    assert "Steps that raised an error, and are in no figure: 2." in run.results.run.notes


def test_a_loop_that_raises_leaves_what_was_measured(profiled: Callable[..., Any]) -> None:
    loop = profiled("broken")

    def train() -> None:
        with loop:
            for _ in range(8):
                loop.step()
            raise RuntimeError("out of data")

    with pytest.raises(RuntimeError, match="out of data"):
        train()
    assert loop.run.results.run.status == "finished with failures"
    assert loop.run.cells[0].latency_s.n == 5
    assert "The code ended with an error: RuntimeError: out of data" in loop.run.results.run.notes


def test_what_another_profiler_touched_is_in_no_figure(profiled: Callable[..., Any], tmp_path: Path) -> None:
    outer = profiled("outer")
    for number in range(8):
        with outer:
            if number in (4, 5):
                with profile("inner", logdir=tmp_path, quiet=True, schedule=schedule(0, 0, 1, 0)):
                    torch.ones(3).sum()
    assert outer.finish().cells[0].latency_s.left_out == 2
    profile("inner", logdir=tmp_path, quiet=True).finish()
    assert len(list((tmp_path / "inner").iterdir())) == 1  # blocks of one name, whose schedules were made one by one


def test_disabled_it_costs_one_look_at_an_attribute(profiled: Callable[..., Any]) -> None:
    """No function is called but the one that is profiled: counted by the interpreter itself."""

    @profiled(enabled=False)
    def add(one: int, two: int) -> int:
        return one + two

    called: list[str] = []
    sys.setprofile(lambda frame, event, argument: called.append(frame.f_code.co_name) if event == "call" else None)
    try:
        add(1, 2)
    finally:
        sys.setprofile(None)
    assert called == ["profiled", "add"]
    assert add.profile.finish() is None


def test_the_environment_switches_all_off(profiled: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def add(one: int, two: int) -> int:
        return one + two

    monkeypatch.setenv("SPEECH_PROFILE", "0")
    assert profiled(add) is add
    with profiled("block") as block:
        block.step()
    assert list(block.steps([1, 2])) == [1, 2]
    assert block.finish() is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scedule": None}, "no option `scedule`. Did you mean `schedule`"),
        ({"seconds": -1}, "seconds=-1"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"schedule": 3}, "expected what torch.profiler.schedule"),
    ],
)
def test_wrong_options_are_said_at_once(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as found:
        profile("x", **options)
    assert said in str(found.value)


def test_labels_that_match_nothing_name_what_is_near(profiled: Callable[..., Any]) -> None:
    loop = profiled("typo", model=Encoder(), labels={"front": "frame"})
    with pytest.raises(
        UserError, match=r"labels: front: no module of the model matches `frame`. Did you mean `frames`"
    ):
        list(loop.steps([1]))


def test_what_cannot_be_profiled_says_so() -> None:
    async def listen() -> AsyncIterator[int]:
        yield 1

    with pytest.raises(UserError, match="asynchronous generator"):
        profile(listen)
    with pytest.raises(UserError, match="expected a function"):
        profile(3)


def test_an_asynchronous_function(profiled: Callable[..., Any]) -> None:
    @profiled
    async def listen(number: int) -> int:
        await asyncio.sleep(0)
        return number

    async def many() -> list[int]:
        one_by_one = [await listen(number) for number in range(MANY)]
        return one_by_one + await asyncio.gather(listen(1), listen(2))

    assert asyncio.run(many()) == [*range(MANY), 1, 2]
    assert listen.profile.finish().cells[0].latency_s.n == 11  # of the last two, which went on together, one


def test_nothing_is_on_between_the_calls_of_a_function(profiled: Callable[..., Any]) -> None:
    recorded = []

    @profiled
    def add() -> None:
        recorded.append(torch.autograd._profiler_enabled())

    for _ in range(MANY):
        add()
        assert not torch.autograd._profiler_enabled()
    assert [number for number, on in enumerate(recorded) if on] == [0, MANY - 1]
    cell = add.profile.finish().cells[0]
    assert cell.latency_s.n == 10
    assert cell.trace


def test_of_calls_in_several_threads_at_once_one_is_a_step(profiled: Callable[..., Any], tmp_path: Path) -> None:
    all_inside = threading.Barrier(2, timeout=30)

    @profiled
    def meet(number: int) -> int:
        all_inside.wait()
        return number

    with ThreadPoolExecutor(2) as pool:
        for _ in range(MANY):
            assert list(pool.map(meet, range(2))) == [0, 1]
    assert meet.profile.finish().cells[0].latency_s.n == 10
    assert len(list(tmp_path.glob("*/*/results.json"))) == 1
