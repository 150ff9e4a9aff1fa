"""The worker for a model in an environment of its own, where neither the profiler nor its packages are installed.

Run by path, with any Python from 3.8 on: `python .../standalone_worker.py READ_FD WRITE_FD`. It needs the standard
library, the rules of timing (`measure/latency.py`, which needs no more), an adapter file of the user's and what that
imports. It speaks the messages of `channel.py`, as plain JSON; audio comes from the parent, as a file of raw float32.
docs/add-a-library.md shows an adapter file and says what may stand in it.

Wall time, CPU time and the process's peak memory are measured here, and texts are given back. What takes torch or the
profiler's packages (operations, breakdown, traces, tensors, energy) has a reason instead.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import dataclasses
import gc
import importlib.util
import json
import os
import platform
import random
import shlex
import signal
import sys
import time
import traceback
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from profiler.measure import latency

    Message = dict[str, Any]
else:  # without the package around it, whose other files need more than a standard library
    _file = Path(__file__).resolve().parents[1] / "measure" / "latency.py"
    _spec = importlib.util.spec_from_file_location("speech_profiler_latency", _file)
    latency = importlib.util.module_from_spec(_spec)
    sys.modules[_spec.name] = latency  # where dataclasses look for it
    _spec.loader.exec_module(latency)

NEEDED = {
    "load": "load(source, device)",
    "prepare": "prepare(model, waveforms, lengths, rate)",
    "run": "run(model, inputs)",
}
WEIGHTS = ("pretrained", "as constructed", "random", "no")
ABSENT = "not measured for an adapter file"
NOTE = (
    "The model runs in an environment of its own, by an adapter file: time, CPU time and the process's peak memory are "
    "measured there; operations, breakdown, traces, tensors and energy are not."
)
NOT_SYNCHRONISED = (
    "The adapter file has no function synchronize(): a call counts as finished when run() returns, whatever the device "
    "is still doing."
)
PROGRESS_SECONDS = 0.5
PR_SET_PDEATHSIG = 1


class AdapterError(Exception):
    """What the user can fix in the adapter file or its environment, in a sentence."""


class Device:
    """What the rules of timing ask of a device; the adapter says how to wait for its own."""

    def __init__(self, synchronize: Callable[[], object] | None) -> None:
        self._synchronize = synchronize

    def synchronize(self) -> None:
        if self._synchronize is not None:
            self._synchronize()

    def event(self) -> None:
        return None

    def seconds_between(self, before: None, after: None) -> None:
        return None


class Adapter:
    """The user's file, executed, and the model that its `load` gave."""

    def __init__(self, request: Message) -> None:
        self.file = request["type"]
        self.name = Path(self.file).name
        self.source = request["folder"] or request["file"] or request["source"]
        self.given_rate = request["sample_rate"]
        sys.path.append(str(Path(self.file).parent))
        if request["base_first"]:
            sys.path.insert(0, request["base"])
        spec = importlib.util.spec_from_file_location("speech_profiler_adapter", self.file)
        loader = spec.loader if spec else None
        assert spec is not None
        assert loader is not None
        module = sys.modules["speech_profiler_adapter"] = importlib.util.module_from_spec(spec)
        self.found = vars(module)  # also what `load` sets as a global later on
        self._explained(lambda: loader.exec_module(module))
        for name, form in NEEDED.items():
            if not callable(self.found.get(name)):
                forms = ", ".join(NEEDED.values())
                raise AdapterError(f"{self.name} has no function {form}; an adapter file has {forms}")
        limit_torch(1)  # threads of an operation would not survive a fork
        self.model = self._explained(lambda: self.found["load"](self.source, request["device"], **request["overrides"]))

    def prepare(self, audio: Audio) -> Any:
        return self.found["prepare"](self.model, audio.rows, audio.lengths, audio.rate)

    def run(self, inputs: Any) -> Any:
        return self.found["run"](self.model, inputs)

    @property
    def device(self) -> Device:
        return Device(self.found.get("synchronize"))

    @property
    def rate(self) -> int:
        rate = self.given_rate or self.found.get("SAMPLE_RATE", 16000)
        if not isinstance(rate, int) or rate <= 0:
            raise AdapterError(f"{self.name}: SAMPLE_RATE is {rate!r}; expected a whole number of samples per second")
        return rate

    @property
    def weights(self) -> str:
        weights = self.found.get("WEIGHTS", "pretrained")
        if weights not in WEIGHTS:
            raise AdapterError(f"{self.name}: WEIGHTS is {weights!r}; expected one of {', '.join(WEIGHTS)}")
        return str(weights)

    def counted(self, name: str) -> Message:
        """What `parameters(model)` or `size_bytes(model)` tells, by component or as one number; nothing without it."""
        if name not in self.found:
            return {}
        count = self._explained(lambda: self.found[name](self.model))
        parts = count if isinstance(count, dict) else {}
        numbers = list(parts.values()) if isinstance(count, dict) else [count]
        if not all(isinstance(number, int) and number >= 0 for number in numbers):
            raise AdapterError(
                f"{self.name}: {name}(model) gave {count!r}; expected a number, or {{component: number}}"
            )
        return {"total": sum(numbers), "components": {str(part): number for part, number in parts.items()}}

    def versions(self) -> dict[str, str]:
        """Of Python and of what the adapter says that it needs."""
        found = {"python": platform.python_version()}
        from importlib.metadata import PackageNotFoundError, version

        for package in self.packages:
            name = package.split("[")[0].split("=")[0].split("<")[0].split(">")[0].strip()
            with contextlib.suppress(PackageNotFoundError):
                found[name] = version(name)
        return found

    @property
    def packages(self) -> list[str]:
        given = self.found.get("PACKAGES", ())
        return [given] if isinstance(given, str) else [str(package) for package in given]

    def explain(self, error: BaseException) -> str:
        """An error of the adapter or its library, in a line that names the adapter's own line."""
        said = " ".join(str(error).split())
        what = f"{type(error).__name__}: {said}" if said else type(error).__name__
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == self.file]
        if isinstance(error, SyntaxError) and error.filename == self.file:
            lines, what = [error.lineno], f"SyntaxError: {error.msg}"
        place = f"{self.name}, line {lines[-1]}: " if lines else f"{self.name}: "
        if isinstance(error, ImportError):
            name = (error.name or "").split(".")[0]
            wanted = " ".join(shlex.quote(package) for package in self.packages) or name
            what += f". Install it in that environment: {sys.executable} -m pip install {wanted}"
        return place + what

    def _explained(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except AdapterError:
            raise
        except (Exception, SystemExit) as error:
            traceback.print_exc()
            raise AdapterError(self.explain(error)) from None


class Audio:
    """A batch: rows of equal length as array('f'), and how many samples of each are audio."""

    def __init__(self, message: Message) -> None:
        self.rate, self.lengths = message["rate"], message["lengths"]
        self.rows = []
        with Path(message["path"]).open("rb") as file:
            for _ in self.lengths:
                row = array.array("f")
                row.fromfile(file, message["samples"])
                self.rows.append(row)


class Worker:
    """Answers the parent's messages."""

    def __init__(self, reading: int, writing: int) -> None:
        self.lines = os.fdopen(reading, "rb", buffering=0)
        self.out = writing
        self.buffer = b""
        self.adapter: Adapter | None = None
        self.last_report = 0.0

    def send(self, tag: str, **message: Any) -> None:
        data = json.dumps({"type": tag, **message}).encode() + b"\n"
        while data:
            data = data[os.write(self.out, data) :]

    def receive(self) -> Message | None:
        while b"\n" not in self.buffer:
            chunk = self.lines.read(1 << 16)
            if not chunk:
                return None
            self.buffer += chunk
        line, self.buffer = self.buffer.split(b"\n", 1)
        found: Message = json.loads(line.decode())
        return found

    def serve(self) -> None:
        """Until the parent closes the channel."""
        while True:
            request = self.receive()
            if request is None:
                return
            if request["type"] == "load":
                self.answer(lambda request=request: self.load(request))  # type: ignore[misc]
            elif request["type"] == "do" and request["fork"]:
                self.in_fork(request["job"])
            elif request["type"] == "do":
                self.answer(lambda request=request: self.job(request["job"]))  # type: ignore[misc]

    def answer(self, work: Callable[[], None]) -> bool:
        try:
            work()
        except AdapterError as error:
            self.send("failed", kind="user", message=str(error))
        except MemoryError:
            self.send("failed", kind="other", message="out of memory")
        except (Exception, SystemExit) as error:
            traceback.print_exc()
            said = self.adapter.explain(error) if self.adapter else f"{type(error).__name__}: {error}"
            self.send("failed", kind="other", message=said)
        else:
            return True
        return False

    def load(self, request: Message) -> None:
        model = request["model"]
        adapter = self.adapter = Adapter(model)
        forks = bool(request["fork"]) and fork_is_safe()
        notes = [NOTE]
        if model["device"] != "cpu" and "synchronize" not in adapter.found:
            notes.append(NOT_SYNCHRONISED)
        parameters, size = adapter.counted("parameters"), adapter.counted("size_bytes")
        gc.collect()
        gc.freeze()
        self.send(
            "loaded",
            weights=adapter.weights,
            output=str(adapter.found.get("OUTPUT", "output of the adapter file")),
            sample_rate=adapter.rate,
            window_s=None,
            parameters=parameters,
            size_bytes=size,
            conversion=None,
            training=None,
            versions=adapter.versions(),
            flags={},
            notes=notes,
            forks=forks,
        )

    # -- jobs

    def in_fork(self, job: Message) -> None:
        """A process of its own for the job: the loaded model, and nothing of what other jobs left."""
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            die_with_parent()
            self.send("started", pid=os.getpid())
            done = self.answer(lambda: self.job(job))
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0 if done else 1)
        _, status = os.waitpid(child, 0)
        if status != 0:
            self.send("ended", signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else None)

    def job(self, job: Message) -> None:
        before = os.times()
        if job["cpus"]:
            os.sched_setaffinity(0, job["cpus"])
        limit_torch(job["threads"])
        random.seed(job["seed"])
        if job["type"] == "cell":
            self.cell(job)
        else:
            self.batches(job)
        after = os.times()
        self.send("done", cpu_s=after.user + after.system - before.user - before.system)

    def audio(self, number: int) -> Message:
        """What the parent gives for an input of the job: where its samples are, or why there are none."""
        self.send("want_audio", number=number)
        answer = self.receive()
        if answer is None:
            os._exit(1)
        return answer

    def cell(self, job: Message) -> None:
        assert self.adapter is not None
        given: list[Message] = []
        inputs = []
        for number in range(latency.INPUTS):  # each is read before the next one takes the place of its file
            given.append(self.audio(number))
            inputs.append(self.adapter.prepare(Audio(given[-1])))
        seen = {
            name: sum(each[name] for each in given) / len(given) for name in ("seconds_of_audio", "share_of_padding")
        }
        measures = {"time": self.time, "memory": self.memory}
        for name in job["passes"]:
            self.send("begin_pass", name=name)
            start = time.perf_counter()
            done = {"result": measures[name](job, inputs)} if name in measures else {"reason": ABSENT}
            self.send("pass_done", name=name, input=seen, work_s=time.perf_counter() - start, **done)

    def time(self, job: Message, inputs: Sequence[Any]) -> Message:
        assert self.adapter is not None
        size, device = latency.RoundSize(**job["size"]), self.adapter.device
        run, report = self.adapter.run, self.progress
        if job["turns"]:
            timing = latency.take_turns(run, inputs, device, size, self.take_turn, report)  # type: ignore[arg-type]
        else:
            timing = latency.time_calls(run, inputs, device, size, report)  # type: ignore[arg-type]
        return {"timing": dataclasses.asdict(timing)}

    def take_turn(self, last: float | None) -> bool:
        self.send("called", wall=last)
        answer = self.receive()
        return bool(answer and answer.get("again"))

    def progress(self, timing: latency.Timing) -> None:
        now = time.monotonic()
        if now - self.last_report >= PROGRESS_SECONDS:
            self.last_report = now
            calls = timing.samples or timing.warmup
            self.send("progress", calls=len(timing.samples), latency=calls[len(calls) // 2])

    def memory(self, job: Message, inputs: Sequence[Any]) -> Message:
        """The kernel's high-water mark of resident memory, set back before the call."""
        assert self.adapter is not None
        gc.collect()
        with contextlib.suppress(OSError, AttributeError, TypeError):
            ctypes.CDLL(None).malloc_trim(0)
        try:
            Path("/proc/self/clear_refs").write_text("5")
        except OSError:
            return {"whole": {}}
        before = status_bytes("VmRSS")
        self.adapter.run(inputs[0])
        self.adapter.device.synchronize()
        peak = status_bytes("VmHWM")
        return {"whole": {"process": peak, "above_baseline": max(0, peak - before)}}

    def batches(self, job: Message) -> None:
        """Of a data set: each is read, padded and timed once; the first that works is run once more before."""
        warm = False
        gc.disable()
        for work in job["batches"]:
            done: Message = {"number": work["number"]}
            self.send("begin_batch", number=work["number"])
            given = self.audio(work["number"])
            done["unreadable"] = given["unreadable"]
            if given["failed"] or not given["ids"]:
                why = (
                    {"failed": given["failed"]}
                    if given["failed"]
                    else {"skipped": "none of its utterances can be read"}
                )
                self.send("batch_done", **done, **why)
                continue
            try:
                done.update(self.batch(given, job["texts"], warm))
                warm = True
            except Exception as error:
                traceback.print_exc()
                assert self.adapter is not None
                done["failed"] = "out of memory" if isinstance(error, MemoryError) else self.adapter.explain(error)
            self.send("batch_done", **done)

    def batch(self, given: Message, wants_texts: bool, warm: bool) -> Message:
        assert self.adapter is not None
        run, device, outputs = self.adapter.run, self.adapter.device, []
        inputs = self.adapter.prepare(Audio(given))
        if not warm:
            latency.timed(run, inputs, device)  # type: ignore[arg-type]
        gc.collect()
        while True:
            call = latency.timed(lambda value: outputs.append(run(value)), inputs, device)  # type: ignore[arg-type]
            if not call.paused:
                break
        done = {
            "latency": call.wall,
            "left_out": len(outputs) - 1,
            "seconds_of_audio": given["seconds_of_audio"],
            "padded_seconds": given["samples"] * len(given["lengths"]) / given["rate"],
        }
        if wants_texts:
            texts = [outputs[-1]] if isinstance(outputs[-1], str) else outputs[-1]
            text = isinstance(texts, (list, tuple)) and all(isinstance(each, str) for each in texts)
            done["ids"] = given["ids"]
            done["texts"] = list(texts) if text and len(texts) == len(given["ids"]) else None
        return done


def limit_torch(threads: int) -> None:
    """Where the adapter has imported torch. Other libraries read OMP_NUM_THREADS."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(threads)


def fork_is_safe() -> bool:
    """Whether a fork of this process can compute. Threads do not survive a fork, and what waits for them hangs.

    Libraries that are prepared for a fork end their threads before it, and start them again when they compute; so one
    is made, which does nothing, and then the threads are counted.
    """
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    try:
        return len(list(Path("/proc/self/task").iterdir())) == 1
    except OSError:
        return False


def die_with_parent() -> None:
    """Have the kernel end this process when its parent is gone (Linux)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))


def status_bytes(name: str) -> int:
    with Path("/proc/self/status").open() as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name + ":"))


def main() -> None:
    del sys.path[0]  # the folder of this file, whose other files are none of the adapter's business
    die_with_parent()
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")  # of memory that runs out this process shall be ended
    latency.notice_stops()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    Worker(int(sys.argv[1]), int(sys.argv[2])).serve()


if __name__ == "__main__":
    main()
