"""compare, history and machines as a user calls them; on runs whose truth is known, and on a real one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from profiler.cli import main
from tests.helpers import browser as browsers
from tests.helpers.program import ROOT, module_recipe, run
from tests.helpers.road import QUICK, Done, go
from tests.helpers.synthetic import GRID, SHARED, STEADY, Made, make, save
from tests.integration.test_bad_input import SHOUT, path_without_torch

Call = Callable[..., tuple[int, str, str]]
ELSEWHERE = {"host": "board", "cpu": "ARM Cortex"}


@pytest.fixture(scope="module")
def logdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of known speed: `same` is `base` again, `slow` has one cell 20 % slower, `int8` is a variant of `both`;
    `shaky` comes from the same machine on a bad day."""
    folder = tmp_path_factory.mktemp("compare") / "logs"
    made = [
        Made(1, id="base", machine=STEADY),
        Made(2, id="same", machine=STEADY),
        Made(9, id="shaky", machine=SHARED),
        Made(3, id="slow", machine=STEADY, factors={(1.0, 1): 1.2}, environment={"packages": {"torch": "2.14.0"}}),
        Made(4, id="both", variants=("float32", "int8"), factors={"int8": 0.5}),
        Made(5, id="board", environment=ELSEWHERE, gflops=(50.0, 50.0), factors=dict.fromkeys(GRID, 2.0)),
        Made(6, id="other-grid", grid=((9.0, 9),)),
        Made(7, id="empty", grid=()),
        Made(8, id="odd", recipe="odd.yaml", environment={"packages": {"torch": "<script>alert(1)</script>"}}),
    ]
    for each in made:
        save(make(each), folder)
    for number in range(10):
        environment = {"repository": {"commit": f"{number:040x}"}}
        factors = dict.fromkeys(GRID, 1.0 if number < 5 else 1.3)
        started = f"2026-03-{number + 1:02}T10:00:00+00:00"
        save(
            make(Made(50 + number, f"h{number}", started, "long.yaml", factors=factors, environment=environment)),
            folder,
        )
    broken = folder / "synthetic" / "cut"
    broken.mkdir()
    text = json.dumps(make(Made(9, id="cut")).model_dump(mode="json", by_alias=True), indent=1)
    (broken / "results.json").write_text(text[: len(text) // 2])
    newer = folder / "synthetic" / "newer"
    newer.mkdir()
    (newer / "results.json").write_text('{"schema": 99}')
    return folder


@pytest.fixture
def call(logdir: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """The program in this process: exit status, output, messages."""

    def made(*arguments: str) -> tuple[int, str, str]:
        status = main([*arguments, "--logdir", str(logdir)])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return made


# --- compare ---


def test_a_user_reads_which_cell_got_slower_and_what_differs(logdir: Path, tmp_path: Path) -> None:
    done = run("compare", "base", "slow", "--logdir", logdir, path=path_without_torch(tmp_path))
    assert done.returncode == 0, done.stderr
    assert SHOUT not in done.stderr
    assert "Of 8 cells: 1 slower, 7 same." in done.stdout
    (row,) = [line for line in done.stdout.splitlines() if line.endswith(" slower |")]
    assert " 1 s x 1 " in row
    assert "- versions, torch: 2.13.0, then 2.14.0" in done.stdout
    assert "Geometric mean of the ratios: 1.0" in done.stdout
    assert "Run-to-run floor" in done.stdout
    assert "measured by doctor on 2026-01-01" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    ("runs", "over", "status"),
    [
        (("base", "slow"), "5%", 3),
        (("base", "slow"), "50 %", 0),
        (("base", "same"), "5", 0),
        (("slow", "base"), "5%", 0),
    ],
)
def test_fail_over_ends_with_3_on_a_regression_alone(call: Call, runs: tuple[str, str], over: str, status: int) -> None:
    found, _, said = call("compare", *runs, "--fail-over", over)
    assert found == status
    assert ("regression: float32 1 s x 1 is" in said) == (status == 3)


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("base", "shaky"), 0),
        (("base", "shaky", "--strict"), 4),
        (("base", "same", "--strict"), 0),
        (("base", "slow", "--strict", "--fail-over", "5%"), 3),
    ],
)
def test_strict_ends_with_4_when_a_cell_is_unclear(call: Call, arguments: tuple[str, ...], status: int) -> None:
    found, _, said = call("compare", *arguments)
    assert found == status
    assert ("8 cells unclear: smallest detectable change" in said) == (status == 4)


def test_a_wider_threshold_makes_the_same_of_more(call: Call) -> None:
    assert "8 unclear" in call("compare", "base", "shaky")[1]
    assert "Of 8 cells: 8 same." in call("compare", "base", "shaky", "--threshold", "20%")[1]


def test_variants_of_one_run(call: Call) -> None:
    status, shown, _ = call("compare", "both", "--variants", "float32", "int8")
    assert status == 0
    assert "Of 8 cells: 8 faster." in shown
    assert "Speed - float32 to int8" in shown


def test_a_variant_alone_is_compared_with_its_baseline(call: Call) -> None:
    status, shown, _ = call("compare", "both", "--variant", "int8")
    assert status == 0
    assert "Speed - float32 to int8" in shown


def test_several_runs_against_the_first(call: Call) -> None:
    _, shown, _ = call("compare", "base", "same", "slow")
    assert shown.index("This run: same") < shown.index("Of 8 cells: 8 same.") < shown.index("This run: slow")


def test_across_machines_only_when_asked(call: Call) -> None:
    status, shown, _ = call("compare", "base", "board")
    assert status == 0
    assert "Speed is not judged: the runs come from different machines" in shown
    assert "- machine, cpu: Some CPU, then ARM Cortex" in shown
    status, shown, _ = call("compare", "base", "board", "--across-machines")
    assert "Of 8 cells: 8 slower." in shown
    assert re.search(r"at equal arithmetic (1\.0|0\.9)", shown)
    status, _, said = call("compare", "base", "board", "--fail-over", "5%")
    assert status == 2
    assert "another machine" in said


def test_markdown_has_what_changed_first_and_folds_the_rest(call: Call) -> None:
    _, shown, _ = call("compare", "base", "slow", "--format", "markdown")
    changed, folded = shown.split("<details>")
    assert changed.count("\n|") == 3  # header, rule, the one cell
    assert folded.count("same |") == 7


def test_json_is_the_whole_comparison(call: Call) -> None:
    _, shown, _ = call("compare", "base", "slow", "--json")
    (other,) = json.loads(shown)["others"]
    cell = next(cell for cell in other["cells"] if (cell["seconds"], cell["batch_size"]) == (1.0, 1))
    assert cell["speed"]["verdict"] == "slower"
    assert cell["speed"]["ci"][0] <= 1.2 <= cell["speed"]["ci"][1]
    assert json.loads(shown)["settings"]["threshold"] == 0.02


def test_the_page_needs_nothing_else_and_shows_the_verdicts(call: Call, tmp_path: Path, browser: Any) -> None:
    page = tmp_path / "new" / "comparison.html"
    status, _, said = call("compare", "base", "slow", "board", "--output", str(page))
    assert status == 0
    assert "Wrote" in said
    for scheme in ("light", "dark"):
        browsers.prefer(browser, scheme)
        browser.get(page.as_uri())
        (row,) = browser.find_elements("css selector", "tr.slower")
        assert "1 s x 1" in row.text
        assert "slower" in str(row.find_element("css selector", "svg").get_attribute("data-tip"))
        assert "Slower\n1" in browser.find_element("css selector", ".tiles").text
    assert "Speed is not judged" in browser.find_element("tag name", "body").text
    assert browsers.leaving(browsers.requests_of(browser)) == []
    assert browsers.errors_of(browser) == []


def test_odd_texts_do_not_become_markup(call: Call, logdir: Path) -> None:
    (odd,) = (logdir / "odd").iterdir()
    _, shown, _ = call("compare", "base", str(odd), "--format", "html")
    assert shown.count("<script>") == 1, "the page's own"
    assert "&lt;script&gt;" in shown


BAD = [
    (("base",), "There is one run only"),
    (("base", "base"), "base is given twice"),
    (("base", "bass"), "There is no run bass"),
    (("base", "empty"), "The run empty is empty"),
    (("base", "newer"), "has the schema 99; this version reads"),
    (("base", "other-grid"), "The runs have no cell in common."),
    (("base", "same", "--variants", "float32", "int8"), "The run same has no variant `int8`"),
    (("both", "--variant", "int9"), "both has no variant int9. Did you mean"),
    (("both", "--variant", "float32"), "float32 is the baseline of both itself"),
    (("base", "same", "--fail-over", "a lot"), "--fail-over a lot: expected a percentage"),
    (("base", "same", "--fail-over", "-5%"), "expected a percentage"),
    (("base", "same", "--threshold", "nan"), "--threshold nan: expected a percentage"),
    (("base", "same", "--output", "comparison.docx"), "say --format, or end the name in .md"),
    (("base", "same", "--output", "/proc/no/comparison.md"), "Cannot write /proc/no/comparison.md"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[message[:30] for _, message in BAD])
def test_bad_input_is_met_with_a_message(call: Call, arguments: tuple[str, ...], message: str) -> None:
    options = [f"--fail-over={word}" if before == "--fail-over" else word for before, word in _after(arguments)]
    status, _, said = call("compare", *options)
    assert status == 2
    assert message in said
    assert "Traceback" not in said


def _after(arguments: tuple[str, ...]) -> list[tuple[str, str]]:
    """Each word with the one before it, `--fail-over` itself left out: a value may start with a dash."""
    pairs = list(zip(("", *arguments), arguments, strict=False))
    return [(before, word) for before, word in pairs if word != "--fail-over"]


def test_what_can_be_shown_is_shown_beside_what_is_wrong(call: Call) -> None:
    status, shown, said = call("compare", "base", "other-grid", "slow", "nowhere", "cut")
    assert status == 2
    assert "Of 8 cells: 1 slower" in shown
    assert "no cell in common" in said
    assert "There is no run nowhere" in said
    assert "This run: cut" in shown  # half of the file is lost, its whole cells are compared
    assert "is damaged" in said


# --- history and machines ---


def test_history_marks_the_level_shift_in_table_and_plot(call: Call, tmp_path: Path) -> None:
    status, shown, _ = call("history", "recipes/long.yaml", "--output", str(tmp_path / "plot"))
    assert status == 0
    rows = [line for line in shown.splitlines() if line.startswith("| 2026-")]
    assert len(rows) == 10
    assert ["(worse)" in row for row in rows] == [number == 5 for number in range(10)]
    assert re.search(r"\+(29|30|31)% \(worse\)", rows[5])
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert "(worse)" in (tmp_path / "plot.svg").read_text()


def test_history_shows_what_is_whole_and_names_damaged_runs(call: Call, tmp_path: Path) -> None:
    status, shown, said = call("history", "synthetic", "--output", str(tmp_path / "plot"))
    assert status == 2
    assert "Real-time factor of synthetic, 4 s x 2 - float32, Some CPU, 2 threads" in shown
    assert "Some runs could not be read and are left out:" in said
    assert "cut" in said
    assert "has the schema 99" in said


def test_history_by_commit_of_another_figure_with_runs_given_by_path(call: Call, tmp_path: Path, logdir: Path) -> None:
    given = save(make(Made(99, "far", "2026-03-20T10:00:00+00:00", "long.yaml", environment=ELSEWHERE)), tmp_path)
    arguments = ("--figure", "latency", "--cell", "2s_x1", "--by", "commit", "--output", str(tmp_path / "plot"))
    _, shown, _ = call("history", "long", str(given), *arguments, "--json")
    here, there = json.loads(shown)["series"]
    assert [len(series["points"]) for series in (here, there)] == [10, 1]
    assert there["machine"] == "ARM Cortex, 2 threads"
    assert here["shifts"][0]["ratio"] == pytest.approx(1.3, abs=0.03)
    assert here["points"][3]["label"] == "0" * 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("lnog",), "There is no run of `lnog`"),
        (("long", "--figure", "latncy"), "Did you mean `latency`?"),
        (("long", "--figure", "wer"), "None of 10 runs has a figure `wer`"),
        (("long", "--cell", "huge"), "--cell huge: expected seconds and batch size"),
        (("long", "--cell", "77s_x1"), "No run has `rtf` of the cell 77s_x1"),
        (("long", "--variant", "in8"), "No run has the variant `in8`"),
        (("long", "nowhere"), "There is no run nowhere"),
    ],
)
def test_bad_questions_to_history(call: Call, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    status, _, said = call("history", *arguments, "--output", str(tmp_path / "plot"))
    assert status == 2
    assert message in said


def test_machines_stand_side_by_side(call: Call) -> None:
    status, shown, _ = call("machines", "base", "board", "--figure", "rtf")
    assert status == 0
    grid = shown[shown.index("**Real-time factor") :].splitlines()
    assert re.findall(r"[A-Z][\w ]+, 2 threads", grid[2]) == ["Some CPU, 2 threads", "ARM Cortex, 2 threads"]
    assert re.findall(r"\*\*(\d)\*\*", grid[4]) == ["1", "2", "1", "2"]
    assert len(grid) == 5 + 4


def test_machines_names_what_it_leaves_out_and_what_is_wrong(call: Call) -> None:
    status, shown, said = call("machines", "base", "same", "empty", "nowhere")
    assert status == 2
    assert "base is left out: there is a newer run" in shown
    assert "The run empty is empty" in said
    assert "There is no run nowhere" in said
    assert "There is no table of `rft`" in call("machines", "base", "--figure", "rft")[2]


# --- a real run ---


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Done:
    folder = tmp_path_factory.mktemp("real")
    recipe = module_recipe(folder, "Sleeper", seconds="[0.1]", batches="[1]")
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    name = ("-c", "user.name=n", "-c", "user.email=e")
    subprocess.run(["git", *name, "commit", "-q", "--allow-empty", "-m", "first"], cwd=folder, check=True)
    return go(recipe, folder / "logs", *QUICK, "--trust", "--quiet")


@pytest.mark.slow
def test_a_real_run_records_the_commit_of_its_recipes_repository(real: Done) -> None:
    commit = real.results["environment"]["repository"]["commit"]
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=real.logdir.parent, capture_output=True, text=True, check=True
    )
    assert commit == head.stdout.strip()


@pytest.mark.slow
def test_a_real_run_is_compared_with_its_export(real: Done, tmp_path: Path) -> None:
    archive = tmp_path / "shared.zip"
    assert run("export", real.folder, archive).returncode == 0
    done = run("compare", real.folder, archive)
    assert done.returncode == 2
    assert "is given twice: a run is equal to itself" in done.stderr
    done = run("machines", archive)
    assert done.returncode == 0, done.stderr
    assert "modules.Sleeper" in done.stdout


@pytest.mark.slow
def test_the_example_of_the_readme_runs(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```python\n(.*?profile_recipe.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
    recipe = module_recipe(tmp_path, "Sleeper", seconds="[1]", batches="[1]")
    recipe.rename(tmp_path / "my-model.yaml")
    checked = "import sys\nimport profiler\nassert 'torch' not in sys.modules and 'pydantic' not in sys.modules\n"
    (tmp_path / "example.py").write_text(checked + example + "assert 'torch' not in sys.modules\n")
    command = [sys.executable, "example.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=_with_root(), timeout=300)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^1 s x 1 (faster|slower|same|unclear|not judged) \d", done.stdout, re.M)
    assert "peak_memory_process_bytes" in done.stdout
    assert len(list((tmp_path / "logs" / "my-model").iterdir())) == 2


def _with_root() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(ROOT)}
