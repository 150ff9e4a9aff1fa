"""What a run leaves behind opens in TensorBoard: traces in the profiler plugin, tables as text in its core."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import signal
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import TinyModel
from tests.helpers import program, tiny

pytestmark = pytest.mark.slow

PROFILER = "plugin/pytorch_profiler"


class Server:
    """A running TensorBoard, asked as its pages ask it."""

    def __init__(self, port: int, logdir: Path) -> None:
        self.address = f"http://localhost:{port}/data"
        self.run = program.run_folder(logdir)
        self.name = str(self.run.relative_to(logdir))
        self.results = program.results_in(logdir)

    def raw(self, route: str, **arguments: Any) -> bytes:
        query = f"?{urllib.parse.urlencode(arguments)}" if arguments else ""
        with urllib.request.urlopen(f"{self.address}/{route}{query}", timeout=30) as answer:
            data: bytes = answer.read()
        return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data

    def get(self, route: str, **arguments: Any) -> Any:
        return json.loads(self.raw(route, **arguments))


def wait_for(ready: Callable[[], Any], seconds: float = 60) -> Any:
    """Ask until the answer is not empty: TensorBoard and its plugin load in the background."""
    until = time.monotonic() + seconds
    while True:
        try:
            if answer := ready():
                return answer
        except (urllib.error.URLError, ConnectionError):
            pass
        assert time.monotonic() < until, f"no answer within {seconds} s"
        time.sleep(0.3)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def logdir(tiny_model: Callable[[str], TinyModel], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log folder of a run with two cells."""
    folder = tmp_path_factory.mktemp("tensorboard")
    (folder / "tiny.yaml").write_text(
        tiny.recipe_text(
            str(tiny_model("encoder").folder),
            "AutoModel",
            seconds="[1, 2]",
            batches="[1]",
            grid="export_logs: true",
            more="measure: {rounds: 1, budget: 0.1}",
        )
    )
    done = program.run(folder / "tiny.yaml", "--logdir", folder / "logs", "--quiet")
    assert done.returncode == 0, done.stderr
    return folder / "logs"


@pytest.fixture(scope="module")
def server(logdir: Path) -> Iterator[Server]:
    port = free_port()
    with (logdir.parent / "tensorboard.log").open("w") as log:
        process = program.start(
            "tensorboard", "--logdir", logdir, "--port", str(port), stdout=log, stderr=log, start_new_session=True
        )
        try:
            made = Server(port, logdir)
            wait_for(lambda: made.get("plugins_listing"))
            assert process.poll() is None
            yield made
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # the server, its data server and the plugin's loaders
            process.wait()


def test_the_profiler_plugin_lists_every_traced_cell(server: Server) -> None:
    assert server.get("plugins_listing")["pytorch_profiler"]["enabled"]
    wait_for(lambda: len(server.get(f"{PROFILER}/runs")["runs"]) == 2)
    assert sorted(server.get(f"{PROFILER}/runs")["runs"]) == [
        f"{server.name}/float32/1s_x1",
        f"{server.name}/float32/2s_x1",
    ]


def test_the_profiler_plugin_shows_its_views_of_a_cell(server: Server) -> None:
    """In the order in which its page asks: run, views, worker, span, then each view."""
    run = f"{server.name}/float32/2s_x1"
    wait_for(lambda: run in server.get(f"{PROFILER}/runs")["runs"])
    views = server.get(f"{PROFILER}/views", run=run)
    assert {"Overview", "Operator", "Trace", "Memory"} <= set(views)
    (worker,) = server.get(f"{PROFILER}/workers", run=run, view="Overview")
    assert worker.endswith("2s_x1")
    (span,) = server.get(f"{PROFILER}/spans", run=run, worker=worker)

    asked = {"run": run, "worker": worker, "span": span}
    overview = server.get(f"{PROFILER}/overview", **asked, view="Overview")
    assert overview["steps"]["rows"]
    operators = server.get(f"{PROFILER}/operation/table", **asked, view="Operator", group_by="Operation")
    assert "aten::conv1d" in {row["name"] for row in operators["data"]}
    memory = server.get(f"{PROFILER}/memory", **asked, view="Memory")
    assert memory["columns"]
    assert b"traceEvents" in server.raw(f"{PROFILER}/trace", **asked, view="Trace")


def test_the_tables_are_there_as_text_and_no_grid_as_scalars(server: Server) -> None:
    assert wait_for(lambda: server.get("plugin/text/tags").get(server.name)) == ["tables"]
    (entry,) = server.get("plugin/text/text", run=server.name, tag="tables")
    assert "<table>" in entry["text"]
    assert "Real-time factor" in entry["text"]
    assert "Peak memory" in entry["text"]
    assert not any(server.get("plugin/scalars/tags").values())


def test_it_opens_on_our_tab_and_prints_little(server: Server, logdir: Path) -> None:
    """TensorBoard opens the first tab that has something to show; the other plugin has read traces by now."""
    wait_for(lambda: len(server.get(f"{PROFILER}/runs")["runs"]) == 2)
    active = [name for name, about in server.get("plugins_listing").items() if about["enabled"]]
    assert active[0] == "speech_profile"
    address = server.address.removesuffix("data")
    log = (logdir.parent / "tensorboard.log").read_text().splitlines()
    assert log == [f"{address}#speech_profile", f"1 run in {logdir}. Stop with Ctrl-C."]


def test_a_port_that_is_busy(server: Server, logdir: Path, tmp_path: Path) -> None:
    """One that was asked for ends the command; else the next free one is taken."""
    port = str(urllib.parse.urlsplit(server.address).port)
    done = program.run("tensorboard", "--logdir", logdir, "--port", port)
    assert done.returncode == 2
    assert done.stdout == ""
    assert f"Port {port} is in use." in done.stderr
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "a.pt.trace.json").write_text("{}")
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):  # somebody else's, which is as good
            taken.bind(("localhost", 6006))
            taken.listen()
        process = program.start("tensorboard", "--logdir", tmp_path, start_new_session=True)
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            address = urllib.parse.urlsplit(process.stdout.readline())
            assert address.port != 6006
            assert process.stderr.readline() == f"1 folder of traces in {tmp_path}. Stop with Ctrl-C.\n"
            os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C in a terminal; the other plugin cannot read the trace
            assert process.wait(30) == 0
            assert process.stderr.read() == ""
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def test_without_a_log_folder_it_says_what_to_do(tmp_path: Path) -> None:
    done = program.run("tensorboard", "--logdir", tmp_path / "none")
    assert done.returncode == 2
    assert "no log folder" in done.stderr
