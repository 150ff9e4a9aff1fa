"""All views of a run that are files: tables.md and TensorBoard's event files."""

from __future__ import annotations

from pathlib import Path

from profiler.report import markdown, scalars
from profiler.results import Results


def write_views(results: Results, folder: Path) -> None:
    """Write every view beside the results."""
    markdown.write(results, folder)
    scalars.write(results, folder)
