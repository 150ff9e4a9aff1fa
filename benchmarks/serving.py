"""What the harness adds to a request beyond MLPerf's LoadGen, and whether the p99 it measures is that of the service.

    .venv/bin/python -m benchmarks.serving

One request after another, to a service that sleeps for a known time: LoadGen alone with the service in a thread, then
through our queue and a worker process, in turns. The overhead is the difference of the medians. Then a service whose
times are spread evenly from 20 to 40 ms: the p99 that comes out against that of the times that were asked for.
"""

from __future__ import annotations

import contextlib
import queue
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from profiler.report.table import Table
from profiler.results.statistics import percentiles
from profiler.serving.loadgen import Driver
from profiler.serving.pool import Pool
from profiler.serving.records import Load, Request, clock

FIXED_S = 0.02
ROUNDS, REQUESTS = 5, 200
SPREAD_REQUESTS = 1400
ITEMS = 100
WANTED_MS, WANTED_SHARE = 1.0, 0.02


def spread(item: int) -> float:
    """Seconds that the service takes for an item."""
    return 0.02 + 0.02 * item / (ITEMS - 1)


Takes = Callable[[int], float]
Done = Callable[[Request], None]
Way = Callable[[Takes, Done], contextlib.AbstractContextManager[Callable[..., None]]]


@contextlib.contextmanager
def alone(takes: Takes, done: Done) -> Iterator[Callable[..., None]]:
    """The service in a thread of LoadGen's own process."""
    waiting: queue.Queue[Request | None] = queue.Queue()

    def serve() -> None:
        while (request := waiting.get()) is not None:
            time.sleep(takes(request.item))
            request.done = clock()
            done(request)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()

    def submit(*requests: Request) -> None:
        for request in requests:
            waiting.put(request)

    yield submit
    waiting.put(None)
    thread.join()


@contextlib.contextmanager
def through_pool(takes: Takes, done: Done) -> Iterator[Callable[..., None]]:
    """The service in a worker process behind our queue."""
    pool = Pool(lambda items: time.sleep(takes(items[0][1])), lambda: None, 1, done)
    with contextlib.closing(pool):
        assert pool.start(30)
        yield pool.submit


def measure(way: Way, takes: Takes, requests: int) -> tuple[list[float], list[int]]:
    """Latencies as LoadGen saw them, and the items that were asked for."""
    finished: list[Request] = []

    def done(request: Request) -> None:
        finished.append(request)
        driver.finished(request)

    with tempfile.TemporaryDirectory() as folder, way(takes, done) as submit:
        load = Load(scenario="single_stream", requests=requests, seconds=300.0)
        driver = Driver(load, [1.0] * ITEMS, submit)
        end = driver.run(Path(folder), lambda: None)
    return [latency for _, latency in end.scheduled], [request.item for request in finished]


def main() -> None:
    medians: dict[str, list[float]] = {"LoadGen alone": [], "through the harness": []}
    for _ in range(ROUNDS):
        for name, way in (("LoadGen alone", alone), ("through the harness", through_pool)):
            latencies, _ = measure(way, lambda item: FIXED_S, REQUESTS)
            medians[name].append(statistics.median(latencies))
    rows = [[name, f"{statistics.median(found) * 1e3:.3f} ms", ""] for name, found in medians.items()]
    added = 1e3 * (statistics.median(medians["through the harness"]) - statistics.median(medians["LoadGen alone"]))
    rows.append(["added", f"{added:.3f} ms", "yes" if added < WANTED_MS else "NO"])
    title = f"A request to a service that sleeps for {FIXED_S * 1e3:g} ms"
    print(Table(title, ["", "median latency", f"below {WANTED_MS:g} ms"], rows).markdown(), end="\n\n")
    latencies, items = measure(through_pool, spread, SPREAD_REQUESTS)
    wanted = percentiles([spread(item) for item in items])["p99"]
    found = percentiles(latencies)["p99"]
    off = found / wanted - 1
    row = [f"{wanted * 1e3:.2f} ms", f"{found * 1e3:.2f} ms", f"{off:+.1%}", "yes" if abs(off) < WANTED_SHARE else "NO"]
    header = ["p99 of the times asked for", "p99 measured", "off by", f"within {WANTED_SHARE:.0%}"]
    print(Table(f"Known service times, {SPREAD_REQUESTS:,} requests", header, [row]).markdown())


if __name__ == "__main__":
    main()
