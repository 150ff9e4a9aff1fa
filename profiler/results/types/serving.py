"""Variants under load in results.json: one step for each load, and the highest load that holds the limit."""

from __future__ import annotations

import statistics
from typing import Literal

from pydantic import Field

from profiler.results.statistics import percentiles
from profiler.results.types.record import Record
from profiler.results.untrusted import FileName


class Times(Record):
    """Seconds, over the requests of a step; percentiles that so many requests support."""

    median: float
    mean: float
    max: float
    percentiles: dict[str, float] = Field(default_factory=dict)

    @classmethod
    def of(cls, samples: list[float]) -> Times | None:
        if not samples:
            return None
        return cls(
            median=statistics.median(samples),
            mean=statistics.fmean(samples),
            max=max(samples),
            percentiles=percentiles(samples),
        )


class RequestCounts(Record):
    """What became of the requests of a step: each is counted once."""

    sent: int = 0
    ok: int = 0
    late: int = 0  # beyond the limit: among them all that are not ok
    errors: int = 0
    timeouts: int = 0
    unfinished: int = 0  # without a result when the step ended
    reasons: dict[str, int] = Field(default_factory=dict)  # of errors and time-outs


class ServingStep(Record):
    """One load: what was sent, what came back, and whether the limit held."""

    scenario: Literal["single_stream", "offline", "server", "streams"]
    load: float | None = None  # requests a second, or live streams; null: as many as go
    round: int | None = None  # of an A/B run, in which both sides took turns at this load
    proof: bool = False  # enough requests to prove the limit, and not a look
    status: Literal["measured", "holds", "exceeds", "not proven", "failed", "interrupted"]
    reason: str | None = None
    requests: RequestCounts = Field(default_factory=RequestCounts)
    more_needed: int | None = None  # requests that would prove the limit, if none of them is late
    seconds: float = 0.0  # from the first request to the last result
    latency_s: Times | None = None  # from when a request was due to its result; errors have none
    queueing_s: Times | None = None  # this and the next two: parts of it, on our side
    batching_s: Times | None = None
    computing_s: Times | None = None
    batch_size: float | None = None  # mean
    throughput: float | None = None  # results a second
    rtf: float | None = None  # median over requests of latency / seconds of audio of the request
    rtfx: float | None = None  # of all: seconds of audio with a result for each second of the step
    utilisation: float | None = None  # share of the time that workers computed
    queue: list[tuple[float, int]] = Field(default_factory=list)  # (seconds, most requests without a result)
    rise_s: float | None = None  # how much latency rose from the start of the step to its end: a backlog
    lateness_s: Times | None = None  # of the load generator: sent after it was due
    generator_late: bool = False
    first_token_s: Times | None = (
        None  # from when a request was due; of live audio, from its first sound; null: text comes at once
    )
    memory_bytes: int | None = None  # of all workers, at most
    energy_per_request_j: float | None = None
    energy_reason: str | None = None
    loadgen: str | None = None  # LoadGen's own verdict, on a step of all its requests
    samples: list[float] = Field(default_factory=list)  # latencies in the order of requests, at most 10,000

    @property
    def tail(self) -> dict[str, float]:
        return self.latency_s.percentiles if self.latency_s else {}


class ServingResult(Record):
    """One variant under load."""

    variant: FileName
    status: Literal["ok", "skipped", "failed", "interrupted"] = "ok"
    reason: str | None = None
    limit_s: float
    percentile: int
    confidence: float
    workers: int | None = None  # null: of a server, which does not say
    threads: int | None = None  # of each
    connections: int | None = None  # to a server, where requests share them
    batch_size: int = 1
    wait_s: float = 0.0
    audio: str | None = None  # what requests are
    chunk_s: float | None = None  # of live streams; null: utterances cut by voice activity
    lookahead_s: float = 0.0
    requests_per_second: float | None = None  # the highest load that was shown to hold the limit
    streams: int | None = None
    steps: list[ServingStep] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)

    def of(self, scenario: str) -> list[ServingStep]:
        return [step for step in self.steps if step.scenario == scenario]
