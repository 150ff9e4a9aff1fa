"""What is asked of a device, in which order, and what is made of it: against a stand-in, for there is no real one."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from profiler.device import CONVOLUTIONS, PRODUCTS, RECURRENT, Device, check_device_name
from profiler.errors import NotSupported, UserError
from profiler.execution.channel import CellJob, PassDone
from profiler.execution.worker import Worker
from profiler.measure import latency, reference
from profiler.measure.passes import PASSES
from profiler.measure.passes.memory import measure_memory
from profiler.measure.passes.time import Round
from profiler.metrics import METRICS
from profiler.models.load import placed
from profiler.models.model import Model
from profiler.processes import explain
from profiler.recipe.schema import Variant
from profiler.report.gpu import cpu_and_device
from profiler.results.types import CellResult, DeviceFacts, ModelResult
from profiler.variants.convert import convert
from tests.helpers.accelerator import LAUNCH_S, FakeAccelerator
from tests.unit.report.test_tables import results


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeAccelerator:
    return FakeAccelerator().install(monkeypatch)


def test_a_call_is_timed_between_synchronises_and_its_device_time_between_events(
    fake: FakeAccelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latency, "time", fake.clock)
    fake.compute(5.0)  # work of before: it is waited for, and not counted
    fake.log.clear()
    call = latency.timed(lambda value: fake.compute(0.01), None, Device("cuda:0"))
    wait = "synchronize cuda:0"
    assert fake.log == [wait, "event", "clock", "compute", "event", wait, "clock"]
    assert call.wall == pytest.approx(LAUNCH_S + 0.01)
    assert call.device == pytest.approx(LAUNCH_S + 0.01)  # the device waited for the launch


def test_without_waiting_only_the_launch_would_be_measured(
    fake: FakeAccelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the synchronise of the test above is what makes the figure right."""
    monkeypatch.setattr(latency, "time", fake.clock)
    monkeypatch.setattr(Device, "synchronize", lambda self: None)
    monkeypatch.setattr(Device, "event", lambda self: None)
    assert latency.timed(lambda value: fake.compute(0.01), None, Device("cuda:0")).wall == pytest.approx(LAUNCH_S)


def test_cpu_time_ends_where_the_call_returns(fake: FakeAccelerator, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waiting for the device takes is the device's time, though the CPU may spin meanwhile."""
    monkeypatch.setattr(latency, "time", fake.clock)
    call = latency.timed(lambda value: fake.compute(0.01), None, Device("cuda:0"))
    assert (call.cpu, call.device) == (pytest.approx(LAUNCH_S), pytest.approx(LAUNCH_S + 0.01))


def test_cpu_and_device_time_stand_beside_one_another(fake: FakeAccelerator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "time", fake.clock)
    size = latency.RoundSize(warmup=1, min_calls=3, max_calls=3)
    rounds: Any = None
    for _ in range(6):
        timing = latency.time_calls(lambda value: fake.compute(0.02), [0, 1, 2], Device("cuda"), size)
        rounds = PASSES["time"].join(rounds, Round(timing))
    cell = CellResult(variant="float32", seconds=2, batch_size=1, status="ok")
    cell.input.seconds_of_audio = 2.0
    PASSES["time"].put(cell, rounds, 0.03, "width")
    assert METRICS["cpu_rtf"].in_cell(cell) == pytest.approx(LAUNCH_S / 2)
    assert METRICS["device_rtf"].in_cell(cell) == pytest.approx((LAUNCH_S + 0.02) / 2)
    table = cpu_and_device("RTF", [cell])
    assert table is not None
    assert table.rows == [["2 s", "5.00E-04 + 1.05E-02"]]
    cell.device_time_s = None  # as on a CPU
    assert cpu_and_device("RTF", [cell]) is None


class Tensor:
    """Of a model's input: says where it was moved."""

    def __init__(self, place: str = "cpu") -> None:
        self.place = place

    def to(self, place: str, copy: bool = False) -> Tensor:
        return Tensor(place)


def test_the_copy_to_the_device_can_be_left_out_of_the_timed_region(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the adapter's inputs look like: a pair with lengths, rows of different lengths, named values."""
    monkeypatch.setattr("torch.Tensor", Tensor)
    device, batch = Device("cuda:1"), cast("Any", None)
    inputs: tuple[Any, ...] = ((Tensor(), None), [Tensor(), Tensor()], {"audio": Tensor(), "texts": ["a"]})
    prepared = iter(inputs)
    prepare = placed(lambda batch: next(prepared), device)
    for given in inputs:
        moved = prepare(batch)
        assert type(moved) is type(given)
        values = moved.values() if isinstance(moved, dict) else moved
        assert {value.place for value in values if isinstance(value, Tensor)} == {"cuda:1"}
    with pytest.raises(NotSupported, match=r"first step .* runs on the CPU.*leave it at `included`"):
        placed(lambda batch: [[0.1, 0.2]], device)(batch)


@pytest.mark.parametrize(
    ("copied", "said"),
    [
        (None, "waveforms in memory to text"),
        ("included", "waveforms in memory to text, the copy to the device included"),
        ("excluded", "waveforms on the device to text, the copy to the device excluded"),
    ],
)
def test_the_timed_region_says_whether_the_copy_is_in_it(copied: Any, said: str) -> None:
    model = ModelResult(variant="a", source="m", type="t", output="text", copy_to_device=copied)
    head = results()
    head.models = [model]
    assert head.timed_region("a") == said


def test_device_times_of_a_round_add_up(fake: FakeAccelerator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "time", fake.clock)
    size = latency.RoundSize(warmup=1, min_calls=3, max_calls=3)
    timing = latency.time_calls(lambda value: fake.compute(0.02), [0, 1, 2], Device("cuda"), size)
    assert timing.device_samples == pytest.approx([LAUNCH_S + 0.02] * 3)
    assert sum(timing.samples) == pytest.approx(3 * (LAUNCH_S + 0.02))


def test_peaks_are_those_of_the_call(fake: FakeAccelerator) -> None:
    fake.allocate(100)  # weights
    fake.allocate(700)
    fake.free(700)  # an earlier, larger call

    def call(value: Any) -> None:
        fake.allocate(200)
        fake.free(200)

    device = Device("cuda:0")
    device.start_clean()
    found = measure_memory(call, None, device)
    assert (found.device, found.device_reserved) == (300, 300)
    assert device.free_and_total_bytes() == (700, 1000)


class FakeModel:
    """Of a job: a call takes as many bytes as its input says."""

    chunks = graph = runtime = speech_made = None

    def __init__(self, fake: FakeAccelerator) -> None:
        self.fake = fake

    def prepare(self, batch: Any) -> int:
        return int(batch.seconds_of_audio)

    def run(self, size: int) -> None:
        self.fake.allocate(size)
        self.fake.free(size)


def measured(model: Any, seconds: float, tmp_path: Path, wanted: str = "memory") -> list[PassDone]:
    """A pass of a cell, in this process: as all cells of a round are measured on a GPU."""
    done: list[Any] = []
    batch = SimpleNamespace(seconds_of_audio=seconds, share_of_padding=0.0)
    channel: Any = SimpleNamespace(send=done.append, receive=lambda: None)
    worker = Worker(channel)
    speech: Any = SimpleNamespace(batch=lambda *given: batch)
    worker.model, worker.speech = model, speech
    job = CellJob(
        seconds=seconds, batch_size=1, passes=(wanted,), device="cuda:0", folder=tmp_path, place="a/b", threads=1
    )
    worker._job(job)
    return [each for each in done if isinstance(each, PassDone)]


def test_no_cell_carries_over_the_peak_of_the_one_before(fake: FakeAccelerator, tmp_path: Path) -> None:
    fake.allocate(100)  # weights
    (large,), (small,) = (measured(FakeModel(fake), seconds, tmp_path) for seconds in (500, 50))
    assert (large.result.whole.device, large.result.whole.device_reserved) == (600, 600)
    assert (small.result.whole.device, small.result.whole.device_reserved) == (150, 150)


def test_out_of_memory_fails_the_cell_with_its_figure_and_the_next_one_is_clean(
    fake: FakeAccelerator, tmp_path: Path
) -> None:
    fake.allocate(100)
    with pytest.raises(torch.OutOfMemoryError) as caught:
        measured(FakeModel(fake), 5000, tmp_path)
    said = explain(caught.value)
    assert said.startswith("out of memory: CUDA out of memory. Tried to allocate 5000 B.")
    assert "total capacity of 1000 B of which 900 B is free" in said
    (after,) = measured(FakeModel(fake), 50, tmp_path)
    assert after.result.whole.device == 150


@pytest.mark.parametrize("kind", ["cuda", "xpu", "mtia", "mps"])
def test_every_kind_goes_the_same_way(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeAccelerator(kind, devices=2).install(monkeypatch)
    name = kind if kind == "mps" else f"{kind}:1"
    device = Device(check_device_name(name))
    device.require()
    device.start_clean()
    wanted = [f"set_device_index {device.index}", f"synchronize {name}", "empty_cache"]
    assert fake.log == wanted + (["reset_peak"] if kind != "mps" else [])
    assert not device.can_fork
    assert (device.event() is None) == (device.peak_bytes() is None) == (kind == "mps")


def test_a_device_is_known_by_name_size_and_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = SimpleNamespace(name="A100", total_memory=80, uuid="1f-2e", major=8, minor=0)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda index: properties)
    told = DeviceFacts(place="cuda:1", name="A100", memory_bytes=80, uuid="GPU-1f-2e", compute="8.0")
    assert Device("cuda:1").facts() == told
    assert Device("cpu").facts() is None
    assert Device("mps").facts() == DeviceFacts(place="mps")


def test_a_cpu_is_asked_for_nothing(fake: FakeAccelerator) -> None:
    device = Device("cpu")
    device.require()
    device.start_clean()
    device.synchronize()
    device.reset_peak()
    assert fake.log == []
    assert device.event() is device.peak_bytes() is device.free_and_total_bytes() is None


def test_a_device_that_is_not_there_is_named_with_what_is(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeAccelerator("xpu").install(monkeypatch)
    with pytest.raises(UserError, match=r"cuda was asked for, but torch sees one of the kind xpu here .* --device xpu"):
        Device("cuda").require()
    with pytest.raises(UserError, match=r"There is no xpu:3; torch sees 1 device"):
        Device("xpu:3").require()
    FakeAccelerator(devices=0).install(monkeypatch)
    with pytest.raises(UserError, match="torch sees no accelerator here") as plain:
        Device("cuda:0").require()
    monkeypatch.setattr("profiler.sandbox.in_force", lambda: True)
    with pytest.raises(UserError, match=r"torch sees it outside of a run.*nvidia-modprobe -u.*--trust") as hidden:
        Device("cuda:0").require()
    assert str(hidden.value).startswith(str(plain.value))
    with pytest.raises(UserError, match="Unknown device `gpu`"):
        check_device_name("gpu")


def test_flags_of_torch_are_told_of_a_gpu_alone() -> None:
    found = Device("cuda:0").flags()
    assert set(found) == {"cuda", "cudnn", "cudnn.benchmark", "cudnn.deterministic", CONVOLUTIONS, RECURRENT, PRODUCTS}
    assert Device("xpu").flags() == Device("cpu").flags() == {}


def test_flags_are_told_where_a_program_used_the_new_settings_of_torch() -> None:
    """From then on torch raises where it is asked by the names of old."""
    matmul: Any = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = "tf32"
    try:
        with pytest.raises(RuntimeError, match="mix of the legacy and new APIs"):
            torch.get_float32_matmul_precision()
        assert Device("cuda:0").flags()[PRODUCTS] == "tf32"
    finally:
        matmul.fp32_precision = before


def test_the_reference_workload_runs_where_the_model_does_and_is_waited_for(
    fake: FakeAccelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def tensor(*size: int, device: Any) -> Any:
        made.append(str(device))
        return SimpleNamespace(copy_=lambda source: fake.compute(0.01))

    for name in ("randn", "empty", "ones"):
        monkeypatch.setattr(torch, name, tensor)
    monkeypatch.setattr(torch, "empty_like", lambda source: source)
    monkeypatch.setattr(torch, "mm", lambda left, right, out: fake.compute(0.1))
    monkeypatch.setattr(reference, "time", fake.clock)
    found = reference.measure_reference(Device("cuda:1"))
    assert set(made) == {"cuda:1"}
    assert found.gflops == pytest.approx(2 * reference.MATRIX_ON_DEVICE**3 / (LAUNCH_S + 0.1) / 1e9)
    assert found.gb_per_s == pytest.approx(2 * reference.COPY_BYTES_ON_DEVICE / (LAUNCH_S + 0.01) / 1e9)


class Squares(torch.nn.Module):
    """Some operations that torch.compile makes one of."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, value: torch.Tensor) -> Any:
        return self.linear(value).relu() ** 2


def test_each_cell_of_a_compiled_variant_on_a_device_is_compiled_for_its_own_shape(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its process has run the model before: left alone, torch would compile the second cell for shapes of any size.
    Code is made by torch's tracer and no compiler: what Triton would make of it needs a GPU."""
    shapes: list[tuple[Any, ...]] = []

    def backend(graph: Any, inputs: list[Any]) -> Any:
        shapes.append(next(tuple(each.shape) for each in inputs if each.ndim == 3))
        return graph.forward

    module = Squares()
    model = Model(
        module,
        lambda batch: torch.ones(1, int(batch.seconds_of_audio), 4),
        module,
        "numbers",
        16000,
        {"squares": module},
    )
    for where in ("profiler.variants.compiled.device_of", "profiler.processes.device_of"):
        monkeypatch.setattr(where, lambda model: "cuda:0")
    monkeypatch.setattr("shutil.which", lambda name: None)  # that of the CPU is not needed
    monkeypatch.setattr("profiler.processes.in_fork", lambda *given: pytest.fail("a GPU's context cannot be forked"))
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    found = convert(model, Variant(name="compiled", compile=True), lambda: [torch.ones(1, 7, 4)])
    assert (found.kind, found.graphs, found.share_of_layers) == ("compile", 1, 1.0)
    device = SimpleNamespace(kind="cuda", event=lambda: None, seconds_between=lambda *events: None)
    device.synchronize = device.start_clean = lambda: None
    monkeypatch.setattr("profiler.execution.worker.Device", lambda name: device)
    shapes.clear()
    with torch.no_grad():
        for seconds in (5, 9):
            measured(model, seconds, tmp_path, "time")
    assert shapes == [(1, 5, 4), (1, 9, 4)]


def test_the_profiler_records_what_the_device_has() -> None:
    assert [[each.name for each in Device(name).activities()] for name in ("cpu", "cuda:1", "xpu", "mps")] == [
        ["CPU"],
        ["CPU", "CUDA"],
        ["CPU", "XPU"],
        ["CPU"],
    ]
