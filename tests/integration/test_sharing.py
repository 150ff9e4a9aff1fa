"""A run that is given away: packed without what is private, opened anywhere, and never trusted."""

from __future__ import annotations

import gzip
import json
import os
import re
import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from profiler.results.export.unpack import MOST_BYTES
from profiler.results.store import read_results
from tests.helpers.program import QUICK, ROOT, command, results_in, run, run_folder
from tests.integration.conftest import HOST, USER, WholeRun
from tests.integration.test_bad_input import path_without_torch

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def archive(whole_run: WholeRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "given.zip"
    done = run("export", whole_run.folder, path, path=path_without_torch(tmp_path_factory.mktemp("path")))
    assert done.returncode == 0, done.stderr
    assert f"Wrote {path}" in done.stdout
    assert "Left out: 8 traces (--with-traces adds them)." in done.stdout
    assert f"python profile.py report {path}" in done.stdout
    return path


def contents(path: Path) -> dict[str, bytes]:
    """What is in an archive, unpacked twice where it is packed twice, without the run's id before the names."""
    with zipfile.ZipFile(path) as opened:
        found = {name.split("/", 1)[1]: opened.read(name) for name in opened.namelist()}
    return {name: gzip.decompress(data) if name.endswith(".gz") else data for name, data in found.items()}


def test_it_holds_results_report_recipe_and_plots(archive: Path) -> None:
    names = set(contents(archive))
    assert {"results.json", "report.html", "tables.md", "results.csv", "recipe.yaml", "rtfx.svg", "rtfx.pdf"} <= names
    assert "float32/0.1s_x1/breakdown.json" in names
    assert not [name for name in names if "events" in name or name.endswith((".log", ".gz"))]


def test_nothing_private_is_in_it(archive: Path, whole_run: WholeRun) -> None:
    packed = archive.read_bytes()
    assert USER.encode() not in packed
    for name, data in contents(archive).items():
        said = data.decode("latin-1") + name
        for private in whole_run.private:
            assert private not in said, f"{private} in {name}"
        if not name.endswith((".png", ".pdf")):
            paths = re.findall(r"(?<![\w.<~/])/(?:home|root|tmp|work|usr|opt|var|mnt|Users)/[^\s\"']*", said)
            assert paths == [], name


def test_what_a_reader_needs_is_still_in_it(archive: Path) -> None:
    found = contents(archive)
    results = json.loads(found["results.json"])
    assert results["run"]["recipe"] == "mine.yaml"
    assert results["run"]["command"] == "profile.py mine.yaml --trust --logdir 'my logs' --quiet"
    assert results["run"]["resolved"]["profiling_dimensions"]["example_audio"] == "speech.flac"
    (reason, *_) = {cell["reason"] for cell in results["cells"] if cell["status"] == "failed"}
    assert "cannot read {recipe folder}/secret_models.py nor weights.pt, see /sys/class/powercap" in reason
    assert results["environment"]["host"] is None
    assert results["environment"]["cpu"]
    assert "removed when this run was exported" in found["report.html"].decode()
    assert b"random weights" in found["tables.md"]
    assert b"# Written by user on host." in found["recipe.yaml"]
    assert {cell["trace"] for cell in results["cells"]} == {None}


def test_figures_are_the_same_as_in_the_run(archive: Path, whole_run: WholeRun) -> None:
    given = json.loads(contents(archive)["results.json"])["cells"]
    own = json.loads((whole_run.folder / "results.json").read_text())["cells"]
    assert len(own) == 12
    for one, other in zip(given, own, strict=True):
        for key in ("variant", "seconds", "batch_size", "latency_s", "rtf", "peak_memory_bytes", "operations"):
            assert one[key] == other[key]


def test_it_opens_anywhere(archive: Path, whole_run: WholeRun, tmp_path: Path) -> None:
    """On a machine without torch, from another folder, into a folder beside the file."""
    moved = tmp_path / "given.zip"
    moved.write_bytes(archive.read_bytes())
    done = subprocess.run(
        command("report", moved.name),
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(path_without_torch(tmp_path))},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    table = (
        "**Real-time factor (below 1 is faster than real time) - secret_models.Encoder, 2 variants, random weights**"
    )
    assert table in done.stdout
    assert table in whole_run.stdout
    assert "given/report.html" in done.stdout
    folder = tmp_path / "given"
    assert read_results(folder).run.id == whole_run.folder.name
    assert (folder / "report.html").is_file()
    again = run("report", moved)
    assert again.returncode == 0, "its own folder may be written again"
    by_module = run("report", moved, "--by", "module")
    assert "front_end" in by_module.stdout


def test_names_and_traces_are_kept_when_asked_for(whole_run: WholeRun, tmp_path: Path) -> None:
    done = run("export", whole_run.folder, tmp_path / "named.zip", "--with-names", "--with-traces")
    assert done.returncode == 0, done.stderr
    assert "Paths, user and host names are in it" in done.stdout
    found = contents(tmp_path / "named.zip")
    results = json.loads(found["results.json"])
    assert results["environment"]["host"] == HOST
    assert results["run"]["recipe"] == str(whole_run.recipe)
    assert any(HOST in name for name in found if name.endswith(".gz"))


def test_traces_without_names_are_whole_and_say_nothing(whole_run: WholeRun, tmp_path: Path) -> None:
    done = run("export", whole_run.folder, tmp_path / "traced.zip", "--with-traces")
    assert done.returncode == 0, done.stderr
    found = contents(tmp_path / "traced.zip")
    traces = {name: data for name, data in found.items() if name.endswith(".gz")}
    assert len(traces) == 8
    for name, data in traces.items():
        assert json.loads(data)["traceEvents"]
        for private in whole_run.private:
            assert private not in name + data.decode()
    cells = json.loads(found["results.json"])["cells"]
    assert {cell["trace"] for cell in cells if cell["trace"]} == set(traces)


# --- bad input ---


def test_a_file_that_is_there_is_not_replaced(archive: Path, whole_run: WholeRun) -> None:
    before = archive.read_bytes()
    done = run("export", whole_run.folder, archive)
    assert (done.returncode, archive.read_bytes()) == (2, before)
    assert "replace it with --force" in done.stderr


def test_a_name_that_is_no_zip_file_is_refused(whole_run: WholeRun, tmp_path: Path) -> None:
    done = run("export", whole_run.folder, tmp_path / "run.tar")
    assert done.returncode == 2
    assert "ends with .zip" in done.stderr


def make_zip(path: Path, entries: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in entries.items():
            archive.writestr(name, text)
    return path


@pytest.mark.parametrize("name", ["../outside.txt", "/tmp/outside.txt", "run/../../outside.txt", "C:\\outside.txt"])
def test_an_archive_that_would_write_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "in").mkdir()
    path = make_zip(tmp_path / "in" / "bad.zip", {"run/results.json": "{}", name: "x"})
    done = run("report", path)
    assert done.returncode == 2
    assert "would be written outside its folder" in done.stderr
    assert sorted(found.name for found in tmp_path.rglob("*")) == ["bad.zip", "in"]


def test_what_is_no_exported_run_is_said_plainly(tmp_path: Path, archive: Path) -> None:
    (tmp_path / "text.zip").write_text("not a zip file")
    (tmp_path / "half.zip").write_bytes(archive.read_bytes()[:5000])
    make_zip(tmp_path / "other.zip", {"photo.txt": "x"})
    make_zip(tmp_path / "two.zip", {"a/results.json": "{}", "b/results.json": "{}"})
    for name, message in {
        "text.zip": "is damaged, or not a zip file",
        "half.zip": "is damaged, or not a zip file",
        "other.zip": "is not an exported run: it holds 0 files results.json",
        "two.zip": "is not an exported run: it holds 2 files results.json",
        "gone.zip": "Cannot unpack",
    }.items():
        done = run("report", tmp_path / name)
        assert done.returncode == 2
        assert message in done.stderr
        assert "Traceback" not in done.stderr


def test_an_archive_that_would_fill_the_disk_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("run/results.json", "{}")
        archive.infolist()[0].file_size = MOST_BYTES + 1
    done = run("report", path)
    assert done.returncode == 2
    assert "more than any run" in done.stderr


def test_a_folder_with_other_things_is_left_alone(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("of somebody else")
    done = run("report", archive, "--output", tmp_path)
    assert done.returncode == 2
    assert "is not this run; choose another folder with --output" in done.stderr
    assert (tmp_path / "report.html").read_text() == "of somebody else"


FAILING = """
import os, tempfile, torch

class Model(torch.nn.Linear):
    def __init__(self):
        super().__init__(80, 8)

    def forward(self, x):
        if x.shape[1] > 15:
            places = torch.__file__, os.__file__, __file__, os.getcwd(), tempfile.gettempdir() + "/x.bin"
            raise RuntimeError(f"lost {places}, {os.path.expanduser('~/cache.bin')} and {profiler.__file__}")
        return super().forward(x)

import profiler
"""


def test_a_run_holds_no_path_that_was_not_typed(tmp_path: Path) -> None:
    """Errors of libraries name files of the home folder, the environment, the checkout, the temporary folder."""
    work, temporary = tmp_path / USER / "work", tmp_path / USER / "temporary"
    work.mkdir(parents=True)
    temporary.mkdir()
    (work / "failing.py").write_text(FAILING)
    (work / "lengths.shapes.tsv").write_text("id\tseconds\ttarget\none\t0.1\t1\ntwo\t0.3\t1\n")
    (work / "recipe.yaml").write_text(
        "pretrained_model: {source: failing.Model, type: Module, input: features}\n"
        "profiling_dimensions: {audio_mockup_secs: [0.1, 0.2], batch_sizes: [1], export_logs: true}\n"
        "trace: {stacks: true}\ndataset: {source: lengths.shapes.tsv, batch_size: 1}\n" + QUICK
    )
    environment = os.environ | {"HOME": str(work.parent), "TMPDIR": str(temporary), "LOGNAME": USER}
    given = command("recipe.yaml", "--trust", "--logdir", "logs", "--quiet")
    done = subprocess.run(given, cwd=work, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stderr
    folder = run_folder(work / "logs")
    (reason,) = {cell["reason"] for cell in results_in(work / "logs")["cells"] if cell["status"] == "failed"}
    for shortened in ("{site-packages}/torch/__init__.py", "{python}/os.py", "{tmp}/x.bin", "~/cache.bin"):
        assert shortened in reason
    assert "{recipe folder}/failing.py" in reason
    private = (USER, str(tmp_path), str(ROOT), sys.prefix, sys.base_prefix)
    looked = []
    for path in folder.rglob("*"):
        if path.is_file() and path.name != "worker.log":
            data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            looked.append(path.name)
            said = data.decode("latin-1") + path.name
            assert [name for name in private if name in said] == [], path.name
            assert socket.gethostname() not in re.split(r"[._-]", path.name)
    assert {"results.json", "report.html", "breakdown.json"} <= set(looked)
    assert any(name.endswith(".gz") for name in looked)
