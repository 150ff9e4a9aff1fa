"""What is said below the first tables: which figures are unstable, failed or skipped, and why."""

from __future__ import annotations

from collections.abc import Callable

from profiler import messages
from profiler.results.metric import UNSTABLE_MARK
from profiler.results.types import CellResult

Text = Callable[[CellResult], str]


def remarks_on(cells: list[CellResult]) -> list[str]:
    """Lines for cells of one variant, or of several, which are then named."""
    several = len({cell.variant for cell in cells}) > 1
    remarks = []
    measured = [cell for cell in cells if cell.verdict is not None]
    if any(cell.verdict == "unstable" for cell in measured):
        remarks.append(
            f"{UNSTABLE_MARK} marks an unstable figure: its 95 % CI is wider than wanted, so much either way."
        )
    remarks += [f"- {sentence}" for sentence in disturbances(measured)]
    failed = [cell for cell in cells if cell.status == "failed"]
    remarks += _listed(failed, several, lambda cell: f"failed: {cell.reason}")
    skipped = [cell for cell in cells if cell.status == "skipped"]
    remarks += _listed(skipped, several, lambda cell: f"skipped, {cell.reason}.")
    padding = [cell.input.share_of_padding for cell in cells if cell.input.audio is not None]
    if any(padding):
        remarks.append(f"Padding: {min(padding):.0%} to {max(padding):.0%} of a batch; RTF counts real audio only.")
    return remarks


def disturbances(measured: list[CellResult]) -> list[str]:
    """What disturbed the cells, each thing once: '8 of 9 cells: other processes used up to 1.2 CPUs meanwhile.'"""
    return [
        f"{count} of {len(measured)} cells: {messages.disturbance(kind, value)}"
        for kind, (count, value) in messages.worst([cell.disturbances for cell in measured]).items()
    ]


def _listed(cells: list[CellResult], several: bool, text: Text) -> list[str]:
    """One line for each distinct remark, with the cells it is about."""
    by_text: dict[str, dict[str, list[str]]] = {}
    for cell in cells:
        places = by_text.setdefault(text(cell), {}).setdefault(cell.variant, [])
        places.append(cell.place)
    return [f"- {_where(places, several)}: {remark}" for remark, places in by_text.items()]


def _where(places: dict[str, list[str]], several: bool) -> str:
    if not several:
        return ", ".join(place for found in places.values() for place in found)
    return "; ".join(f"{variant} {', '.join(found)}" for variant, found in places.items())
