"""What the parent and a worker say to one another: typed messages, one JSON object per line, over a pair of pipes.

    parent -> worker   Load, then Do(a job) again and again; Turn for a job that takes turns
    worker -> parent   Loaded or Failed; of a job Started, BeginPass, Progress, PassDone, ..., Done; or Failed, Ended

Plain lines survive a process that dies in the middle: the reader sees the end of the pipe, never half an object.
"""

from __future__ import annotations

import os
import re
import select
import time
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import msgspec
from pydantic import BaseModel

from profiler.dataset.items import TrainingSpeech, Utterance
from profiler.measure.afford import Allowance
from profiler.measure.latency import RoundSize
from profiler.models.model import ModelRequest
from profiler.recipe.schema import Labels, Trace, Training, Variant
from profiler.results.types import CellInput, Conversion, DeviceFacts, Parameters, Reference, Size, TrainingSetup
from profiler.runtimes.part import EngineRequest
from profiler.sandbox import Places
from profiler.serving.records import Load as ServingLoad
from profiler.serving.records import Request as ServedRequest
from profiler.serving.records import StepEnd

CHUNK = 1 << 16
# What a worker says ends up in a terminal: control characters, as JSON writes them, would move its cursor or worse.
CONTROL = re.compile(rb"\\u00(?:0[0-8bcef]|1[0-9a-f]|7f|[89][0-9a-f])|\x7f|\xc2[\x80-\x9f]", re.IGNORECASE)
LONGEST = 1 << 28  # bytes of a message; one of a large model has some hundred thousand


# -- jobs


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """Common to all jobs of a worker."""

    threads: int
    device: str = "cpu"
    cpus: tuple[int, ...] = ()  # that the process is held to; none: those that the system chooses
    seed: int = 0


class ReferenceJob(Job, tag="reference", frozen=True, kw_only=True):
    """The reference workload; needs no model."""


class CellJob(Job, tag="cell", frozen=True, kw_only=True):
    """Passes on one cell in one round."""

    passes: tuple[str, ...]
    seconds: float
    batch_size: int
    padding: float = 0.0
    size: RoundSize = RoundSize()
    allowance: Allowance = Allowance()
    call_s: float | None = None  # how long a call takes, by what is known before
    handoff: bool = False  # also time how long one thread takes to hand work to another
    turns: bool = False  # each timed call waits for the parent's word, so that two jobs can take turns
    trace: Trace = msgspec.field(default_factory=Trace)
    folder: Path = Path()  # of the run
    place: str = ""  # of the cell's files in it


class BatchWork(msgspec.Struct, frozen=True):
    number: int
    utterances: list[tuple[int, Utterance]]  # each with a number that it alone has


class DatasetJob(Job, tag="dataset", frozen=True, kw_only=True):
    """Batches of a data set, each timed once."""

    batches: list[BatchWork]
    skip_unreadable: bool = False
    texts: bool = False  # whether what the model writes is wanted


class ServingJob(Job, tag="serving", frozen=True, kw_only=True):
    """One step of load. Requests are utterances of a data set, or else pieces of the sample speech."""

    load: ServingLoad
    lengths: list[float]
    utterances: list[tuple[int, Utterance]]
    folder: Path  # for LoadGen's log


AnyJob = ReferenceJob | CellJob | DatasetJob | ServingJob


# -- requests, from the parent


class Load(msgspec.Struct, tag="load", frozen=True, kw_only=True):
    """`fork`, `traced` and `turns` say what jobs will follow, so that forks find prepared what they need; `labels` are
    checked against the model's modules; with `training` the model is made ready to be trained."""

    model: ModelRequest
    variant: Variant
    audio: Path | None = None
    fork: bool = True
    traced: bool = False
    labels: Labels = {}
    training: Training | None = None
    finetuning: TrainingSpeech | None = None  # of a variant that is trained before it is measured
    turns: bool = False
    engine: EngineRequest | None = None  # where the variant has another engine than torch
    sandbox: Places | None = None  # where the worker may write; None: anywhere


class Do(msgspec.Struct, tag="do", frozen=True):
    job: AnyJob
    fork: bool


class Turn(msgspec.Struct, tag="turn", frozen=True):
    """Of a job that takes turns: make one timed call; or there are enough."""

    again: bool


class PeakReset(msgspec.Struct, tag="peak_reset", frozen=True):
    """Whether the parent could do as asked."""

    done: bool


class AudioGiven(msgspec.Struct, tag="audio_given", frozen=True, kw_only=True):
    """One input, as rows of raw float32 one after the other in a file; or why there is none."""

    path: Path = Path()
    rate: int = 0
    samples: int = 0  # of each row
    lengths: list[int] = []  # how many samples of each row are audio
    seconds_of_audio: float = 0.0
    share_of_padding: float = 0.0
    ids: list[str] = []  # of utterances, in a job on a data set
    unreadable: dict[str, str] = {}
    failed: str | None = None


Request = Load | Do | Turn | PeakReset | AudioGiven


# -- events, from the worker


class Loaded(msgspec.Struct, tag="loaded", kw_only=True):
    """What the results say of the model; the fields of a `ModelResult` in results.json."""

    weights: Literal["pretrained", "as constructed", "random", "no"]
    output: str
    sample_rate: int
    window_s: float | None
    parameters: Parameters
    size_bytes: Size
    conversion: Conversion | None
    training: TrainingSetup | None
    versions: dict[str, str]
    flags: dict[str, str]
    device: DeviceFacts | None = None
    copy_to_device: Literal["included", "excluded"] | None = None
    notes: list[str]
    forks: bool = True  # whether jobs can run in forks of the worker


FailureKind = Literal["user", "unsupported", "other"]


class Failed(msgspec.Struct, tag="failed", frozen=True):
    """Loading or a job, in a sentence. user: can be fixed in the recipe; unsupported: the variant cannot run here."""

    kind: FailureKind
    message: str


class Started(msgspec.Struct, tag="started", frozen=True):
    pid: int


class BeginPass(msgspec.Struct, tag="begin_pass", frozen=True):
    name: str


class Progress(msgspec.Struct, tag="progress", frozen=True):
    """Of the timing pass."""

    calls: int
    latency: float


class PassDone(msgspec.Struct, tag="pass_done", kw_only=True):
    """`result` is of the pass's own type; None with the reason why there is none."""

    name: str
    result: Any = None
    reason: str | None = None
    input: CellInput
    work_s: float


class Called(msgspec.Struct, tag="called", frozen=True):
    """Of a job that takes turns: wall seconds of its last call; none: warmed up, waiting for the first."""

    wall: float | None


class BeginBatch(msgspec.Struct, tag="begin_batch", frozen=True):
    number: int


class BatchDone(msgspec.Struct, tag="batch_done", kw_only=True):
    """A batch of a data set: its figures, or why there are none."""

    number: int
    failed: str | None = None
    skipped: str | None = None
    latency: float | None = None
    left_out: int = 0  # calls before it in which the process stood still
    seconds_of_audio: float = 0.0
    padded_seconds: float = 0.0
    unreadable: dict[str, str] = {}
    ids: list[str] = []
    texts: list[str] | None = None  # None where the model gives none
    tokens: int | None = None  # of the targets, in training
    frames: int | None = None
    phases: list[float] | None = None


class Served(msgspec.Struct, tag="served", frozen=True):
    """Requests of a step that are done since the last message, and how many were sent so far."""

    requests: list[ServedRequest]
    sent: int


class StepDone(msgspec.Struct, tag="step_done", frozen=True):
    end: StepEnd


class ReferenceDone(msgspec.Struct, tag="reference_done", frozen=True):
    reference: Reference


class Done(msgspec.Struct, tag="done", frozen=True):
    cpu_s: float


class ResetPeak(msgspec.Struct, tag="reset_peak", frozen=True):
    """Set the high-water mark of the job's memory back: a worker in a sandbox may not write it."""


class WantAudio(msgspec.Struct, tag="want_audio", frozen=True):
    """From a worker that cannot read audio itself: an input of its job, by its place or its batch's number."""

    number: int


class Ended(msgspec.Struct, tag="ended", frozen=True):
    """The process of a job is gone without being done."""

    signal: int | None


JobEvent = (
    Started | BeginPass | Progress | PassDone | Called | BeginBatch | BatchDone | Served | StepDone | ReferenceDone
)
Event = Loaded | Failed | JobEvent | ResetPeak | WantAudio | Done | Ended


# -- the pipes


def _encode(value: Any) -> Any:
    """Of the types that msgspec does not know: records of results, sections of the recipe, paths."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value)} cannot be sent")


def decode(kind: Any, value: Any) -> Any:
    """The reverse of it."""
    return kind.model_validate(value) if issubclass(kind, BaseModel) else kind(value)


T = TypeVar("T")
_encoder = msgspec.json.Encoder(enc_hook=_encode)
REQUESTS: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request, dec_hook=decode)
EVENTS: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event, dec_hook=decode)


class Channel(Generic[T]):
    """Both ends look the same: a descriptor to read from, one to write to. They differ in what they read."""

    def __init__(self, read_fd: int, write_fd: int, reads: msgspec.json.Decoder[T]) -> None:
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._reads = reads
        self._buffer = b""

    def send(self, message: Request | Event) -> None:
        data = _encoder.encode(message) + b"\n"
        while data:
            data = data[os.write(self._write_fd, data) :]

    def receive(self, timeout: float | None = None) -> T | None:
        """The next message; None when the other side is gone. Raises TimeoutError, and ValueError for what is none."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while b"\n" not in self._buffer:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([self._read_fd], [], [], left)
            if not ready:
                raise TimeoutError
            chunk = os.read(self._read_fd, CHUNK)
            if not chunk:
                return None
            self._buffer += chunk
            if len(self._buffer) > LONGEST:
                raise ValueError(f"a message of more than {LONGEST} bytes")
        line, self._buffer = self._buffer.split(b"\n", 1)
        if self._reads is EVENTS:
            line = CONTROL.sub(rb"\\ufffd", line)
        return self._reads.decode(line)

    def close(self) -> None:
        os.close(self._read_fd)
        os.close(self._write_fd)
