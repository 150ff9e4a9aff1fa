"""Runs on disk: a run is named by its folder, its id, or `latest`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from profiler.errors import UserError
from profiler.results.runs import check_logdir, find_run, list_runs, new_run_folder

OLD, NEW, OTHER = "20260101-120000-aaaa", "20260301-120000-bbbb", "20260201-120000-cccc"


@pytest.fixture
def logdir(tmp_path: Path) -> Path:
    """Two runs of one recipe, and one of another in between."""
    for place in (f"wav2vec2/{OLD}", f"wav2vec2/{NEW}", f"crdnn/{OTHER}"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "results.json").write_text("{}")
    return tmp_path


def test_a_run_is_found_by_its_folder(logdir: Path) -> None:
    folder = logdir / "wav2vec2" / OLD
    assert find_run(str(folder), Path("elsewhere")) == folder


def test_a_run_is_found_by_its_results_file(logdir: Path) -> None:
    folder = logdir / "crdnn" / OTHER
    assert find_run(str(folder / "results.json"), Path("elsewhere")) == folder


def test_a_run_is_found_by_its_id(logdir: Path) -> None:
    assert find_run(OTHER, logdir) == logdir / "crdnn" / OTHER


def test_a_run_is_found_by_recipe_and_id(logdir: Path) -> None:
    assert find_run(f"wav2vec2/{NEW}", logdir) == logdir / "wav2vec2" / NEW


def test_latest_is_the_newest_of_all_recipes(logdir: Path) -> None:
    assert find_run("latest", logdir) == logdir / "wav2vec2" / NEW
    assert [run.name for run in list_runs(logdir)] == [OLD, OTHER, NEW]


def test_a_folder_without_results_is_not_the_latest(logdir: Path) -> None:
    (logdir / "wav2vec2" / "20270101-120000-dddd").mkdir()
    assert find_run("latest", logdir).name == NEW


def test_a_mistyped_id_suggests_the_nearest(logdir: Path) -> None:
    with pytest.raises(UserError, match=f"There is no run {OLD[:-1]}b.*Did you mean `{OLD}`"):
        find_run(f"{OLD[:-1]}b", logdir)


def test_a_name_like_no_other_lists_what_there_is(logdir: Path) -> None:
    with pytest.raises(UserError, match=f"Known here: {NEW}, {OTHER}, {OLD}"):
        find_run("zzz", logdir)


@pytest.mark.parametrize("name", ["latest", OLD])
def test_without_runs_the_way_to_make_one_is_said(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"`python profile\.py RECIPE` makes one"):
        find_run(name, tmp_path / "logs")


def test_a_folder_that_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is not a run: there is no results\.json in it"):
        find_run(str(tmp_path), tmp_path)


def test_a_new_run_gets_a_folder_of_its_own(tmp_path: Path) -> None:
    folders = [new_run_folder(tmp_path / "logs", "wav2vec2") for _ in range(3)]
    assert len(set(folders)) == 3
    assert all(folder.is_dir() and folder.parent == tmp_path / "logs" / "wav2vec2" for folder in folders)
    assert all(re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{4}", folder.name) for folder in folders)


def test_a_good_log_folder_is_left_as_it_was(tmp_path: Path) -> None:
    check_logdir(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_log_folder_that_cannot_be_written_names_the_way_out(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("in the way")
    for attempt in (check_logdir, lambda folder: new_run_folder(folder, "r")):
        with pytest.raises(UserError, match=r"Cannot write in the log folder .* --logdir"):
            attempt(tmp_path / place)
    assert (tmp_path / "file").read_text() == "in the way"
