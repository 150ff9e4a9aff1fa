"""What is kept of each request. Times are of one clock (CLOCK_MONOTONIC), the same in all processes."""

from __future__ import annotations

import time
from typing import Literal

import msgspec

clock = time.perf_counter
Status = Literal["ok", "error", "timeout"]


class Request(msgspec.Struct, array_like=True):
    """One utterance, or one chunk of a live stream: counted once, whatever becomes of it."""

    number: int  # -1: audio that is sent on the way to a result, and not counted
    item: int  # which of the utterances; for a stream, which of its chunks
    seconds: float  # of audio
    due: float  # when it should have been sent
    issued: float  # when it was
    stream: int = -1  # of a live speaker; -1: none
    sent: float = 0.0  # to a worker
    batching: float = 0.0  # of the waiting: for a fuller batch, while a worker was free
    began: float = 0.0
    ended: float = 0.0
    done: float = 0.0
    batch: int = 0  # requests in its batch
    worker: int = -1
    status: Status = "ok"
    reason: str = ""
    first_text: float = 0.0  # when its first token or text was there; 0: not known
    spoken_from: float = 0.0  # when its utterance began, of audio that is sent while it is spoken; 0: it came whole


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """One step: what load to make, and when it is enough."""

    scenario: Literal["single_stream", "offline", "server", "streams"]
    load: float = 0.0  # requests a second; streams; offline: what is expected
    requests: int = 0  # to send; streams: results to wait for
    seconds: float = 60.0  # at most
    limit: float = 1.0  # of latency
    percentile: int = 99
    allowed: int | None = None  # late requests, after which nothing can be proven and the step ends; None: any
    workers: int = 1
    batch: int = 1
    wait: float = 0.0
    timeout: float = 30.0
    seed: int = 0
    outside: bool = False  # on a server that runs already: nothing is warmed up, and this machine is not measured


class StepEnd(msgspec.Struct, kw_only=True):
    """What is known of a step beside its requests."""

    scheduled: list[tuple[float, float]] = []  # of each request by LoadGen: late by, and done after, seconds
    verdict: str | None = None  # LoadGen's own
    stopped: str = ""  # why it was ended early
    memory_bytes: int | None = None
    joules: float | None = None
    energy_reason: str | None = None
    sensor: str | None = None
    chunk_s: float | None = None  # of streams: seconds between two results of a speaker; None: utterances
    lookahead_s: float = 0.0
