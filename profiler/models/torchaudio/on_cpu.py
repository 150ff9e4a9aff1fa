"""Makes `import torchaudio` work beside a torch that its native library does not fit.

torchaudio's Linux wheel is a CUDA build. With a CPU torch its native library cannot be loaded (it wants
libc10_cuda.so); with a torch for another CUDA it loads, and torchaudio's own check then refuses it. Either error stops
the import, and everything that imports torchaudio fails with it: speechbrain and parts of transformers too. What we
need of torchaudio (models, features, pipelines) is pure Python, and torchaudio has a path for running without its
library: its loader answers False when there is no library file.

So: import torchaudio as it is. Only when that raises one of these two errors, give its loader, in this process's
memory, the answer False, and import again. No file of another package is changed, and where torchaudio's own library
fits nothing is touched.
"""

from __future__ import annotations

import sys
from types import ModuleType


def ensure_torchaudio() -> bool:
    """Import torchaudio. True when it runs on its own native library, False when on pure Python."""
    try:
        import torchaudio
    except (OSError, RuntimeError) as error:
        utils = sys.modules.get("torchaudio._extension.utils")
        if utils is None or (isinstance(error, RuntimeError) and not _is_for_another_cuda(utils)):
            raise
        utils._load_lib = lambda name: False  # type: ignore[attr-defined]
        import torchaudio  # noqa: F401
    from torchaudio import _extension

    return bool(_extension._IS_TORCHAUDIO_EXT_AVAILABLE)


def _is_for_another_cuda(utils: ModuleType) -> bool:
    """What torchaudio's own check says of its library and this torch."""
    try:
        utils._check_cuda_version()
    except RuntimeError:
        return True
    except AttributeError:  # of the library, which was not loaded
        return False
    return False
