"""A variant under load, as tables and as a sentence: how many requests a second, how many live speakers, how sure."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable
from functools import partial

from profiler.report.table import Table
from profiler.results.statistics import requests_needed
from profiler.results.types import RequestCounts, Results, ServingResult, ServingStep, Times
from profiler.units import many, significant

ABSENT = "n/a"
NAMES = {"single_stream": "one by one", "offline": "all at once", "server": "requests/s", "streams": "streams"}
HEADER = ["load", "sent", "late", "median", "p90", "p99", "RTFx", "busy", "verdict"]
MILLI = 1000.0
LATE = " Steps marked ! were sent late by the load generator: the machine has no room left for it."


def is_serving(results: Results) -> bool:
    return results.run.resolved.get("mode") == "serving" or bool(results.serving)


def carries(result: ServingResult) -> str:
    """'carries 7 live streams, or 3.1 requests a second at p99 < 1 s'"""
    at = f"p{result.percentile} < {result.limit_s:g} s"
    found = [f"{many(result.streams, 'live stream')}"] if result.streams else []
    if result.requests_per_second:
        found.append(f"{significant(result.requests_per_second, 3)} requests a second")
    if found:
        return f"carries {', or '.join(found)} at {at}"
    if result.status in ("failed", "skipped"):
        return f"{result.status}: {result.reason}"
    limited = [step for step in result.steps if step.scenario in ("server", "streams")]
    open_steps = [step for step in limited if step.status == "not proven"]
    if open_steps:
        best = max(open_steps, key=lambda step: step.load or 0.0)
        return (
            f"no load was shown to keep {at}; {load_text(best)} is not proven, with {best.more_needed} more requests "
            "needed"
        )
    if limited:
        lowest = min(limited, key=lambda step: step.load or 0.0)
        return f"carries no load that was tried at {at}: {load_text(lowest)} {lowest.status}"
    alone = next((step for step in result.steps if step.latency_s), None)
    if alone is None or alone.latency_s is None:
        return "has no figure"
    if alone.latency_s.median > result.limit_s:
        return f"carries no load at {at}: one request alone takes {_ms(alone.latency_s.median)} ms"
    return f"takes {_ms(alone.latency_s.median)} ms for a request ({NAMES[alone.scenario]})"


def serving_answer(results: Results) -> str:
    """One sentence over all variants; of an A/B run, what B is against A."""
    if results.run.sides is not None:
        from profiler.report.comparison import sides_headlines

        return " ".join(["B against A.", *sides_headlines(results)])
    several = len(results.serving) > 1
    said = [f"{result.variant} {carries(result)}" if several else carries(result) for result in results.serving]
    marked = any(step.generator_late for result in results.serving for step in result.steps)
    text = "; ".join(said) or "No load was measured"
    return f"{text[0].upper()}{text[1:]}.{LATE if marked else ''}"


def load_text(step: ServingStep) -> str:
    """'12.5 requests/s', '7 streams', 'one by one'"""
    if step.load is None or step.scenario in ("single_stream", "offline"):
        return NAMES[step.scenario]
    unit = "stream" if step.scenario == "streams" and step.load == 1 else NAMES[step.scenario]
    return f"{significant(step.load, 3) if step.scenario == 'server' else int(step.load)} {unit}"


def verdict_text(step: ServingStep) -> str:
    needed = f", {step.more_needed} more" if step.more_needed else ""
    return f"{step.status}{needed}{' !' if step.generator_late else ''}"


def in_order(result: ServingResult) -> list[ServingStep]:
    """By load; the rounds of an A/B run as one step, with all their requests."""
    rounds: dict[tuple[str, float | None], list[ServingStep]] = {}
    for step in result.steps:
        if step.round is not None:
            rounds.setdefault((step.scenario, step.load), []).append(step)
    steps = [step for step in result.steps if step.round is None] + [_as_one(each) for each in rounds.values()]
    order = list(NAMES)
    return sorted(steps, key=lambda step: (order.index(step.scenario), step.load or 0.0, step.proof))


def _as_one(steps: list[ServingStep]) -> ServingStep:
    """Latency and counts of all; other figures are means over rounds, the largest where they are extremes."""
    requests = [step.requests for step in steps]
    reasons: Counter[str] = Counter()
    for each in requests:
        reasons.update(each.reasons)
    names = ("sent", "ok", "late", "errors", "timeouts", "unfinished")
    counts = RequestCounts(**{name: sum(getattr(each, name) for each in requests) for name in names}, reasons=reasons)
    means = ("seconds", "batch_size", "throughput", "rtf", "rtfx", "utilisation", "energy_per_request_j")
    known = {name: [value for step in steps if (value := getattr(step, name)) is not None] for name in means}
    return steps[0].model_copy(
        update={
            "requests": counts,
            "status": next((step.status for step in steps if step.status in ("failed", "interrupted")), "measured"),
            "reason": next((step.reason for step in steps if step.status == "failed"), None),
            "more_needed": None,
            "latency_s": Times.of([value for step in steps for value in step.samples]),
            "queue": max((step.queue for step in steps), key=lambda queue: max((most for _, most in queue), default=0)),
            "generator_late": any(step.generator_late for step in steps),
            "memory_bytes": max((step.memory_bytes for step in steps if step.memory_bytes), default=None),
            **{name: statistics.fmean(values) if values else None for name, values in known.items()},
        }
    )


def serving_rows(result: ServingResult) -> list[list[str]]:
    """One row per step, by load."""
    return [
        [
            load_text(step),
            f"{step.requests.sent:,}",
            f"{step.requests.late:,}",
            _ms(step.latency_s.median if step.latency_s else None),
            _ms(step.tail.get("p90")),
            _ms(step.tail.get("p99")),
            ABSENT if step.rtfx is None else significant(step.rtfx, 3),
            ABSENT if step.utilisation is None else f"{step.utilisation:.0%}",
            verdict_text(step),
        ]
        for step in in_order(result)
    ]


def title_of(results: Results) -> str:
    return f"Latency under load, in ms; limit {limits_text(results)}"


def limits_text(results: Results) -> str:
    return " and ".join(dict.fromkeys(f"p{found.percentile} < {found.limit_s:g} s" for found in results.serving))


def serving_tables(results: Results, name: str) -> list[Table]:
    """Latency of each load, where its time went, and what went wrong; nothing without load."""
    if not results.serving:
        return []
    several = len(results.serving) > 1
    head = ["variant"] if several else []
    of = f" - {name}" if name else ""

    def rows(make: object) -> list[list[str]]:
        return [[result.variant] * several + row for result in results.serving for row in make(result)]  # type: ignore[operator]

    table = Table(f"{title_of(results)}{of}", [*head, *HEADER], rows(serving_rows), list(_remarks(results)))
    inside = ["load", "queueing", "batching", "computing", "batch", "RTF", "waiting", "sent late", "MB", "J/request"]
    first = any(step.first_token_s for result in results.serving for step in result.steps)
    inside += ["first text"] if first else []
    times = Table(
        f"Where a request's time goes under load, median in ms{of}",
        [*head, *inside],
        rows(partial(_inside, first=first)),
    )
    times.remarks = [
        "Queueing: until a worker is free; batching: for a fuller batch while one is free. RTF: latency / audio of a "
        "request, median; RTFx, above, is of all: seconds of audio with a result per second. Waiting: the most "
        "requests without a result at once. Sent late: by the load generator, at most, in ms.",
        *dict.fromkeys(
            f"Energy: unavailable; {step.energy_reason.rstrip('.')}."
            for result in results.serving
            for step in result.steps
            if step.energy_reason
        ),
        "First text: until the first token of a request is there; of audio that is sent while it is spoken, from its "
        "first sound to the first text."
        if first
        else "Time to the first token: unavailable; the text comes at once.",
    ]
    return [table, times]


def _inside(result: ServingResult, first: bool = False) -> list[list[str]]:
    return [
        [
            load_text(step),
            *(_median(times) for times in (step.queueing_s, step.batching_s, step.computing_s)),
            ABSENT if step.batch_size is None else f"{step.batch_size:.2g}",
            ABSENT if step.rtf is None else significant(step.rtf, 3),
            str(max((count for _, count in step.queue), default=0)),
            _ms(step.lateness_s.max if step.lateness_s else None),
            ABSENT if step.memory_bytes is None else f"{step.memory_bytes / 1e6:.0f}",
            ABSENT if step.energy_per_request_j is None else significant(step.energy_per_request_j, 3),
            *([_median(step.first_token_s)] if first else []),
        ]
        for step in in_order(result)
    ]


def _remarks(results: Results) -> Iterable[str]:
    first = results.serving[0]
    yield serving_answer(results)
    yield (
        f"holds: with {first.confidence:.0%} confidence, by MLPerf's early-stopping rule "
        f"({requests_needed(0, first.percentile)} requests when none is late); not proven: so many more requests would "
        "show it if none were late; exceeds: so many late ones are no chance, or a backlog builds up. Late: after the "
        "limit, or without a result."
    )
    for result in results.serving:
        whose = f"{result.variant}: " if len(results.serving) > 1 else ""
        if result.workers:
            workers = f"{many(result.workers, 'worker')}, {many(result.threads or 0, 'thread')} each"
        elif result.connections:
            workers = f"a server, {many(result.connections, 'connection')}"
        else:
            workers = "a server, a connection for each speaker"
        batch = f", batches of up to {result.batch_size}" if result.batch_size > 1 else ""
        wait = f" after {result.wait_s:g} s at most" if result.wait_s else ""
        ahead = f", {result.lookahead_s:g} s ahead" if result.lookahead_s else ""
        chunk = f"; chunks of {result.chunk_s:g} s{ahead}" if result.chunk_s else ""
        yield f"- {whose}{workers}{batch}{wait}; requests: {result.audio}{chunk}."
        yield from (f"- {whose}{note}" for note in result.notes)
        for step in in_order(result):
            counts = step.requests
            wrong = ((counts.errors, "errors"), (counts.timeouts, "time-outs"), (counts.unfinished, "without a result"))
            said = [f"{count} {what}" for count, what in wrong if count]
            why = "; ".join(f"{reason} ({count})" for reason, count in counts.reasons.items())
            parts = [*said, *([step.reason] if step.reason and step.reason not in counts.reasons else [])]
            if parts:
                yield f"- {whose}{load_text(step)}: {', '.join(parts)}{f': {why}' if why else ''}"


def _median(times: Times | None) -> str:
    return _ms(times.median if times else None)


def _ms(seconds: float | None) -> str:
    return ABSENT if seconds is None else significant(seconds * MILLI, 3)
