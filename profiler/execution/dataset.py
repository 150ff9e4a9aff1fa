"""The passes over a data set: for each variant the same batches, once in every round, in a process of its own.

A batch that ends the process (memory, a crash) fails alone: the pass goes on behind it in a new process. Where texts
are scored, the utterances of such a batch are processed one by one: one that cannot be processed costs no other.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from profiler import messages
from profiler.dataset.plan import DatasetPlan
from profiler.environment import available_memory
from profiler.errors import ModelError, NotSupported, UserError, WorkerError
from profiler.execution.channel import BatchDone, BatchWork, BeginBatch, DatasetJob, Event, UtteranceWork
from profiler.execution.dataset_state import DatasetState
from profiler.execution.display import Display
from profiler.execution.handle import JobFailed, OnEvent
from profiler.execution.predict import Forecast
from profiler.execution.scoring import Scoring
from profiler.execution.workers import Workers
from profiler.plan import Cell
from profiler.recipe.load import LoadedRecipe
from profiler.results.store import ResultsFile
from profiler.results.types import DatasetResult, Results


@dataclass
class DatasetPasses:
    """What the passes need of a run, and how far each variant is."""

    plan: DatasetPlan
    loaded: LoadedRecipe
    workers: Workers
    file: ResultsFile
    display: Display
    states: dict[str, DatasetState]
    scoring: Scoring

    @classmethod
    def of(
        cls,
        plan: DatasetPlan,
        loaded: LoadedRecipe,
        workers: Workers,
        file: ResultsFile,
        display: Display,
        results: Results,
    ) -> DatasetPasses:
        """`results`: of the run so far."""
        earlier = {result.variant: result for result in results.datasets}
        names = [variant.name for variant in loaded.recipe.variants]
        scoring = Scoring.of(plan, file.folder, names, file.head.accuracy)
        states = {}
        for name in names:
            found = earlier.get(name)
            states[name] = DatasetState.from_result(name, plan, found) if found else DatasetState.new(name, plan)
            states[name].recover(scoring.texts[name])
        return cls(plan, loaded, workers, file, display, states, scoring)

    def lacks(self, number: int) -> bool:
        """Whether a batch of any variant has no figure in a round yet."""
        return any(state.to_do(number) for state in self.states.values())

    def round(self, number: int, variant: str, forecast: Forecast) -> None:
        """Time every batch that lacks a figure in this round. What was measured before an interruption is kept."""
        state = self.states[variant]
        if not state.to_do(number):
            return
        self._skip_what_cannot_fit(state, number, forecast)
        try:
            while batches := state.to_do(number):
                self._run(number, state, batches)
            self._hear_alone(number, state, forecast)
        except (ModelError, WorkerError) as error:
            state.failure = str(error)
        except NotSupported as error:
            state.skip = f"variant not supported: {error}"
        finally:
            result = self._put(state)
        self.display.dataset_done(result, number, self.scoring.records.get(variant))

    def _run(self, number: int, state: DatasetState, batches: list[int]) -> None:
        """One process, until it has done all batches or one of them has ended it."""
        begun: int | None = None

        def listen(event: Event) -> None:
            nonlocal begun
            if isinstance(event, BeginBatch):
                begun = event.number
            if not isinstance(event, BatchDone):
                return
            begun = None
            state.add(event)
            self.scoring.keep(state.variant, event, event.number)
            done = len(self.plan.batches) - len(state.to_do(number))
            self.display.status(f"{state.variant}, data set: batch {done} of {len(self.plan.batches)}")

        works = [BatchWork(batch, self._utterances(batch)) for batch in batches]
        try:
            self._do(number, state.variant, works, listen)
        except JobFailed as error:
            if begun is None:
                raise
            state.batches[begun].failure = str(error)

    def _hear_alone(self, number: int, state: DatasetState, forecast: Forecast) -> None:
        """For the sake of scores: the utterances of batches that failed or would not fit, each in a call of its own."""
        if not self._wants_texts(state.variant):
            return
        alone = self.scoring.missing(state)
        memory, rate = available_memory(), self._rate(state.variant)
        for index, place in list(alone):
            utterance = self.plan.batches[index][place]
            reason = forecast.too_large(Cell(state.variant, utterance.seconds, 1), memory, rate)
            if reason is not None:
                self.scoring.refuse(state.variant, utterance.id, reason)
                alone.remove((index, place))
        while alone:
            begun: int | None = None

            def listen(event: Event, alone: list[tuple[int, int]] = alone) -> None:
                nonlocal begun
                if not isinstance(event, BeginBatch | BatchDone):
                    return
                begun = event.number
                index, place = alone[begun]
                if isinstance(event, BeginBatch):
                    self.display.status(f"{state.variant}, data set: {self.plan.batches[index][place].id} alone")
                    return
                self.scoring.keep(state.variant, event, index)
                for reason in (event.failed, event.skipped):
                    if reason is not None:
                        self.scoring.refuse(state.variant, self.plan.batches[index][place].id, reason)

            works = [
                BatchWork(each, self._utterances(index)[place : place + 1]) for each, (index, place) in enumerate(alone)
            ]
            try:
                self._do(number, state.variant, works, listen)
                return
            except JobFailed as error:
                if begun is None:
                    raise
                index, place = alone[begun]
                self.scoring.refuse(state.variant, self.plan.batches[index][place].id, str(error))
                alone = alone[begun + 1 :]

    def _do(self, number: int, variant: str, works: list[BatchWork], listen: OnEvent) -> None:
        limit = self.loaded.by_variant[variant].measure.limit
        self.workers.do(variant, self._job(number, variant, works), limit, listen)

    def _wants_texts(self, variant: str) -> bool:
        model = self.file.head.model(variant)
        return self.plan.scored and model is not None and model.weights == "pretrained"

    def _job(self, number: int, variant: str, works: list[BatchWork]) -> DatasetJob:
        recipe = self.loaded.by_variant[variant]
        return DatasetJob(
            threads=self.workers.threads[variant],
            device=self.workers.device.name,
            seed=recipe.measure.seed + 1000 * number,
            batches=works,
            skip_unreadable=self.plan.settings.on_error == "skip",
            texts=self._wants_texts(variant),
        )

    def _utterances(self, batch: int) -> list[UtteranceWork]:
        return [
            UtteranceWork(
                utterance.id,
                1000 * batch + place,
                utterance.seconds,
                utterance.audio,
                utterance.row,
                utterance.offset,
                utterance.target_tokens,
            )
            for place, utterance in enumerate(self.plan.batches[batch])
        ]

    def _skip_what_cannot_fit(self, state: DatasetState, number: int, forecast: Forecast) -> None:
        """As for a cell of the same length and size, foretold from the cells that were measured."""
        memory, rate = available_memory(), self._rate(state.variant)
        for index in state.to_do(number):
            batch = state.batches[index]
            if not batch.times:
                cell = Cell(state.variant, batch.longest.seconds, len(batch.utterances))
                batch.skip = forecast.too_large(cell, memory, rate)

    def _rate(self, variant: str) -> int:
        model = self.file.head.model(variant)
        return (model.sample_rate if model else None) or 16000

    def _put(self, state: DatasetState) -> DatasetResult:
        model = self.file.head.model(state.variant)
        output = model.output if model else None
        audio = "its own" if all(u.audio for batch in self.plan.batches for u in batch) else self._sample_audio()
        result = state.result(messages.timed_region(output), audio)
        self.file.put_dataset(result, self.scoring.record(state, result, model))
        return result

    def _sample_audio(self) -> str:
        audio = self.loaded.recipe.profiling_dimensions.example_audio
        return f"{Path(audio).name}, cut or repeated" if audio else "random data"


def check_same_batches(earlier: Results | None, plan: DatasetPlan | None) -> None:
    """Raise UserError where a run is to be taken up whose data set is no longer the same."""
    if earlier is None or plan is None:
        return
    if any(result.fingerprint != plan.fingerprint for result in earlier.datasets):
        raise UserError(
            f"The run {earlier.run.id} cannot be resumed: the data set {plan.name} has changed since. "
            "Start a new run instead."
        )
