"""The routes as the page asks them: what a run shows, and a sentence for everything that can be wrong."""

from __future__ import annotations

import gzip
import hashlib
import importlib.metadata
import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tensorboard.plugins.base_plugin import TBContext
from werkzeug.test import Client, TestResponse

from profiler.results.types import Breakdown, Results
from profiler.tensorboard_plugin.plugin import STATIC, SpeechProfilePlugin
from profiler.tensorboard_plugin.trace.store import TraceStore
from tests.unit.report.test_tables import absent, ok, results, unstable
from tests.unit.tensorboard_plugin.traces import write

RUN = "recipe/odd ü & run"
CELL = {"run": RUN, "variant": "float32", "cell": "1s_x1"}
TRACE = "float32/1s_x1/a.pt.trace.json.gz"
OUTSIDE = "SECRET OUTSIDE"
ROW = {
    "name": "encoder",
    "phase": "forward",
    "calls": 1,
    "total_s": 0.08,
    "own_s": 0.05,
    "share": 0.8,
    "own_share": 0.5,
    "s_per_second_of_audio": 0.08,
    "memory_bytes": 1000,
    "macs": None,
    "macs_per_second_of_audio": None,
}
BREAKDOWN = {
    "labels": [ROW],
    "calls": 3,
    "profiled_calls": 1,
    "overhead": {"known": 0.01, "measured": 0.02, "hook_s": 1e-6, "module_calls": 3, "labelled_s": [1.0, 1.01]},
    "file": "float32/1s_x1/breakdown.json",
    "notes": [],
}


class Asker:
    """A plugin over a log folder, asked by route."""

    def __init__(self, logdir: Path | None, cache: Path) -> None:
        context = TBContext(logdir=str(logdir) if logdir else "")
        self.plugin = SpeechProfilePlugin(context, TraceStore(cache))
        self.apps = self.plugin.get_plugin_apps()

    def raw(self, route: str, **values: Any) -> TestResponse:
        return Client(self.apps[route]).get("/", query_string=values)

    def get(self, route: str, **values: Any) -> Any:
        answer = self.raw(route, **values)
        assert answer.status_code == 200, answer.text
        return json.loads(answer.data)

    def error(self, route: str, **values: Any) -> str:
        answer = self.raw(route, **values)
        assert 400 <= answer.status_code < 500
        said: str = json.loads(answer.data)["error"]
        return said


def save(folder: Path, content: Results) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(content.model_dump(mode="json", by_alias=True)))


def details(**changes: Any) -> str:
    rows = {
        "seconds_of_audio": 1.0,
        "calls": 3,
        "profiled_calls": 1,
        "modules": [ROW],
        "modules_unfolded": [ROW, ROW],
        "operators": [ROW | {"name": "aten::linear"}],
    }
    return json.dumps(rows | changes)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    logs = tmp_path / "logs"
    run = logs / RUN
    first = ok(1, 1, 0.1)
    first.breakdown = Breakdown.model_validate(BREAKDOWN)
    cells = [first, unstable(2, 1, 0.2, 0.3, other_processes=1.5), absent(1, 2, "failed", "The process died.")]
    save(run, results(*cells, absent(2, 2, "skipped", "triangle_only")))
    write(run / TRACE)
    write(run / "float32/2s_x1/b.pt.trace.json.gz")
    (run / "float32/1s_x1/breakdown.json").write_text(details())
    (tmp_path / "secret.json").write_text(json.dumps({"operators": [{"name": OUTSIDE}]}))
    (tmp_path / "secret.pt.trace.json").write_text(json.dumps({"traceEvents": [{"ph": "X", "name": OUTSIDE}]}))
    return logs


@pytest.fixture
def ask(logs: Path, tmp_path: Path) -> Asker:
    return Asker(logs, tmp_path / "cache")


def test_tensorboard_finds_the_plugin_by_its_entry_point() -> None:
    (entry,) = {
        point.value for point in importlib.metadata.entry_points(group="tensorboard_plugins", name="speech_profile")
    }
    assert entry == "profiler.tensorboard_plugin.plugin:SpeechProfilePlugin"


def test_the_server_imports_no_torch() -> None:
    code = (
        "import sys, profiler.tensorboard_plugin.plugin; sys.exit(any(m in sys.modules for m in ('torch', 'pandas')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_run_is_shown_as_its_tables_say_it(ask: Asker) -> None:
    assert ask.plugin.is_active()
    (listed,) = ask.get("/runs")["runs"]
    assert listed["name"] == RUN
    shown = ask.get("/run", run=RUN)
    (variant,) = shown["variants"]
    assert variant["model"]["weights"] == "random"
    stable, wide, failed, skipped = variant["cells"]
    assert (stable["figures"]["rtf"]["text"], stable["verdict"]) == ("0.100", "stable")
    assert (wide["figures"]["rtf"]["text"], wide["verdict"]) == ("0.20 ~30%", "unstable")
    assert wide["half_width"] == pytest.approx(0.3)
    assert wide["verdict_reasons"] == ["Other processes used up to 1.5 CPUs meanwhile."]
    assert (failed["figures"]["rtf"]["text"], failed["reason"]) == ("failed", "The process died.")
    assert (skipped["figures"]["rtf"]["text"], skipped["reason"]) == ("skipped", "triangle_only")
    assert shown["planned"] == {"seconds": [1, 2], "batch_sizes": [1, 2]}
    assert stable["traces"] == [TRACE]
    assert "samples" not in json.dumps(shown)
    assert any("Real-time factor" in table["title"] for table in ask.get("/all_tables", run=RUN))


def test_a_run_that_is_written_again_is_noticed(ask: Asker, logs: Path) -> None:
    first = ask.get("/run", run=RUN)
    assert ask.get("/run", run=RUN, known=first["stamp"]) == {"name": RUN, "unchanged": True}
    save(logs / RUN, results(ok(1, 1, 0.7)))
    second = ask.get("/run", run=RUN, known=first["stamp"])
    assert second["variants"][0]["cells"][0]["figures"]["rtf"]["text"] == "0.700"


def test_tables_of_a_cell(ask: Asker) -> None:
    for by, name, count in (
        ("label", "encoder", 1),
        ("module", "encoder", 1),
        ("module_unfolded", "encoder", 2),
        ("operator", "aten::linear", 1),
    ):
        table = ask.get("/table", **CELL, by=by)
        assert [row["name"] for row in table["rows"]] == [name] * count
        assert table["remarks"]


def test_a_cell_without_breakdown_has_what_its_trace_tells(ask: Asker) -> None:
    cell = CELL | {"cell": "2s_x1"}
    assert "aten::gelu" in {row["name"] for row in ask.get("/table", **cell, by="operator")["rows"]}
    assert "from the trace alone" in ask.get("/table", **cell, by="label")["remarks"][0]
    assert "does not tell modules" in ask.get("/table", **cell, by="module")["message"]
    failed = ask.get("/table", **(CELL | {"cell": "1s_x2"}), by="label")
    assert failed["message"] == "There is no breakdown and no trace of this cell: The process died."


def test_the_trace_of_a_cell(ask: Asker) -> None:
    one = {"run": RUN, "trace": TRACE}
    outline = ask.get("/trace", **one)
    assert (outline["spans"], outline["length"]) == (7, 100)
    cut = ask.get("/trace/cut", **one, begin=0, end=100, width=800)
    assert cut["stamp"] == outline["stamp"]
    assert len(cut["rows"]) == 5
    assert ask.get("/trace/find", **one, search="gelu")["count"] == 2
    assert ask.get("/trace/at", **one, row=0, time=5)["name"] == "call"
    assert ask.get("/trace/window", **one, begin=0, end=100)["spans"] == 7
    assert ask.get("/memory", **one, begin=0, end=100)["devices"]["CPU"]["peak"]["bytes"] == 350
    whole = ask.raw("/download", **one)
    assert gzip.decompress(whole.data)[:1] == b"{"
    assert "attachment" in whole.headers["Content-Disposition"]


def test_the_list_of_runs_says_when_what_and_how_it_ended(ask: Asker, logs: Path) -> None:
    made = results(ok(1, 1, 0.1))
    save(logs / "recipe" / "other", made)
    for name, content in (("empty", "{}"), ("deep", "[" * 100_000), ("cut", '{"run": {"started": ')):
        (logs / name).mkdir()
        (logs / name / "results.json").write_text(content)
    listed = {run["name"]: run for run in ask.get("/runs")["runs"]}
    about = listed["recipe/other"]
    assert (about["began"], about["status"]) == (datetime.fromisoformat(made.run.started).timestamp(), made.run.status)
    assert about["model"] == made.models[0].source
    assert not any("status" in listed[name] for name in ("empty", "deep", "cut"))
    assert [run["began"] for run in listed.values()] == sorted((run["began"] for run in listed.values()), reverse=True)


def test_variants_beside_a_baseline(ask: Asker, logs: Path) -> None:
    cells = [
        ok(seconds, 1, rtf).model_copy(update={"variant": variant})
        for variant, rtf in (("float32", 0.1), ("int8", 0.05), ("slow", 0.3))
        for seconds in (1, 2)
    ]
    save(logs / "recipe" / "many", results(*cells, absent(4, 1, "failed", "x")))
    found = ask.get("/variants", run="recipe/many")
    assert found["baseline"] == "float32"
    rtf = {variant: cells["2s_x1"]["rtf"] for variant, cells in found["variants"].items()}
    assert {variant: (one["ratio"], one["mark"]) for variant, one in rtf.items()} == {
        "int8": (pytest.approx(0.5), "faster"),
        "slow": (pytest.approx(3), "slower"),
    }
    other = ask.get("/variants", run="recipe/many", baseline="slow")["variants"]
    assert other["int8"]["1s_x1"]["rtf"]["ratio"] == pytest.approx(1 / 6)
    assert "no variant 'x'" in ask.error("/variants", run="recipe/many", baseline="x")


def test_two_sides(ask: Asker, logs: Path) -> None:
    other = ok(1, 1, 0.3)
    other.breakdown = Breakdown.model_validate(BREAKDOWN | {"labels": [ROW | {"total_s": 0.24}]})
    save(logs / "recipe/other", results(other))
    pair = {f"left_{key}": value for key, value in CELL.items()}
    pair |= {"right_run": "recipe/other", "right_variant": "float32", "right_cell": "1s_x1"}
    found = ask.get("/side_by_side", **pair)
    assert found["pair"]["figures"]["rtf"]["ratio"] == pytest.approx(3)
    assert found["pair"]["figures"]["rtf"]["mark"] == "slower"
    assert [place["figures"]["rtf"]["mark"] for place in found["places"]] == ["slower", "unknown", "unknown", "unknown"]
    assert ask.get("/side_by_side_table", **pair, by="label")["rows"][0]["mark"] == "slower"
    missing = ask.get("/side_by_side_table", **(pair | {"left_cell": "1s_x2"}), by="label")
    assert missing["message"].startswith("On the left: There is no breakdown")


def test_traces_that_belong_to_no_run(ask: Asker, logs: Path) -> None:
    """The layout of torch's own handler."""
    write(logs / "resnet" / "worker.1.pt.trace.json")
    shown = ask.get("/run", run="resnet")
    assert (shown["kind"], shown["traces"]) == ("traces", ["worker.1.pt.trace.json"])
    assert ask.get("/table", run="resnet", trace="worker.1.pt.trace.json", by="label")["rows"][0]["name"] == "encoder"


@pytest.mark.parametrize("where", ["..", "../", "/", "/etc", "recipe/../..", "\0"])
def test_no_run_outside_of_the_folder_is_shown(ask: Asker, where: str) -> None:
    for route in ("/run", "/all_tables"):
        assert "log folder" in ask.error(route, run=where)


@pytest.mark.parametrize(
    "trace", ["../../../secret.pt.trace.json", "/etc/passwd", "results.json", "float32/\0.pt.trace.json"]
)
def test_no_trace_outside_of_the_run_is_served(ask: Asker, trace: str, tmp_path: Path) -> None:
    names = [trace, str(tmp_path / "secret.pt.trace.json")]
    for name in names:
        for route in ("/trace", "/download", "/trace/cut", "/memory"):
            answer = ask.raw(route, run=RUN, trace=name, begin=0, end=1, width=9)
            assert answer.status_code in (400, 404)
            assert OUTSIDE not in answer.text


def test_results_cannot_point_out_of_the_folder(ask: Asker, logs: Path) -> None:
    """A foreign results.json may name any file as its breakdown."""
    cell = ok(1, 1, 0.1)
    for file in ("../../../../secret.json", str(logs.parent / "secret.json"), "", "float32"):
        cell.breakdown = Breakdown.model_validate(BREAKDOWN | {"file": "breakdown.json"})
        cell.breakdown.file = file
        save(logs / RUN, results(cell))
        answer = ask.raw("/table", **CELL, by="operator")
        assert answer.status_code == 404
        assert OUTSIDE not in answer.text
    cell = ok(1, 1, 0.1)
    cell.variant = "../../.."
    save(logs / RUN, results(cell))
    answer = ask.get("/run", run=RUN)
    assert answer["variants"] == []
    assert "cells.0.variant" in answer["problem"]


@pytest.mark.parametrize("run", [".", "", "none"])
def test_a_folder_without_a_run_is_not_found(ask: Asker, run: str) -> None:
    assert ask.raw("/run", run=run).status_code == 404


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "not JSON"),
        ('{"schema": 1, "run": {', "not JSON"),
        ('{"schema": 0, "run": {}}', "has the schema 0"),
        ('{"run": {}}', "has the schema None"),
        ('{"schema": 99}', "Update the profiler"),
        ("[1, 2]", "has the schema"),
        ('{"schema": 1, "run": {"id": 5}}', "is damaged at run"),
    ],
)
def test_results_that_cannot_be_read_say_why(ask: Asker, logs: Path, content: str, said: str) -> None:
    (logs / RUN / "results.json").write_text(content)
    message = ask.error("/run", run=RUN)
    assert said in message
    assert str(logs) not in message


def test_of_a_damaged_run_what_is_whole_is_shown(ask: Asker, logs: Path) -> None:
    whole = (logs / RUN / "results.json").read_text()
    (logs / RUN / "results.json").write_text(whole[: whole.index("Other processes")])
    shown = ask.get("/run", run=RUN)
    assert len(shown["variants"][0]["cells"]) == 1
    assert "damaged" in shown["problem"]
    assert str(logs) not in shown["problem"]


def test_a_run_without_cells_is_a_run(ask: Asker, logs: Path) -> None:
    save(logs / RUN, results())
    assert ask.get("/run", run=RUN)["variants"] == []


@pytest.mark.parametrize("content", [b"", b"{", b"rubbish", b"\x1f\x8brubbish", b'{"traceEvents": [{"ph": "X"'])
def test_traces_that_cannot_be_read_say_why(ask: Asker, logs: Path, content: bytes) -> None:
    (logs / RUN / TRACE).write_bytes(content)
    assert "a.pt.trace.json.gz" in ask.error("/trace", run=RUN, trace=TRACE)


@pytest.mark.parametrize("content", ["", "[]", '{"operators": 5}', '{"operators": [5]}', "[" * 100_000])
def test_a_damaged_breakdown_says_so(ask: Asker, logs: Path, content: str) -> None:
    (logs / RUN / "float32/1s_x1/breakdown.json").write_text(content)
    assert "damaged" in ask.error("/table", **CELL, by="operator")


@pytest.mark.parametrize(
    ("route", "values"),
    [
        ("/run", {}),
        ("/table", CELL),
        ("/table", CELL | {"by": "planet"}),
        ("/table", CELL | {"cell": "9s_x9", "by": "label"}),
        ("/trace/cut", {"run": RUN, "trace": TRACE, "begin": "x", "end": 1, "width": 1}),
        ("/trace/cut", {"run": RUN, "trace": TRACE, "begin": "nan", "end": "inf", "width": 1}),
        ("/trace/at", {"run": RUN, "trace": TRACE, "row": "first", "time": 1}),
        ("/side_by_side", {"left_run": RUN}),
    ],
)
def test_addresses_that_are_not_whole_are_refused_with_a_sentence(
    ask: Asker, route: str, values: dict[str, Any]
) -> None:
    assert ask.error(route, **values)


def test_results_that_lack_something_say_so(ask: Asker, logs: Path) -> None:
    made = results(ok(1, 1, 0.1)).model_dump(mode="json", by_alias=True)
    made["cells"][0]["breakdown"] = BREAKDOWN | {"labels": [{"name": "encoder"}]}
    (logs / RUN / "results.json").write_text(json.dumps(made))
    assert "is damaged at cells.0.breakdown.labels.0.total_s" in ask.get("/run", run=RUN)["problem"]
    assert "1 of its cells cannot be read" in ask.get("/run", run=RUN)["problem"]
    assert "The run has no cell" in ask.error("/table", **CELL, by="label")


def test_without_a_log_folder_the_page_says_so(tmp_path: Path) -> None:
    asked = Asker(None, tmp_path)
    assert not asked.plugin.is_active()
    assert "--logdir" in asked.error("/runs")


def test_the_page_was_built_from_its_sources(ask: Asker) -> None:
    """Otherwise: npm ci && npm run build, in profiler/tensorboard_plugin/frontend."""
    folder = STATIC.parent / "frontend"
    files = [folder / "package-lock.json", *sorted((folder / "src").iterdir(), key=lambda file: file.name)]
    wanted = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    assert ask.raw("/built-from.txt").text.strip() == wanted


def test_the_page_and_its_licences_are_shipped(ask: Asker) -> None:
    assert b"render" in ask.raw("/index.js").data
    assert ask.raw("/index.css").status_code == 200
    licences = ask.raw("/THIRD_PARTY_LICENSES.txt").text
    assert {"preact", "uplot", "@tanstack/table-core"} <= set(licences.split())
    for file in ("/index.js", "/index.css"):
        assert b"http://" not in ask.raw(file).data.replace(b"http://www.w3.org", b"")
        assert len(ask.raw(file).data) < 1_000_000
