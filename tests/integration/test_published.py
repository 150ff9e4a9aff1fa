"""What the project publishes of itself is current: the schema of results, the reference of recipes, links in docs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from profiler.results.store import read_results
from profiler.results.types import SCHEMA
from tests.helpers.program import ROOT, run
from tests.integration.conftest import WholeRun

DATA = ROOT / "tests" / "data"
STORED = sorted(DATA.glob("schema-*.json"))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "benchmarks").glob("*.md")])
FAILURES = {  # each has a cell that failed
    "schema-1-first": "the model does not like this length",
    "schema-1-breakdown": "cannot read tiny_models.py nor weights.pt",
}
LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = json.loads((ROOT / "docs" / "results.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def read(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(path.read_text())
    return data


def test_what_is_made_from_the_code_is_current(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "docs/generate.py", str(tmp_path)], cwd=ROOT, check=True)
    assert {made.name for made in tmp_path.iterdir()} == {"recipe-reference.md", "results.schema.json"}
    for made in tmp_path.iterdir():
        assert made.read_text() == (ROOT / "docs" / made.name).read_text(), (
            f"run: python docs/generate.py ({made.name})"
        )


@pytest.mark.slow
def test_a_real_run_follows_the_schema(validator: jsonschema.Draft202012Validator, whole_run: WholeRun) -> None:
    data = read(whole_run.folder / "results.json")
    assert data["schema"] == SCHEMA
    validator.validate(data)


@pytest.mark.parametrize("change", [{"schema": SCHEMA + 1}, {"cells": {}}, {"run": {"id": 3}}, {"models": [{}]}])
def test_the_schema_refuses_what_is_no_run(validator: jsonschema.Draft202012Validator, change: dict[str, Any]) -> None:
    assert not validator.is_valid(read(STORED[0]) | change)


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_runs_of_earlier_versions_keep_opening(
    path: Path, validator: jsonschema.Draft202012Validator, tmp_path: Path
) -> None:
    """Files that earlier versions wrote, as they wrote them."""
    (tmp_path / "results.json").write_bytes(path.read_bytes())
    validator.validate(read_results(tmp_path).model_dump(mode="json", by_alias=True))
    done = run("report", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Real-time factor (below 1 is faster than real time)" in done.stdout
    assert FAILURES[path.stem] in done.stdout
    assert "random weights" in (tmp_path / "report.html").read_text()
    assert (tmp_path / "rtfx.svg").is_file()


def test_no_object_of_the_schema_is_open_but_the_users_own_recipe(validator: jsonschema.Draft202012Validator) -> None:
    """An object has named keys alone, or any keys with values of one type (components, packages, percentiles)."""

    def open_places(found: Any, place: str) -> Iterator[str]:
        if isinstance(found, dict):
            if found.get("type") == "object" and found.get("additionalProperties", True) is True:
                yield place
            for key, value in found.items():
                yield from open_places(value, f"{place}.{key}")
        elif isinstance(found, list):
            for number, value in enumerate(found):
                yield from open_places(value, f"{place}.{number}")

    assert list(open_places(validator.schema, "")) == [".$defs.Run.properties.resolved"]


def test_the_stored_runs_are_of_different_ages() -> None:
    first = {key for cell in read(DATA / "schema-1-first.json")["cells"] for key in cell}
    later = {key for cell in read(DATA / "schema-1-breakdown.json")["cells"] for key in cell}
    assert {"operations", "energy_j", "breakdown"} <= later - first


def anchors(page: Path) -> set[str]:
    """Of the headings, as they are made on the web."""
    titles = re.findall(r"(?m)^#+ (.+)$", re.sub(r"(?ms)^```.*?^```$", "", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(re.sub(r"(?ms)^```.*?^```$", "", page.read_text())):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name} links to {link}"
        if anchor:
            assert anchor in anchors(target), f"{page.name} links to {link}"
