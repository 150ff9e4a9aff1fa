"""What a run measures, on modules whose cost is known."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from profiler.device import Device
from profiler.environment import allowed_cpus
from profiler.execution.display import Display
from profiler.execution.run import Execution, Options
from profiler.execution.workers import Workers
from profiler.measure.fit import fit_durations
from profiler.metrics import LATENCY
from profiler.plan import Cell
from profiler.recipe.load import load_recipe
from profiler.results.statistics import estimate
from profiler.results.types import Latency, Reference, Results
from tests.helpers import program
from tests.helpers.road import Done, go
from tests.helpers.tiny import SPEECH

pytestmark = pytest.mark.slow


class Noting(Display):
    """Notes which cell was visited in which round."""

    def __init__(self) -> None:
        self.visits: list[tuple[int, Cell]] = []
        self.notes: list[str] = []

    def cell(self, cell: Cell, number: int, left: float | None) -> None:
        self.visits.append((number, cell))

    def note(self, text: str) -> None:
        self.notes.append(text)


def measure(recipe: Path, logdir: Path, display: Display | None = None) -> Results:
    return Execution(load_recipe(recipe, trust=True), Options(logdir=logdir), display or Display()).execute()


def test_every_round_visits_all_cells_of_all_variants_in_another_order(tmp_path: Path) -> None:
    more = (
        "measure: {rounds: 6, warmup: 1, max_calls: 1, budget: 0.1, operations: false}\n"
        "trace: {breakdown: false}\nvariants: [{name: one}, {name: two, threads: 1}]\n"
    )
    recipe = program.module_recipe(tmp_path, "Nothing", seconds="[0.1, 0.2, 0.3]", batches="[1]", more=more)
    noting = Noting()
    results = measure(recipe, tmp_path / "logs", noting)
    orders = [[cell for visited, cell in noting.visits if visited == number] for number in range(6)]
    assert all(len(order) == len(set(order)) == 6 for order in orders)
    assert len({tuple(order) for order in orders}) == 6
    assert any(len({cell.variant for cell in order[:3]}) == 2 for order in orders[1:]), (
        "variants take turns within a round"
    )
    assert results.run.rounds >= 6
    assert all(cell.latency_s is not None and len(cell.latency_s.rounds) >= 6 for cell in results.cells)


def test_the_figure_is_the_median_over_rounds_with_its_interval(tmp_path: Path) -> None:
    more = "measure: {rounds: 6, warmup: 1, budget: 0.5}\n"
    recipe = program.module_recipe(tmp_path, "Sleeper", "{fixed: 0.005}", "[0.1]", "[1]", more)
    done = program.run(recipe, "--trust", "--logdir", tmp_path)
    results = program.results_in(tmp_path)
    (cell,) = results["cells"]
    latency = cell["latency_s"]
    assert len(latency["rounds"]) == results["run"]["rounds"] >= 6
    assert max(latency["rounds"]) <= 5
    assert latency["n"] == len(latency["samples"]) == len(latency["cpu"]) == sum(latency["rounds"])
    found = Latency.model_validate(latency)
    assert latency["median"] == statistics.median(found.round_medians)
    low, high = latency["ci95"]
    assert low <= latency["median"] <= high
    assert (low, high) == estimate(found.by_round).ci95
    assert cell["rtf"] == pytest.approx(latency["median"] / 0.1)
    assert f"Stopped after {results['run']['rounds']} rounds" in done.stderr
    assert latency["stopped_by"] == results["run"]["stopped_by"] in ("width", "budget")


def test_a_run_goes_on_with_an_unstable_cell_and_says_when_its_time_is_spent(tmp_path: Path) -> None:
    """Its calls take anything from one to nine milliseconds: no number of rounds makes it stable in a second."""
    more = "measure: {rounds: 6, warmup: 1, max_calls: 1, budget: 0.5, width: 0.001}\n"
    recipe = program.module_recipe(tmp_path, "Chancy", seconds="[0.1]", batches="[1]", more=more)
    done = program.run(recipe, "--trust", "--logdir", tmp_path)
    results = program.results_in(tmp_path)
    (cell,) = results["cells"]
    assert results["run"]["stopped_by"] == "budget"
    assert len(cell["latency_s"]["rounds"]) > 6
    assert cell["verdict"] == "unstable"
    assert cell["work_s"]["time"] >= 0.5
    assert "the time is spent (measure.budget); 1 of 1 cells are still wider than wanted" in done.stderr
    half = Latency.model_validate(cell["latency_s"]).half_width
    assert half is not None
    assert f" ~{half:.0%} " in done.stdout


def test_a_run_ends_once_every_cell_is_as_narrow_as_wanted_and_it_has_lasted_long_enough(tmp_path: Path) -> None:
    """The time for one cell is half a second; a run of one lasts as long as one of six."""
    more = "measure: {rounds: 6, warmup: 1, budget: 0.5, width: 0.9}\n"
    recipe = program.module_recipe(tmp_path, "Sleeper", "{fixed: 0.04}", "[0.1]", "[1]", more)
    done = program.run(recipe, "--trust", "--logdir", tmp_path)
    results = program.results_in(tmp_path)
    (cell,) = results["cells"]
    assert results["run"]["stopped_by"] == cell["latency_s"]["stopped_by"] == "width"
    assert cell["verdict"] == "stable"
    assert len(cell["latency_s"]["rounds"]) > 6
    assert "the 95 % CI of every cell is as narrow as wanted" in done.stderr


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """Two rounds of a model that does nothing, on one thread and on two."""
    folder = tmp_path_factory.mktemp("quick")
    more = program.QUICK + "variants:\n- {name: one}\n- {name: two, threads: 2}\n"
    recipe = program.module_recipe(folder, "Nothing", seconds="[0.1]", batches="[1]", more=more)
    return go(recipe, folder / "logs", "--trust", "--threads", "1")


def test_a_quick_look_has_no_interval_and_says_so(quick: Done) -> None:
    for cell in quick.results["cells"]:
        assert cell["latency_s"]["ci95"] is None
        assert len(cell["latency_s"]["rounds"]) == 2
    assert "2 of 2 cells: 2 rounds: too few for a 95 % CI, which takes 6 (measure.rounds)." in quick.stdout


def test_random_data_is_labelled(quick: Done) -> None:
    assert {cell["input"]["audio"] for cell in quick.results["cells"]} == {"random data"}
    assert "random data, not speech" in quick.stdout


def test_every_round_notes_how_long_threads_take_to_hand_over(quick: Done) -> None:
    one, two = quick.results["cells"]
    assert [state.get("handoff_s") for state in one["conditions"]] == [None, None], "nobody to hand over to"
    assert [state["handoff_s"] > 0 for state in two["conditions"]] == [True, True]


def test_the_environment_is_recorded(quick: Done) -> None:
    environment = quick.results["environment"]
    assert environment["threads"] == 1
    assert environment["settings"]["one"]["affinity"]
    assert environment["reference"]["threads"] == 1
    for moment in ("reference", "reference_at_end"):
        assert environment[moment]["gflops"] > 0
        assert environment[moment]["gb_per_s"] > 0
    assert environment["packages"]["torch"].startswith("2.")
    assert len(environment["at_end"]["load"]) == 3


@pytest.fixture(scope="module")
def sleeper(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """A model that takes 20 ms, and 50 ms more for each second of audio."""
    folder = tmp_path_factory.mktemp("sleeper")
    arguments, seconds = "{per_second: 0.05, fixed: 0.02}", "[0.2, 0.4, 0.8, 1.6]"
    more = "measure: {warmup: 1, budget: 0.2, rounds: 2, operations: false}\ntrace: {breakdown: false}\n"
    recipe = program.module_recipe(folder, "Sleeper", arguments, seconds, "[1, 2]", more)
    return go(recipe, folder / "logs", "--trust")


def test_cpu_time_is_recorded_beside_wall_time(sleeper: Done) -> None:
    """A model that sleeps uses none."""
    cell = program.cell(sleeper.results, 0.2, 1)
    assert cell["latency_s"]["min"] >= 0.03
    assert min(cell["latency_s"]["cpu"]) < 0.003


def test_known_costs_come_out(sleeper: Done) -> None:
    """The shortest call is the sleep; what a fit over medians gives on a busy machine is the machine's business."""
    cells = sleeper.results["cells"]
    assert len(cells) == 8
    for cell in cells:
        known = 0.02 + 0.05 * cell["seconds"] * cell["batch_size"]
        assert cell["latency_s"]["min"] == pytest.approx(known, rel=0.2)
        assert cell["rtf"] == pytest.approx(cell["latency_s"]["median"] / (cell["seconds"] * cell["batch_size"]))
        assert cell["rtfx"] == pytest.approx(1 / cell["rtf"])
    single = [cell for cell in cells if cell["batch_size"] == 1]
    fit = fit_durations(1, [cell["seconds"] for cell in single], [cell["latency_s"]["median"] for cell in single])
    assert fit is not None
    table = sleeper.stdout.split("What a call costs over its length")[1]
    assert [part.strip(" ~") for part in table.splitlines()[4].split("|")[1:4]] == [  # ~ where a cell is unstable
        "1",
        LATENCY.number(fit.fixed),
        LATENCY.number(fit.per_second),
    ]


def test_a_model_that_caches_is_found_out(tmp_path: Path) -> None:
    more = "measure: {rounds: 10, warmup: 1, budget: 0.5, width: 0.9}\n"
    recipe = program.module_recipe(tmp_path, "Caching", seconds="[0.1]", batches="[1]", more=more)
    done = program.run(recipe, "--trust", "--logdir", tmp_path)
    (cell,) = program.results_in(tmp_path)["cells"]
    assert cell["disturbances"]["caching"] < 0.5
    assert any("caches results" in reason for reason in cell["verdict_reasons"])
    assert "1 of 1 cells: a repeated input took" in done.stdout


def test_padding_spreads_lengths_and_is_reported(tmp_path: Path) -> None:
    recipe = program.module_recipe(
        tmp_path, "Sleeper", "{per_second: 0.05}", "[1]", "[4]", grid=f"  padding: 0.5\n  example_audio: {SPEECH}\n"
    )
    done = program.run(recipe, "--trust", "--logdir", tmp_path)
    (cell,) = program.results_in(tmp_path)["cells"]
    share = cell["input"]["share_of_padding"]
    assert 0.05 < share < 0.5
    assert cell["input"]["seconds_of_audio"] == pytest.approx(4 * (1 - share), rel=1e-3)
    assert cell["rtf"] == pytest.approx(cell["latency_s"]["median"] / cell["input"]["seconds_of_audio"])
    assert "Padding" in done.stdout


@pytest.fixture(scope="module")
def hungry(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """A model that needs 100 MB for each second of audio."""
    folder = tmp_path_factory.mktemp("hungry")
    more = "measure: {warmup: 1, max_calls: 1, rounds: 1, operations: false, memory: 2 GB}\ntrace: {breakdown: false}\n"
    recipe = program.module_recipe(folder, "Hungry", "{megabytes_per_second: 100}", "[3, 1, 2]", "[1, 2]", more)
    return go(recipe, folder / "logs", "--trust")


def test_memory_of_each_cell_does_not_depend_on_the_cells_before(hungry: Done) -> None:
    """300 MB for 3 s of audio, 100 MB for 1 s, whatever ran first: every pass has a process of its own."""
    assert len(hungry.results["cells"]) == 6
    for cell in hungry.results["cells"]:
        known = 100e6 * cell["seconds"] * cell["batch_size"]
        assert cell["peak_memory_bytes"]["tensors"] == known
        assert cell["peak_memory_bytes"]["above_baseline"] == pytest.approx(known, rel=0.03)


def test_a_fit_over_memory_says_what_fits(hungry: Done) -> None:
    (row,) = [line for line in hungry.stdout.splitlines() if "longest audio, batch 1" in line]
    longest = float(row.split("|")[3].split()[0])
    base = min(
        cell["peak_memory_bytes"]["process"] - cell["peak_memory_bytes"]["above_baseline"]
        for cell in hungry.results["cells"]
    )
    assert longest == pytest.approx((2e9 - base) / 100e6, rel=0.1)


def test_a_fresh_worker_is_used_where_a_fork_is_not_possible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, which is not here: the only thing replaced is the answer to whether the device can be forked."""
    monkeypatch.setattr(Device, "can_fork", property(lambda self: False))
    recipe = program.module_recipe(tmp_path, "Sleeper", seconds="[0.1]", batches="[1]", more="measure: {rounds: 1}\n")
    results = measure(recipe, tmp_path / "logs")
    (cell,) = results.cells
    assert cell.status == "ok"
    assert cell.latency_s is not None
    assert cell.peak_memory_bytes is not None
    assert results.environment.reference is not None
    assert results.environment.reference.gflops > 0


def test_shares_follow_a_better_peak_seen_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disturbance at the start must not leave shares above 100 %. Replaced is the speed of the machine alone."""
    speeds = iter([1e-6, 1e6])
    monkeypatch.setattr(
        Workers,
        "reference",
        lambda *_: Reference(gflops=next(speeds), gb_per_s=10.0, threads=len(allowed_cpus())),
    )
    recipe = program.module_recipe(tmp_path, "Threaded", seconds="[0.1, 0.2]", batches="[1]")
    measure(recipe, tmp_path / "logs")
    results = program.results_in(tmp_path / "logs")
    assert [cell["operations"]["peak_gflops"] for cell in results["cells"]] == [1e6, 1e6]
    assert all(cell["operations"]["share_of_peak"] < 1 for cell in results["cells"])
    assert all(cell["latency_s"]["samples"] for cell in results["cells"])
