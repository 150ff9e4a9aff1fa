"""Where the time of a call goes: parts of known cost, found by pattern, with exact calls, memory and operations."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.modules.module import _global_forward_hooks, _global_forward_pre_hooks

from profiler.device import Device
from profiler.errors import ModelError
from profiler.measure.breakdown import count_parts, find_parts, measure_breakdown
from profiler.measure.breakdown.labels import Chains, LabelledCall
from profiler.measure.breakdown.profiled import Event, Profiled, add_operators
from profiler.measure.breakdown.rows import Rows
from profiler.measure.breakdown.watch import BackwardTally, Sums, watching, watching_step
from profiler.measure.passes.memory import tensor_peak
from profiler.measure.passes.operations import by_component
from profiler.models.model import Model
from tests.helpers.operations import count_operations

KB = 1024
SECONDS_OF_AUDIO = 2.0


class Sleep(torch.nn.Module):
    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        time.sleep(self.seconds)
        return value


class Hold(torch.nn.Module):
    """Holds so many kilobytes while it is called."""

    def __init__(self, kilobytes: int) -> None:
        super().__init__()
        self.kilobytes = kilobytes

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        held = torch.empty(self.kilobytes * KB, dtype=torch.uint8)
        return value + held.new_zeros(1)


class Layer(torch.nn.Module):
    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.self_attn = Sleep(3 * seconds)
        self.linear = Sleep(seconds)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return self.linear(self.self_attn(value))


class Encoder(torch.nn.Module):
    def __init__(self, layers: int, seconds: float) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer(seconds) for _ in range(layers))

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            value = layer(value)
        return value


class Decoder(torch.nn.Module):
    """Never called itself: whoever decodes calls its steps."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.output = Sleep(seconds)
        self.looks = 0

    def size(self) -> int:
        self.looks += 1
        return 7

    def step(self, value: torch.Tensor) -> torch.Tensor:
        time.sleep(self.output.seconds)
        return self.output(value)


class Recogniser(torch.nn.Module):
    def __init__(self, seconds: float = 0.003, layers: int = 2, steps: int = 3) -> None:
        super().__init__()
        self.encoder = Encoder(layers, seconds)
        self.decoder = Decoder(seconds)
        self.unused = torch.nn.Linear(2, 2)
        self.steps = steps

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        value = self.encoder(value)
        for _ in range(self.steps + self.decoder.size() * 0):
            value = self.decoder.step(value)
        return value


def model_of(module: torch.nn.Module, **more: Any) -> Model:
    components = more.pop("components", dict(module.named_children()))
    return Model(module, lambda batch: batch, module, "text", 16000, components, **more)


def parts_of(module: torch.nn.Module, labels: dict[str, Any] | None = None, **more: Any) -> Chains:
    found = find_parts(model_of(module, **more), labels or {})
    assert found is not None
    return found


def measured(
    folder: Path, module: torch.nn.Module, labels: dict[str, Any] | None = None, value: Any = None, **more: Any
) -> dict[str, Any]:
    parts = parts_of(module, labels, **more)
    value = torch.ones(1, 4) if value is None else value
    with torch.no_grad():
        return measure_breakdown(
            LabelledCall(module, value, Device("cpu"), parts), SECONDS_OF_AUDIO, folder
        ).model_dump()


def rows(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in result["labels"]}


def details(folder: Path, name: str) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in json.loads((folder / "breakdown.json").read_text())[name]}


# -- which modules a label means


@pytest.mark.parametrize("pattern", ["encoder", "encoder.*", ["encoder"], "e*", ["encoder.layers.*", "encoder"]])
def test_a_label_is_the_outermost_of_what_matches(pattern: Any) -> None:
    parts = parts_of(Recogniser(), {"encoder": pattern})
    assert [parts.tree.names[place] for place in parts.labels.roots["encoder"]] == ["encoder"]


@pytest.mark.parametrize("pattern", ["*.self_attn", "encoder.layers.*.self_attn", "*attn"])
def test_a_label_covers_all_that_match(pattern: str) -> None:
    parts = parts_of(Recogniser(layers=3), {"attention": pattern})
    names = [parts.tree.names[place] for place in parts.labels.roots["attention"]]
    assert names == [f"encoder.layers.{number}.self_attn" for number in range(3)]


def test_names_may_start_at_a_component() -> None:
    class Wrapper(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.backbone = Recogniser()

    wrapper = Wrapper()
    parts = parts_of(wrapper, {"all": "encoder.*"}, components=dict(wrapper.backbone.named_children()))
    assert [parts.tree.names[place] for place in parts.labels.roots["all"]] == ["backbone.encoder"]


def test_modules_beside_the_model_have_names_too() -> None:
    parts = parts_of(Recogniser(), {"search": "search"}, beside={"search": Sleep(0)})
    assert [parts.tree.names[place] for place in parts.labels.roots["search"]] == ["search"]


@pytest.mark.parametrize(
    ("pattern", "suggested"),
    [
        ("*.self_atn", "`*.self_attn`"),
        ("encodr", "`encoder`"),
        ("encoder.layer.*", "`encoder.layers`"),
        ("nothing_like_it", "encoder, decoder, unused"),
    ],
)
def test_a_label_without_a_module_is_refused_with_near_names(pattern: str, suggested: str) -> None:
    with pytest.raises(ModelError, match=r"trace\.labels\.x: no module of the model matches") as error:
        parts_of(Recogniser(), {"x": pattern})
    assert suggested in str(error.value)


def test_without_labels_the_components_are_the_parts() -> None:
    class BeamSearcher(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dec = torch.nn.GRU(2, 2)
            self.softmax = torch.nn.Softmax(-1)

    module = torch.nn.Module()
    module.encoder = torch.nn.Sequential()
    module.encoder.add_module("compute_features", Sleep(0))
    module.encoder.add_module("model", torch.nn.Linear(2, 2))
    module.decoder = BeamSearcher()
    module.lm_model = torch.nn.Linear(2, 2)
    module.head = torch.nn.Linear(2, 2)
    parts = parts_of(module)
    assert parts.labels.automatic
    assert {name: [parts.tree.names[place] for place in at] for name, at in parts.labels.roots.items()} == {
        "encoder": ["encoder"],
        "front end": ["encoder.compute_features"],
        "search": ["decoder"],
        "decoder": ["decoder.dec"],
        "language model": ["lm_model"],
        "head": ["head"],
    }


# -- what is measured


def test_parts_of_known_cost(tmp_path: Path) -> None:
    labels = {"encoder": "encoder", "attention": "*.self_attn", "linear": "*.linear", "decoder": "decoder"}
    found = measured(tmp_path, Recogniser(), labels)
    row = rows(found)
    assert {name: row[name]["calls"] for name in labels} == {"encoder": 1, "attention": 2, "linear": 2, "decoder": 3}
    assert row["attention"]["total_s"] > row["linear"]["total_s"] >= 2 * 0.003
    assert row["attention"]["total_s"] >= 6 * 0.003
    inner = row["attention"]["total_s"] + row["linear"]["total_s"]
    assert row["encoder"]["total_s"] >= inner
    assert row["encoder"]["own_s"] == pytest.approx(row["encoder"]["total_s"] - inner, abs=1e-9)
    assert row["encoder"]["own_s"] < 0.3 * row["encoder"]["total_s"]
    assert row["decoder"]["own_s"] == row["decoder"]["total_s"] > 5.5 * 0.003, "the step itself counts, not the look"
    whole = row["(whole call)"]
    assert sum(row[name]["own_share"] for name in (*labels, "(rest)")) == pytest.approx(1.0, abs=0.01)
    assert whole["total_s"] == found["call_s"] >= 14 * 0.003
    assert row["encoder"]["s_per_second_of_audio"] == row["encoder"]["total_s"] / SECONDS_OF_AUDIO
    assert row["attention"]["matched"] == ["encoder.layers.0.self_attn", "encoder.layers.1.self_attn"]
    assert found["calls"] >= 2
    assert found["profiled_calls"] >= 1


def test_the_module_tree_with_layers_folded_and_each(tmp_path: Path) -> None:
    measured(tmp_path, Recogniser(layers=3), {"encoder": "encoder"})
    folded, each = details(tmp_path, "modules"), details(tmp_path, "modules_unfolded")
    assert (folded["encoder.layers.*"]["modules"], folded["encoder.layers.*"]["calls"]) == (3, 3)
    assert {name for name in each if name.count(".") == 2} == {f"encoder.layers.{number}" for number in range(3)}
    total = sum(each[f"encoder.layers.{number}"]["total_s"] for number in range(3))
    assert folded["encoder.layers.*"]["total_s"] == pytest.approx(total)
    assert folded["encoder.layers"]["total_s"] == pytest.approx(total), "a list is never called; what is in it is"
    assert folded["encoder.layers"]["own_s"] == 0
    assert "unused" not in folded
    assert list(folded)[:2] == ["(model)", "encoder"]


def test_memory_is_the_peak_above_the_level_at_the_start(tmp_path: Path) -> None:
    module = torch.nn.Sequential()
    module.add_module("small", Hold(100))
    module.add_module("large", Hold(300))
    row = rows(measured(tmp_path, module, {"small": "small", "large": "large", "both": "*"}))
    few = 4 * KB  # the outputs themselves
    assert 100 * KB <= row["small"]["memory_bytes"] <= 100 * KB + few
    assert 300 * KB <= row["large"]["memory_bytes"] <= 300 * KB + few
    assert row["both"]["memory_bytes"] >= row["large"]["memory_bytes"]
    with torch.no_grad():
        assert row["(whole call)"]["memory_bytes"] == tensor_peak(module, torch.ones(1, 4))
    allocated = details(tmp_path, "operators")["aten::empty"]["memory_bytes"]
    assert 400 * KB <= allocated <= 400 * KB + few


def test_operations_go_to_the_parts_at_work(tmp_path: Path) -> None:
    module = torch.nn.Sequential()
    module.add_module("wide", torch.nn.Linear(8, 32))
    module.add_module("narrow", torch.nn.Linear(32, 8))
    value = torch.ones(5, 8)
    row = rows(measured(tmp_path, module, {"all": "*", "wide": "wide"}, value))
    assert row["wide"]["macs"] == 5 * 8 * 32
    assert (row["all"]["macs"], row["all"]["own_macs"]) == (2 * 5 * 8 * 32, 5 * 8 * 32)
    assert row["(rest)"]["macs"] == 0
    assert row["(whole call)"]["macs"] == count_operations(module, value, {}, 1.0).macs
    assert row["wide"]["macs_per_second_of_audio"] == row["wide"]["macs"] / SECONDS_OF_AUDIO
    operators = details(tmp_path, "operators")
    assert operators["aten::linear"]["calls"] == 2
    assert operators["aten::addmm"]["macs"] == 2 * 5 * 8 * 32
    assert operators["aten::linear"]["total_s"] >= operators["aten::linear"]["own_s"]


class Borrower(torch.nn.Module):
    """Its head is used in three ways: as a module, by a method, and as weights that someone else multiplies with."""

    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8))
        self.head = Head()

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        hidden = self.body(value)
        scores = self.head.score(self.head(hidden) + hidden @ self.head.weight.T)
        return scores @ hidden


class Head(torch.nn.Linear):
    def __init__(self) -> None:
        super().__init__(8, 8)

    def score(self, value: torch.Tensor) -> torch.Tensor:
        return value @ value.T


def test_one_count_serves_the_tables_by_component_and_by_label(tmp_path: Path) -> None:
    module, value = Borrower(), torch.ones(5, 8)
    parts = parts_of(module, {"body": "body", "head": "head"})
    components = {"body": module.body, "head": module.head}
    product, scores = 5 * 8 * 8, 5 * 8 * 5
    with torch.no_grad():
        call = LabelledCall(module, value, Device("cpu"), parts)
        count = count_parts(call, components)
        found = measure_breakdown(call, SECONDS_OF_AUDIO, tmp_path, count)
    component, label = by_component(count, components, SECONDS_OF_AUDIO), rows(found.model_dump())
    assert component == count_operations(module, value, components, SECONDS_OF_AUDIO)
    assert component.components == {"body": 4 * product, "head": 2 * product, "other": 2 * scores}
    by_label = {name: label[name]["own_macs"] for name in ("body", "head", "(rest)")}
    assert by_label == {"body": 4 * product, "head": product + scores, "(rest)": product + scores}
    assert sum(by_label.values()) == sum(component.components.values()) == label["(whole call)"]["macs"]
    operators = {name: row["macs"] for name, row in details(tmp_path, "operators").items() if row["macs"]}
    assert operators == component.by_operator


def test_a_label_that_is_never_called_stays_with_the_reason(tmp_path: Path) -> None:
    found = measured(tmp_path, Recogniser(0.001), {"unused": "unused"})
    assert rows(found)["unused"]["calls"] == 0
    assert any("No call was seen of: unused" in note for note in found["notes"])
    found = measured(tmp_path, Recogniser(0.001))
    assert "unused" not in rows(found)
    assert "Not called: unused." in found["notes"]


def test_what_labels_cost_is_part_of_the_result(tmp_path: Path) -> None:
    overhead = measured(tmp_path, Recogniser(0.002))["overhead"]
    assert len(overhead["labelled_s"]) == len(overhead["bare_s"]) >= 2
    assert overhead["module_calls"] == 1 + 1 + 2 * 3 + 1 + 3 + 3, "modules, and of the decoder a look and three steps"
    assert 0 < overhead["known"] < 0.1
    assert overhead["known"] == pytest.approx(
        overhead["module_calls"] * overhead["hook_s"] / sorted(overhead["bare_s"])[len(overhead["bare_s"]) // 2],
        rel=0.2,
    )


def test_a_module_inside_itself_counts_once(tmp_path: Path) -> None:
    class Again(torch.nn.Module):
        def forward(self, value: torch.Tensor, depth: int = 3) -> torch.Tensor:
            time.sleep(0.002)
            return self(value, depth - 1) if depth else value

    module = torch.nn.Sequential()
    module.add_module("again", Again())
    row = rows(measured(tmp_path, module, {"again": "again"}))
    assert row["again"]["calls"] == 1
    assert row["again"]["share"] <= 1


def test_work_in_a_thread_is_seen(tmp_path: Path) -> None:
    class Threaded(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Sleep(0.003)

        def forward(self, value: torch.Tensor) -> torch.Tensor:
            thread = threading.Thread(target=self.inner, args=(value,))
            thread.start()
            thread.join()
            return value

    found = measured(tmp_path, Threaded(), {"inner": "inner"})
    assert rows(found)["inner"]["calls"] == 1
    assert any("several threads" in note for note in found["notes"])


def test_a_script_is_one_part(tmp_path: Path) -> None:
    module = torch.nn.Sequential()
    module.add_module("net", torch.jit.script(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())))
    found = measured(tmp_path, module, {"net": "net", "inside": "net.0"})
    assert rows(found)["net"]["calls"] == 1
    assert rows(found)["inside"]["calls"] == 0
    assert any("A script is one part" in note and "net" in note for note in found["notes"])


# -- the model itself is left as it is


def test_labels_leave_fused_kernels_in_use(tmp_path: Path) -> None:
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    measured(tmp_path, layer, {"attention": "self_attn"}, torch.ones(1, 3, 8))
    assert "aten::_transformer_encoder_layer_fwd" in details(tmp_path, "operators")


def test_nothing_is_left_behind_even_by_a_model_that_raises() -> None:
    class Bad(Recogniser):
        def forward(self, value: torch.Tensor) -> torch.Tensor:
            self.decoder.step(self.encoder(value))
            raise RuntimeError("no")

    module = Bad(0.0)
    parts = parts_of(module, {"decoder": "decoder"})
    stack: list[int] = []
    enter: Callable[..., None] = lambda place, kind: stack.append(place)  # noqa: E731
    with pytest.raises(RuntimeError, match="no"):  # noqa: SIM117
        with watching(parts.tree, parts.labels.roots["decoder"], enter, lambda: stack.pop() and None):
            module(torch.ones(1))
    assert stack == []
    assert not _global_forward_hooks
    assert not _global_forward_pre_hooks
    assert "step" not in vars(module.decoder)


def test_device_time_of_an_operator_is_that_of_its_kernels_alone() -> None:
    """A named span is on the device, too, and has the same kernels within it."""
    found = Profiled()
    add_operators(
        found,
        [
            Event("Optimizer.step#AdamW.step", 0, 100, 1, 0, "cpu", 1, 0, annotation=True),
            Event("aten::add_", 10, 30, 1, 0, "cpu", 2, 0),
            Event("kernel", 20, 60, 0, 0, "cuda", 3, 2),
            Event("Memcpy", 60, 65, 0, 0, "cuda", 4, 2),
            Event("Optimizer.step#AdamW.step", 20, 65, 0, 0, "cuda", 1, 1, annotation=True),
        ],
    )
    assert {name: row.device_ns for name, row in found.operators.items()} == {
        "Optimizer.step#AdamW.step": 0,
        "aten::add_": 45,
    }


def test_a_compiled_model_has_no_parts() -> None:
    module = Recogniser()
    module.encoder.compile(backend="eager")
    assert find_parts(model_of(module), {}) is None


# -- the backward phase, for whole training steps


class Slow(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, value: torch.Tensor, seconds: float) -> torch.Tensor:
        context.seconds = seconds
        return value * 2

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        time.sleep(context.seconds)
        return gradient * 2, None


class SlowBackward(torch.nn.Module):
    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.relu_(Slow.apply(self.linear(value), self.seconds))
        return result


class Told:
    """What a training step does for those who follow it."""

    @contextmanager
    def telling(self, told: Callable[[Any], None]) -> Iterator[None]:
        self.told = told
        yield


def test_the_backward_phase_belongs_to_the_part_that_computed_forward() -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential()
    module.add_module("long", SlowBackward(0.3))
    module.add_module("short", SlowBackward(0.01))
    value = torch.ones(2, 3)
    module(value).sum().backward()
    expected = [parameter.grad.clone() for parameter in module.parameters() if parameter.grad is not None]
    module.zero_grad()
    parts = parts_of(module, {"all": "*", "long": "long", "linears": "*.linear"})
    backward, step = BackwardTally(parts), Told()
    with watching_step(parts, lambda place, kind: None, lambda: None, step, backward.at_work):  # type: ignore[arg-type]
        for _ in range(2):
            module.zero_grad()
            loss = module(value).sum()
            step.told(loss)
            loss.backward()
    backward.add_up()
    everything, long, linears = backward.sums[len(parts.tree) :]
    short = backward.sums[parts.tree.names.index("short")]
    assert long.total >= 2 * 0.3e9, "what it sleeps in two passes"
    assert short.total >= 2 * 0.01e9
    assert long.total > short.total, "thirty times as long"
    assert everything.total >= long.total + short.total
    assert everything.own == pytest.approx(everything.total - long.own - linears.own)
    assert linears.total < everything.total
    assert backward.labelled == everything.total
    given = [parameter.grad for parameter in module.parameters()]
    assert all(torch.equal(one, other) for one, other in zip(expected, given, strict=True) if other is not None)


def test_operations_of_the_backward_phase_are_of_the_same_count_by_component_and_by_label() -> None:
    module, value, step = Borrower(), torch.ones(5, 8), Told()
    parts = parts_of(module, {"body": "body", "head": "head"})
    components = {"body": module.body, "head": module.head}

    def train(batch: torch.Tensor) -> None:
        loss = module(batch).sum()
        step.told(loss)
        loss.backward()

    count = count_parts(LabelledCall(train, value, Device("cpu"), parts, step), components)  # type: ignore[arg-type]
    sums = [Sums() for _ in range(len(parts))]
    phases = [Rows(parts, sums, 1, 1.0, 1.0, count=count, phase=phase) for phase in ("forward", "backward")]
    forward, backward = ({row.name: row.own_macs for row in phase.labels()} for phase in phases)
    product, scores = 5 * 8 * 8, 5 * 8 * 5
    assert forward == {"body": 4 * product, "head": product + scores}
    # For each product two of its size, of its two factors. The first layer's input takes no gradients.
    assert backward == {"body": (2 * 4 - 2) * product, "head": 2 * (product + scores)}
    rest, whole = phases[0].last(0, None)
    assert rest.macs == 3 * (product + scores)
    assert sum((*forward.values(), *backward.values(), rest.macs)) == whole.macs
    assert sum(by_component(count, components, 1.0).components.values()) == whole.macs
