"""MLPerf's LoadGen drives a backend: it says when each request is sent, and checks what came of them.

It runs in a thread, and in C++: Python only takes a request and gives it on. Its own log says when a request was due
and when it was sent, so that its lateness is known, and latency counts from when the request was due.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from profiler.serving.records import Load, Request, StepEnd, clock

PREFIX = "mlperf_log_"
LISTEN_SECONDS = 0.1
OVERSAMPLING = 1.1  # LoadGen's own: offline it sends that many times what it expects to be done in time


class Driver:
    """One run of LoadGen. `submit` is given requests; `finished` is told of each result."""

    def __init__(self, load: Load, lengths: Sequence[float], submit: Callable[..., None]) -> None:
        self.load, self.lengths, self.submit = load, lengths, submit
        self.issued = 0
        self.late = 0  # results beyond the limit, errors among them
        self._ids: dict[int, int] = {}  # number -> LoadGen's
        self._open: dict[int, float] = {}  # number -> since when
        self._lock = threading.Lock()
        self._error: BaseException | None = None

    def finished(self, request: Request) -> None:
        import mlperf_loadgen

        with self._lock:
            identity = self._ids.pop(request.number)
            self._open.pop(request.number, None)
            self.late += request.status != "ok" or request.done - request.issued > self.load.limit
        mlperf_loadgen.QuerySamplesComplete([mlperf_loadgen.QuerySampleResponse(identity, 0, 0)])

    def run(self, folder: Path, listen: Callable[[], None]) -> StepEnd:
        """Until LoadGen has enough, or nothing more can be proven. `listen` is called several times a second."""
        thread = threading.Thread(target=self._run, args=(folder,), daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(LISTEN_SECONDS)
            listen()
            if thread.is_alive() and self._hopeless():
                return StepEnd(stopped="more requests were late than the limit allows")
        if self._error is not None:
            raise self._error
        end = StepEnd(scheduled=_scheduled(folder, self.issued), verdict=_verdict(folder))
        (folder / f"{PREFIX}trace.json").unlink(missing_ok=True)
        return end

    def _hopeless(self) -> bool:
        if self.load.allowed is None:
            return False
        now = clock()
        with self._lock:
            late = self.late + sum(now - since > self.load.limit for since in self._open.values())
        return late > self.load.allowed

    def _issue(self, samples: list[Any]) -> None:
        now = clock()
        requests = []
        with self._lock:
            for sample in samples:
                number = self.issued
                self.issued += 1
                self._ids[number] = sample.id
                self._open[number] = now
                requests.append(Request(number, sample.index, self.lengths[sample.index], now, now))
        self.submit(*requests)

    def _run(self, folder: Path) -> None:
        try:
            self._start(folder)
        except BaseException as error:
            self._error = error

    def _start(self, folder: Path) -> None:
        import mlperf_loadgen

        folder.mkdir(parents=True, exist_ok=True)
        count = len(self.lengths)
        system = mlperf_loadgen.ConstructSUT(self._issue, lambda: None)
        library = mlperf_loadgen.ConstructQSL(count, count, lambda samples: None, lambda samples: None)
        try:
            # No settings from a file: by default it would read audit.config in the current folder.
            nothing = str(folder / "none")
            mlperf_loadgen.StartTestWithLogSettings(system, library, self._settings(), _logs(folder), nothing)
        finally:
            mlperf_loadgen.DestroyQSL(library)
            mlperf_loadgen.DestroySUT(system)

    def _settings(self) -> Any:
        import mlperf_loadgen

        load, settings = self.load, mlperf_loadgen.TestSettings()
        scenarios = mlperf_loadgen.TestScenario
        kinds = {"single_stream": scenarios.SingleStream, "offline": scenarios.Offline, "server": scenarios.Server}
        settings.scenario, settings.mode = kinds[load.scenario], mlperf_loadgen.TestMode.PerformanceOnly
        settings.min_query_count = settings.max_query_count = load.requests
        settings.min_duration_ms, settings.max_duration_ms = 0, max(1, round(1000 * load.seconds))
        settings.sample_index_rng_seed = settings.schedule_rng_seed = settings.qsl_rng_seed = load.seed + 1
        if load.scenario == "offline":
            settings.offline_expected_qps = load.requests / OVERSAMPLING
            settings.min_duration_ms = 1000
        if load.scenario == "server":
            settings.server_target_qps = load.load
            settings.server_target_latency_ns = round(1e9 * load.limit)
            settings.server_target_latency_percentile = load.percentile / 100
        return settings


def _logs(folder: Path) -> Any:
    import mlperf_loadgen

    output, logs = mlperf_loadgen.LogOutputSettings(), mlperf_loadgen.LogSettings()
    output.outdir, output.prefix, output.copy_summary_to_stdout = str(folder), PREFIX, False
    logs.log_output, logs.enable_trace = output, True
    return logs


def _scheduled(folder: Path, count: int) -> list[tuple[float, float]]:
    """Of each request, as LoadGen traced it: how late it was sent, and when it was done, both from when it was due."""
    found = [(0.0, 0.0)] * count
    for line in (folder / f"{PREFIX}trace.json").read_text(errors="replace").splitlines():
        if '"Sample"' in line and '"ph":"b"' in line:
            about = json.loads(line.rstrip(","))["args"]
            if 0 <= about["sample_seq"] < count:
                found[about["sample_seq"]] = about["issue_start_ns"] / 1e9, about["complete_ns"] / 1e9
    return found


def _verdict(folder: Path) -> str | None:
    summary = (folder / f"{PREFIX}summary.txt").read_text(errors="replace")
    found = re.search(r"^Result is : (\w+)", summary, re.MULTILINE)
    return found[1] if found else None
