"""The passes over a data set: for each variant the same batches, once in every round, in a process of its own.

A batch that ends the process (memory, a crash) fails alone: the pass goes on behind it in a new process. Where texts
are scored, the utterances of such a batch are processed one by one: one that cannot be processed costs no other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from profiler.dataset.items import Utterance
from profiler.dataset.plan import DatasetPlan
from profiler.environment import available_memory
from profiler.errors import ModelError, NotSupported, UserError, WorkerError
from profiler.execution.channel import BatchDone, BatchWork, BeginBatch, DatasetJob, Event
from profiler.execution.dataset_state import DatasetState
from profiler.execution.display import Display
from profiler.execution.predict import Forecast
from profiler.execution.scoring import RunScores
from profiler.execution.workers import JobFailed, Workers
from profiler.plan import Cell
from profiler.recipe.load import LoadedRecipe
from profiler.results.store import ResultsFile
from profiler.results.types import DatasetResult, Results
from profiler.runtimes import ENGINES

SAME_SECONDS = 1e-4  # less than two samples


class DatasetPasses:
    """What the passes need of a run, and how far each variant is."""

    def __init__(
        self, plan: DatasetPlan, loaded: LoadedRecipe, workers: Workers, file: ResultsFile, display: Display
    ) -> None:
        self.plan, self.loaded, self.workers, self.file, self.display = plan, loaded, workers, file, display
        names = [variant.name for variant in loaded.recipe.variants]
        self.scoring = RunScores.of(plan, file.folder, names, file.head.accuracy)
        self.states = {name: DatasetState.of(name, plan) for name in names}

    def take_up(self, earlier: list[DatasetResult]) -> None:
        """What an interrupted run has measured."""
        for result in earlier:
            self.states[result.variant] = DatasetState.of(result.variant, self.plan, result)
        for name, state in self.states.items():
            state.recover(self.scoring.texts[name])

    def lacks(self, number: int, variants: list[str]) -> bool:
        """Whether a batch of any of these has no figure in a round yet."""
        return any(self.states[variant].to_do(number) for variant in variants)

    @property
    def has_failures(self) -> bool:
        return any(state.failure or any(batch.failed for batch in state.batches) for state in self.states.values())

    def round(self, number: int, variant: str, forecast: Forecast) -> None:
        """Time every batch that lacks a figure in this round. What was measured before an interruption is kept."""
        state = self.states[variant]
        if not state.to_do(number):
            return
        state.skip = self._of_other_shapes(state)
        self._skip_what_cannot_fit(state, number, forecast)
        try:
            while batches := state.to_do(number):
                self._run(number, state, batches)
            if self._wants_texts(state.variant):
                self._transcribe_alone(number, state, forecast)
        except (ModelError, WorkerError) as error:
            state.failure = str(error)
        except NotSupported as error:
            state.skip = f"variant not supported: {error}"
        finally:
            result = self._put(state)
        self.display.dataset_done(result, number, self.scoring.records.get(variant))

    def _run(self, number: int, state: DatasetState, batches: list[int]) -> None:
        """One process, until it has done all batches or one of them has ended it."""

        def hear(event: BeginBatch | BatchDone) -> None:
            if isinstance(event, BatchDone):
                state.add(event)
                self.scoring.keep(state.variant, event, event.number)
                done = len(self.plan.batches) - len(state.to_do(number))
                self.display.status(f"{state.variant}, data set: batch {done} of {len(self.plan.batches)}")

        works = [BatchWork(batch, self._utterances(batch)) for batch in batches]
        if ended := self._do(number, state.variant, works, hear):
            state.batches[ended[0]].failed = ended[1]

    def _transcribe_alone(self, number: int, state: DatasetState, forecast: Forecast) -> None:
        """For the sake of scores: the utterances of batches that failed or would not fit, each in a call of its own."""
        alone: list[tuple[int, int]] = []
        memory, rate = available_memory(), self.file.head.rate(state.variant)
        for index, place in self.scoring.missing(state):
            utterance = self.plan.batches[index][place]
            reason = forecast.too_large(Cell(state.variant, utterance.seconds, 1), memory, rate)
            if reason is None:
                alone.append((index, place))
            else:
                self.scoring.refuse(state.variant, utterance.id, reason)

        def name(work: int) -> str:
            index, place = alone[work]
            return self.plan.batches[index][place].id

        def hear(event: BeginBatch | BatchDone) -> None:
            if isinstance(event, BeginBatch):
                self.display.status(f"{state.variant}, data set: {name(event.number)} alone")
                return
            self.scoring.keep(state.variant, event, alone[event.number][0])
            if (reason := event.failed or event.skipped) is not None:
                self.scoring.refuse(state.variant, name(event.number), reason)

        works = [
            BatchWork(work, self._utterances(index)[place : place + 1]) for work, (index, place) in enumerate(alone)
        ]
        while works and (ended := self._do(number, state.variant, works, hear)):
            self.scoring.refuse(state.variant, name(ended[0]), ended[1])
            works = [work for work in works if work.number > ended[0]]

    def _do(
        self, number: int, variant: str, works: list[BatchWork], hear: Callable[[BeginBatch | BatchDone], None]
    ) -> tuple[int, str] | None:
        """All of these in one process; where one of them ended it: its number, and why."""
        begun: int | None = None

        def listen(event: Event) -> None:
            nonlocal begun
            if isinstance(event, BeginBatch | BatchDone):
                begun = event.number if isinstance(event, BeginBatch) else None
                hear(event)

        measure = self.loaded.by_variant[variant].measure
        job = DatasetJob(
            threads=self.workers.threads[variant],
            device=self.workers.device.name,
            seed=measure.seed + 1000 * number,
            batches=works,
            skip_unreadable=self.plan.settings.on_error == "skip",
            texts=self._wants_texts(variant),
        )
        try:
            self.workers.do(variant, job, measure.limit, listen)
        except JobFailed as error:
            if begun is None:
                raise
            return begun, str(error)
        return None

    def _wants_texts(self, variant: str) -> bool:
        model = self.file.head.model(variant)
        return self.plan.scored and model is not None and model.weights == "pretrained"

    def _utterances(self, batch: int) -> list[tuple[int, Utterance]]:
        """As a worker gets them: what was said is not its business, unless the model says it."""
        return [
            (1000 * batch + place, utterance if self.plan.spoken else replace(utterance, text=None))
            for place, utterance in enumerate(self.plan.batches[batch])
        ]

    def _skip_what_cannot_fit(self, state: DatasetState, number: int, forecast: Forecast) -> None:
        """As for a cell of the same length and size, foretold from the cells that were measured."""
        memory, rate = available_memory(), self.file.head.rate(state.variant)
        for index in state.to_do(number):
            batch = state.batches[index]
            if not batch.latency_s:
                batch.skipped = forecast.too_large(Cell(state.variant, batch.longest_s, len(batch.ids)), memory, rate)

    def _of_other_shapes(self, state: DatasetState) -> str | None:
        """Why an engine whose files are for the shapes of the grid cannot take the set; None where it may."""
        model = self.file.head.model(state.variant)
        use = model.conversion.runtime if model is not None and model.conversion is not None else None
        if use is None or use.any_shape:
            return None
        grid = self.loaded.by_variant[state.variant].profiling_dimensions
        for batch in state.batches:
            same_length = any(abs(batch.longest_s - seconds) < SAME_SECONDS for seconds in grid.audio_mockup_secs)
            if same_length and len(batch.ids) in grid.batch_sizes:
                return None
        return (
            f"variant not supported: files of {ENGINES[use.engine].title} are for the shapes of the grid alone, and "
            "no batch of the data set has one of them; take an engine whose files take any length, such as onnxruntime"
        )

    def _put(self, state: DatasetState) -> DatasetResult:
        example = self.loaded.recipe.profiling_dimensions.example_audio
        audio = f"{Path(example).name}, cut or repeated" if example else "random data"
        if all(utterance.audio for batch in self.plan.batches for utterance in batch):
            audio = "its own"
        if self.plan.spoken:
            audio = "speech that the model made of the set's transcripts"
        result = state.result(self.file.head.timed_region(state.variant), audio)
        self.file.put_dataset(result, self.scoring.record(state, result, self.file.head.model(state.variant)))
        return result


def check_same_batches(earlier: Results | None, plan: DatasetPlan | None) -> None:
    """Raise UserError where a run is to be taken up whose data set is no longer the same."""
    if earlier is None or plan is None:
        return
    if any(result.fingerprint != plan.fingerprint for result in earlier.datasets):
        raise UserError(
            f"The run {earlier.run.id} cannot be resumed: the data set {plan.name} has changed since. "
            "Start a new run instead."
        )
