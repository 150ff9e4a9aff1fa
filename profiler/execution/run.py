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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs

from profiler import messages
from profiler.conditions import counters
from profiler.dataset.plan import plan_dataset
from profiler.environment import allowed_cpus, available_memory, read_state
from profiler.errors import ModelError, NotSupported, WorkerError
from profiler.execution.cell import CellState
from profiler.execution.channel import CellJob, Loaded
from profiler.execution.dataset import DatasetPasses, check_same_batches
from profiler.execution.derived import Peaks, given_power, put_energy, put_operations
from profiler.execution.display import Display
from profiler.execution.predict import Forecast, round_size
from profiler.execution.record import check_resumable, hold, new_results, warnings_at_start
from profiler.execution.schedule import Schedule, Visit
from profiler.execution.workers import Workers
from profiler.measure.latency import RoundSize
from profiler.plan import Cell, Plan, make_plan
from profiler.recipe.load import LoadedRecipe
from profiler.recipe.schema import Measure, Recipe
from profiler.results.runs import new_run_folder, now
from profiler.results.store import ResultsFile, read_results
from profiler.results.types import CellResult, Model, Reference, Results

REFERENCE_DRIFT = 0.1
ESTIMATE_SECONDS = 2.0  # the time left is worked out at most so often
ESTIMATE_SHARE = 0.02  # and takes at most so much of the run


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

    def __init__(self, loaded: LoadedRecipe, options: Options, display: Display) -> None:
        self.loaded = loaded
        self.recipe = loaded.recipe
        self.given_power = given_power(loaded, options.device)
        self.options = options
        self.display = display
        self.plan: Plan = make_plan(self.recipe)
        self.threads = {
            variant.name: variant.threads or options.threads or len(allowed_cpus()) for variant in self.recipe.variants
        }
        data = plan_dataset(loaded)  # read as a whole, before anything is made
        lock = hold(options.resume) if options.resume else None
        earlier = check_resumable(options.resume, loaded, self.threads) if options.resume else None
        check_same_batches(earlier, data)
        self.folder = options.resume or new_run_folder(options.logdir, loaded.name)
        self._lock = hold(self.folder) if lock is None else lock
        results = earlier or new_results(loaded, self.folder.name, options.command, options.device, self.threads)
        self.file = ResultsFile(self.folder, results)
        known = {found.key: found for found in earlier.cells} if earlier else {}
        self.states = {cell: self._state(cell, known) for cell in self.plan.cells}
        self.workers = Workers(loaded, self.folder, options.device, self.threads)
        self.workers.on_load = self._loaded
        self.dataset = DatasetPasses.of(data, loaded, self.workers, self.file, display, results) if data else None
        self.forecasts = {variant: Forecast(recipe) for variant, recipe in loaded.by_variant.items()}
        for state in self.states.values():
            self.forecasts[state.cell.variant].learn(state)
        self.schedule = self.make_schedule()
        self.peaks = Peaks(self.workers, self.file.head.environment)
        self._left: float | None = None
        self._estimate_due = 0.0

    def make_schedule(self) -> Schedule:
        """What the rounds of this run visit."""
        measure = {variant: recipe.measure for variant, recipe in self.loaded.by_variant.items()}
        states = {cell: self.states[cell] for cell in self.plan.to_measure}
        return Schedule(states, measure, self.recipe.measure.seed, self.recipe.measure.rounds)

    def round_size(self, measure: Measure) -> RoundSize:
        return round_size(measure)

    def cpus(self, number: int, variant: str) -> tuple[int, ...]:
        """The CPUs that a round is held to; none: those that the system chooses."""
        return ()

    # -- the run

    def execute(self) -> Results:
        """Measure what is missing. An interruption is marked in the results, then raised again."""
        head = self.file.head
        if head.run.status == "complete" and not self._anything_missing():
            self.display.note("This run is complete: nothing is left to measure.")
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
            self._finish()
        except KeyboardInterrupt:
            self.workers.close()
            head.run.status = "interrupted"
            head.run.finished = now()
            self.file.write()
            raise
        finally:
            self.workers.close()
            self.file.close()
            os.close(self._lock)
        return read_results(self.folder)

    def _anything_missing(self) -> bool:
        rounds = range(self._dataset_rounds)
        return bool(self.schedule.planned()) or (self.dataset is not None and any(map(self.dataset.lacks, rounds)))

    def _start(self) -> None:
        head = self.file.head
        first = self.recipe.variants[0].name
        try:
            self.display.status(f"loading {self.recipe.pretrained_model.source}")
            self.workers.ready(first)
        except ModelError:
            if not self.options.resume:  # nothing was measured: leave no empty run behind
                shutil.rmtree(self.folder, ignore_errors=True)
            raise
        except WorkerError as error:
            self._fail_variant(first, str(error))
        except NotSupported as error:
            self._skip_variant(first, str(error))
        else:
            head.environment.reference = self._reference(first)
        for text in warnings_at_start(head.environment, self.options.device, self.recipe):
            self._note(text)
        for cell, reason in self.plan.skipped.items():
            self.states[cell].skip = reason
        for state in self.states.values():
            if state.skip is not None:
                self._put(state)
        self.file.write()
        self.display.begin(sum(self.schedule.planned().values()))

    @property
    def _dataset_rounds(self) -> int:
        return self.recipe.dataset.rounds if self.recipe.dataset is not None else 0

    def _dataset_round(self, number: int) -> None:
        """After each of the first rounds of the grid, one of the data set; those that are left come at the end."""
        if self.dataset is None or number >= self._dataset_rounds:
            return
        for variant in self.recipe.variants:
            self._ready(variant.name)
            self.dataset.round(number, variant.name, self.forecasts[variant.name])

    def _round(self, number: int, visits: list[Visit]) -> None:
        self.workers.begin_round()
        handoffs: dict[str, float | None] = {}
        for cells in visits:
            states = [self.states[cell] for cell in cells]
            for state in states:
                if state.open:
                    self._ready(state.cell.variant)
                if number == 0 and state.open:
                    state.skip = self._reason_to_skip(state.cell)
            if all(state.open for state in states):
                self.display.cell(cells[0], number, self._time_left())
                try:
                    self._measure(number, states, handoffs)
                except (ModelError, WorkerError) as error:
                    self._fail_variant(cells[0].variant, str(error))
                except NotSupported as error:
                    self._skip_variant(cells[0].variant, str(error))
            for state in states:
                self.forecasts[state.cell.variant].learn(state)
                self.display.cell_done(self._put(state), number)
        self.file.head.run.rounds = self.schedule.number
        self.display.round_done(number, self.recipe.measure.rounds, self.schedule.progress())

    def _measure(self, number: int, states: list[CellState], handoffs: dict[str, float | None]) -> None:
        """All passes of a cell in a round, or of two that take turns. What was done before a pass failed is kept.

        The time from thread to thread is taken once in a round, for it changes with the machine, not with the cell.
        """
        jobs = {state.cell.variant: self._job(number, state, state.cell.variant not in handoffs) for state in states}
        workers = [self.workers.ready(variant) for variant in jobs]
        before = counters.read_counters([worker.pid for worker in workers])
        limit = max(self.loaded.by_variant[variant].measure.limit for variant in jobs)
        if len(states) == 1:
            outcomes = [self.workers.run(jobs, limit, self.display.event)]
        else:
            outcomes = self.workers.take_turns(jobs, limit, self.display.event)
        used = sum(worker.job_cpu_seconds for worker in workers)
        after = counters.read_counters([worker.pid for worker in workers], used)
        condition = counters.between(before, after)
        for state, (results, failure) in zip(states, outcomes, strict=True):
            if failure is not None:
                state.add_failure(failure.during, str(failure), number)
            if "time" in results and state.cell.variant not in handoffs:
                handoffs[state.cell.variant] = results["time"].result.handoff_s
            handoff = handoffs.get(state.cell.variant)
            state.add(results, condition.model_copy(update={"round": number, "handoff_s": handoff}))

    def _job(self, number: int, state: CellState, handoff: bool) -> CellJob:
        recipe: Recipe = self.loaded.by_variant[state.cell.variant]
        measure = recipe.measure
        return CellJob(
            threads=self.threads[state.cell.variant],
            passes=state.passes(recipe),
            device=self.options.device,
            seconds=state.cell.seconds,
            batch_size=state.cell.batch_size,
            seed=measure.seed + 1000 * number,
            padding=recipe.profiling_dimensions.padding,
            size=self.round_size(measure),
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
        if measured:
            end = self._reference(measured[0])
            head.environment.reference_at_end = end
            # A better peak than when a cell was measured is nearer the truth: shares of it follow. And what was not
            # stable when it was last visited did not know yet why there would be no more rounds.
            unstable = set(self.schedule.unstable())
            late = [state for cell, state in self.states.items() if "operations" in state.found or cell in unstable]
            self.file.put_all([self._result(state) for state in late])
            if start and end and start.threads == end.threads:
                change = end.gflops / start.gflops - 1
                if abs(change) > REFERENCE_DRIFT:
                    self._note(messages.reference_drift(change))
        head.environment.at_end = read_state()
        head.run.stopped_by = self.schedule.stopped_by
        self._say_why_stopped()
        head.run.status = "complete"
        head.run.finished = now()
        self.file.write()

    def _say_why_stopped(self) -> None:
        measured = [state for state in self.states.values() if state.rounds]
        if not measured or self.schedule.stopped_by is None:
            return
        unstable = len(self.schedule.unstable())
        self.display.note(messages.stopped(self.schedule.stopped_by, self.schedule.number, unstable, len(measured)))

    # -- pieces

    def _state(self, cell: Cell, known: Mapping[tuple[str, float, int], CellResult]) -> CellState:
        found = known.get((cell.variant, cell.seconds, cell.batch_size))
        return CellState.from_result(cell, found) if found else CellState(cell)

    def _loaded(self, variant: str, loaded: Loaded, seconds: float) -> None:
        wanted = self.loaded.by_variant[variant].pretrained_model
        self.file.head.run.loading_s += seconds
        model = Model(variant=variant, source=wanted.source, type=wanted.type, **structs.asdict(loaded))
        self.forecasts[variant].window = model.window_s
        models = self.file.head.models
        known = self.file.head.model(variant)
        if known is None:
            models.append(model)
            for note in model.notes:
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
        output = model.output if model else None
        audio = self.recipe.profiling_dimensions.example_audio
        result = state.result(
            self.loaded.by_variant[state.cell.variant].measure.width,
            messages.timed_region(output),
            Path(audio).name if audio else "random data",
            self.schedule.stopped_by or "",
        )
        put_energy(result, self.given_power, self.recipe)
        put_operations(result, self.peaks.of(self.threads[state.cell.variant]), model)
        return result

    def _skip_variant(self, variant: str, reason: str) -> None:
        """A variant that would change nothing, or cannot run here: it says so, instead of repeating other figures."""
        for state in self.states.values():
            if state.cell.variant == variant and state.skip is None:
                state.skip = f"variant not supported: {reason}"
                self._put(state)

    def _ready(self, variant: str) -> None:
        """Load a variant's model and measure the machine's peak with its number of threads, once each."""
        try:
            self.workers.ready(variant)
        except (ModelError, WorkerError) as error:
            self._fail_variant(variant, str(error))
        except NotSupported as error:
            self._skip_variant(variant, str(error))
        else:
            if self.peaks.of(self.threads[variant]) is None:
                self._reference(variant)

    def _reference(self, variant: str) -> Reference | None:
        self.display.status("reference workload")
        return self.peaks.measure(variant, self.threads[variant])

    def _fail_variant(self, variant: str, reason: str) -> None:
        """A variant whose model cannot be loaded: its cells fail with the reason, the run goes on."""
        for state in self.states.values():
            if state.cell.variant == variant and state.skip is None:
                state.failure = reason
                self._put(state)

    def _reason_to_skip(self, cell: Cell) -> str | None:
        model = self.file.head.model(cell.variant)
        rate = (model.sample_rate if model else None) or 16000
        return self.forecasts[cell.variant].reason_to_skip(cell, available_memory(), rate)

    def _time_left(self) -> float | None:
        """Of the first rounds, and of the time for more where cells need them."""
        start = time.monotonic()
        if start >= self._estimate_due:
            planned = self.schedule.planned()
            left = self.schedule.span_left()
            if planned or self.schedule.unstable():
                left = max(left, self._predicted(planned), self.schedule.seconds_left())
            self._left = max(0.0, left)
            cost = time.monotonic() - start
            self._estimate_due = start + max(ESTIMATE_SECONDS, cost / ESTIMATE_SHARE)
        return self._left

    def _predicted(self, planned: dict[Cell, int]) -> float:
        total = 0.0
        for cell, count in planned.items():
            forecast = self.forecasts[cell.variant]
            first = not self.states[cell].rounds
            each = [forecast.round_seconds(cell, number) or 0.0 for number in ((0, 1) if first else (1, 1))]
            total += each[0] + (count - 1) * each[1]
        return total

    def _note(self, text: str) -> None:
        if text not in self.file.head.run.notes:
            self.file.head.run.notes.append(text)
        self.display.note(text)
