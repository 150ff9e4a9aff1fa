"""Real traces of three GPUs: the same figures as torch-tb-profiler computes, and sums that hold in any trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.gpu_traces import FOLDER, figures, ours
from profiler.tensorboard_plugin.trace import gpu
from profiler.tensorboard_plugin.trace.columns import Columns, collect
from profiler.tensorboard_plugin.trace.events import read_events
from profiler.tensorboard_plugin.trace.tables import rows_from_trace

V100, A100, MI250 = (f"{name}.pt.trace.json.gz" for name in ("resnet50-v100-torch1", "alexnet-a100", "minitoy-mi250"))
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(),
    reason="no folder ../shared/traces beside the checkout: these traces are not part of the project",
)


def columns_of(name: str) -> Columns:
    return collect(read_events(FOLDER / name), name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [V100, A100, MI250])
def test_figures_are_those_of_torch_tb_profiler(name: str) -> None:
    found = figures(FOLDER / name)
    assert len(found) > 40
    assert [figure for figure in found if not figure.same] == []


def test_figures_are_those_of_the_documentation() -> None:
    """GPU utilisation 55.5 %, SM efficiency 54.7 %, occupancy 49.1 %, DataLoader 33.4 %, and the advice about it."""
    facts = gpu.overview(columns_of(V100))
    assert facts is not None
    (device,) = facts["devices"]
    assert device["name"] == "Tesla V100-DGXS-32GB"
    shown = [device["utilisation"] * 100, device["sm_efficiency"] * 100, device["occupancy"]]
    assert [round(value, 1) for value in (*shown, facts["shares"]["dataloader"] * 100)] == [55.5, 54.7, 49.1, 33.4]
    assert "waits for the DataLoader" in facts["advice"][0]
    assert "num_workers" in facts["advice"][1]


def test_newer_kernels_on_tensor_cores_are_known_too() -> None:
    """torch-tb-profiler's list of names ends before TF32 of an A100, and has none of AMD's."""
    for name, share in ((V100, 0.0), (A100, 1814 / 10692), (MI250, 30.24 / 110.881)):
        facts = gpu.overview(columns_of(name))
        assert facts is not None
        assert facts["devices"][0]["tensor_cores"] == pytest.approx(share, rel=1e-3)


@pytest.mark.parametrize("name", [V100, A100, MI250])
def test_nothing_is_larger_than_what_is_around_it(name: str) -> None:
    columns = columns_of(name)
    ran = gpu.activity(columns)
    device = float(columns.duration[ran.place].sum()) * 1e-6
    threads = columns.track_device.count(-1)
    for by in ("operator", "label"):
        rows = rows_from_trace(columns, by)
        assert rows
        assert all(row["own_s"] <= row["total_s"] + 1e-9 for row in rows)
        assert all(row["device_own_s"] <= row["device_s"] + 1e-9 for row in rows)
        assert sum(row["own_s"] for row in rows) <= threads * columns.length * 1e-6
        assert sum(row["device_own_s"] for row in rows) <= device + 1e-9
        assert max(row["device_s"] for row in rows) <= device + 1e-9
    if name != A100:  # all that ran was launched by an operator
        assert sum(row["device_own_s"] for row in rows_from_trace(columns, "operator")) == pytest.approx(device)
    facts = gpu.overview(columns)
    assert facts is not None
    for step in facts["steps"]:
        assert sum(step["parts"].values()) == pytest.approx(step["total_s"])


def test_device_annotations_are_not_added_to_labels() -> None:
    labels = {row["name"]: row for row in rows_from_trace(columns_of(MI250), "label")}
    assert labels["ProfilerStep#1"]["calls"] == labels["Optimizer.step#SGD.step"]["calls"] == 1
    assert labels["ProfilerStep#1"]["total_s"] == pytest.approx(9288.291e-6)


def test_the_command_reads_what_it_is_given(tmp_path: Path) -> None:
    path = tmp_path / "renamed.json.gz"
    path.write_bytes((FOLDER / MI250).read_bytes())
    assert ours(path) == ours(FOLDER / MI250)
