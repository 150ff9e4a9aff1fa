"""What is said in a variant's place when it cannot be measured."""

from __future__ import annotations

from profiler.errors import ProfilerError


class NotSupported(ProfilerError):
    """The variant changes nothing in this model, or cannot run here. The model is not to be used any more."""
