"""The results of a run: their types, how they are stored, which runs there are, and one file to give away."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.errors import UserError

if TYPE_CHECKING:
    import pandas

LOGDIR = Path("logs")  # where runs go


def data_frame(rows: list[dict[str, Any]], columns: list[str] | None = None) -> pandas.DataFrame:
    """A frame with a row each; `columns` where there may be no row. pandas is an extra: only who asks needs it."""
    try:
        import pandas
    except ModuleNotFoundError:
        raise UserError(
            'A data frame needs pandas: pip install "speech-profiler[pandas]" (or pip install pandas).'
        ) from None
    return pandas.DataFrame(rows, columns=columns)
