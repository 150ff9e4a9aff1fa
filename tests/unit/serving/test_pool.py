"""Workers under load: batches, a worker that dies, one that hangs, clients that give up; each request once."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from profiler.serving.pool import LIVES, NO_WORKER, Pool, Work
from profiler.serving.records import Request, clock


class Served:
    """What a pool gave back."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._more = threading.Condition()

    def __call__(self, request: Request) -> None:
        with self._more:
            self.requests.append(request)
            self._more.notify_all()

    def wait(self, count: int) -> list[Request]:
        with self._more:
            assert self._more.wait_for(lambda: len(self.requests) >= count, 30), self.requests
        return sorted(self.requests, key=lambda request: request.number)


@contextlib.contextmanager
def pool(work: Work, workers: int = 1, **more: float) -> Iterator[tuple[Pool, Served]]:
    served = Served()
    made = Pool(work, lambda: None, workers, served, **more)  # type: ignore[arg-type]
    with contextlib.closing(made):
        assert made.start(30)
        yield made, served


def send(made: Pool, *items: int, stream: int = -1) -> None:
    now = clock()
    made.submit(*(Request(number, item, 1.0, now, now, stream=stream) for number, item in enumerate(items)))


def nothing(items: list[tuple[int, int]]) -> float:
    """Done at once."""
    return 0.0


def sleeps(items: list[tuple[int, int]]) -> float:
    time.sleep(0.05)
    return clock()


def test_every_request_has_its_times_in_order() -> None:
    with pool(sleeps) as (made, served):
        send(made, 1, 2, 3)
        for request in served.wait(3):
            assert request.status == "ok"
            assert request.issued <= request.sent <= request.began < request.ended <= request.done
            assert request.ended - request.began >= 0.05
            assert request.began < request.first_text <= request.ended


def test_requests_are_batched_up_to_a_size_and_wait_for_it_no_longer_than_allowed() -> None:
    with pool(nothing, batch=2, wait=0.2) as (made, served):
        send(made, 1, 2, 3)
        found = served.wait(3)
        assert [request.batch for request in found] == [2, 2, 1]
        assert found[0].batching < 0.1, "a full batch does not wait"
        assert found[2].batching >= 0.1, "the last one waited for another"


def test_two_workers_serve_at_the_same_time() -> None:
    with pool(sleeps, workers=2) as (made, served):
        send(made, 1, 2)
        one, two = served.wait(2)
        assert {one.worker, two.worker} == {0, 1}
        assert max(one.began, two.began) < min(one.ended, two.ended)


def test_a_speaker_stays_with_one_worker() -> None:
    with pool(nothing, workers=2) as (made, served):
        send(made, *range(6), stream=3)
        assert {request.worker for request in served.wait(6)} == {1}


def test_an_error_of_the_model_is_the_requests_own() -> None:
    def work(items: list[tuple[int, int]]) -> float:
        if items[0][1] == 7:
            raise ValueError("not this one")
        return 0.0

    with pool(work) as (made, served):
        send(made, 1, 7, 2)
        assert [(request.status, request.reason) for request in served.wait(3)] == [
            ("ok", ""),
            ("error", "ValueError: not this one"),
            ("ok", ""),
        ]


def test_a_worker_that_dies_is_replaced_and_the_request_is_counted_once(tmp_path: Path) -> None:
    def work(items: list[tuple[int, int]]) -> float:
        if items[0][1] == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        return 0.0

    with pool(work) as (made, served):
        send(made, 1, 7, 2)
        found = served.wait(3)
        assert [request.status for request in found] == ["ok", "error", "ok"]
        assert found[1].reason == "the worker was killed by SIGKILL"
    assert len(served.requests) == 3


def test_a_worker_that_always_dies_ends_the_waiting() -> None:
    def work(items: list[tuple[int, int]]) -> float:
        os._exit(3)

    with pool(work) as (made, served):
        send(made, *range(LIVES + 3))
        found = served.wait(LIVES + 3)
        assert [request.reason for request in found[:LIVES]] == ["the worker ended with status 3"] * LIVES
        assert {request.reason for request in found[LIVES:]} <= {NO_WORKER, "the worker ended"}
        assert not made.alive


def test_clients_give_up_and_a_worker_that_hangs_is_ended() -> None:
    def work(items: list[tuple[int, int]]) -> float:
        time.sleep(60 if items[0][1] == 7 else 0)
        return 0.0

    with pool(work, timeout=0.3) as (made, served):
        send(made, 7, 8)
        found = served.wait(2)
        assert found[0].status == "timeout"
        assert found[0].reason == "no result within 0.3 s"
        assert found[1].status in ("ok", "timeout")
        send(made, 9)
        assert served.wait(3)[0].status in ("ok", "timeout")


def test_no_process_stays_behind() -> None:
    before = set(psutil.Process().children(recursive=True))
    with pool(sleeps, workers=2) as (made, _):
        send(made, 1, 2, 3)
    assert set(psutil.Process().children(recursive=True)) - before == set()
