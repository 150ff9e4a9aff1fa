"""One step of load on the loaded model, in the process of a job: it makes the load, forks of it hold the model.

What requests are: the sample speech cut to the lengths of the grid, or utterances of a data set. For live speakers, the
chunks of a model that streams; for another, utterances cut out of the sample speech by voice activity.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.audio import Samples, Speech, pad
from profiler.device import Device
from profiler.errors import UserError
from profiler.measure.energy import Sensor, find_sensor
from profiler.measure.energy.sensor import SensorError, Unavailable
from profiler.measure.latency import no_garbage_collection
from profiler.serving.loadgen import Driver
from profiler.serving.pool import Pool, Work
from profiler.serving.records import Load, Request, StepEnd, clock
from profiler.serving.sockets import Sockets, parts_of
from profiler.serving.streams import Piece, Speakers, Turn

if TYPE_CHECKING:
    from profiler.models.model import Model

Emit = Callable[[list[Request], int], None]  # what was finished since it was last called, and how many were sent
PIECES = 4  # of the sample speech, for each length
WARMUPS = 2
READY_SECONDS = 300.0
MEMORY_SECONDS = 0.5
SILENCE = 0.3  # seconds after which voice activity takes an utterance to be over
LONGEST = 5.0  # seconds of an utterance; longer speech is cut at its longest pause
OUTSIDE = Unavailable("the server's is not known here", "measure it where the server runs")
SILERO = (
    'utterances of live speakers are cut by Silero VAD, which is not installed: pip install "speech-profiler[silero]"'
)


def sample_utterances(speech: Speech, lengths: Sequence[float], seed: int) -> list[Samples]:
    """Pieces of the sample speech of each length."""
    return [row for seconds in lengths for row in speech.batch(seconds, PIECES, seed).waveforms]


def make_step(
    load: Load, model: Model, utterances: list[Samples], speech: Speech, device: Device, threads: int, folder: Path,
    emit: Emit,
) -> StepEnd:  # fmt: skip
    """Make the load, and tell of each request as soon as it is done."""
    live, talk = load.scenario == "streams", model.talk
    chunked = live and model.chunks is not None and model.chunks.stream is not None
    if talk is not None:
        turn, parts = parts_of(talk, utterances)
    elif live and not chunked:
        utterances, turn = _by_voice(speech)
    elif chunked:
        turn = _by_chunks(model, utterances)
    work = _stream_chunks(model, turn, utterances, device) if chunked else _whole(model, utterances, device)

    def begin() -> None:
        import torch

        torch.set_num_threads(threads)
        with torch.no_grad():
            for _ in range(0 if load.outside else WARMUPS):
                value = model.prepare(pad([max(utterances, key=len)] * (1 if chunked else load.batch), model.rate))
                model.run(value)
                device.synchronize()

    finished: list[Request] = []
    lock = threading.Lock()

    def done(request: Request) -> None:
        with lock:
            finished.append(request)
        source.finished(request)

    pool: Pool | Sockets
    if talk is not None:
        pool = Sockets(talk, parts, int(load.load), done, load.timeout)
    else:
        pool = Pool(work, begin, load.workers, done, load.batch, load.wait, load.timeout)
    source: Driver | Speakers
    if live:
        source = Speakers(load, turn, pool.submit, kept=chunked or talk is not None)
    else:
        source = Driver(load, [len(row) / model.rate for row in utterances], pool.submit)
    memory = _Memory(pool)

    def listen() -> None:
        with lock:
            now = finished[:]
            finished.clear()
        if now:
            emit(now, source.issued)
        if not load.outside:
            memory.look()

    with contextlib.closing(pool), no_garbage_collection():
        if not pool.start(READY_SECONDS):
            return StepEnd(stopped="the model died while it warmed up")
        with _joules(device, load.outside) as joules:
            listen()
            end = source.run(listen) if isinstance(source, Speakers) else source.run(folder, listen)
            end.joules, end.energy_reason, end.sensor = joules()
        listen()
        emit([], source.issued)
        end.memory_bytes = memory.peak or None
    if chunked and model.chunks is not None:
        end.chunk_s, end.lookahead_s = model.chunks.seconds, model.chunks.lookahead
    if talk is not None and talk.answers == "each":
        end.chunk_s = talk.chunk
    return end


def _whole(model: Model, utterances: list[Samples], device: Device) -> Work:
    """Utterances in a batch: put together, then the model's own call, until the device is done."""

    first: list[float] = []
    hooked: list[int] = []  # in which processes

    def see(module: Any, given: Any, output: Any) -> None:
        """A decoder gives its cache after each step: the first of a call has the first token."""
        if not first and getattr(output, "past_key_values", None) is not None:
            first.append(clock())

    def work(items: list[tuple[int, int]]) -> float:
        import torch

        if os.getpid() not in hooked:
            hooked.append(os.getpid())
            model.module.register_forward_hook(see)
        first.clear()
        with torch.no_grad():
            model.run(model.prepare(pad([utterances[item] for _, item in items], model.rate)))
            device.synchronize()
        if model.chunks is not None:
            model.chunks.times.clear()
        return first[0] if first else 0.0

    return work


# -- live speakers


def _chunks_of(row: Samples, model: Model) -> int:
    assert model.chunks is not None
    return max(1, int(len(row) / model.rate / model.chunks.seconds))


def _by_chunks(model: Model, utterances: list[Samples]) -> Turn:
    """Utterances of whole chunks one after another; `item` counts the chunks of the turn."""
    assert model.chunks is not None
    chunk, ahead = model.chunks.seconds, model.chunks.lookahead
    counts = [_chunks_of(row, model) for row in utterances]
    pieces = [Piece(item, chunk, (item + 1) * chunk + ahead) for item in range(sum(counts))]
    return Turn(pieces, len(pieces) * chunk, [0, *accumulate(counts[:-1])])


def _stream_chunks(model: Model, turn: Turn, utterances: list[Samples], device: Device) -> Work:
    """The next chunk of a speaker; where an utterance begins, so does a new state."""
    assert model.chunks is not None
    assert model.chunks.stream is not None
    stream, step = model.chunks.stream, round(model.chunks.seconds * model.rate)
    begins: dict[int, int] = {}
    whose: list[int] = []
    for number, row in enumerate(utterances):
        begins[len(whose)] = number
        whose += [number] * _chunks_of(row, model)
    going: dict[int, Iterator[Any]] = {}

    def work(items: list[tuple[int, int]]) -> float:
        import torch

        ((speaker, item),) = items
        with torch.no_grad():
            if item in begins or speaker not in going:  # the latter after a worker has died
                row = utterances[whose[item]][: _chunks_of(utterances[whose[item]], model) * step]
                going[speaker] = stream(model.prepare(pad([row], model.rate)))
            next(going[speaker], None)
            device.synchronize()
        return 0.0

    return work


def _by_voice(speech: Speech) -> tuple[list[Samples], Turn]:
    """What was said between two pauses of the sample speech; due when the pause was long enough to be one."""
    try:
        from silero_vad import get_speech_timestamps, load_silero_vad
    except ImportError:
        raise UserError(SILERO) from None
    import torch

    recording = speech.whole()
    if recording is None:
        raise UserError("live speakers need speech: set profiling_dimensions.example_audio")
    rate = speech.rate
    if rate not in (8000, 16000):
        raise UserError(f"voice activity is found at 8 or 16 kHz, and the model takes {rate} Hz")
    torch.set_num_threads(1)  # forks follow, which must not miss threads of this process
    found = get_speech_timestamps(
        torch.from_numpy(recording),
        load_silero_vad(),
        sampling_rate=rate,
        min_silence_duration_ms=round(SILENCE * 1e3),
        max_speech_duration_s=LONGEST,
    )
    if not found:
        raise UserError("no voice activity was found in profiling_dimensions.example_audio")
    rows = [recording[part["start"] : part["end"]] for part in found]
    pieces = [
        Piece(number, (part["end"] - part["start"]) / rate, part["end"] / rate + SILENCE)
        for number, part in enumerate(found)
    ]
    return rows, Turn(pieces, max(len(recording) / rate, pieces[-1].after), range(len(pieces)))


# -- beside the requests


class _Memory:
    """The most that all workers held at once: what they share with others counts in parts (PSS)."""

    def __init__(self, pool: Pool | Sockets) -> None:
        self.pool, self.peak, self._due = pool, 0, 0.0

    def look(self) -> None:
        if clock() < self._due:
            return
        self._due = clock() + MEMORY_SECONDS
        total = 0
        for pid in self.pool.pids:
            with contextlib.suppress(OSError, ValueError, StopIteration):
                lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
                total += 1024 * int(next(line for line in lines if line.startswith("Pss:")).split()[1])
        self.peak = max(self.peak, total)


@contextlib.contextmanager
def _joules(device: Device, outside: bool) -> Iterator[Callable[[], tuple[float | None, str | None, str | None]]]:
    """Gives (joules since it was entered, why there are none, by which sensor)."""
    sensor: Sensor | Unavailable = OUTSIDE if outside else find_sensor(device.name)
    if isinstance(sensor, Unavailable):
        reason = str(sensor)
        yield lambda: (None, reason, None)
        return
    with contextlib.closing(sensor):
        try:
            before = sensor.joules()
        except SensorError as error:
            reason = str(error)
            yield lambda: (None, reason, None)
            return

        def read() -> tuple[float | None, str | None, str | None]:
            try:
                return sensor.joules() - before, None, sensor.name
            except SensorError as error:
                return None, str(error), None

        yield read
