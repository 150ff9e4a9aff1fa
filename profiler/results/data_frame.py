"""Rows as a pandas DataFrame. pandas is an extra: only who asks for a frame needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from profiler.errors import UserError

if TYPE_CHECKING:
    import pandas


def data_frame(rows: list[dict[str, Any]], columns: list[str] | None = None) -> pandas.DataFrame:
    """A frame with a row each; `columns` where there may be no row."""
    try:
        import pandas
    except ModuleNotFoundError:
        raise UserError(
            'A data frame needs pandas: pip install "speech-profiler[pandas]" (or pip install pandas).'
        ) from None
    return pandas.DataFrame(rows, columns=columns)
