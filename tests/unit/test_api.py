"""The profiler from Python: opening runs, frames, and clear messages."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import pytest

import profiler
from profiler.errors import UserError
from tests.helpers.synthetic import GRID, Made, make, save


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save(make(Made(1, id="one")), tmp_path)


def test_a_run_is_opened_by_folder_id_latest_or_log_folder(folder: Path) -> None:
    logdir = folder.parents[1]
    for name in (folder, folder / "results.json", logdir, folder.parent):
        assert profiler.load_run(name).id == "one"
    assert profiler.load_run("one", logdir).folder == folder
    assert profiler.load_run("latest", logdir).folder == folder


def test_a_cell_is_found_or_the_known_ones_are_named(folder: Path) -> None:
    run = profiler.load_run(folder)
    assert run.cell(1, 2).batch_size == 2
    with pytest.raises(UserError, match=r"has no cell float32 3 s x 1\. It has float32 0\.5 s x 1"):
        run.cell(3, 1)


def test_cells_as_a_data_frame(folder: Path) -> None:
    frame = profiler.load_run(folder).frame()
    assert list(zip(frame.audio_s, frame.batch_size, strict=True)) == list(GRID)
    assert (frame.latency_median_s > 0).all()


def test_without_pandas_the_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *more: Any) -> Any:
        if name == "pandas":
            raise ModuleNotFoundError(name)
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UserError, match=r"speech-profiler\[pandas\]"):
        profiler.load_run(folder).frame()


def test_unknown_names_are_no_part_of_the_package() -> None:
    with pytest.raises(AttributeError, match="no attribute 'comparee'"):
        profiler.comparee  # noqa: B018
    assert {"compare", "load_run", "profile_recipe"} <= set(profiler.__all__)


def test_types_are_shipped() -> None:
    assert (Path(profiler.__file__).parent / "py.typed").is_file()
