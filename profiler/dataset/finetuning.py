"""What a variant with `quantize: qat` fine-tunes on: its manifest -> utterances with audio and transcript, all checked.

Nothing that the run scores may be among them: an error rate over what was just trained on says nothing.
"""

from __future__ import annotations

from profiler.dataset.items import DatasetError, Reading, Utterance
from profiler.dataset.manifest import read_dataset
from profiler.errors import UserError
from profiler.recipe.load import LoadedRecipe
from profiler.recipe.schema import Dataset, Variant


def finetuning_set(loaded: LoadedRecipe, variant: Variant) -> list[Utterance]:
    """Empty for a variant that is not trained; raises UserError where the set cannot be used."""
    if variant.qat is None:
        return []
    reading = read_dataset(loaded.resolve_path(variant.qat.source))
    if reading.problems:
        raise DatasetError.of(reading.source, reading.problems, "nothing was run", "Fix them.")
    missing = next((each for each in reading.utterances if each.audio is None or not each.text), None)
    if missing is not None or not reading.utterances:
        lacks = "holds no utterance" if missing is None else f"has no audio or no transcript for {missing.id}"
        raise UserError(f"{reading.source}, which {variant.name} is to be fine-tuned on, {lacks}.")
    if loaded.recipe.dataset is not None:
        _refuse_scored(reading, loaded, loaded.recipe.dataset, variant)
    return reading.utterances


def _refuse_scored(training: Reading, loaded: LoadedRecipe, settings: Dataset, variant: Variant) -> None:
    scored = read_dataset(loaded.resolve_path(settings.source), settings.format).utterances
    audio = {(each.audio.resolve(), each.offset, each.row) for each in scored if each.audio is not None}
    both = [
        each for each in training.utterances if each.audio and (each.audio.resolve(), each.offset, each.row) in audio
    ]
    if both:
        raise UserError(
            f"{both[0].id} is in the set that {variant.name} is fine-tuned on and in the data set that is scored "
            f"({len(both)} such utterances): its error rate would say nothing. Choose another variants.qat.source."
        )
