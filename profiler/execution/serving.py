"""The load of a run: for each variant the steps of each scenario, each in a process of its own, and the search.

    single_stream (what one request takes) -> offline -> server: search for requests a second -> streams: search

What a step has measured reaches this process while it goes on: a model that dies, or Ctrl-C, loses none of it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Literal

from profiler.dataset.items import Utterance
from profiler.dataset.plan import DatasetPlan
from profiler.environment import allowed_cpus
from profiler.errors import ModelError, NotSupported, UserError, WorkerError
from profiler.execution.channel import Event, Served, ServingJob, StepDone
from profiler.execution.display import Display
from profiler.execution.workers import JobFailed, Workers
from profiler.recipe.load import LoadedRecipe
from profiler.recipe.schema import Serving
from profiler.results.statistics import TAIL_CONFIDENCE, late_allowed, requests_needed, shown_to_exceed
from profiler.results.store import ResultsFile
from profiler.results.types import ServingResult, ServingStep
from profiler.serving.figures import step_of
from profiler.serving.records import Load, Request, StepEnd
from profiler.serving.search import SHARE_AT_START, Search
from profiler.units import seconds_text

FIRST_REQUESTS = 64  # of single_stream: enough for its p90
OFFLINE_REQUESTS = 64
OUTSIDE_AT_START = 0.25  # of the rate that is allowed
LIMITS_TO_LOOK, LIMITS_TO_PROVE = 5, 10  # a step lasts at least so many times the limit
FIRST_STREAM_RESULTS = 40
STEP_OVERHEAD = 5.0  # seconds beside the load of two steps: warming up, and the last results
EXTRA_SECONDS = 360.0  # of a step beside its load: warming up, and the end
Scenario = Literal["single_stream", "offline", "server", "streams"]


@dataclass
class _Live:
    """A step while it goes on."""

    load: Load
    proof: bool
    requests: dict[int, Request] = field(default_factory=dict)  # each once, whatever a worker says
    sent: int = 0
    end: StepEnd | None = None

    def hear(self, event: Event) -> None:
        if isinstance(event, Served):
            for request in event.requests:
                self.requests.setdefault(request.number, request)
            self.sent = max(self.sent, event.sent)
        elif isinstance(event, StepDone):
            self.end = event.end


class ServingPasses:
    """What the steps need of a run, and how far each variant is."""

    def __init__(
        self, loaded: LoadedRecipe, data: DatasetPlan | None, workers: Workers, file: ResultsFile, display: Display
    ) -> None:
        self.loaded, self.data, self.workers, self.file, self.display = loaded, data, workers, file, display
        self.results: dict[str, ServingResult] = {}
        self.spent: dict[str, float] = {}  # seconds of load so far
        if not workers.can_fork:
            raise UserError("mode: serving runs on a CPU and on Linux: workers are forks of a loaded model.")
        for variant, recipe in loaded.by_variant.items():
            count = recipe.serving.workers
            given = recipe.serving.threads
            workers.threads[variant] = given or (
                workers.threads[variant] if count == 1 else max(1, len(allowed_cpus()) // count)
            )

    def take_up(self, earlier: list[ServingResult]) -> None:
        """What an interrupted run has of whole variants."""
        self.results = {result.variant: result for result in earlier if result.status in ("ok", "skipped")}

    def lacks(self) -> bool:
        return any(variant not in self.results for variant in self.loaded.by_variant)

    @property
    def has_failures(self) -> bool:
        return any(result.status == "failed" for result in self.results.values())

    def run(self) -> None:
        missing = [recipe for variant, recipe in self.loaded.by_variant.items() if variant not in self.results]
        most = sum(recipe.serving.most_seconds for recipe in missing)
        self.display.note(f"Load: {seconds_text(most)} at most.")
        for variant in self.loaded.by_variant:
            if variant not in self.results:
                self._variant(variant)

    def _variant(self, variant: str) -> None:
        result = self._new(variant)
        with self._keeping(result):
            self.workers.ready(variant)
            for scenario in self._scenarios(variant):
                self._scenario(result, scenario)

    @contextmanager
    def _keeping(self, *results: ServingResult) -> Iterator[None]:
        """What was measured is kept, whatever ends it."""
        try:
            yield
            for result in results:
                failed = [step for step in result.steps if step.status == "failed"]
                if failed:
                    result.status, result.reason = "failed", failed[0].reason
        except (ModelError, WorkerError) as error:
            for result in results:
                result.status, result.reason = "failed", str(error)
        except NotSupported as error:
            for result in results:
                result.status, result.reason = "skipped", f"variant not supported: {error}"
        except KeyboardInterrupt:
            for result in results:
                result.status = "interrupted"
            raise
        finally:
            for result in results:
                self.results[result.variant] = result
                self.file.put_serving(result)
        for result in results:
            self.display.serving_done(result)

    def _new(self, variant: str) -> ServingResult:
        recipe = self.loaded.by_variant[variant]
        settings = recipe.serving
        inside = settings.outside is None
        seconds = ", ".join(f"{each:g}" for each in recipe.profiling_dimensions.audio_mockup_secs)
        example = recipe.profiling_dimensions.example_audio
        audio = f"{Path(example).name} cut to {seconds} s" if example else f"random data of {seconds} s"
        return ServingResult(
            variant=variant,
            limit_s=settings.latency,
            percentile=settings.percentile,
            confidence=TAIL_CONFIDENCE,
            workers=settings.workers if inside else None,
            threads=self.workers.threads[variant] if inside else None,
            connections=settings.workers if not inside and "server" in settings.scenarios else None,
            batch_size=settings.batch.size,
            wait_s=settings.batch.wait,
            audio=f"{self.data.name}, utterances of their own length" if self.data else audio,
        )

    def _scenarios(self, variant: str) -> list[Scenario]:
        """In order; a search for requests a second begins with what one request takes."""
        settings = self.loaded.by_variant[variant].serving
        wanted = set(settings.scenarios)
        if "server" in wanted and not settings.loads and settings.outside is None:
            wanted.add("single_stream")
        order: tuple[Scenario, ...] = ("single_stream", "offline", "server", "streams")
        return [scenario for scenario in order if scenario in wanted]

    def _scenario(self, result: ServingResult, scenario: Scenario) -> None:
        settings = self.loaded.by_variant[result.variant].serving
        if not self._seconds(result.variant):
            result.notes.append(f"No time was left for {scenario}: raise serving.budget, or take fewer scenarios.")
        elif scenario == "single_stream":
            self._step(result, scenario, 0.0, FIRST_REQUESTS)
        elif scenario == "offline":
            self._step(result, scenario, 0.0, OFFLINE_REQUESTS)
        elif given := settings.loads if scenario == "server" else settings.streams:
            for load in given:
                if not self._seconds(result.variant):
                    return
                step = self._step(result, scenario, float(load), self._to_prove(result), proof=True)
                if step.status == "holds":
                    self._put_best(result, scenario, max(float(load), self._best(result, scenario)))
        else:
            self._search(result, scenario)

    def _search(self, result: ServingResult, scenario: Scenario) -> None:
        settings = self.loaded.by_variant[result.variant].serving
        start = self._start(result, scenario)
        if start is None:
            return
        whole = scenario == "streams"
        search = Search(start, settings.search.steps, settings.search.precision, whole, self._most(settings, scenario))
        while (choice := search.next(self._in_a_hurry(result, scenario))) and self._seconds(result.variant) > 0:
            load, proof = choice
            look = max(FIRST_STREAM_RESULTS, settings.search.requests) if whole else settings.search.requests
            count = self._to_prove(result) if proof else look
            search.learn(self._step(result, scenario, load, count, proof), settings.percentile)
        if search.best is not None:
            self._put_best(result, scenario, search.best)

    def _start(self, result: ServingResult, scenario: Scenario) -> float | None:
        """What all workers could do, if requests came evenly, by what one takes; None where it was not measured."""
        settings = self.loaded.by_variant[result.variant].serving
        if settings.outside is not None:  # from below: nothing is known of a server
            return max(1.0 if scenario == "streams" else 0.0, OUTSIDE_AT_START * self._most(settings, scenario))
        if scenario == "streams":
            look = max(FIRST_STREAM_RESULTS, settings.search.requests)
            one = self._step(result, scenario, 1.0, look)
            if one.computing_s is None or not one.seconds or not one.utilisation:
                return None
            return max(1.0, SHARE_AT_START / one.utilisation)
        alone = next(iter(result.of("single_stream")), None)
        if alone is None or alone.computing_s is None or alone.latency_s is None:
            return None
        if alone.latency_s.median > settings.latency:
            result.notes.append(
                f"One request alone takes longer than {settings.latency:g} s: no load was searched for."
            )
            return None
        return SHARE_AT_START * settings.workers / max(alone.computing_s.mean, 1e-4)

    @staticmethod
    def _most(settings: Serving, scenario: Scenario) -> float:
        """The highest load that may be made."""
        outside = settings.outside
        given = (outside.streams if scenario == "streams" else outside.rate) if outside is not None else None
        return math.inf if given is None else float(given)

    def _in_a_hurry(self, result: ServingResult, scenario: Scenario) -> bool:
        """Whether another look would leave too little time to prove what is known to hold by now."""
        left, seconds = self._left(result.variant), self.loaded.by_variant[result.variant].serving.seconds
        looks = [step for step in result.of(scenario) if step.requests.sent and step.seconds]
        if math.isinf(left) or not looks:
            return False
        last = looks[-1]
        to_prove = self._to_prove(result) * last.seconds / last.requests.sent
        return left < min(seconds, to_prove) + last.seconds + STEP_OVERHEAD

    def _to_prove(self, result: ServingResult) -> int:
        """One may be late."""
        settings = self.loaded.by_variant[result.variant].serving
        return min(settings.most_requests, requests_needed(1, settings.percentile))

    def _seconds(self, variant: str) -> float:
        """That a step may last."""
        return max(0.0, min(self.loaded.by_variant[variant].serving.seconds, self._left(variant)))

    def _left(self, variant: str) -> float:
        """Seconds of load, in all: by the budget, and by the limit of a server that runs already."""
        settings = self.loaded.by_variant[variant].serving
        limits = [settings.budget, settings.outside.seconds if settings.outside is not None else None]
        return min((limit for limit in limits if limit is not None), default=math.inf) - self.spent.get(variant, 0.0)

    @staticmethod
    def _best(result: ServingResult, scenario: Scenario) -> float:
        return (result.streams if scenario == "streams" else result.requests_per_second) or 0.0

    @staticmethod
    def _put_best(result: ServingResult, scenario: Scenario, load: float) -> None:
        if scenario == "streams":
            result.streams = int(load)
        else:
            result.requests_per_second = load

    # -- a step

    def _step(
        self, result: ServingResult, scenario: Scenario, load: float, count: int, proof: bool = False,
        round: int | None = None,
    ) -> ServingStep:  # fmt: skip
        variant = result.variant
        recipe = self.loaded.by_variant[variant]
        settings = recipe.serving
        limited = scenario in ("server", "streams")
        if scenario == "server" and round is None:  # long enough for a queue to grow that will
            least = int(load * settings.latency * (LIMITS_TO_PROVE if proof else LIMITS_TO_LOOK))
            count = max(count, min(least, settings.most_requests))
        allowed = None
        if limited and round is None:  # a side of an A/B run goes on however late it is: its latency is the answer
            allowed = max(late_allowed(count, settings.percentile), self._clearly_late(count, settings.percentile))
        live = _Live(
            Load(
                scenario=scenario,
                load=load,
                requests=count,
                seconds=self._seconds(variant),
                limit=settings.latency,
                percentile=settings.percentile,
                allowed=allowed,
                workers=settings.workers,
                batch=settings.batch.size,
                wait=settings.batch.wait,
                timeout=settings.timeout,
                seed=recipe.measure.seed + (round or 0),
                outside=settings.outside is not None,
            ),
            proof,
        )
        why = ", to prove" if proof else f", round {round + 1}" if round is not None else ""
        self.display.status(f"{variant}, {scenario}{f', {load:g}' if load else ''}{why}")
        failure, interrupted, start = None, True, time.monotonic()
        try:
            limit = settings.seconds + settings.timeout + EXTRA_SECONDS
            self.workers.do(variant, self._job(result, live.load), limit, live.hear)
            interrupted = False
        except JobFailed as error:
            failure, interrupted = str(error), False
        finally:
            self.spent[variant] = self.spent.get(variant, 0.0) + time.monotonic() - start
            requests = sorted(live.requests.values(), key=lambda request: request.number)
            if requests or not interrupted:
                step = step_of(
                    live.load, settings.percentile, requests, live.sent, live.end, proof, failure, interrupted
                )
                step.round = round
                if live.end is not None and live.end.chunk_s is not None:
                    result.chunk_s, result.lookahead_s = live.end.chunk_s, live.end.lookahead_s
                result.steps.append(step)
                self.file.put_serving(result)
                self.display.serving_step(result, step)
        return step

    @staticmethod
    def _clearly_late(count: int, percentile: int) -> int:
        """So many late ones of a step that only looks are not chance."""
        return next(late for late in range(count + 1) if shown_to_exceed(late + 1, count, percentile) or late == count)

    def _job(self, result: ServingResult, load: Load) -> ServingJob:
        variant = result.variant
        recipe = self.loaded.by_variant[variant]
        name = f"{len(result.steps) + 1:02d}-{load.scenario}"
        return ServingJob(
            threads=self.workers.threads[variant],
            device=self.workers.device.name,
            seed=recipe.measure.seed,
            load=load,
            lengths=recipe.profiling_dimensions.audio_mockup_secs,
            utterances=list(self._utterances()),
            folder=(self.file.folder / variant / "loadgen" / name).resolve(),
        )

    def _utterances(self) -> Iterator[tuple[int, Utterance]]:
        if self.data is not None:
            yield from enumerate(chain.from_iterable(self.data.batches))
