"""docs/published-figures.md: a run of the French recipe beside what was published of it, written by one command."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from profiler.results.types import CellResult
from tests.helpers.program import ROOT
from tests.unit.report.test_tables import absent, ok, results, unstable

PAGE = ROOT / "docs" / "published-figures.md"


def published(run: Path, page: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "docs/published.py", str(run), str(page)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def stored(folder: Path, cells: list[CellResult]) -> Path:
    made = results(*cells)
    made.run.started, made.run.finished = "2026-01-01T12:00:00+00:00", "2026-01-01T12:21:00+00:00"
    (folder / "results.json").write_text(made.model_dump_json(by_alias=True))
    return folder


def french() -> list[CellResult]:
    """Every cell of the recipe; the largest had one call, or was skipped."""
    cells = [ok(seconds, batch, 0.25) for seconds in (1, 2, 5, 8, 32) for batch in (1, 4, 8)]
    few = unstable(32, 4, 0.25, 0.0, long_calls=32.0)
    assert few.latency_s is not None
    few.latency_s.n, few.latency_s.rounds, few.latency_s.ci95 = 1, [1], None
    cells[-2:] = [few, absent(32, 8, "skipped", "would need about 12 GB of memory, 9.00 GB is available")]
    return cells


def test_a_run_stands_beside_the_published_figures(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text())
    done = published(stored(tmp_path, french()), page)
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    rows = {row.split("|")[1].strip(): row for row in text.splitlines() if row.startswith("|")}
    speed = next(row for row in text.splitlines() if re.match(r"\|\s+32 s x 1 ", row))
    assert [part.strip() for part in speed.split("|")[2:-1]] == [
        "0.250",
        "10 in 10 rounds",
        "0.532",
        "0.138",
        "0.0441",
        "0.00544 + 0.0112",
    ]
    assert "1 in 1 round" in next(row for row in text.splitlines() if re.match(r"\|\s+32 s x 4 ", row))
    assert "9.20" in rows["32 s x 8"]
    assert "skipped, would need about 12 GB of memory" in text
    assert "no 95 % CI: 1 timed call of 32.0 s (32 s x 4)" in text
    assert "random weights" in text
    assert "It took 21 minutes." in text
    assert text.split("## Why they differ")[1] == PAGE.read_text().split("## Why they differ")[1]


def test_it_can_be_written_again(tmp_path: Path) -> None:
    page, run = tmp_path / "page.md", stored(tmp_path, french())
    page.write_text(PAGE.read_text())
    first, second = ((published(run, page).returncode, page.read_text()) for _ in range(2))
    assert first == second
    assert first[0] == 0


def test_a_run_of_other_cells_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text())
    done = published(stored(tmp_path, french()[:4]), page)
    assert done.returncode != 0
    assert "is no finished run of the whole recipe: it lacks 2 s x 4" in done.stderr
    assert page.read_text() == PAGE.read_text()
