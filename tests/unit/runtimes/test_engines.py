"""What every engine is held to: it does as asked or is refused, and what it needs is named with the command."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from profiler.errors import NotSupported, UserError
from profiler.recipe.load import load_recipe
from profiler.runtimes import ENGINES, check_installed, engine, profile
from profiler.runtimes.base import EngineCall, Node, Options, Settings, check
from profiler.runtimes.onnxruntime import read_profile
from tests.helpers.program import module_recipe


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (Settings(threads=2, precision="bfloat16"), "float32 was asked for and it computes in bfloat16"),
        (Settings(threads=8, precision="float32"), "2 threads were asked for and it uses 8"),
        (Settings(threads=2, precision="float32", spinning=True), "its waiting threads spin"),
    ],
)
def test_an_engine_that_does_something_else_than_asked_is_refused(found: Settings, sentence: str) -> None:
    with pytest.raises(NotSupported, match=sentence):
        check(Options(threads=2), found)


def test_what_an_engine_does_not_tell_is_not_held_against_it() -> None:
    check(Options(threads=2), Settings())


def test_a_missing_package_comes_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "openvino" else there(name))
    recipe = module_recipe(tmp_path, "Tagger", more="variants:\n- {name: a, runtime: openvino}\n")
    with pytest.raises(UserError) as error:
        load_recipe(recipe, trust=True)
    assert 'pip install "speech-profiler[openvino]"' in str(error.value)


@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_offers_the_protocol_and_imports_its_packages_when_used(name: str) -> None:
    check_installed(name)
    offered: Any = engine(name)
    for part in ("SUFFIX", "PACKAGES", "DYNAMIC", "PRECISIONS", "QUANTIZES", "PROFILE", "TIMELINE"):
        assert hasattr(offered, part)
    assert all(callable(getattr(offered, part)) for part in ("export", "options", "load"))


def test_a_profile_of_onnx_runtime_is_cut_into_calls() -> None:
    def node(name: str, start: int, took: int) -> dict[str, Any]:
        return {"cat": "Node", "name": f"{name}_kernel_time", "ts": start, "dur": took, "args": {"op_name": name}}

    def call(start: int, took: int) -> dict[str, Any]:
        return {"cat": "Session", "name": "model_run", "ts": start, "dur": took}

    events = [node("MatMul", 10, 30), node("Add", 45, 5), call(5, 50), node("MatMul", 110, 20), call(100, 40)]
    first, second = read_profile(events)
    assert isinstance(first, EngineCall)
    assert [(found.operator, round(found.seconds * 1e6)) for found in first.nodes] == [("MatMul", 30), ("Add", 5)]
    assert second.nodes[0].start == pytest.approx(10e-6)


def test_after_a_profile_the_sessions_are_open_again_before_calls_are_timed() -> None:
    """The first call opens a session and warms it up: in a comparison of calls it would count as slow."""
    done: list[str] = []
    node = Node("MatMul", 0.25)
    runtime: Any = SimpleNamespace(
        name="onnxruntime",
        engine=SimpleNamespace(PROFILE=""),
        profiled=lambda: done.append("opened with a profile"),
        calls=lambda: [[EngineCall(0.5, [node])] * (1 + profile.CALLS)],
        closed=lambda: done.append("closed"),
    )
    found = profile.operators(runtime, lambda _: done.append("call"), None, 1.0)
    assert [(each.name, each.calls, each.share) for each in found] == [("ONNX Runtime: MatMul", 1.0, 0.5)]
    assert done == ["opened with a profile", *["call"] * (1 + profile.CALLS), "closed", "call"]
