"""The table of operations does not let a share above the peak pass for a measurement."""

from __future__ import annotations

import pytest

from profiler.measure.passes.operations import ABOVE_PEAK, OperationsPass
from tests.unit.report.runs import full


@pytest.mark.parametrize(("share", "said"), [(0.9, False), (1.4, True)])
def test_a_share_above_the_peak_is_remarked_on(share: float, said: bool) -> None:
    cells = full().cells
    assert cells[0].operations is not None
    cells[0].operations.share_of_peak = share
    assert (ABOVE_PEAK in OperationsPass().remarks(cells)) == said
    of_peak = next(metric for metric in OperationsPass.metrics if metric.key == "of_peak")
    assert of_peak.cell_number(cells[0]) == ("n/a" if said else "90")
