"""What is said below the first tables: which figures are doubtful, failed or skipped, and why."""

from __future__ import annotations

from collections.abc import Callable

from profiler.report import figures
from profiler.results import CellResult

Text = Callable[[CellResult], str]


def remarks_on(cells: list[CellResult]) -> list[str]:
    """Lines for cells of one variant, or of several, which are then named."""
    several = len({cell.variant for cell in cells}) > 1
    remarks = []
    noisy = [cell for cell in cells if cell.verdict == "noisy"]
    if noisy:
        remarks.append(
            f"{figures.NOISY_MARK} marks a figure that is not stable, with how far its 95 % interval, or the median of "
            "a round, lies from it:"
        )
        remarks += _listed(noisy, several, lambda cell: " ".join(cell.verdict_reasons))
    calm = [cell for cell in cells if cell.verdict == "stable" and cell.verdict_reasons]
    remarks += _listed(calm, several, lambda cell: " ".join(cell.verdict_reasons))
    failed = [cell for cell in cells if cell.status == "failed"]
    remarks += _listed(failed, several, lambda cell: f"failed: {cell.reason}")
    skipped = [cell for cell in cells if cell.status == "skipped"]
    remarks += _listed(skipped, several, lambda cell: f"skipped, {cell.reason}.")
    padding = [cell.input.get("share_of_padding", 0) for cell in cells if cell.input]
    if any(padding):
        remarks.append(f"Padding: {min(padding):.0%} to {max(padding):.0%} of a batch; RTF counts real audio only.")
    return remarks


def _listed(cells: list[CellResult], several: bool, text: Text) -> list[str]:
    """One line for each distinct remark, with the cells it is about."""
    by_text: dict[str, dict[str, list[str]]] = {}
    for cell in cells:
        places = by_text.setdefault(text(cell), {}).setdefault(cell.variant, [])
        places.append(f"{cell.seconds:g} s x {cell.batch_size}")
    return [f"- {_where(places, several)}: {remark}" for remark, places in by_text.items()]


def _where(places: dict[str, list[str]], several: bool) -> str:
    if not several:
        return ", ".join(place for found in places.values() for place in found)
    return "; ".join(f"{variant} {', '.join(found)}" for variant, found in places.items())
