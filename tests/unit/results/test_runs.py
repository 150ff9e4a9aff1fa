"""The names of a run: any that leaves no doubt, and one clear message otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler.errors import UserError
from profiler.results.runs import find_run, run_before, summarise
from profiler.results.store import ResultsFile
from profiler.results.types import FILE
from tests.unit.report.test_tables import absent, ok, results

RUNS = (
    "wav2vec2/20261117-120000-aaaa",
    "wav2vec2/20261118-090000-ab12",
    "log-mel/20261117-130000-cdef",
    "log-mel/20261118-100000-0123",
)


@pytest.fixture(scope="module")
def logdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("logs")
    for name in RUNS:
        (root / name).mkdir(parents=True)
        made = results(ok(1, 1, 0.1), ok(2, 1, 0.234), absent(4, 1, "failed", "killed"))
        made.run.recipe, made.run.id = f"recipes/{name.split('/')[0]}.yaml", name.split("/")[1]
        made.run.status = "finished with failures"
        ResultsFile(root / name, made).write()
    return root


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("latest", 3),
        ("latest~1", 1),
        ("latest~3", 0),
        ("20261117-120000-aaaa", 0),
        (RUNS[1], 1),
        ("ab12", 1),  # a part that no other has
        ("20261118-09", 1),
        ("wav2vec2", 1),  # a recipe: its latest
        ("log-mel", 3),
        ("recipes/log-mel.yaml", 3),
        ("log-mel.yaml", 3),
    ],
)
def test_a_run_has_many_names(logdir: Path, name: str, expected: int) -> None:
    assert find_run(name, logdir) == logdir / RUNS[expected]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lates", "There is no run lates in .*Did you mean `latest`?"),
        ("wav2vec", "Did you mean `wav2vec2`?"),
        ("20261117", "`20261117` is a part of the id of 2 runs: 20261117-130000-cdef, 20261117-120000-aaaa. Give more"),
        ("latest~4", "There is no run latest~4 in .*: there are 4"),
        ("zzzz", "There is no run zzzz in .*Known here: latest, log-mel, wav2vec2, 20261118-100000-0123"),
        ("20261117-120000-aaab", "Did you mean `20261117-120000-aaaa`?"),
    ],
)
def test_an_unclear_name_gets_one_clear_message(logdir: Path, name: str, message: str) -> None:
    with pytest.raises(UserError, match=message.replace("?", r"\?")) as raised:
        find_run(name, logdir)
    assert len(str(raised.value).splitlines()) == 1


def test_latest_may_be_asked_of_one_recipe(logdir: Path) -> None:
    assert find_run("latest", logdir, "wav2vec2") == logdir / RUNS[1]
    assert find_run("latest~1", logdir, "wav2vec2") == logdir / RUNS[0]
    with pytest.raises(UserError, match=r"There is no run of crdnn in .* to resume"):
        find_run("latest", logdir, "crdnn")


def test_the_run_before_is_of_the_same_recipe(logdir: Path) -> None:
    assert run_before(logdir / RUNS[3]) == logdir / RUNS[2]
    assert run_before(logdir / RUNS[2]) is None


def test_a_run_in_one_line(logdir: Path) -> None:
    found = summarise(logdir / RUNS[0])
    assert (found.id, found.recipe, found.models) == ("20261117-120000-aaaa", "wav2vec2", ["a/b"])
    assert found.cells == {"ok": 2, "skipped": 0, "failed": 1}
    assert found.rtf == (0.1, 0.234)
    assert found.status == "finished with failures"


def test_cells_that_are_in_the_journal_alone_count(tmp_path: Path) -> None:
    file = ResultsFile(tmp_path, results(ok(1, 1, 0.1)))
    file.write()
    file.put(ok(2, 1, 0.5))
    assert summarise(tmp_path).cells["ok"] == 2


@pytest.mark.parametrize("text", ["", "{", "[]", '{"run": 1}', '{"run": {"recipe": "x", "started": 5, "status": []}}'])
def test_a_damaged_run_is_listed_as_such(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    assert summarise(tmp_path).status == "damaged"
