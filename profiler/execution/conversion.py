"""A loaded model -> the variant that the cells run, with proof of what changed. In the worker, before any cell."""

from __future__ import annotations

import ctypes
import gc
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from profiler.audio import Speech
    from profiler.models.model import Model
    from profiler.recipe.schema import Variant
    from profiler.results.types import Conversion

SECONDS = 2.0  # of speech on which outputs are compared, and of each piece that a calibration takes
PIECES = 4


def convert_loaded(model: Model, variant: Variant, speech: Speech) -> Conversion | None:
    """Convert in place; None where the variant leaves the model as it is. Raises NotSupported.

    Both outputs are taken in forks of this process: it must not compute anything itself, see worker.py.
    """
    from profiler.errors import NotSupported
    from profiler.processes import TrialFailed, trial
    from profiler.variants.convert import changes_model, convert
    from profiler.variants.difference import difference, load_outputs, save_outputs

    if not changes_model(variant):
        return None
    inputs = [model.prepare(speech.batch(SECONDS, 1, seed=number)) for number in range(PIECES)]
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder) / "before.pt", Path(folder) / "after.pt"
        try:
            trial(model, lambda: save_outputs(model, inputs[0], before), None)
        except TrialFailed as error:
            raise NotSupported(f"the model itself does not run: {error}") from error
        conversion = convert(model, variant, lambda: inputs)
        try:
            trial(model, lambda: save_outputs(model, inputs[0], after), None)
        except TrialFailed as error:
            raise NotSupported(f"the converted model does not run here: {error}") from error
        changed = difference(load_outputs(before), load_outputs(after))
    _give_back_memory()
    return conversion.model_copy(update={"difference": changed})


def _give_back_memory() -> None:
    """What the float weights took is not the variant's: the allocator returns it to the system."""
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
