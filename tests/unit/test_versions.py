"""The sets of versions that tests/versions.py builds are what setup.cfg and constraints.txt say."""

from __future__ import annotations

import configparser
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests import versions


def ranges() -> dict[str, Requirement]:
    config = configparser.ConfigParser()
    config.read(versions.ROOT / "setup.cfg", encoding="utf-8")
    lists = [config["options"]["install_requires"], *config["options.extras_require"].values()]
    asked = [Requirement(line) for line in "\n".join(lists).splitlines() if line and not line.startswith("#")]
    return {canonicalize_name(one.name): one for one in asked}


def held(name: str) -> dict[str, str]:
    lines = [line for line in versions.constraints(name).splitlines() if not line.startswith("#")]
    return {canonicalize_name(package): version for package, _, version in (line.partition("==") for line in lines)}


def test_the_pinned_and_the_oldest_versions_are_within_the_ranges() -> None:
    asked = ranges()
    for name in ("pinned", "oldest"):
        given = [(key, version) for key, version in held(name).items() if key in asked]
        assert given
        assert [pair for pair in given if not asked[pair[0]].specifier.contains(pair[1])] == []


def test_the_oldest_set_holds_every_range_to_its_lower_end() -> None:
    lower = {key: spec.version for key, one in ranges().items() for spec in one.specifier if spec.operator == ">="}
    assert held("oldest") == lower
    assert lower["torch"] == "2.8"


def test_everything_that_is_asked_for_is_pinned() -> None:
    assert set(ranges()) - set(held("pinned")) == set()


def test_the_newest_set_is_held_to_nothing_but_the_ranges() -> None:
    assert versions.constraints("newest") == ""


def test_a_set_named_after_a_python_is_the_pinned_one_and_is_not_tried_where_there_is_no_such_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shim = tmp_path / "python3.13"  # what pyenv puts on the PATH for an interpreter that is not selected
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert versions.constraints("python3.13") == versions.constraints("pinned")
    for name in ("python3.12", "python3.13"):
        word, line = versions.try_out(name, sys.executable, tmp_path, [])
        assert (word, line.split(": ")[-1]) == ("not tried", f"there is no {name} on the PATH")
