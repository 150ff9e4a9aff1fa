"""Lets ESPnet's feature extraction be imported where librosa is not installed.

ESPnet imports librosa for one function that inference needs, the matrix of mel filters. librosa brings a compiler
(numba) with it; torchaudio, which is installed anyway, has the same matrix. So while ESPnet is imported, a module with
that one function takes librosa's place in this process's memory. It is taken away afterwards, so that no other library
mistakes it for librosa. Where librosa is installed nothing is touched.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

NAME = "librosa"


def mel(*, sr: float, n_fft: int, n_mels: int, fmin: float, fmax: float, htk: bool) -> Any:
    """As librosa.filters.mel: [n_mels, n_fft / 2 + 1], each filter of the same area."""
    import torch
    from torchaudio.functional import melscale_fbanks

    with torch.device("cpu"):  # also while a model is built on the meta device
        filters = melscale_fbanks(
            n_fft // 2 + 1, fmin, fmax, n_mels, int(sr), norm="slaney", mel_scale="htk" if htk else "slaney"
        )
    return filters.T.numpy()


@contextmanager
def mel_filters() -> Iterator[None]:
    """Within it `import librosa` works: the real one, or where there is none, the one function."""
    if NAME in sys.modules or importlib.util.find_spec(NAME) is not None:
        yield
        return
    stand_in = ModuleType(NAME)
    stand_in.filters = SimpleNamespace(mel=mel)  # type: ignore[attr-defined]
    sys.modules[NAME] = stand_in
    try:
        yield
    finally:
        del sys.modules[NAME]
