"""The rooms of the package follow the road: no two import each other, not even through a third."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.program import ROOT

PACKAGE = ROOT / "profiler"
Graph = dict[str, set[str]]


def imports(node: ast.AST) -> Iterator[str]:
    """Modules that are imported when code runs, in functions too; what is imported for annotations alone is not."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.Import):
            yield from (name.name for name in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module:
            yield from (f"{child.module}.{name.name}" for name in child.names)
        yield from imports(child)


def graph_of(package: Path) -> Graph:
    """Room -> rooms that it imports. A room is a folder of the package, or a module at its top."""
    rooms: Graph = defaultdict(set)
    there = {path.stem for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    for file in package.rglob("*.py"):
        room = file.relative_to(package).parts[0].removesuffix(".py")
        if room == "__init__":  # what `from profiler import ...` offers: the api
            continue
        for name in imports(ast.parse(file.read_text(encoding="utf-8"))):
            parts = name.split(".")
            if parts[0] == package.name and len(parts) > 1 and parts[1] in there - {room}:
                rooms[room].add(parts[1])
    return rooms


def cycle_in(graph: Graph) -> list[str]:
    """Rooms that lead back to the first of them; none where there is no way back."""
    done: set[str] = set()

    def search(room: str, path: list[str]) -> list[str]:
        if room in path:
            return [*path[path.index(room) :], room]
        if room in done:
            return []
        for other in sorted(graph.get(room, ())):
            if found := search(other, [*path, room]):
                return found
        done.add(room)
        return []

    return next((found for room in sorted(graph) if (found := search(room, []))), [])


def test_no_room_leads_back_to_itself() -> None:
    assert " -> ".join(cycle_in(graph_of(PACKAGE))) == ""


def test_the_graph_is_that_of_the_package() -> None:
    """So that the test above cannot pass because nothing was found."""
    graph = graph_of(PACKAGE)
    assert {"execution", "report", "recipe", "results"} <= graph["api"]
    assert "models" in graph["recipe"]
    assert graph["results"] <= {"errors", "units"}
    assert len(graph) > 15


@pytest.mark.parametrize("importing", ["from profiler.low import x", "def f():\n    import profiler.low"])
def test_a_cycle_through_a_third_room_is_found(tmp_path: Path, importing: str) -> None:
    package = tmp_path / "profiler"
    files = {"low.py": "from profiler.middle import y", "middle/__init__.py": "", "middle/a.py": "import profiler.high"}
    for name, text in {"__init__.py": "", "high.py": importing, **files}.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    assert cycle_in(graph_of(package)) == ["high", "low", "middle", "high"]
    (package / "high.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import profiler.low")
    assert cycle_in(graph_of(package)) == []
