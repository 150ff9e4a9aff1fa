"""What every engine is held to: it does as asked or is refused, and what it needs is named with the command."""

from __future__ import annotations

import importlib.util
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from profiler.errors import NotSupported, UserError
from profiler.recipe.load import load_recipe
from profiler.runtimes import ENGINES, cache, check_installed, engine, waiting
from profiler.runtimes.base import EngineCall, Options, Settings, check
from profiler.runtimes.onnxruntime import read_profile
from profiler.runtimes.reasons import explained, plain_reason
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


def test_an_export_is_made_anew_when_the_code_that_makes_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who works on an engine has the same version all day; the exports of other engines stay."""
    folder = tmp_path / "runtimes"
    shutil.copytree(cache.HERE, folder)
    monkeypatch.setattr(cache, "HERE", folder)
    own = tmp_path / "exported.py"
    own.write_text("first")

    def keys() -> list[str]:
        return [cache.key(name, "weights", packages=(), code=[own]) for name in ("onnxruntime", "openvino")]

    first = keys()
    assert first == keys()
    (folder / "onnxruntime.py").write_text("# changed")
    onnx, openvino = keys()
    assert onnx != first[0]
    assert openvino == first[1]
    own.write_text("second")
    assert not {onnx, openvino} & set(keys())


def test_a_thread_that_waits_by_spinning_is_seen_and_one_that_sleeps_is_not() -> None:
    """Made by hand, for engines give it up to their own settings."""
    wake, end = threading.Event(), threading.Event()

    def spin() -> None:
        wake.wait()
        while not end.is_set():
            pass

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        asleep = waiting.waiting_cpus(lambda: None)
        wake.set()
        spinning = waiting.waiting_cpus(lambda: None)
    finally:
        wake.set()
        end.set()
        thread.join()
    assert asleep < spinning
    assert asleep < waiting.SPINNING


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            "Model wasn't fully converted.\n-- No conversion rule found for operations: aten.index_put.default\n",
            "it has no operator for aten.index_put",
        ),
        (
            "Could not guard on data-dependent expression u0",
            "the model's code takes a decision that depends on the data",
        ),
        ("[ONNXRuntimeError] : 1 : FAIL : Non-zero status code", "its file does not run at every shape that is needed"),
        (
            "Cannot evaluate a finite upper bound for symbolic expression u22",
            "the size of a tensor in it depends on the data",
        ),
        ("Object at 0x7f12 is {broken}\nmore", "its exporter ends with RuntimeError (Object at  is broken)"),
    ],
)
def test_what_an_exporter_raises_becomes_a_sentence(said: str, reason: str) -> None:
    assert plain_reason(RuntimeError(said)).startswith(reason)
    wrapped = ValueError("the exporter gave up")
    wrapped.__cause__ = RuntimeError(said)
    assert plain_reason(wrapped).startswith(reason), "the cause is what tells"


def test_all_that_an_exporter_said_is_in_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        raise RuntimeError("first\nand all the rest")

    with pytest.raises(NotSupported, match="its exporter ends with RuntimeError"):
        explained(work)()
    assert "and all the rest" in capfd.readouterr().err
