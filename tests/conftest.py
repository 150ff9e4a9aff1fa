"""What tests share: tiny models, made once, and a guard on the one setting that loading a model leaves behind."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

# Threads that wait for one another by spinning make a busy machine tens of times slower. Tests assert no speed, so
# theirs sleep. It is read once, when torch is loaded: hence before anything that imports it.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# Hundreds of Pythons are started: each is to find the project compiled.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# No test depends on the noise floor that `doctor` measured here: there is none in this folder, and none can be kept.
os.environ["SPEECH_PROFILER_STATE"] = os.devnull

from profiler.environment import allowed_cpus
from tests.helpers import tiny

if TYPE_CHECKING:
    from selenium.webdriver import Chrome


# Unit tests come first: they are quick, and say most. Of the others, what takes longest begins, so that no process is
# left alone with it at the end; then come files whose tests go to whichever process is free, by how long these take.
LONG = (
    "test_plugin_page",
    "test_fleet",
    "test_measuring",
    "test_serving",
    "test_tune",
    "test_engines",
    "test_espnet",
    "test_exported_files",
    "test_serving_outside",
    "test_networks",
    "test_variants",
    "test_guides",
    "test_ab",
)
LAST = ("test_shipped_recipes",)  # many small groups: they fill up
# Files whose tests share no run: each test goes to whichever process is free.
APART = ("test_ab", "test_dataset", "test_guides", "test_interruption", "test_variants")
# Files whose tests share one run for each parameter.
BY_PARAMETER = ("test_shipped_recipes",)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    if item.path.stem in LONG:
        return LONG.index(item.path.stem)
    if item.path.stem in LAST:
        return len(LONG) + 1
    return -1 if "unit" in item.path.parts else len(LONG)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """`-n auto`: one process more than there are cores. For a third of their time tests wait: for calls that sleep, for
    load, for pages."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None  # as pytest-xdist has it
    return len(allowed_cpus()) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests that share a run go to one process, in the order given above.

    `--dist loadgroup` would do, but pytest-xdist 3.8 loses the groups under pytest 9.2, without a word.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    config.option.loadscopereorder = False
    return Groups(config, log)


def group_of(nodeid: str) -> str:
    """A test -> what it shares a process with: its file, or those with its parameter, or nothing."""
    file, _, test = nodeid.partition("::")
    name = Path(file).stem
    if name in APART:
        return nodeid
    return file + test.partition("[")[2] if name in BY_PARAMETER else file


class TinyModel(NamedTuple):
    """A folder with a tiny model, and what was saved in it."""

    folder: Path
    type: str
    saved: dict[str, Any]


MAKERS: dict[str, tuple[str, Callable[[Path], dict[str, Any]]]] = {
    "ctc": ("AutoModelForCTC", tiny.save_ctc),
    "encoder": ("AutoModel", tiny.save_encoder),
    "classifier": ("AutoModelForAudioClassification", tiny.save_classifier),
    "whisper": ("AutoModelForSpeechSeq2Seq", tiny.save_whisper),
    "crdnn": ("EncoderDecoderASR", tiny.save_crdnn),
    "french": ("EncoderASR", tiny.save_french),
    "speechbrain-whisper": ("WhisperASR", tiny.save_speechbrain_whisper),
}


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], TinyModel]:
    """Name -> a real tiny model in a folder. Tests that change the folder work on a copy."""
    made: dict[str, TinyModel] = {}

    def get(name: str) -> TinyModel:
        if name not in made:
            kind, save = MAKERS[name]
            folder = tmp_path_factory.mktemp("models") / f"tiny-{name}"
            made[name] = TinyModel(folder, kind, save(folder))
        return made[name]

    return get


@pytest.fixture(scope="session")
def _chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    from tests.helpers import browser as browsers

    found = browsers.installed()
    if found is None:
        pytest.skip(browsers.MISSING)
    started = browsers.start(*found, tmp_path_factory.mktemp("chromium"))
    yield started
    started.quit()


@pytest.fixture
def browser(_chromium: Chrome) -> Chrome:
    """A headless Chromium that reaches this machine alone, on an empty page; helpers/browser.py tells what it asked."""
    from tests.helpers import browser as browsers

    _chromium.get("about:blank")
    browsers.prefer(_chromium, "light")
    _chromium.set_window_size(1280, 900)
    browsers.requests_of(_chromium)  # what the test before left
    browsers.errors_of(_chromium)
    return _chromium


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Fails every attempt to reach the network, and lists the attempts: libraries may swallow the error."""
    attempts: list[Any] = []

    def refuse(*arguments: Any, **more: Any) -> None:
        attempts.append(arguments)
        raise OSError("a test tried to reach the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return attempts


@pytest.fixture(autouse=True)
def _hub_settings_restored() -> Iterator[None]:
    """A worker that has decided not to use the network stays so until it ends; a test must not hand that on."""
    before = os.environ.get("HF_HUB_OFFLINE")
    yield
    if os.environ.get("HF_HUB_OFFLINE") != before:
        os.environ.pop("HF_HUB_OFFLINE")
        if before is not None:
            os.environ["HF_HUB_OFFLINE"] = before
    constants: Any = sys.modules.get("huggingface_hub.constants")
    if constants is not None:
        constants.HF_HUB_OFFLINE = before is not None and before.upper() in ("1", "ON", "YES", "TRUE")
