"""Executes a plan: rounds over cells, passes over a cell, results written after each.

    load model, reference workload
    round 1, each cell (shuffled, smaller before larger), in a process of its own:   time | memory | trace
    round 2 and on, each cell (shuffled), in a process of its own:                   time
    after each round, where the recipe names a data set, its batches:                time
    reference workload

The parent sleeps while a job runs, survives its death, and goes on with the next.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from profiler import warnings
from profiler.dataset.plan import plan_dataset
from profiler.environment import available_memory, read_state
from profiler.errors import ModelError, WorkerError
from profiler.execution import conditions
from profiler.execution.cell import CellState
from profiler.execution.dataset import DatasetPasses, check_same_batches
from profiler.execution.display import Display
from profiler.execution.handle import JobFailed
from profiler.execution.job import Job, Pass
from profiler.execution.peaks import Peaks
from profiler.execution.predict import Forecast
from profiler.execution.record import new_results, warnings_at_start
from profiler.execution.resume import check_resumable
from profiler.execution.settings import allowed_cpus
from profiler.execution.workers import Workers
from profiler.measure.energy import GivenPower, energy_from_watts, find_sensor
from profiler.measure.peak import relate_to_peak
from profiler.plan import Cell, Plan, first_round_order, later_round_order, make_plan
from profiler.recipe.load import LoadedRecipe
from profiler.recipe.schema import Recipe
from profiler.results import CellResult, Model, Results
from profiler.results_file import ResultsFile
from profiler.runs import new_run_folder, now
from profiler.variants.support import NotSupported

REFERENCE_DRIFT = 0.1
ESTIMATE_SECONDS = 2.0


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
        self.given_power = _given_power(loaded, options.device)
        self.options = options
        self.display = display
        self.plan: Plan = make_plan(self.recipe)
        self.threads = {
            variant.name: variant.threads or options.threads or len(allowed_cpus()) for variant in self.recipe.variants
        }
        data = plan_dataset(loaded)  # read as a whole, before anything is made
        earlier = check_resumable(options.resume, loaded, self.threads) if options.resume else None
        check_same_batches(earlier, data)
        self.folder = options.resume or new_run_folder(options.logdir, loaded.name)
        self.file = ResultsFile(
            self.folder, earlier or new_results(loaded, self.folder.name, options.command, options.device, self.threads)
        )
        self.states = {cell: self._state(cell, earlier) for cell in self.plan.cells}
        self.workers = Workers(loaded, self.folder, options.device, self.threads)
        self.workers.on_load = self._loaded
        self.dataset = DatasetPasses.of(data, loaded, self.workers, self.file, display) if data else None
        self._planned: dict[tuple[int, Cell], None] = {}
        self._anything_left = True
        self.peaks = Peaks(self.workers, self.file.results.environment)
        self._left: float | None = None
        self._left_known_at = -ESTIMATE_SECONDS

    # -- the run

    def execute(self) -> Results:
        """Measure what is missing. An interruption is marked in the results, then raised again."""
        results = self.file.results
        results.run.status, results.run.finished = "running", None
        try:
            self._start()
            for number in range(self.recipe.measure.rounds):
                for variant in self.recipe.variants:
                    self._round(number, variant.name)
                    if self.dataset is not None:
                        self.dataset.round(number, variant.name, self._forecast(variant.name))
            self._finish()
        except KeyboardInterrupt:
            self.workers.close()
            results.run.status = "interrupted"
            results.run.finished = now()
            self.file.write()
            raise
        finally:
            self.workers.close()
        return results

    def _start(self) -> None:
        results = self.file.results
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
            results.environment["reference"] = self._reference(first)
        for text in warnings_at_start(results.environment, self.options.device, self.recipe):
            self._note(text)
        for cell, reason in self.plan.skipped.items():
            self.states[cell].skip = reason
        for state in self.states.values():
            if state.skip is not None:
                self._put(state)
        self.file.write()
        self._planned = {
            (number, cell): None
            for number in range(self.recipe.measure.rounds)
            for cell in self.plan.to_measure
            if len(self.states[cell].rounds) <= number
        }
        self._anything_left = bool(self._planned)
        self.display.begin(len(self._planned))

    def _round(self, number: int, variant: str) -> None:
        cells = [cell for cell in self.plan.to_measure if cell.variant == variant]
        seed = self.recipe.measure.seed
        order = first_round_order(cells, seed) if number == 0 else later_round_order(cells, seed, number)
        if any(self.states[cell].failure is None and self.states[cell].skip is None for cell in cells):
            self._ready(variant)
        for cell in order:
            state = self.states[cell]
            if state.failure is None and state.skip is None and len(state.rounds) <= number:
                self._cell(number, state)
            self._planned.pop((number, cell), None)

    def _cell(self, number: int, state: CellState) -> None:
        recipe = self.loaded.by_variant[state.cell.variant]
        if number == 0:
            state.skip = self._reason_to_skip(state.cell)
        if state.skip is None:
            self.display.cell(state.cell, number, self._time_left())
            try:
                self._measure(number, state, recipe)
            except (ModelError, WorkerError) as error:
                self._fail_variant(state.cell.variant, str(error))
            except NotSupported as error:
                self._skip_variant(state.cell.variant, str(error))
        result = self._put(state)
        self.display.cell_done(result, number)

    def _measure(self, number: int, state: CellState, recipe: Recipe) -> None:
        """All passes of a cell in a round. What was done before a pass failed is kept."""
        variant = state.cell.variant
        worker = self.workers.ready(variant)
        worker.settle()
        before = conditions.read_counters(worker.pid)
        try:
            results = self.workers.run(
                variant, self._job(number, state, recipe), recipe.measure.limit, self.display.event
            )
        except JobFailed as error:
            results = error.results
            state.add_failure(error.during, str(error), number)
        after = conditions.read_counters(worker.pid, worker.job_cpu_seconds)
        state.add_passes(results, conditions.between(before, after))

    def _job(self, number: int, state: CellState, recipe: Recipe) -> Job:
        """Memory and trace are taken once, in the first round."""
        measure = recipe.measure
        passes: tuple[Pass, ...] = ("time",)
        if state.memory is None:
            passes += ("memory",)
        if measure.energy and self.given_power is None and state.energy is None and state.energy_reason is None:
            passes += ("energy",)
        if measure.operations and state.operations is None and state.operations_reason is None:
            passes += ("operations",)
        if recipe.trace.breakdown and state.breakdown is None and state.breakdown_reason is None:
            passes += ("breakdown",)
        if recipe.profiling_dimensions.export_logs and state.trace is None and state.trace_reason is None:
            passes += ("trace",)
        return Job(
            threads=self.threads[state.cell.variant],
            passes=passes,
            device=self.options.device,
            seconds=state.cell.seconds,
            batch_size=state.cell.batch_size,
            seed=measure.seed + 1000 * number,
            padding=recipe.profiling_dimensions.padding,
            warmup=measure.warmup,
            min_calls=measure.min_calls,
            max_calls=measure.max_calls,
            width=measure.width,
            budget=measure.budget / measure.rounds,
            earlier=tuple(state.samples),
            trace=recipe.trace.model_dump(),
            folder=str(self.folder / state.cell.folder),
        )

    def _finish(self) -> None:
        results = self.file.results
        start = results.environment.get("reference")
        measured = [state.cell.variant for state in self.states.values() if state.samples]
        if measured and (self._anything_left or "reference_at_end" not in results.environment):
            before = self.peaks.found()
            end = self._reference(measured[0])
            results.environment["reference_at_end"] = end
            if self.peaks.found() != before:  # a better peak is nearer the truth: shares of it follow
                self.file.put_all([self._result(state) for state in self.states.values() if state.operations])
            if start and end and start.get("threads") == end.get("threads"):
                change = end["gflops"] / start["gflops"] - 1
                if abs(change) > REFERENCE_DRIFT:
                    self._note(warnings.reference_drift(change))
        results.environment["at_end"] = read_state()
        results.run.status = "complete"
        results.run.finished = now()
        self.file.write()

    # -- pieces

    def _state(self, cell: Cell, earlier: Results | None) -> CellState:
        found = earlier.cell(cell.variant, cell.seconds, cell.batch_size) if earlier else None
        return CellState.from_result(cell, found) if found else CellState(cell)

    def _loaded(self, variant: str, facts: dict[str, Any]) -> None:
        wanted = self.loaded.by_variant[variant].pretrained_model
        self.file.results.run.loading_s += facts.pop("loading_s")
        model = Model(variant=variant, source=wanted.source, type=wanted.type, **facts)
        models = self.file.results.models
        known = self.file.results.model(variant)
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
        model = self.file.results.model(state.cell.variant)
        output = model.output if model else "the model's final output"
        audio = self.recipe.profiling_dimensions.example_audio
        result = state.result(
            self.loaded.by_variant[state.cell.variant].measure.width,
            f"waveforms in memory to {output}",
            Path(audio).name if audio else "random data",
        )
        self._put_energy(result)
        if result.operations and result.latency_s:
            peak = self.peaks.of(self.threads[state.cell.variant])
            result.operations |= relate_to_peak(result.operations, result.latency_s.median, peak)
            self._put_model_operations(state.cell.variant, result.operations)
        return result

    def _put_energy(self, result: CellResult) -> None:
        """With a power that the user gave, energy follows from the latency; without energy there is a reason."""
        if result.latency_s is None:
            return
        if self.given_power is not None:
            audio = result.input["seconds_of_audio"]
            result.energy_j = asdict(energy_from_watts(self.given_power, result.latency_s.median, audio))
        elif not self.recipe.measure.energy:
            result.energy_reason = "the recipe has measure.energy: false"

    def _put_model_operations(self, variant: str, operations: dict[str, Any]) -> None:
        model = self.file.results.model(variant)
        if model is not None and not model.operations:
            model.operations = {
                "macs_per_second_of_audio": operations["per_second"],
                "uncounted": operations["uncounted"],
            }

    def _skip_variant(self, variant: str, reason: str) -> None:
        """A variant that would change nothing, or cannot run here: it says so, instead of repeating other figures."""
        for state in self.states.values():
            if state.cell.variant == variant and state.skip is None:
                state.skip = f"variant not supported: {reason}"
                self._put(state)
        for planned in [key for key in self._planned if key[1].variant == variant]:
            self._planned.pop(planned)

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

    def _reference(self, variant: str) -> dict[str, Any] | None:
        self.display.status("reference workload")
        return self.peaks.measure(variant, self.threads[variant])

    def _fail_variant(self, variant: str, reason: str) -> None:
        """A variant whose model cannot be loaded: its cells fail with the reason, the run goes on."""
        for state in self.states.values():
            if state.cell.variant == variant and state.skip is None:
                state.failure = reason
                self._put(state)

    def _forecast(self, variant: str) -> Forecast:
        model = self.file.results.model(variant)
        window = model.window_s if model else None
        return Forecast(variant, self.states.values(), self.loaded.by_variant[variant], window)

    def _reason_to_skip(self, cell: Cell) -> str | None:
        model = self.file.results.model(cell.variant)
        rate = (model.sample_rate if model else None) or 16000
        return self._forecast(cell.variant).reason_to_skip(cell, available_memory(), rate)

    def _time_left(self) -> float | None:
        """Sum over what is planned; None before anything is known. Worked out at most every few seconds."""
        if time.monotonic() - self._left_known_at > ESTIMATE_SECONDS:
            self._left_known_at = time.monotonic()
            forecasts = {variant.name: self._forecast(variant.name) for variant in self.recipe.variants}
            estimates = [forecasts[cell.variant].round_seconds(cell, number) for number, cell in self._planned]
            self._left = sum(value for value in estimates if value is not None) if any(estimates) else None
        return self._left

    def _note(self, text: str) -> None:
        if text not in self.file.results.run.notes:
            self.file.results.run.notes.append(text)
        self.display.note(text)


def _given_power(loaded: LoadedRecipe, device: str) -> GivenPower | None:
    """The power that the recipe names, for want of a sensor."""
    measure = loaded.recipe.measure
    if measure.watts is None and measure.idle_watts is None and measure.powertop is None:
        return None
    report = loaded.resolve_path(measure.powertop) if measure.powertop else None
    given = find_sensor(device, watts=measure.watts, idle_watts=measure.idle_watts, powertop=report)
    assert isinstance(given, GivenPower)
    return given
