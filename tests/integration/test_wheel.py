"""An installed wheel does all that a checkout does: it is built, installed in an environment of its own, and used."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from profiler import __version__
from profiler.shipped import shipped_recipes
from tests.helpers.program import ROOT, module_recipe

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the files of the repository, in a copy: a build leaves folders behind."""
    copy, made = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    files = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for name in files:
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--wheel-dir", str(made), str(copy)], check=True, capture_output=True)
    (built,) = made.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that has the wheel. Its other packages are those of this one, which knows the
    profiler by a link to the checkout; links in a folder that is only on the path are not followed."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, str(wheel)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    return folder / "bin"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that has nothing to do with the checkout."""
    return tmp_path_factory.mktemp("elsewhere")


@pytest.fixture(scope="module")
def run_folder(installed: Path, place: Path) -> Path:
    """Of a tiny recipe, with a trace, run by the installed program."""
    recipe = module_recipe(place, "Nothing", batches="[1]", more="measure: {rounds: 1}\n", grid="  export_logs: true\n")
    done = use(installed, place, recipe, "--trust", "--quiet")
    assert done.returncode == 0, done.stderr
    (results,) = place.glob("logs/*/*/results.json")
    return results.parent


def use(installed: Path, place: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(installed / "speech-profiler"), *map(str, arguments)]
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)


def test_it_holds_what_ships_and_no_tests(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    shipped = "profiler/shipped_files"
    assert {f"{shipped}/recipes/{name}.yaml" for name in shipped_recipes()} <= names
    for name in ("recipes/counts.json", "samples/speech.flac", "recipes/architectures/whisper-tiny/config.json"):
        assert f"{shipped}/{name}" in names
    assert {"profiler/py.typed", "profiler/models/espnet/adapter.py"} <= names
    assert any(name.startswith("profiler/report/templates/") for name in names)
    assert any(name.startswith("profiler/tensorboard_plugin/static/") for name in names)
    assert {name.split("/")[0] for name in names} == {"profiler", f"speech_profiler-{__version__}.dist-info"}
    assert not [name for name in names if "__pycache__" in name]


def test_the_package_is_the_installed_one(installed: Path, place: Path) -> None:
    code = "import profiler, profiler.shipped as s; print(profiler.__file__); print(s.shipped_folder())"
    done = subprocess.run(
        [str(installed / "python"), "-c", code], cwd=place, capture_output=True, text=True, check=True
    )
    assert [Path(line).is_relative_to(installed.parent) for line in done.stdout.splitlines()] == [True, True]


def test_it_lists_shows_and_copies_what_ships(installed: Path, place: Path) -> None:
    listed = use(installed, place, "ls", "--json")
    assert listed.returncode == 0, listed.stderr
    rows = {row["name"]: row for row in json.loads(listed.stdout)}
    assert set(rows) == set(shipped_recipes())
    assert rows["wav2vec2"]["parameters"] == 94396320
    shown = use(installed, place, "show", "wav2vec2")
    assert "94,396,320" in shown.stdout, shown.stderr
    copied = use(installed, place, "cp", "wav2vec2", "mine.yaml")
    assert copied.returncode == 0, copied.stderr
    assert use(installed, place, "show", "mine.yaml", "--no-counts").returncode == 0


def test_it_runs_a_recipe_and_reports(installed: Path, place: Path, run_folder: Path) -> None:
    report = use(installed, place, "report", "latest")
    assert report.returncode == 0, report.stderr
    assert "Real-time factor" in report.stdout
    assert (run_folder / "report.html").stat().st_size > 10_000
    assert (run_folder / "rtfx.svg").is_file()


@pytest.fixture(scope="module")
def tab(installed: Path, place: Path, run_folder: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    command = [str(installed / "speech-profiler"), "tensorboard", "--port", str(port)]
    server = subprocess.Popen(
        command, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    address = f"http://localhost:{port}/data"
    try:
        for _ in range(400):
            try:
                urllib.request.urlopen(f"{address}/plugins_listing", timeout=30)
                break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.3)
        yield address
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def test_the_tab_has_its_page_and_the_run(tab: str, run_folder: Path) -> None:
    with urllib.request.urlopen(f"{tab}/plugins_listing", timeout=30) as answer:
        assert json.load(answer)["speech_profile"]["enabled"]
    with urllib.request.urlopen(f"{tab}/plugin/speech_profile/runs", timeout=30) as answer:
        assert run_folder.name in answer.read().decode()
    with urllib.request.urlopen(f"{tab}/plugin/speech_profile/index.js", timeout=30) as answer:
        assert len(answer.read()) > 1000
