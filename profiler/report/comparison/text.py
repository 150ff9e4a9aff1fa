"""A comparison in the terminal, and in Markdown for a pull request: what changed first, all else folded."""

from __future__ import annotations

from profiler.comparison.result import Comparison, RunComparison
from profiler.report.comparison import words
from profiler.report.comparison.tables import other_metrics_table, speed_table, variants_table


def render_terminal(comparison: Comparison) -> str:
    """Everything, one run after another."""
    parts = [words.baseline_text(comparison)]
    for other in comparison.others:
        parts.append(words.runs_text(comparison, other))
        parts.append("\n".join(words.answer(other)))
        parts += _tables(other)
        parts.append(words.floor_text(other))
        parts.append("" if comparison.about else "\n".join(words.differences_text(other.differences)))
        parts += words.incomplete_text(other)
    parts.append(words.how_decided(comparison))
    return "\n\n".join(part for part in parts if part) + "\n"


def render_markdown(comparison: Comparison) -> str:
    """For a comment on a pull request."""
    parts = ["### Speed against the baseline", words.baseline_text(comparison)]
    for other in comparison.others:
        parts.append(words.runs_text(comparison, other))
        parts.append(
            "  \n".join(f"**{line}**" if not number else line for number, line in enumerate(words.answer(other)))
        )
        changed = other.called("slower") + other.called("faster") + other.newly_failed
        if changed:
            parts.append(speed_table(other, changed, "What changed").markdown())
        parts.append(words.floor_text(other))
        parts.append("" if comparison.about else "\n".join(words.differences_text(other.differences)))
        parts += words.incomplete_text(other)
        parts.append(_folded(f"All {len(other.cells)} cells, memory, size", "\n\n".join(_tables(other))))
    parts.append(f"<sub>{words.how_decided(comparison)}</sub>")
    return "\n\n".join(part for part in parts if part) + "\n"


def _tables(other: RunComparison) -> list[str]:
    tables = [speed_table(other, other.cells), other_metrics_table(other, other.cells), variants_table(other)]
    return [table.markdown() for table in tables if table is not None]


def _folded(summary: str, text: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"
