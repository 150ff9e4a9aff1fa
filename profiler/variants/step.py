"""One change that a variant makes to a model, and what it touched."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Step:
    """What one change did. `layers` is None where a change is not one of layers."""

    kind: str
    layers: list[Any] | None = None  # that it changed
    parameters: int = 0  # that it changed
    engine: str | None = None
    graphs: int | None = None
    graph_breaks: int | None = None
    notes: list[str] = field(default_factory=list)
