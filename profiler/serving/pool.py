"""The model in one worker or several: requests -> batches -> results, each with its times.

    submit -> queue -> batch, up to a size and a waiting time -> a free worker -> done(request)

Each worker is a fork of the process that holds the model; a supervisor of its own forks it anew when it dies, for a
process in which a load generator runs has threads and may not fork. A worker has one batch at a time, so that what
comes back, or does not, is known by its number, and a request is counted once.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from profiler.processes import die_with_parent, explain
from profiler.serving.records import Request, clock

LIVES = 4  # of a worker: one that dies at every start ends the step, not the machine
CHUNK = 1 << 16
# (stream, item) of each request in a batch -> when the first token was there; 0 where that is not known
Work = Callable[[list[tuple[int, int]]], float]
NO_WORKER = "no worker is left"


class Answer(msgspec.Struct, array_like=True):
    """From a worker: it is ready, has done a batch, or is gone."""

    batch: int  # -1: ready, -2: gone
    began: float = 0.0
    ended: float = 0.0
    reason: str = ""
    pid: int = 0
    first: float = 0.0


READY, GONE = -1, -2
_encode = msgspec.json.Encoder().encode
_answers = msgspec.json.Decoder(Answer)
_tasks = msgspec.json.Decoder(tuple[int, list[tuple[int, int]]])


@dataclass(eq=False)
class _Worker:
    number: int
    tasks: int
    answers: int
    supervisor: int
    pid: int = 0
    ready: bool = False
    gone: bool = False
    batch: int = 0
    flying: list[Request] = field(default_factory=list)
    since: float = 0.0  # free, or at work
    buffer: bytes = b""

    @property
    def free(self) -> bool:
        return self.ready and not self.flying and not self.gone


class Pool:
    """Workers, the queue before them, and the thread that brings both together."""

    def __init__(
        self,
        work: Work,
        begin: Callable[[], None],
        workers: int,
        done: Callable[[Request], None],
        batch: int = 1,
        wait: float = 0.0,
        timeout: float = 30.0,
    ) -> None:
        self.work, self.begin, self.done = work, begin, done
        self.size, self.wait, self.timeout = batch, wait, timeout
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._lock = threading.Lock()
        self._arrived: deque[Request] = deque()
        self._shared: deque[Request] = deque()
        self._own: list[deque[Request]] = [deque() for _ in range(workers)]  # of streams, whose state a worker holds
        self._closing = False
        self._workers: list[_Worker] = []
        for number in range(workers):
            self._workers.append(self._start(number))
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        for worker in self._workers:
            self._selector.register(worker.answers, selectors.EVENT_READ, worker)
        self._all_ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def start(self, seconds: float) -> bool:
        """Whether all workers have warmed up, or died trying, within so many seconds; some are left."""
        self._thread.start()
        return self._all_ready.wait(seconds) and self.alive

    @property
    def alive(self) -> bool:
        return any(not worker.gone for worker in self._workers)

    @property
    def pids(self) -> list[int]:
        return [worker.pid for worker in self._workers if worker.pid]

    def submit(self, *requests: Request) -> None:
        with self._lock:
            self._arrived.extend(requests)
        with contextlib.suppress(BlockingIOError):  # full of wakes already
            os.write(self._wake_write, b"w")

    def close(self) -> None:
        """Ends the workers; requests without a result stay without one."""
        self._closing = True
        self.submit()
        self._thread.join()
        for worker in self._workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker.supervisor, signal.SIGKILL)  # its child ends with it
            os.waitpid(worker.supervisor, 0)
            os.close(worker.tasks)
            os.close(worker.answers)
        self._selector.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    # -- the thread between queue and workers

    def _serve(self) -> None:
        while not self._closing:
            with self._lock:
                arrived = list(self._arrived)
                self._arrived.clear()
            for request in arrived:
                own = request.stream >= 0
                (self._own[request.stream % len(self._own)] if own else self._shared).append(request)
            now = clock()
            self._give_up(now)
            for key, _ in self._selector.select(self._send(now)):
                if key.data is None:
                    os.read(self._wake_read, CHUNK)
                else:
                    self._hear(key.data)

    def _queue(self, worker: _Worker) -> deque[Request]:
        return self._own[worker.number] or self._shared

    def _send(self, now: float) -> float | None:
        """Give batches to free workers; seconds until the next one is due for another reason than an event."""
        soonest = now + min(0.25, self.timeout)
        free = [worker for worker in self._workers if worker.free]
        for worker in free:
            queue = self._queue(worker)
            if not queue:
                continue
            size = 1 if queue[0].stream >= 0 else self.size
            due = queue[0].issued + self.wait
            if len(queue) < size and now < due:
                soonest = min(soonest, due)
                continue
            # With one queue for all, requests wait for a batch to fill as soon as any worker is free.
            since = worker.since if queue is not self._shared else min(other.since for other in free)
            taken = [queue.popleft() for _ in range(min(size, len(queue)))]
            for request in taken:
                request.sent, request.worker, request.batch = now, worker.number, len(taken)
                request.batching = max(0.0, now - max(request.issued, since)) if size > 1 else 0.0
            worker.batch += 1
            worker.flying, worker.since = taken, now
            message = _encode((worker.batch, [(request.stream, request.item) for request in taken]))
            with contextlib.suppress(BrokenPipeError):  # said by the end of the other pipe
                os.write(worker.tasks, message)
        return max(0.0, soonest - now)

    def _give_up(self, now: float) -> None:
        """What waits longer than its client does; a worker that is longer at a batch is ended."""
        for queue in (self._shared, *self._own):
            while queue and now - queue[0].issued > self.timeout:
                self._finish(queue.popleft(), "timeout", f"no result within {self.timeout:g} s", now)
        for worker in self._workers:
            if worker.flying and now - worker.since > self.timeout:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker.pid, signal.SIGKILL)
                self._fail(worker, "timeout", f"no result within {self.timeout:g} s")
        if not self.alive:
            for queue in (self._shared, *self._own):
                while queue:
                    self._finish(queue.popleft(), "error", NO_WORKER, now)

    def _hear(self, worker: _Worker) -> None:
        data = os.read(worker.answers, CHUNK)
        if not data:
            self._selector.unregister(worker.answers)
            worker.gone = True
            self._fail(worker, "error", "the worker ended")
            self._count_ready()
            return
        *lines, worker.buffer = (worker.buffer + data).split(b"\n")
        for line in lines:
            self._take(worker, _answers.decode(line))

    def _take(self, worker: _Worker, answer: Answer) -> None:
        now = clock()
        if answer.batch == READY:
            worker.pid, worker.ready, worker.since = answer.pid, True, now
            self._count_ready()
        elif answer.batch == GONE:
            worker.ready = False
            self._fail(worker, "error", answer.reason)
        elif answer.batch == worker.batch and worker.flying:  # else: of a batch that was given up
            flying, worker.flying, worker.since = worker.flying, [], now
            for request in flying:
                request.began, request.ended, request.first_text = answer.began, answer.ended, answer.first
                self._finish(request, "error" if answer.reason else "ok", answer.reason, now)

    def _fail(self, worker: _Worker, status: str, reason: str) -> None:
        flying, worker.flying, worker.ready = worker.flying, [], False
        for request in flying:
            self._finish(request, status, reason, clock())

    def _finish(self, request: Request, status: str, reason: str, now: float) -> None:
        request.done, request.reason = now, reason
        request.status = status  # type: ignore[assignment]
        self.done(request)

    def _count_ready(self) -> None:
        if all(worker.ready or worker.gone for worker in self._workers):
            self._all_ready.set()

    # -- the processes

    def _start(self, number: int) -> _Worker:
        task_read, task_write = os.pipe()
        answer_read, answer_write = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        supervisor = os.fork()
        if supervisor == 0:
            try:
                die_with_parent()
                for fd in (task_write, answer_read, self._wake_read, self._wake_write):
                    os.close(fd)
                for worker in self._workers:
                    os.close(worker.tasks)
                    os.close(worker.answers)
                self._supervise(task_read, answer_write)
            finally:
                os._exit(0)
        os.close(task_read)
        os.close(answer_write)
        return _Worker(number, task_write, answer_read, supervisor)

    def _supervise(self, tasks: int, answers: int) -> None:
        for _ in range(LIVES):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    die_with_parent()
                    self._work(tasks, answers)
                    status = 0
                except BaseException:
                    traceback.print_exc()
                finally:
                    sys.stderr.flush()
                    os._exit(status)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if code == 0:
                return
            why = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
            os.write(answers, _encode(Answer(GONE, reason=f"the worker {why}")) + b"\n")

    def _work(self, tasks: int, answers: int) -> None:
        self.begin()
        os.write(answers, _encode(Answer(READY, pid=os.getpid())) + b"\n")
        while message := os.read(tasks, CHUNK):
            number, items = _tasks.decode(message)
            began, reason, first = clock(), "", 0.0
            try:
                first = self.work(items)
            except Exception as error:
                traceback.print_exc()
                reason = "out of memory" if isinstance(error, MemoryError) else explain(error)[:500]
            os.write(answers, _encode(Answer(number, began, clock(), reason, first=first)) + b"\n")
