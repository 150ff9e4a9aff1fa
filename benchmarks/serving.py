"""What the harness adds to a request beyond MLPerf's LoadGen, and whether the p99 it measures is that of the service.

    .venv/bin/python -m benchmarks.serving

Overhead: one request after another, to a service that sleeps for a known time. LoadGen alone calls it in its own
thread, with nothing of ours in between; then the same through all of the harness: our driver, the queue, a worker
process. Both take turns (A B, B A), and the overhead is the median over rounds of the difference of their medians.

p99: a service whose times are spread evenly from 20 to 40 ms, in a known order. One after another, a latency is the
service time. With requests at random moments (Poisson) it also has the wait for those before, which follows from the
moments at which requests were due and from the times asked for (Lindley's recursion), so that it is known to the last
request. The p99 is that of the results, as a run would show it.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from profiler.report.table import Table
from profiler.results.statistics import percentiles
from profiler.serving.figures import step_of
from profiler.serving.loadgen import Driver
from profiler.serving.pool import Pool
from profiler.serving.records import Load, Request

FIXED_S = 0.02
ROUNDS, REQUESTS = 6, 150
SPREAD_REQUESTS = 1400
PER_SECOND = 18.0  # of the Poisson arrivals: the service is busy half of the time
ITEMS = 100
WANTED_MS, WANTED_SHARE = 1.0, 0.02
Takes = Callable[[int], float]


def spread(item: int) -> float:
    """Seconds that the service takes for an item."""
    return 0.02 + 0.02 * item / (ITEMS - 1)


class Alone(Driver):
    """LoadGen and the service, in one thread."""

    def _issue(self, samples: list[Any]) -> None:
        import mlperf_loadgen

        for sample in samples:
            self.issued += 1
            time.sleep(FIXED_S)
            mlperf_loadgen.QuerySamplesComplete([mlperf_loadgen.QuerySampleResponse(sample.id, 0, 0)])


def alone(load: Load) -> list[float]:
    """Latencies, as LoadGen saw them."""
    with tempfile.TemporaryDirectory() as folder:
        end = Alone(load, [1.0] * ITEMS, lambda: None).run(Path(folder), lambda: None)
    return [done for _, done in end.scheduled]


def through_the_harness(load: Load, takes: Takes) -> tuple[list[Request], dict[str, float]]:
    """Requests with their times, and the percentiles of the results."""
    found: list[Request] = []

    def done(request: Request) -> None:
        found.append(request)
        driver.finished(request)

    def work(items: list[tuple[int, int]]) -> float:
        time.sleep(takes(items[0][1]))
        return 0.0

    pool = Pool(work, lambda: None, 1, done)
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(pool):
        assert pool.start(30)
        driver = Driver(load, [1.0] * ITEMS, pool.submit)
        end = driver.run(Path(folder), lambda: None)
    found.sort(key=lambda request: request.number)
    step = step_of(load, load.percentile, found, driver.issued, end)  # which says when each was due
    assert step.requests.ok == load.requests
    return found, step.tail


def overhead() -> Table:
    load = Load(scenario="single_stream", requests=REQUESTS, seconds=300.0)
    bare: list[float] = []
    ours: list[float] = []
    for number in range(ROUNDS):
        for ours_now in (False, True) if number % 2 == 0 else (True, False):
            if ours_now:
                requests, _ = through_the_harness(load, lambda item: FIXED_S)
                ours.append(statistics.median(request.done - request.due for request in requests))
            else:
                bare.append(statistics.median(alone(load)))
    added = [1e3 * (two - one) for one, two in zip(bare, ours, strict=True)]
    typical = statistics.median(added)
    row = [f"{1e3 * statistics.median(each):.3f} ms" for each in (bare, ours)]
    row += [f"{typical:.3f} ms ({min(added):.3f} to {max(added):.3f})", "yes" if typical < WANTED_MS else "NO"]
    header = ["LoadGen alone", "through the harness", f"added ({ROUNDS} rounds)", f"below {WANTED_MS:g} ms"]
    return Table(f"A request to a service that sleeps for {FIXED_S * 1e3:g} ms, median", header, [row])


def one_after_another(requests: list[Request]) -> list[float]:
    return [spread(request.item) for request in requests]


def at_random(requests: list[Request]) -> list[float]:
    """Waiting and service time of each."""
    free, found = 0.0, []
    for request in requests:
        free = max(free, request.due) + spread(request.item)
        found.append(free - request.due)
    return found


def known_times() -> Table:
    rows = []
    ways: list[tuple[str, Load, Callable[[list[Request]], list[float]]]] = [
        (
            "one after another",
            Load(scenario="single_stream", requests=SPREAD_REQUESTS, seconds=300.0),
            one_after_another,
        ),
        (
            f"{PER_SECOND:g} requests a second",
            Load(scenario="server", load=PER_SECOND, requests=SPREAD_REQUESTS, seconds=300.0, limit=5.0),
            at_random,
        ),
    ]
    for name, load, known in ways:
        requests, tail = through_the_harness(load, spread)
        wanted, found = percentiles(known(requests))["p99"], tail["p99"]
        off = found / wanted - 1
        verdict = "yes" if abs(off) < WANTED_SHARE else "NO"
        rows.append([name, f"{wanted * 1e3:.2f} ms", f"{found * 1e3:.2f} ms", f"{off:+.2%}", verdict])
    header = ["requests", "p99 that is known", "p99 measured", "off by", f"within {WANTED_SHARE:.0%}"]
    return Table(f"Known service times, {SPREAD_REQUESTS:,} requests", header, rows)


def main() -> None:
    print(overhead().markdown(), end="\n\n", flush=True)
    print(known_times().markdown())


if __name__ == "__main__":
    main()
