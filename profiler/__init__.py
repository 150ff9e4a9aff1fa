"""Speech-model profiler: real-time factor, peak memory and traces over a grid of durations and batch sizes.

    from profiler import profile_recipe, ab, load_run, compare

Importing this package imports nothing heavy, and these only when they are asked for; torch is loaded only in the
worker processes that run a model.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from profiler.api import AbRun, LoadedRun, ab, compare, load_run, profile_recipe

__version__ = "0.2.0.dev0"
__all__ = ["AbRun", "LoadedRun", "__version__", "ab", "compare", "load_run", "profile_recipe"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from profiler import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
