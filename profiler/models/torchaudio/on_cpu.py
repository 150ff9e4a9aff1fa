"""Makes `import torchaudio` work beside a CPU build of torch.

torchaudio's Linux wheel is a CUDA build. With a CPU torch its native library cannot be loaded (it wants
libc10_cuda.so), torchaudio lets that error through, and everything that imports torchaudio fails with it: speechbrain
and parts of transformers too. What we need of torchaudio (models, features, pipelines) is pure Python, and torchaudio
has a path for running without its library: its loader answers False when there is no library file.

So: import torchaudio as it is. Only when that raises the loading error, give its loader, in this process's memory, the
answer False for a library that cannot be loaded, and import again. No file of another package is changed, and where
torchaudio's own library loads nothing is touched.
"""

from __future__ import annotations

import sys
from collections.abc import Callable


def ensure_torchaudio() -> bool:
    """Import torchaudio. True when its own native library loaded, False when it runs on pure Python."""
    try:
        import torchaudio
    except OSError:
        utils = sys.modules.get("torchaudio._extension.utils")
        if utils is None:
            raise
        utils._load_lib = _tolerant(utils._load_lib)  # type: ignore[attr-defined]
        import torchaudio  # noqa: F401
    from torchaudio import _extension

    return bool(_extension._IS_TORCHAUDIO_EXT_AVAILABLE)


def _tolerant(load_library: Callable[[str], bool]) -> Callable[[str], bool]:
    def load_if_possible(name: str) -> bool:
        try:
            return bool(load_library(name))
        except OSError:
            return False

    return load_if_possible
