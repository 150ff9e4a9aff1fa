"""A variant under load, as tables and as a sentence: how many requests a second, how many live speakers, how sure."""

from __future__ import annotations

from collections.abc import Iterable

from profiler.report.table import Table
from profiler.results.statistics import requests_needed
from profiler.results.types import Results, ServingResult, ServingStep, Times
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
    """One sentence over all variants."""
    several = len(results.serving) > 1
    said = [f"{result.variant} {carries(result)}" if several else carries(result) for result in results.serving]
    marked = any(step.generator_late for result in results.serving for step in result.steps)
    late = (
        " Steps marked ! were sent late by the load generator: the machine has no room left for it." if marked else ""
    )
    text = "; ".join(said) or "No load was measured"
    return f"{text[0].upper()}{text[1:]}.{late}"


def load_text(step: ServingStep) -> str:
    """'12.5 requests/s', '7 streams', 'one by one'"""
    if step.load is None or step.scenario in ("single_stream", "offline"):
        return NAMES[step.scenario]
    unit = "stream" if step.scenario == "streams" and step.load == 1 else NAMES[step.scenario]
    return f"{significant(step.load, 3) if step.scenario == 'server' else int(step.load)} {unit}"


def verdict_text(step: ServingStep) -> str:
    needed = f", {step.more_needed} more" if step.more_needed else ""
    return f"{step.status}{needed}{' !' if step.generator_late else ''}"


def serving_rows(result: ServingResult) -> list[list[str]]:
    """One row per step, by load."""
    order = list(NAMES)
    steps = sorted(result.steps, key=lambda step: (order.index(step.scenario), step.load or 0.0, step.proof))
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
        for step in steps
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
    times = Table(f"Where a request's time goes under load, median in ms{of}", [*head, *inside], rows(_inside))
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
        "Time to the first token: unavailable; a call of the model gives its text at once.",
    ]
    return [table, times]


def _inside(result: ServingResult) -> list[list[str]]:
    order = list(NAMES)
    steps = sorted(result.steps, key=lambda step: (order.index(step.scenario), step.load or 0.0, step.proof))
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
        ]
        for step in steps
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
        workers = (
            f"{many(result.workers, 'worker')}, {many(result.threads or 0, 'thread')} each" if result.workers else ""
        )
        batch = f", batches of up to {result.batch_size}" if result.batch_size > 1 else ""
        wait = f" after {result.wait_s:g} s at most" if result.wait_s else ""
        chunk = f"; chunks of {result.chunk_s:g} s, {result.lookahead_s:g} s ahead" if result.chunk_s else ""
        yield f"- {whose}{workers}{batch}{wait}; requests: {result.audio}{chunk}."
        yield from (f"- {whose}{note}" for note in result.notes)
        for step in result.steps:
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
