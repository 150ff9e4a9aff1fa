"""Requests -> a step of the results: was the limit kept, and where did the time go.

What is late is what came back after the limit, or did not come back at all. Whether a percentile holds is told by
MLPerf's early-stopping rule (results/statistics.py): with 99 % confidence, or "not proven" and how many more requests
it takes.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from profiler.results.statistics import requests_needed, shown_to_exceed
from profiler.results.types import RequestCounts, ServingStep, Times
from profiler.serving.records import Load, Request, StepEnd

SLICES = 20  # of a step, for its backlog
# Of the limit: a latency that rises by more than this over a step comes of a backlog. Speakers come evenly, requests
# at random, so that their queue has ups and downs.
BACKLOG_SHARE = {"streams": 0.1, "server": 0.25}
QUEUE_POINTS = 60
MOST_SAMPLES = 10_000
LATE_SHARE = 0.02  # of the limit: a request that is sent later than this after it was due is the generator's fault
LATE_REQUESTS = 0.01  # so many of them mark a step
BACKLOG = "a backlog builds up: latency rose by {:.2g} s within {:.0f} s"
LIMITED = ("server", "streams")


def step_of(
    load: Load, percent: int, requests: Sequence[Request], sent: int, end: StepEnd | None, proof: bool = False,
    failure: str | None = None, interrupted: bool = False,
) -> ServingStep:  # fmt: skip
    """`end`: None where the step did not come to its end."""
    end = end or StepEnd()
    _put_due(requests, end)
    good = [request for request in requests if request.status == "ok"]
    step = ServingStep(scenario=load.scenario, load=load.load or None, proof=proof, status="measured")
    step.requests = _counts(requests, sent, load.limit)
    step.energy_reason, step.memory_bytes, step.loadgen = end.energy_reason, end.memory_bytes, end.verdict
    step.generator_late = _generator_late(requests, load.limit)
    if load.scenario == "streams" or end.scheduled:
        step.lateness_s = Times.of([max(0.0, request.issued - request.due) for request in requests])
    if requests:
        _put_times(step, good, requests, load.workers)
    if end.joules is not None and good:
        step.energy_per_request_j = end.joules / len(good)
    if load.scenario in LIMITED:
        _judge(step, load, percent, good)
    if end.stopped and step.status != "exceeds":
        step.status = "exceeds" if requests and load.scenario in LIMITED else "failed"
    step.reason = step.reason or end.stopped or None
    if failure is not None or not good:
        step.status, step.reason = "failed", failure or _first_reason(step)
    if interrupted:
        step.status, step.reason = "interrupted", "interrupted"
    return step


def _put_due(requests: Sequence[Request], end: StepEnd) -> None:
    """LoadGen knows when a request was due; what the step was ended before knows only when it was sent."""
    for request in requests:
        if request.number < len(end.scheduled):
            late, done = end.scheduled[request.number]
            request.due = min(request.issued - late, request.done - done) if done else request.issued - late


def _counts(requests: Sequence[Request], sent: int, limit: float) -> RequestCounts:
    kinds = Counter(request.status for request in requests)
    sent = max(sent, len(requests))
    unfinished = sent - len(requests)
    late = sum(request.status != "ok" or request.done - request.due > limit for request in requests) + unfinished
    return RequestCounts(
        sent=sent,
        ok=kinds["ok"],
        late=late,
        errors=kinds["error"],
        timeouts=kinds["timeout"],
        unfinished=unfinished,
        reasons=dict(Counter(request.reason for request in requests if request.reason).most_common(5)),
    )


def _first_reason(step: ServingStep) -> str:
    return next(iter(step.requests.reasons), step.reason or "no request has a result")


def _put_times(step: ServingStep, good: Sequence[Request], requests: Sequence[Request], workers: int) -> None:
    start, end = min(request.due for request in requests), max(request.done for request in requests)
    step.seconds = end - start
    in_order = sorted(good, key=lambda request: request.number)
    latencies = [request.done - request.due for request in in_order]
    step.samples = latencies[:MOST_SAMPLES]
    step.latency_s = Times.of(latencies)
    inside = [request for request in good if request.ended]
    step.computing_s = Times.of([request.ended - request.began for request in inside])
    step.batching_s = Times.of([request.batching for request in inside])
    step.queueing_s = Times.of([max(0.0, request.sent - request.issued - request.batching) for request in inside])
    firsts = [request.first_text - (request.spoken_from or request.due) for request in good if request.first_text]
    step.first_token_s = Times.of(firsts)
    if good:
        step.batch_size = statistics.fmean(request.batch for request in inside) if inside else None
        step.rtf = statistics.median((request.done - request.due) / request.seconds for request in good)
    if step.seconds > 0:
        step.throughput = len(good) / step.seconds
        step.rtfx = sum(request.seconds for request in good) / step.seconds
        calls = {(request.worker, request.began): request.ended for request in inside}
        busy = sum(ended - began for (_, began), ended in calls.items())
        step.utilisation = busy / (workers * step.seconds) if calls else None
        step.queue = _queue(requests, start, step.seconds)


def _queue(requests: Sequence[Request], start: float, seconds: float) -> list[tuple[float, int]]:
    """The most requests that waited for a result at once, in each part of the step."""
    events = sorted([(request.issued - start, 1) for request in requests] + [(r.done - start, -1) for r in requests])
    width, waiting, place = seconds / QUEUE_POINTS, 0, 0
    found = []
    for part in range(QUEUE_POINTS):
        most = waiting
        while place < len(events) and (events[place][0] < (part + 1) * width or part == QUEUE_POINTS - 1):
            waiting += events[place][1]
            most = max(most, waiting)
            place += 1
        found.append((part * width, most))
    return found


def _generator_late(requests: Sequence[Request], limit: float) -> bool:
    late = sum(request.issued - request.due > LATE_SHARE * limit for request in requests)
    return late > LATE_REQUESTS * len(requests)


def _judge(step: ServingStep, load: Load, percent: int, good: Sequence[Request]) -> None:
    late, sent = step.requests.late, step.requests.sent
    needed = requests_needed(late, percent)
    step.rise_s = rise(good)
    if step.rise_s is not None and step.rise_s > BACKLOG_SHARE[load.scenario] * load.limit:
        step.status, step.reason = "exceeds", BACKLOG.format(step.rise_s, step.seconds)
    elif sent >= needed:
        step.status = "holds"
    elif shown_to_exceed(late, sent, percent):
        step.status = "exceeds"
    else:
        step.status, step.more_needed = "not proven", needed - sent


def rise(requests: Sequence[Request]) -> float | None:
    """How much the delay rose over the step: the median slope (Theil and Sen) of the medians of its parts."""
    ordered = sorted(requests, key=lambda request: request.due)
    if len(ordered) < 2 * SLICES:
        return None
    edges = [len(ordered) * part // SLICES for part in range(SLICES + 1)]
    parts = [ordered[start:end] for start, end in pairwise(edges)]
    at = [statistics.fmean(request.due for request in part) for part in parts]
    delay = [statistics.median(request.done - request.due for request in part) for part in parts]
    slopes = [
        (delay[two] - delay[one]) / (at[two] - at[one])
        for one in range(SLICES)
        for two in range(one + 1, SLICES)
        if at[two] > at[one]
    ]
    return statistics.median(slopes) * (at[-1] - at[0]) if slopes else None
