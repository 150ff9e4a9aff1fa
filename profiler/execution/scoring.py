"""What the models of a run wrote, kept line by line as it comes, and the error rates made of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from profiler.accuracy import transcripts
from profiler.accuracy.score import Score, left_out, put_differences, put_rates, score
from profiler.accuracy.transcripts import Transcript
from profiler.dataset.plan import DatasetPlan
from profiler.execution.channel import BatchDone
from profiler.execution.dataset_state import DatasetState
from profiler.results.types import Accuracy, DatasetResult, ModelResult

RANDOM = "random weights"
NOT_REACHED = "not transcribed yet"


@dataclass
class RunScores:
    """The texts of each variant, what stood against others, and the scores so far."""

    plan: DatasetPlan
    folder: Path
    texts: dict[str, dict[str, Transcript]]
    refused: dict[str, dict[str, str]] = field(default_factory=dict)  # utterances that failed by themselves
    changed: dict[str, set[str]] = field(default_factory=dict)  # those that got another text in a later round
    not_text: set[str] = field(default_factory=set)  # variants
    scores: dict[str, Score] = field(default_factory=dict)
    records: dict[str, Accuracy] = field(default_factory=dict)
    baselines: dict[str, str | None] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: DatasetPlan, folder: Path, variants: list[str], earlier: list[Accuracy]) -> RunScores:
        """Takes up what an interrupted run has kept."""
        made = cls(plan, folder, {variant: {} for variant in variants}, records={one.variant: one for one in earlier})
        for variant in variants:
            path = folder / variant / transcripts.FILE
            if path.exists():
                made.texts[variant] = transcripts.read(path)
                made._score(variant)
        return made

    def keep(self, variant: str, done: BatchDone, batch: int) -> None:
        """The texts that a worker reports of a call; those of the first round count, later ones are compared."""
        if not done.ids:  # no texts were asked for, or there is no figure
            return
        if done.texts is None:
            self.not_text.add(variant)
            return
        known, new = self.texts[variant], []
        utterances = {utterance.id: utterance for utterance in self.plan.batches[batch]}
        for name, text in zip(done.ids, done.texts, strict=True):
            if name not in known:
                spoken, took = utterances[name], done.latency or 0.0
                assert spoken.text is not None
                new.append(Transcript(name, spoken.text, text, spoken.seconds, took, batch, len(done.ids)))
            elif known[name].hypothesis != text:
                self.changed.setdefault(variant, set()).add(name)
        if new:
            transcripts.append(self.folder / variant / transcripts.FILE, new)
            known |= {transcript.id: transcript for transcript in new}
            self.scores.pop(variant, None)

    def refuse(self, variant: str, name: str, reason: str) -> None:
        self.refused.setdefault(variant, {})[name] = reason

    def missing(self, state: DatasetState) -> list[tuple[int, int]]:
        """(batch, place) of the utterances that have no text because their batch failed or did not fit."""
        known = {*self.texts[state.variant], *self.refused.get(state.variant, {}), *state.unreadable}
        return [
            (index, place)
            for index, batch in enumerate(state.batches)
            if (batch.failed is not None or batch.skipped is not None) and len(batch.ids) > 1
            for place, name in enumerate(batch.ids)
            if name not in known
        ]

    def record(self, state: DatasetState, result: DatasetResult, model: ModelResult | None) -> Accuracy | None:
        """The variant's entry in the results; None where the set has no transcripts."""
        if not self.plan.scored and self.plan.unscored_reason is None:
            return None
        settings, variant = self.plan.settings, state.variant
        record = Accuracy(
            variant=variant,
            dataset=self.plan.name,
            of_utterances=self.plan.drawn.utterances,
            normalisation=settings.normalise,
            rtf=result.rtf,
            rtf_percentiles=result.rtf_percentiles,
            references=self.plan.references,
        )
        record.reason = self._reason(state, result, model)
        if record.reason is None:
            record.transcripts = f"{variant}/{transcripts.FILE}"
            record.left_out = left_out(self._left_out(state))
            record.changed_texts = len(self.changed.get(variant, ()))
            self._score(variant)
            put_rates(record, self.scores.get(variant), settings.normalise, settings.seed)
        self.records[variant] = record
        self.baselines[variant] = model.baseline if model else None
        put_differences(list(self.records.values()), self.scores, self.baselines, settings.seed)
        return record

    def _score(self, variant: str) -> None:
        """Anew only where texts have come since."""
        if variant not in self.scores:
            found = score(self.texts[variant].values(), self.plan.settings.normalise)
            if found:
                self.scores[variant] = found

    def _reason(self, state: DatasetState, result: DatasetResult, model: ModelResult | None) -> str | None:
        """Why a variant gets no error rate."""
        if self.plan.unscored_reason is not None:
            return self.plan.unscored_reason
        if model is not None and model.weights == "random":
            return RANDOM
        if state.variant in self.not_text or (model is not None and model.weights == "no"):
            return f"the model's final output is {model.output if model else 'something else'}, not text"
        if not self.texts[state.variant]:
            return result.reason or "no utterance was transcribed"
        return None

    def _left_out(self, state: DatasetState) -> dict[str, str]:
        """{id: reason} of what was drawn and has no text."""
        known, refused = self.texts[state.variant], self.refused.get(state.variant, {})
        return {
            name: refused.get(name)
            or (f"cannot be read: {state.unreadable[name]}" if name in state.unreadable else None)
            or batch.failed
            or batch.skipped
            or NOT_REACHED
            for batch in state.batches
            for name in batch.ids
            if name not in known
        }
