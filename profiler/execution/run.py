"""Executes a plan: rounds over cells, passes over a cell, results written after each.

    load models, reference workload
    round 1, each cell (shuffled, smaller before larger), in a process of its own:   time | memory | ... | trace
    round 2 and on, each cell (shuffled), in a process of its own:                   time
    after the first rounds, where the recipe names a data set, its batches:          time
    reference workload

Which cells a round visits, and when there are enough rounds, is the schedule's business. The parent sleeps while a job
runs, survives its death, and goes on with the next.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from msgspec import structs

from profiler import messages
from profiler.conditions import counters
from profiler.conditions.gpu import clock_and_heat, gpu_between, read_gpu
from profiler.dataset.finetuning import finetuning_set
from profiler.dataset.plan import DatasetPlan, plan_dataset
from profiler.environment import allowed_cpus, available_memory, read_state
from profiler.errors import ModelError, NotSupported, WorkerError
from profiler.execution.cell import CellState
from profiler.execution.channel import BeginPass, CellJob, Event, Loaded
from profiler.execution.dataset import DatasetPasses, check_same_batches
from profiler.execution.display import Display
from profiler.execution.lanes import Lanes
from profiler.execution.predict import Forecast, round_size
from profiler.execution.record import (
    check_resumable,
    hold,
    new_results,
    warnings_at_end,
    warnings_at_start,
    warnings_on_settings,
)
from profiler.execution.schedule import RoundSchedule, Visit
from profiler.execution.serving import ServingPasses
from profiler.execution.workers import Workers
from profiler.measure.energy import GivenPower, energy_from_watts, given_power
from profiler.measure.latency import RoundSize
from profiler.measure.reference import higher_peak, relate_to_peak
from profiler.plan import Cell, Plan, make_plan
from profiler.recipe.load import LoadedRecipe
from profiler.recipe.schema import Measure, Recipe
from profiler.results.runs import new_run_folder, now
from profiler.results.store import ResultsFile, read_results
from profiler.results.types import CellResult, ModelResult, Reference, Results

Kinds = tuple[type[Exception], ...]
REFERENCE_DRIFT = 0.1
REFERENCE_SECONDS = 60.0  # for the reference workload: more is a hang
ESTIMATE_SHARE = 0.02  # of the run, at most, goes into working out how long it will take


@dataclass(frozen=True)
class Options:
    """What the command line says about a run, beside the recipe."""

    logdir: Path = Path("logs")
    device: str = "cpu"
    threads: int | None = None
    command: str = ""
    resume: Path | None = None


class Execution:
    """One run, from an empty folder (or an interrupted run) to its results."""

    only_together = False  # whether cells that take turns say nothing without one another

    def __init__(self, loaded: LoadedRecipe, options: Options, display: Display) -> None:
        self.loaded = loaded
        self.recipe = loaded.recipe
        measure = self.recipe.measure
        report = loaded.resolve_path(measure.powertop) if measure.powertop else None
        self.given_power = given_power(measure.watts, measure.idle_watts, report) if measure.power_is_given else None
        self.options = options
        self.display = display
        self.plan: Plan = make_plan(self.recipe)
        self.threads = {
            variant.name: variant.threads or options.threads or len(allowed_cpus()) for variant in self.recipe.variants
        }
        data = plan_dataset(loaded)  # read as a whole, before anything is made
        for variant in self.recipe.variants:
            finetuning_set(loaded, variant)
        lock = hold(options.resume) if options.resume else None
        earlier = check_resumable(options.resume, loaded, self.threads) if options.resume else None
        check_same_batches(earlier, data)
        self.folder = options.resume or new_run_folder(options.logdir, loaded.name)
        self._lock = hold(self.folder) if lock is None else lock
        results = earlier or new_results(loaded, self.folder.name, options.command, options.device, self.threads)
        self.file = ResultsFile(self.folder, results)
        known = {found.key: found for found in earlier.cells} if earlier else {}
        self.states = {cell: self._state(cell, known) for cell in self.plan.cells}
        devices = options.device.split(",")
        lanes = [Workers(loaded, self.folder, device, self.threads) for device in devices]
        for each in lanes:
            each.before_load = lambda variant: display.loading(loaded.by_variant[variant].pretrained_model.source)
            each.on_load = partial(self._loaded, each.device.name)
        self.lanes = Lanes(lanes, self.plan.cells, list(known.values()))
        self.workers = self.lanes.workers[0]  # for what is done once
        serving = self.recipe.mode == "serving"  # a data set gives its requests then
        self.serving = self.make_serving(data) if serving else None
        if self.serving is not None:
            self.serving.take_up(results.serving)
        beside = data if not serving else None
        self.dataset = DatasetPasses(beside, loaded, self.workers, self.file, display) if beside else None
        if self.dataset is not None:
            self.dataset.take_up(results.datasets)
        self.forecasts = {variant: Forecast(recipe) for variant, recipe in loaded.by_variant.items()}
        for state in self.states.values():
            self.forecasts[state.cell.variant].learn(state)
        self.schedule = self.make_schedule()
        self.peaks = self.file.head.environment.references  # a resumed run knows those of the first part
        self._estimate: tuple[float | None, int] = (None, 0)
        self._estimate_due = 0.0

    def make_serving(self, data: DatasetPlan | None) -> ServingPasses:
        """With mode: serving, what the load on each variant is."""
        return ServingPasses(self.loaded, data, self.workers, self.file, self.display)

    def make_schedule(self) -> RoundSchedule:
        """What the rounds of this run visit."""
        measure = {variant: recipe.measure for variant, recipe in self.loaded.by_variant.items()}
        states = {cell: self.states[cell] for cell in self.plan.to_measure}
        allowances = {variant: forecast.allowance for variant, forecast in self.forecasts.items()}
        return RoundSchedule(
            states,
            measure,
            self.recipe.measure.seed,
            self.recipe.measure.rounds,
            allowances=allowances,
            call_seconds=self.call_seconds,
        )

    def call_seconds(self, cell: Cell) -> float | None:
        """How long a call takes: measured, or as the cells that were measured say."""
        return self.states[cell].median or self.forecasts[cell.variant].latency(cell)

    def round_size(self, measure: Measure, long: bool) -> RoundSize:
        return round_size(measure, long)

    def cpus(self, number: int, variant: str) -> tuple[int, ...]:
        """The CPUs that a round is held to; none: those that the system chooses."""
        return ()

    def dataset_variants(self, number: int) -> list[str]:
        """Those that process the data set in a round."""
        return [variant.name for variant in self.recipe.variants]

    # -- the run

    def execute(self) -> Results:
        """Measure what is missing. An interruption is marked in the results, then raised again."""
        head = self.file.head
        if head.run.is_finished and not self._anything_missing():
            self.display.note("This run is finished: nothing is left to measure.")
            return read_results(self.folder)
        head.run.status, head.run.finished = "running", None
        try:
            self._start()
            while (visits := self.schedule.next_round(by_variant=self.workers.crowded)) is not None:
                number = self.schedule.number - 1
                self._round(number, visits)
                self._dataset_round(number)
            for number in range(self._dataset_rounds):
                self._dataset_round(number)
            if self.serving is not None:
                self.serving.run()
            self._finish()
        except KeyboardInterrupt:
            self.lanes.close()
            head.run.status = "interrupted"
            head.run.finished = now()
            self.file.write()
            raise
        finally:
            self.lanes.close()
            self.file.close()
            os.close(self._lock)
        return read_results(self.folder)

    def _anything_missing(self) -> bool:
        if self.schedule.planned():
            return True
        rounds = range(self._dataset_rounds)
        if self.serving is not None and self.serving.lacks():
            return True
        return self.dataset is not None and any(self.dataset.lacks(one, self.dataset_variants(one)) for one in rounds)

    def _start(self) -> None:
        head = self.file.head
        first = self.recipe.variants[0].name
        try:
            with self._failing(first, (WorkerError,)):
                self.workers.ready(first)
                self.lanes.load_all(first)
                self._check_overrides()
                head.environment.reference = self._reference(first)
        except ModelError:
            self._leave_nothing()
            raise
        for text in warnings_at_start(head.environment, self.options.device, self.recipe, self.lanes.facts.values()):
            self._note(text)
        if self.lanes.several:
            self._note(messages.several_devices(list(self.lanes.facts)))
            if self.recipe.dataset is not None or self.serving is not None:
                what = "Serving" if self.serving is not None else "The data set"
                self._note(messages.on_one_device(what, self.workers.device.name))
        for cell, reason in self.plan.skipped.items():
            self.states[cell].skip = reason
        for state in self.states.values():
            if state.skip is not None:
                self._put(state)
        self.file.write()
        self.display.begin(sum(self.schedule.planned().values()))

    def _check_overrides(self) -> None:
        """A model that a variant's `set:` makes is loaded before anything is measured: a mistake in it ends the run."""
        checked = [self.loaded.by_variant[self.recipe.variants[0].name].pretrained_model]
        for variant, recipe in self.loaded.by_variant.items():
            if recipe.pretrained_model in checked or self.file.head.model(variant) is not None:
                continue
            checked.append(recipe.pretrained_model)
            try:
                self.workers.ready(variant)
            except ModelError as error:
                raise ModelError(f"The variant {variant} cannot be made: {error}") from None
            except (WorkerError, NotSupported):
                continue  # said when its turn comes

    def _leave_nothing(self) -> None:
        """Nothing was measured: no empty run stays behind."""
        if not self.options.resume:
            self.lanes.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _dataset_rounds(self) -> int:
        return self.recipe.dataset.rounds if self.recipe.dataset is not None else 0

    def _dataset_round(self, number: int) -> None:
        """After each of the first rounds of the grid, one of the data set; those that are left come at the end."""
        if self.dataset is None or number >= self._dataset_rounds:
            return
        for variant in self.dataset_variants(number):
            self._ready(variant)
            self.dataset.round(number, variant, self.forecasts[variant])

    def _round(self, number: int, visits: list[Visit]) -> None:
        self.lanes.begin_round()
        handoffs: dict[str, float | None] = {}
        self.lanes.each(visits, lambda cells: self._visit(number, cells, handoffs))
        self.file.head.run.rounds = self.schedule.number
        self.display.round_done(number, self.recipe.measure.rounds, self.schedule.progress())

    def _visit(self, number: int, cells: Visit, handoffs: dict[str, float | None]) -> None:
        """A cell in a round, or several that take turns."""
        states = [self.states[cell] for cell in cells]
        for state in states:
            if state.open:
                self._ready(state.cell.variant, self.lanes.of(state.cell))
            if number == 0 and state.open:
                state.skip = self._reason_to_skip(state.cell)
        to_measure = [state for state in states if state.open]
        if to_measure and (len(to_measure) == len(states) or not self.only_together):
            self.display.cell(to_measure[0].cell, number, self._to_come()[0])
            with self._failing(to_measure[0].cell.variant):
                self._measure(number, to_measure, handoffs)
        for state in states:
            self.forecasts[state.cell.variant].learn(state)
            self.display.cell_done(self._put(state), number, *self._to_come())

    def _measure(self, number: int, states: list[CellState], handoffs: dict[str, float | None]) -> None:
        """All passes of a cell in a round, or of several that take turns. What was done before a pass failed is kept.

        The time from thread to thread is taken once in a round, for it changes with the machine, not with the cell.
        """
        lane = self.lanes.of(states[0].cell)
        jobs = {state.cell.variant: self._job(number, state, state.cell.variant not in handoffs) for state in states}
        workers = [lane.ready(variant) for variant in jobs]
        gpu, pids = self.lanes.facts.get(lane.device.name), self.lanes.pids
        gpu_before, before = read_gpu(gpu), counters.read_counters(pids)
        limit = sum(self.loaded.by_variant[variant].measure.limit for variant in jobs)  # each waits for the others
        # Of several devices at work there is no one call that could be shown.
        show = Display().event if self.lanes.several else self.display.event
        after_calls: dict[str, int | None] = {}

        def on_event(event: Event) -> None:
            if gpu is not None and isinstance(event, BeginPass) and event.name != "time" and not after_calls:
                after_calls.update(clock_and_heat(gpu))
            show(event)

        with self.lanes.measuring():
            together = len(states) > 1
            outcomes = lane.take_turns(jobs, limit, on_event) if together else [lane.run(jobs, limit, on_event)]
        # A worker that does jobs in itself has their time in its own already.
        used = sum(worker.job_cpu_seconds for worker in workers) if lane.can_fork else 0.0
        after = counters.read_counters(pids, used)
        condition = counters.between(before, after)
        condition.gpu = gpu_between(gpu, gpu_before, pids, after_calls)
        for state, (results, failure) in zip(states, outcomes, strict=True):
            if failure is not None:
                state.add_failure(failure.during, str(failure), number)
            if "time" in results and state.cell.variant not in handoffs:
                handoffs[state.cell.variant] = results["time"].result.handoff_s
            handoff = handoffs.get(state.cell.variant)
            state.add(results, condition.model_copy(update={"round": number, "handoff_s": handoff}))

    def _job(self, number: int, state: CellState, handoff: bool) -> CellJob:
        recipe: Recipe = self.loaded.by_variant[state.cell.variant]
        measure, forecast = recipe.measure, self.forecasts[state.cell.variant]
        call_s = self.call_seconds(state.cell)
        return CellJob(
            threads=self.threads[state.cell.variant],
            passes=state.passes(recipe),
            device=self.lanes.of(state.cell).device.name,
            seconds=state.cell.seconds,
            batch_size=state.cell.batch_size,
            seed=measure.seed + 1000 * number,
            padding=recipe.profiling_dimensions.padding,
            size=self.round_size(measure, forecast.allowance.long(call_s)),
            allowance=forecast.allowance,
            call_s=call_s,
            cpus=self.cpus(number, state.cell.variant),
            handoff=handoff and self.options.device == "cpu",
            trace=recipe.trace,
            folder=self.folder,
            place=state.cell.folder,
        )

    def _finish(self) -> None:
        head = self.file.head
        start = head.environment.reference
        measured = [state.cell.variant for state in self.states.values() if state.rounds]
        unstable = set(self.schedule.unstable())
        if measured:
            end = self._reference(measured[0])
            head.environment.reference_at_end = end
            # A better peak than when a cell was measured is nearer the truth: shares of it follow. And what was not
            # stable when it was last visited did not know yet why there would be no more rounds.
            late = [state for cell, state in self.states.items() if "operations" in state.found or cell in unstable]
            self.file.put(*map(self._result, late))
            if start and end and start.threads == end.threads:
                change = end.gflops / start.gflops - 1
                if abs(change) > REFERENCE_DRIFT:
                    self._note(messages.reference_drift(change))
        head.environment.at_end = read_state()
        stable = [state.conditions for cell, state in self.states.items() if cell not in unstable]
        for text in warnings_at_end(stable):
            self._note(text)
        head.run.stopped_by = self.schedule.stopped_by
        if measured and self.schedule.stopped_by is not None:
            by, rounds = self.schedule.stopped_by, head.run.rounds
            self.display.note(messages.stopped(by, rounds, len(unstable), len(measured)))
        failed = any(state.failure for state in self.states.values()) or (
            self.dataset is not None and self.dataset.has_failures
        )
        failed = failed or (self.serving is not None and self.serving.has_failures)
        head.run.status = "finished with failures" if failed else "complete"
        head.run.finished = now()
        self.file.write()

    # -- pieces

    def _state(self, cell: Cell, known: Mapping[tuple[str, float, int], CellResult]) -> CellState:
        found = known.get((cell.variant, cell.seconds, cell.batch_size))
        return CellState.from_result(cell, found) if found else CellState(cell)

    def _loaded(self, device: str, variant: str, loaded: Loaded, seconds: float) -> None:
        self.lanes.facts[device] = loaded.device
        wanted = self.loaded.by_variant[variant].pretrained_model
        self.file.head.run.loading_s += seconds
        baseline = next(each.baseline for each in self.recipe.variants if each.name == variant)
        about = {"variant": variant, "baseline": baseline, "source": wanted.source, "type": wanted.type}
        said = structs.asdict(loaded)
        del said["forks"]  # between the worker and its handle
        model = ModelResult(**about, **said)
        self.forecasts[variant].window = model.window_s
        models = self.file.head.models
        known = self.file.head.model(variant)
        if known is None:
            models.append(model)
            order = list(self.loaded.by_variant)  # which is not that in which models are first needed
            models.sort(key=lambda each: order.index(each.variant))
            for note in model.notes:
                self._note(note)
            for note in warnings_on_settings(model, self.recipe, os.environ):
                self._note(note)
        elif known.weights != model.weights:
            raise ModelError(
                f"The earlier cells of this run were measured with {known.weights} weights, "
                f"but now there are {model.weights} ones. Start a new run."
            )
        self.display.model(model)

    def _put(self, state: CellState) -> CellResult:
        result = self._result(state)
        self.file.put(result)
        return result

    def _result(self, state: CellState) -> CellResult:
        model = self.file.head.model(state.cell.variant)
        audio = self.recipe.profiling_dimensions.example_audio
        result = state.result(
            self.loaded.by_variant[state.cell.variant].measure.width,
            self.file.head.timed_region(state.cell.variant),
            Path(audio).name if audio else "random data",
            self.schedule.stopped_by or "",
        )
        device = self.lanes.of(state.cell).device
        result.device = device.name if state.rounds and (device.kind != "cpu" or self.lanes.several) else None
        put_energy(result, self.given_power, self.recipe)
        put_operations(result, self.peaks.get(str(self.threads[state.cell.variant])), model)
        return result

    @contextmanager
    def _failing(self, variant: str, kinds: Kinds = (ModelError, WorkerError)) -> Iterator[None]:
        """A variant whose model cannot be loaded: its cells fail with the reason, the run goes on. One that would
        change nothing, or cannot run here, says so, instead of repeating other figures."""
        failed = skipped = None
        try:
            yield
        except kinds as error:
            self.lanes.check()
            failed = str(error)
        except NotSupported as error:
            skipped = f"variant not supported: {error}"
        states = [state for state in self.states.values() if state.cell.variant == variant and state.skip is None]
        for state in states if failed or skipped else ():
            state.failure, state.skip = failed or state.failure, skipped
            self._put(state)
        if failed:
            self.display.variant_failed(variant, len(states), failed)

    def _ready(self, variant: str, workers: Workers | None = None) -> None:
        """Load a variant's model and measure the machine's peak with its number of threads, once each."""
        with self._failing(variant):
            (workers or self.workers).ready(variant)
            if str(self.threads[variant]) not in self.peaks:
                self._reference(variant, workers)

    def _reference(self, variant: str, workers: Workers | None = None) -> Reference | None:
        """What the machine does now, in the variant's process; a disturbance lowers it, so the best is the peak."""
        self.display.status("reference workload")
        found, threads = (workers or self.workers).reference(variant, REFERENCE_SECONDS), str(self.threads[variant])
        if found is not None:
            self.peaks[threads] = higher_peak(self.peaks.get(threads), found)
        return found

    def _reason_to_skip(self, cell: Cell) -> str | None:
        rate = self.file.head.rate(cell.variant)
        return self.forecasts[cell.variant].reason_to_skip(cell, available_memory(), rate)

    def _to_come(self) -> tuple[float | None, int]:
        """Seconds of the first rounds and of the time for more where cells need them; how many steps are planned.

        What will be skipped, by all that is known now, takes no time.
        """
        start = time.monotonic()
        if start >= self._estimate_due:
            planned = self.schedule.planned()
            skipped = [cell for cell in planned if not self.states[cell].rounds and self._reason_to_skip(cell)]
            planned = {cell: count for cell, count in planned.items() if cell not in skipped}
            left = self.schedule.span_left()
            if planned or self.schedule.unstable():
                left = max(left, self._predicted(planned), self.schedule.seconds_left(without=skipped))
            self._estimate = max(0.0, left), sum(planned.values())
            self._estimate_due = start + (time.monotonic() - start) / ESTIMATE_SHARE
        return self._estimate

    def _predicted(self, planned: dict[Cell, int]) -> float:
        total = 0.0
        for cell, count in planned.items():
            forecast = self.forecasts[cell.variant]
            first = not self.states[cell].rounds
            each = [forecast.round_seconds(cell, number) or 0.0 for number in ((0, 1) if first else (1, 1))]
            total += each[0] + (count - 1) * each[1]
        return total

    def _note(self, text: str) -> None:
        """Once per run, however many variants have it."""
        if text not in self.file.head.run.notes:
            self.file.head.run.notes.append(text)
            self.display.note(text)


# -- figures of a cell that follow from others


def put_energy(result: CellResult, power: GivenPower | None, recipe: Recipe) -> None:
    """With a power that the user gave, energy follows from the latency; without energy there is a reason."""
    if result.latency_s is None:
        return
    if power is not None:
        result.energy_j = energy_from_watts(power, result.latency_s.median, result.input.seconds_of_audio or 0.0)
    elif not recipe.measure.energy:
        result.energy_reason = "the recipe has measure.energy: false"


def put_operations(result: CellResult, peak: Reference | None, model: ModelResult | None) -> None:
    """How near the peak the cell came; and what the model does for a second of audio, by the first cell that tells."""
    if not result.operations or not result.latency_s:
        return
    relate_to_peak(result.operations, result.latency_s.median, peak)
    if model is not None and model.operations.macs_per_second_of_audio is None:
        model.operations.macs_per_second_of_audio = result.operations.per_second
        model.operations.uncounted = result.operations.uncounted
