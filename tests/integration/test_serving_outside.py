"""A server that runs already, as its client: a real one on 127.0.0.1, with a shipped trained model behind it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.helpers import program
from tests.helpers.servers import running

pytestmark = pytest.mark.slow


def server(folder: Path, kind: str) -> AbstractContextManager[tuple[int, subprocess.Popen[bytes]]]:
    return running("tests.helpers.asr_server", folder, kind)


def recipe(folder: Path, source: str, serving: str) -> Path:
    file = folder / "outside.yaml"
    file.write_text(
        f"pretrained_model: {{source: '{source}', type: OpenAITranscription}}\n"
        f"mode: serving\nserving: {serving}\n"
        "profiling_dimensions: {audio_mockup_secs: [0.5], batch_sizes: [1]}\n"
    )
    return file


def counted(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/count", timeout=10) as answer:
        return int(json.load(answer)["requests"])


LOAD = "{scenarios: [server], loads: [8], latency: 5.0, percentile: 50, workers: 2, most_requests: 20, seconds: 5, "
LIMIT = "outside: {rate: 10, seconds: 12}}"


def test_a_running_server_is_loaded_within_the_limit_that_was_set(tmp_path: Path) -> None:
    with server(tmp_path, "model") as (port, _):
        file = recipe(tmp_path, f"http://127.0.0.1:{port}/v1", LOAD + LIMIT)
        done = program.run(file, "--logdir", tmp_path / "logs")
        assert done.returncode == 0, done.stdout + done.stderr
        (result,) = program.results_in(tmp_path / "logs")["serving"]
        (step,) = result["steps"]
        counts = step["requests"]
        assert 1 <= counts["ok"] <= counted(port) <= counts["sent"] <= 40, "no request beside those that are counted"
        assert step["latency_s"]["median"] > 0.001
        assert "times are those of a client" in done.stdout


def test_answers_that_are_errors_are_counted_by_reason(tmp_path: Path) -> None:
    with server(tmp_path, "closes") as (port, _):
        file = recipe(tmp_path, f"http://127.0.0.1:{port}/v1", LOAD + LIMIT)
        program.run(file, "--logdir", tmp_path / "logs")
        (result,) = program.results_in(tmp_path / "logs")["serving"]
        (step,) = result["steps"]
        counts = step["requests"]
        assert counts["errors"] >= 1
        assert any("the server answered 503" in reason for reason in counts["reasons"])
        assert counts["sent"] == counts["ok"] + counts["errors"] + counts["timeouts"] + counts["unfinished"]


def test_a_server_that_goes_away_costs_its_requests_alone(tmp_path: Path) -> None:
    with server(tmp_path, "echo") as (port, process):
        file = recipe(tmp_path, f"http://127.0.0.1:{port}/v1", LOAD + LIMIT)
        process.send_signal(signal.SIGKILL)
        process.wait()
        done = program.run(file, "--logdir", tmp_path / "logs")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    (result,) = program.results_in(tmp_path / "logs")["serving"]
    assert result["status"] == "failed"
    assert "ConnectError" in result["reason"]


@pytest.mark.parametrize(
    ("source", "serving", "said"),
    [
        ("http://127.0.0.1:9/v1", "{scenarios: [server]}", "set serving.outside: {rate: ..., seconds: ...}"),
        ("http://127.0.0.1:9/v1", "{scenarios: [offline], " + LIMIT, "set scenarios: [server]"),
        (
            "http://127.0.0.1:9/v1",
            "{scenarios: [server], loads: [99], " + LIMIT,
            "99 is more than serving.outside.rate",
        ),
        ("ftp://127.0.0.1/v1", "{scenarios: [server], " + LIMIT, "expected the address of a server"),
    ],
)
def test_load_without_a_limit_is_refused(source: str, serving: str, said: str, tmp_path: Path) -> None:
    done = program.run(recipe(tmp_path, source, serving), "--logdir", tmp_path / "logs")
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / "logs").exists()


def streams(folder: Path, source: str, serving: str, overrides: str = "{protocol: vosk}") -> Path:
    file = folder / "outside.yaml"
    file.write_text(
        f"pretrained_model: {{source: '{source}', type: WebSocketStream, overrides: {overrides}}}\n"
        f"mode: serving\nserving: {{scenarios: [streams], latency: 5.0, percentile: 50, {serving}}}\n"
        "profiling_dimensions: {audio_mockup_secs: [0.4], batch_sizes: [1]}\n"
    )
    return file


def test_live_speakers_are_sent_to_a_running_server_over_websockets(tmp_path: Path) -> None:
    with running("tests.helpers.websocket_server", tmp_path, "model") as (port, _):
        limits = "streams: [3], most_requests: 30, outside: {streams: 3, seconds: 60}"
        done = program.run(streams(tmp_path, f"ws://127.0.0.1:{port}/vosk", limits), "--logdir", tmp_path / "logs")
        assert done.returncode == 0, done.stdout + done.stderr
        (result,) = program.results_in(tmp_path / "logs")["serving"]
        (step,) = result["steps"]
        counts = step["requests"]
        assert counts["ok"] == counts["sent"] == int((tmp_path / "counted").read_text()), "each chunk once"
        assert result["chunk_s"] == 0.2
        assert step["seconds"] > 0.2 * (counts["sent"] / 3 - 1) * 0.9, "at the speed of speech"
        assert step["first_token_s"]["median"] > 0.2, "speaking included"
        assert step["memory_bytes"] is step["energy_per_request_j"] is None, "this machine is not the server"
        again = program.run("report", "latest", "--full", "--logdir", tmp_path / "logs")
        assert "first text" in again.stdout


@pytest.mark.parametrize(
    ("serving", "overrides", "said"),
    [
        ("seconds: 5", "{protocol: vosk}", "set serving.outside: {streams: ..., seconds: ...}"),
        (
            "streams: [9], outside: {streams: 3, seconds: 9}",
            "{protocol: vosk}",
            "9 is more than serving.outside",
        ),
        ("outside: {streams: 3, seconds: 9}", "{protocol: vsk}", "Did you mean `vosk`?"),
        ("outside: {streams: 3, seconds: 9}", "{protocl: vosk}", "Did you mean `protocol`?"),
        ("outside: {streams: 3, seconds: 9}", "{encoding: mp3}", "Invalid enum value 'mp3'"),
        ("outside: {streams: 3, seconds: 9}", "{protocol: vllm}", "set `model`"),
        ("outside: {streams: 3, seconds: 9}", "{answers: last}", "needs `end`"),
    ],
)
def test_a_conversation_that_is_not_whole_is_refused(serving: str, overrides: str, said: str, tmp_path: Path) -> None:
    done = program.run(streams(tmp_path, "ws://127.0.0.1:9", serving, overrides), "--logdir", tmp_path / "logs")
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / "logs").exists()


def test_a_worker_may_connect_to_that_port_alone(tmp_path: Path) -> None:
    """In the sandbox of a worker: the port of the recipe answers, another one is refused by the kernel."""
    script = tmp_path / "connect.py"
    script.write_text(
        "import socket, sys\n"
        "from pathlib import Path\n"
        "from profiler import sandbox\n"
        "ports = []\n"
        "for _ in range(2):\n"
        "    made = socket.create_server(('127.0.0.1', 0)); ports.append(made)\n"
        "allowed, other = (each.getsockname()[1] for each in ports)\n"
        "folder = Path(sys.argv[1])\n"
        "sandbox.restrict(sandbox.Places(folder, folder, folder), network=False, port=allowed)\n"
        "socket.create_connection(('127.0.0.1', allowed), 5).close()\n"
        "try:\n"
        "    socket.create_connection(('127.0.0.1', other), 5)\n"
        "except PermissionError:\n"
        "    print('refused')\n"
    )
    done = subprocess.run(
        [sys.executable, script, tmp_path], cwd=program.ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "refused\n", done.stdout + done.stderr
