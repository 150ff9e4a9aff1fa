"""Hostile code in a worker without --trust: what it tries fails in the sandbox, and works where there is none."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from profiler import sandbox
from profiler.api import ab, profile_recipe
from profiler.device import Device
from profiler.errors import ModelError, UserError
from profiler.execution import channel
from profiler.execution.workers import WorkerHandle
from profiler.recipe.load import load_recipe
from profiler.results.types import PeakMemory
from tests.helpers import program

pytestmark = pytest.mark.skipif(not sandbox.version(), reason="this kernel has no Landlock")

PTRACE_ATTACH, PTRACE_DETACH = 16, 17
SPEECH = program.ROOT / "samples" / "speech.flac"


@dataclass(frozen=True)
class Target:
    """What the hostile code is after: files, a process and sockets of the user."""

    folder: Path
    process: subprocess.Popen[bytes]
    tcp: int
    udp: int
    name: str  # of an abstract socket
    places: sandbox.Places

    @property
    def file(self) -> Path:
        return self.folder / "precious"


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    folder = tmp_path / "home"
    for name in ("home", "home/inner", "run", "temporary", "cache"):
        (tmp_path / name).mkdir()
    (folder / "precious").write_text("precious")
    places = sandbox.Places(tmp_path / "run", tmp_path / "temporary", tmp_path / "cache")
    name = f"\0speech-profiler-{os.getpid()}"
    with contextlib.ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        for address in (name, str(folder / "socket")):
            unix = stack.enter_context(socket.socket(socket.AF_UNIX))
            unix.bind(address)
            unix.listen()
        process = stack.enter_context(subprocess.Popen(["sleep", "60"]))
        stack.callback(process.kill)
        yield Target(folder, process, tcp.getsockname()[1], udp.getsockname()[1], name, places)


def connect(family: int, kind: int, address: object) -> None:
    with socket.socket(family, kind) as made:
        made.connect(address)
        made.send(b"secret")


def trace(pid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(PTRACE_ATTACH, pid, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")
    os.waitpid(pid, 0)
    libc.ptrace(PTRACE_DETACH, pid, None, None)


def ring() -> None:
    if ctypes.CDLL(None).syscall(425, 1, ctypes.create_string_buffer(120)) < 0:  # io_uring_setup
        raise OSError("io_uring")


def stray(target: Target) -> Path:
    """A file of the hostile code's own, which it may well write."""
    file = target.places.temporary / "stray"
    file.write_text("stray")
    return file


def link(target: Target, to: Path) -> Path:
    made = target.places.temporary / "link"
    made.symlink_to(to)
    return made


def write_by_link(target: Target) -> None:
    made = target.places.temporary / "new"
    os.link(target.file, made)
    made.write_text("x")


FILES: dict[str, Callable[[Target], object]] = {
    "make a file": lambda t: (t.folder / "new").write_text("x"),
    "overwrite": lambda t: t.file.write_text("x"),
    "append": lambda t: os.write(os.open(t.file, os.O_WRONLY | os.O_APPEND), b"x"),
    "truncate": lambda t: os.truncate(t.file, 0),
    "remove": lambda t: t.file.unlink(),
    "rename": lambda t: t.file.rename(t.folder / "other"),
    "move away": lambda t: t.file.rename(t.places.temporary / "stolen"),
    "move there": lambda t: stray(t).rename(t.file),
    "make a folder": lambda t: (t.folder / "new").mkdir(),
    "remove a folder": lambda t: (t.folder / "inner").rmdir(),
    "symbolic link": lambda t: (t.folder / "new").symlink_to("/etc/passwd"),
    "hard link there": lambda t: os.link(stray(t), t.folder / "new"),
    "hard link from there": write_by_link,
    "pipe": lambda t: os.mkfifo(t.folder / "new"),
    "link in the run's folder": lambda t: (t.places.run / "tables.md").symlink_to(t.file),
    "hard link in the run's folder": lambda t: os.link(t.file, t.places.run / "tables.md"),
    "move a link into the run's folder": lambda t: link(t, t.file).rename(t.places.run / "tables.md"),
    "through a link of its own": lambda t: (link(t, t.folder) / "new").write_text("x"),
    "a program": lambda t: subprocess.run(["sh", "-c", f"echo x > {t.folder}/new"], check=True, capture_output=True),
    "torch.save": lambda t: torch.save(torch.zeros(1), t.folder / "new"),
    "its own settings of the kernel": lambda t: Path("/proc/self/oom_score_adj").write_text("0"),
}
OTHERS: dict[str, Callable[[Target], object]] = {
    "TCP": lambda t: connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", t.tcp)),
    "UDP": lambda t: connect(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", t.udp)),
    "unix socket": lambda t: connect(socket.AF_UNIX, socket.SOCK_STREAM, str(t.folder / "socket")),
    "abstract unix socket": lambda t: connect(socket.AF_UNIX, socket.SOCK_STREAM, t.name),
    "listening": lambda t: socket.create_server(("127.0.0.1", 0)).close(),
    "io_uring": lambda t: ring(),
    "leaving the session": lambda t: os.setsid(),
    "leaving the process group": lambda t: os.setpgid(0, 0),
    "signal": lambda t: os.kill(t.process.pid, signal.SIGWINCH),
    "signal to the parent": lambda t: os.kill(os.getppid(), signal.SIGWINCH),
    "ptrace": lambda t: trace(t.process.pid),
    "memory of another process": lambda t: Path(f"/proc/{t.process.pid}/mem").open("r+b").close(),
}


def attempt(work: Callable[[], object], before: Callable[[], object] = lambda: None) -> str:
    """What goes wrong when a fork of this process does that; empty: nothing."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        problem = "no answer"
        try:
            before()
            work()
            problem = ""
        except BaseException as error:
            problem = f"{type(error).__name__}: {error}"
        finally:
            os.write(write_end, problem.encode())
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


def snapshot(target: Target) -> dict[str, bytes]:
    folders = (target.folder, target.places.run)
    paths = [path for folder in folders for path in folder.rglob("*")]
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in paths}


@pytest.mark.parametrize("payload", FILES)
def test_nothing_is_written_outside(target: Target, payload: str) -> None:
    before = snapshot(target)
    refused = attempt(lambda: FILES[payload](target), lambda: sandbox.restrict(target.places, network=True))
    assert refused
    assert snapshot(target) == before
    shutil.rmtree(target.places.temporary)
    target.places.temporary.mkdir()
    assert attempt(lambda: FILES[payload](target)) == "", "the payload is live"
    assert "kernel" in payload or snapshot(target) != before


@pytest.mark.parametrize("payload", OTHERS)
def test_nobody_else_is_reached(target: Target, payload: str) -> None:
    assert attempt(lambda: OTHERS[payload](target), lambda: sandbox.restrict(target.places, network=False))
    assert attempt(lambda: OTHERS[payload](target)) == "", "the payload is live"


def test_downloads_are_possible_only_until_the_weights_are_there(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HOME", str(target.folder / "hub"))
    monkeypatch.setenv("TORCH_HOME", str(target.folder / "torch"))

    def download() -> None:
        connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", target.tcp))
        (target.folder / "hub" / "hub" / "weights").write_text("x")

    def first() -> None:
        sandbox.restrict(target.places, network=True)

    def both() -> None:
        first()
        sandbox.restrict(target.places, network=False)

    assert attempt(download, first) == ""
    assert "PermissionError" in attempt(download, both)
    assert attempt(lambda: (target.folder / "hub" / "modules.py").write_text("x"), first), "code is no download"


def test_what_a_worker_needs_still_works(target: Target) -> None:
    def work() -> None:
        for folder in (target.places.run, target.places.temporary, target.places.cache):
            (folder / "inner").mkdir()
            (folder / "inner" / "file").write_text("x")
            (folder / "inner" / "file").rename(folder / "inner" / "renamed")
            (folder / "inner" / "renamed").unlink()
        assert target.file.read_text() == "precious", "reading is not restricted"
        Path(os.devnull).write_text("x")
        subprocess.run(["true"], check=True)
        left, right = socket.socketpair()
        left.send(b"x")
        assert right.recv(1) == b"x"
        child = os.fork()
        if child == 0:
            time.sleep(60)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)

    assert attempt(work, lambda: sandbox.restrict(target.places, network=False)) == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to lose")
def test_root_loses_what_would_get_around_it(target: Target) -> None:
    def mount() -> None:
        place = str(target.folder / "inner")
        subprocess.run(["mount", "-t", "tmpfs", "none", place], check=True, capture_output=True)
        subprocess.run(["umount", place], check=True)

    def give_away() -> None:
        os.chown(stray(target), 1, 1)

    for work in (mount, give_away):
        assert attempt(work, lambda: sandbox.restrict(target.places, network=True))
    assert attempt(give_away) == ""


SCRIPT_RECIPE = """
pretrained_model: {{source: evil.ts, type: TorchScript}}
profiling_dimensions: {{audio_mockup_secs: [0.1], batch_sizes: [1], example_audio: {speech}, export_logs: true}}
measure: {{warmup: 1, budget: 0.1, rounds: 1}}
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe for a TorchScript file that writes a file beside it when it is called."""
    tmp_path = tmp_path_factory.mktemp("script")
    source = f"""
def forward(self, waveforms):
    torch.save(waveforms, "{tmp_path / "canary"}")
    return waveforms
"""
    module = torch.jit.ScriptModule()
    module.define(source)
    module.save(str(tmp_path / "evil.ts"))
    recipe = tmp_path / "evil.yaml"
    recipe.write_text(SCRIPT_RECIPE.format(speech=SPEECH))
    return recipe


def test_a_torchscript_file_writes_nothing_without_trust(script: Path, tmp_path: Path) -> None:
    program.run(script, "--logdir", tmp_path / "logs", "--quiet")
    assert not script.with_name("canary").exists()
    results = program.results_in(tmp_path / "logs")
    assert results["environment"]["sandbox"]["in_force"] is True
    trusted = program.run(script, "--trust", "--logdir", tmp_path / "trusted", "--quiet")
    assert trusted.returncode == 0, trusted.stderr
    assert script.with_name("canary").exists(), "the payload is live"
    assert program.results_in(tmp_path / "trusted")["environment"]["sandbox"]["reason"] == "--trust"


def test_without_a_sandbox_torchscript_needs_trust(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from profiler.models.load import load_model
    from profiler.models.model import model_request

    loaded = load_recipe(script)
    with pytest.raises(ModelError, match=r"has no sandbox.*add --trust"):
        load_model(model_request(loaded.recipe, script.parent))
    assert load_model(model_request(loaded.recipe, script.parent, trust=True)).module is not None
    monkeypatch.setattr(sandbox, "version", lambda: 0)
    assert not sandbox.state(trust=False).in_force
    assert "Landlock" in (sandbox.state(trust=False).reason or "")


PLANTED = ("speechbrain", "torchaudio", "sympy", "pydantic", "numpy", "transformers", "typing_extensions", "colorsys")
PLAIN = """
pretrained_model: {{source: torch.nn.ReLU, type: Module}}
profiling_dimensions: {{audio_mockup_secs: [0.1], batch_sizes: [1], example_audio: {speech}, export_logs: true}}
measure: {{warmup: 1, budget: 0.1, rounds: 1}}
"""


def test_files_beside_the_recipe_and_in_the_current_folder_are_not_imported(tmp_path: Path) -> None:
    """Neither in place of an installed package nor, without --trust, at all."""
    for name in PLANTED:
        code = f"open({str(tmp_path / 'canary')!r}, 'a').write({name!r})\nraise SystemExit(9)\n"
        if name in ("speechbrain", "torchaudio"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "__init__.py").write_text(code)
        else:
            (tmp_path / f"{name}.py").write_text(code)
    shutil.copy(program.MODULES, tmp_path / "modules.py")
    shutil.copy(SPEECH, tmp_path / "speech.flac")
    (tmp_path / "recipe.yaml").write_text(PLAIN.format(speech="speech.flac"))
    for more in ([], ["--trust", "pretrained_model.source=modules.Nothing"]):
        done = subprocess.run(
            program.command("recipe.yaml", *more, "--logdir", f"logs{len(more)}", "--quiet"),
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": ":"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert not (tmp_path / "canary").exists()
    folder = program.run_folder(tmp_path / "logs0")
    assert str(tmp_path) not in (folder / "results.json").read_text(), "no path beyond what was typed"
    host = re.compile(rf"(^|[._]){re.escape(socket.gethostname())}([._]|$)")
    assert [path.name for path in folder.rglob("*") if host.search(path.name)] == []


def test_peak_memory_is_measured_in_the_sandbox_and_the_run_says_it_was_in_force(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(PLAIN.format(speech=SPEECH))
    done = program.run(recipe, "--logdir", tmp_path / "logs", "--quiet")
    assert done.returncode == 0, done.stderr
    results = program.results_in(tmp_path / "logs")
    assert results["environment"]["sandbox"]["restricts"][0] == "files"
    (cell,) = results["cells"]
    assert cell["peak_memory_bytes"]["process"] > 0
    assert (program.run_folder(tmp_path / "logs") / cell["trace"]).is_file()


@pytest.mark.parametrize("answer", [b"no json\n", b'{"type":"pass_done"}\n', b"x" * 100])
def test_what_a_worker_says_is_data(tmp_path: Path, answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    from profiler.execution.channel import Done
    from profiler.execution.workers import JobFailed, RunningJob

    monkeypatch.setattr(channel, "LONGEST", 50)
    worker = WorkerHandle(tmp_path / "worker.log", threads=1)
    try:
        assert not worker.owns(os.getpid()), "a worker that names another process does not have it killed"
        worker.forks = True
        running = RunningJob(worker, channel.ReferenceJob(threads=1), timeout=20, on_event=lambda event: None)
        read_end, write_end = os.pipe()
        os.write(write_end, answer)
        worker.channel._read_fd = read_end
        with pytest.raises(JobFailed, match="cannot be read"):
            running.wait_for(Done)
    finally:
        worker.close()


@pytest.mark.parametrize("name", ["../../home/x", "float32/1s_x1/../../x.pt.trace.json.gz", "/etc/passwd", "float32/x"])
def test_a_trace_elsewhere_is_not_believed(name: str) -> None:
    from profiler.measure.passes.trace import PASS
    from profiler.results.types import CellResult

    cell = CellResult(variant="float32", seconds=1, batch_size=1, status="ok")
    PASS.put(cell, name, 0.1, "")
    assert cell.trace is None
    PASS.put(cell, "float32/1s_x1/1s_x1.17.pt.trace.json.gz", 0.1, "")
    assert cell.trace is not None


@pytest.mark.parametrize("key", ["python", "path"])
def test_a_program_or_a_folder_of_code_in_a_recipe_needs_trust(tmp_path: Path, key: str) -> None:
    recipe = tmp_path / "recipe.yaml"
    (tmp_path / "evil").touch(0o755)
    recipe.write_text(PLAIN.format(speech=SPEECH) + f"variants: [{{name: mine, {key}: ./evil}}]\n")
    with pytest.raises(UserError, match=r"recipe.yaml:5.*would run code \(`\./evil`\).*--trust"):
        load_recipe(recipe)
    assert load_recipe(recipe, trust=True).trust


def test_the_code_of_another_revision_needs_trust(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--trust"):
        ab(tmp_path / "recipe.yaml", rev="HEAD", logdir=tmp_path)


def test_control_characters_of_a_worker_do_not_reach_the_terminal() -> None:
    said = "\x1b]0;title\x07 \x9b2J \x7f tab\t line\n \\u001b is six characters"
    read_end, write_end = os.pipe()
    channel.Channel(read_end, write_end, channel.EVENTS).send(channel.Failed("other", said))
    (received,) = [channel.Channel(read_end, write_end, channel.EVENTS).receive()]
    assert isinstance(received, channel.Failed)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", received.message)
    assert "title" in received.message
    assert "tab\t line\n" in received.message


@pytest.mark.slow
def test_where_jobs_cannot_be_forks_the_sandbox_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU is missing here: its jobs run in the worker itself, as they do where forks are switched off."""
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(PLAIN.format(speech=SPEECH))
    monkeypatch.setattr(Device, "can_fork", property(lambda self: False))
    run = profile_recipe(recipe, logdir=tmp_path / "logs")
    assert run.results.environment.sandbox is not None
    assert run.results.environment.sandbox.in_force
    (cell,) = run.cells
    assert cell.status == "ok"
    assert (cell.peak_memory_bytes or PeakMemory()).process
