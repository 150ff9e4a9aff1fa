"""Names that a browser sends lead to files of the log folder and to no others; runs are listed without being read."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from pathlib import Path

import pytest

from profiler.tensorboard_plugin import folder as listing
from profiler.tensorboard_plugin.folder import LogFolder, NotFound
from tests.unit.tensorboard_plugin.traces import CALL, write

ODD = "odd ü 名 & = # % ? ' \" ; name"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    (tmp_path / "secret.json").write_text("{}")
    run = tmp_path / "logs" / "recipe" / "run"
    write(run / "float32" / "1s_x1" / "a.pt.trace.json.gz")
    (run / "results.json").write_text("{}")
    return tmp_path / "logs"


def names(folder: LogFolder) -> list[tuple[str, str]]:
    return sorted((entry.name, entry.kind) for entry in folder.runs())


@pytest.mark.parametrize(
    "name",
    [
        "..",
        "../secret.json",
        "recipe/../../secret.json",
        "/etc",
        "/etc/passwd",
        "recipe/run/../../../",
        "recipe\0/run",
        "x" * 5000,
        "~",
        "..%2f..",
        "no/such/run",
        "recipe/run/results.json",
    ],
)
def test_no_name_leads_out(logs: Path, name: str) -> None:
    with pytest.raises(NotFound):
        LogFolder(logs).run(name)


@pytest.mark.parametrize("name", ["../../../secret.json", "/etc/passwd", "../run/../../../secret.json", "float32"])
def test_no_file_name_leads_out_of_it(logs: Path, name: str) -> None:
    folder = LogFolder(logs)
    with pytest.raises(NotFound):
        folder.file(folder.run("recipe/run"), name)


def test_links_that_lead_out_are_not_followed(logs: Path, tmp_path: Path) -> None:
    outside = tmp_path / "elsewhere"
    write(outside / "b.pt.trace.json")
    (outside / "results.json").write_text("{}")
    (logs / "link").symlink_to(outside)
    (logs / "circle").symlink_to(logs)
    cell = logs / "recipe" / "run" / "float32" / "1s_x1"
    (cell / "out.pt.trace.json").symlink_to(outside / "b.pt.trace.json")
    linked = logs / "recipe" / "linked"
    linked.mkdir()
    (linked / "results.json").symlink_to(outside / "results.json")
    folder = LogFolder(logs)
    assert names(folder) == [("recipe/run", "run")]
    assert folder.traces(folder.run("recipe/run"), "float32", "1s_x1") == ["a.pt.trace.json.gz"]
    with pytest.raises(NotFound, match="not in the log folder"):
        folder.run("link")
    with pytest.raises(NotFound, match="not in the log folder"):
        folder.file(folder.run("recipe/run"), "float32", "1s_x1", "out.pt.trace.json")


def test_a_log_folder_that_is_a_link_is_what_it_leads_to(logs: Path, tmp_path: Path) -> None:
    (tmp_path / "short").symlink_to(logs)
    assert names(LogFolder(tmp_path / "short")) == [("recipe/run", "run")]


def test_odd_names_are_only_names(logs: Path) -> None:
    write(logs / ODD / "b.pt.trace.json")
    folder = LogFolder(logs)
    assert names(folder) == [(ODD, "traces"), ("recipe/run", "run")]
    assert folder.traces(folder.run(ODD)) == ["b.pt.trace.json"]


def test_names_that_are_no_text_do_not_stop_the_list(logs: Path) -> None:
    strange = logs / os.fsdecode(b"not \xff text")
    strange.mkdir()
    shutil.copy(logs / "recipe" / "run" / "results.json", strange)
    assert names(LogFolder(logs)) == [("recipe/run", "run")]


def test_a_pipe_is_not_waited_for(logs: Path) -> None:
    os.mkfifo(logs / "recipe" / "run" / "p.pt.trace.json")
    folder = LogFolder(logs)
    assert folder.traces(folder.run("recipe/run")) == []
    with pytest.raises(NotFound):
        folder.file(folder.run("recipe/run"), "p.pt.trace.json")


def test_the_log_folder_may_be_a_recipes_or_a_runs(logs: Path) -> None:
    assert names(LogFolder(logs / "recipe")) == [("run", "run")]
    assert names(LogFolder(logs / "recipe" / "run")) == [(".", "run")]
    assert LogFolder(logs / "recipe" / "run").run(".").name == "run"


def test_traces_without_a_run_are_listed_as_such(logs: Path) -> None:
    """As torch.profiler's own handler for TensorBoard leaves them."""
    write(logs / "resnet" / "worker.1234.pt.trace.json")
    assert names(LogFolder(logs)) == [("recipe/run", "run"), ("resnet", "traces")]


def test_traces_are_found_whatever_their_name(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By how they begin; what is none is looked into once."""
    job = logs / "job"
    write(job / "trace_rank0.json")
    write(job / "profile.gz")
    (job / "bare").write_text(json.dumps(CALL))
    (job / "config.json").write_text('{"lr": 1, "words": ["traceEvents"]}')
    (job / "list.json").write_text("[1, 2]")
    (job / "damaged.gz").write_bytes(b"\x1f\x8bnot gzip")
    (job / "events.out.tfevents.1").write_bytes(bytes(100))
    (job / "bomb.gz").write_bytes(gzip.compress(bytes(50_000_000)))
    (job / "out.json").symlink_to(write(logs.parent / "elsewhere" / "t.json"))
    looked: list[str] = []
    original = vars(listing)["looks_like_trace"]

    def noting(path: Path) -> bool:
        looked.append(path.name)
        return bool(original(path))

    monkeypatch.setattr(listing, "looks_like_trace", noting)
    folder = LogFolder(logs)
    assert ("job", "traces") in names(folder)
    assert folder.traces(folder.run("job")) == ["bare", "profile.gz", "trace_rank0.json"]
    assert sorted(looked) == sorted(set(looked))
    assert "out.json" not in looked
    assert not folder.is_trace(job / "config.json")


def test_a_folder_of_very_many_files_is_not_looked_through(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MOST_LOOKED_INTO", 5)
    for number in range(20):
        write(logs / "job" / f"{number:02}.json")
    write(logs / "job" / "a.pt.trace.json")
    folder = LogFolder(logs)
    found = folder.traces(folder.run("job"))
    assert len(found) == 6
    assert "a.pt.trace.json" in found  # named like one: there is no need to look


def test_thousands_of_runs_are_listed_newest_first_and_not_read(logs: Path) -> None:
    for number in range(3000):
        run = logs / "many" / f"{number:04}"
        run.mkdir(parents=True)
        (run / "results.json").write_text("not JSON: whoever reads this fails")
        os.utime(run / "results.json", (number, number))
    listed = LogFolder(logs).runs()
    assert len(listed) == 3001
    assert [entry.name for entry in listed[:3]] == ["recipe/run", "many/2999", "many/2998"]
    assert LogFolder(logs).has_runs()


def test_a_run_whose_files_were_written_again_keeps_its_place(logs: Path) -> None:
    """`report` writes files of old runs; the id says when a run began."""
    for name in ("20260101-120000-aaaa", "20260301-120000-bbbb", "20260201-120000-cccc"):
        (logs / "recipe" / name).mkdir()
        (logs / "recipe" / name / "results.json").write_text("{}")
    listed = [entry.name.rpartition("-")[2] for entry in LogFolder(logs).runs()]
    assert [name for name in listed if name != "recipe/run"] == ["bbbb", "cccc", "aaaa"]


def test_a_missing_folder_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"`python profile\.py RECIPE` makes one"):
        LogFolder(tmp_path / "none").runs()
    assert not LogFolder(tmp_path / "none").has_runs()
