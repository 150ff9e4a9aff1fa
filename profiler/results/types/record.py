"""What all records of results.json have in common: keys that are not known are kept, texts and lists have limits.

A module of its own, since all others here build on it.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema

from profiler.results.untrusted import LONGEST_TEXT, bounded


class Record(BaseModel):
    """Common to all parts: unknown keys of newer versions are kept, not refused. This version writes none of them."""

    model_config = ConfigDict(
        extra="allow",
        defer_build=True,
        json_schema_extra={"additionalProperties": False},
        str_max_length=LONGEST_TEXT,
        allow_inf_nan=False,  # JSON has no such numbers
    )

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type[BaseModel], handler: GetCoreSchemaHandler) -> CoreSchema:
        """The first wrong entry of a list is enough to refuse it: a million of them would be a million messages."""
        schema = handler(source)
        bounded(schema)
        return schema
