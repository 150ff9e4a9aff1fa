"""The tab "Speech profile" in a real browser without a network, on real runs, served by the real TensorBoard.

The README's picture is made by the last test, when asked (of a log folder of your own, if one is given):

    PLUGIN_PICTURE=docs/plugin.png PLUGIN_LOGDIR=logs .venv/bin/pytest tests/integration/test_plugin_page.py -k picture
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium.common.exceptions import StaleElementReferenceException, WebDriverException
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select

from tests.helpers import program, warm
from tests.helpers.browser import errors_of, leaving, prefer, requests_of
from tests.integration.test_tensorboard import free_port, wait_for

pytestmark = pytest.mark.slow

ODD = "odd ü & = # % ' name"
TIMES = "\N{MULTIPLICATION SIGN}"
LISTENING = '''

class Listening(Parts):
    """Parts that take known times, and operators and memory of a front end before them."""

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        frames = waveforms.unfold(-1, 400, 160) * torch.hann_window(400)
        return super().forward(torch.fft.rfft(frames).abs().log1p())
'''
OWN_LOOP = """
import torch
from torch.utils.data import DataLoader
from profiler.decorators import profile

model = torch.nn.Sequential(torch.nn.Linear(40, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
batches = DataLoader([torch.ones(100, 40)] * 36, batch_size=2)
steps = profile("own-loop", model=model, labels={"front": "0", "output": "2"}, logdir="logs", quiet=True).steps(batches)
for features in steps:
    model(features).sum().backward()
"""
MOVED = "is the ratio to the baseline"  # the table of variants comes later than the grids, and moves them
PATIENCE = 60  # seconds: the machine may be busy
VARIANTS = (
    "variants: [{name: quick}, {name: slow, set: {pretrained_model.overrides.seconds: 0.02}}]\n"
    'trace: {labels: {encoder: "encoder.*", head: head}}\n'
)


@pytest.fixture(scope="module")
def logdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real runs, of a model whose parts take known times, slower in one variant, and of a loop of one's own; and what
    can be wrong with runs."""
    folder = tmp_path_factory.mktemp("page")
    recipe = program.module_recipe(
        folder,
        "Listening",
        "{seconds: 0.004}",
        seconds="[0.2, 0.4]",
        batches="[1, 2]",
        grid="  triangle_only: true\n  export_logs: true\n",
        more="measure: {rounds: 6, warmup: 1, budget: 0.1}\n" + VARIANTS,
    )
    with (folder / "modules.py").open("a") as file:
        file.write(LISTENING)
    (folder / "own_loop.py").write_text(OWN_LOOP)
    looped = warm.run(["own_loop.py"], folder, timeout=100, kind="torch")
    assert looped.returncode == 0, looped.stderr
    done = program.run(recipe, "--trust", "--logdir", folder / "logs", "--quiet")
    assert done.returncode == 0, done.stderr
    run = next(folder.glob("logs/recipe/*/results.json")).parent
    no_traces = shutil.ignore_patterns("*.gz")  # the other plugin starts a process for each folder with traces
    shutil.copytree(run, folder / "logs" / "copies" / ODD, ignore=no_traces)
    _spoil(shutil.copytree(run, folder / "logs" / "copies" / "spoiled", ignore=no_traces), run)
    old = folder / "logs" / "copies" / "old"
    old.mkdir()
    (old / "results.json").write_text('{"schema": 0}')
    foreign = folder / "logs" / "torch"
    foreign.mkdir()
    shutil.copy(next(run.glob("quick/0.2s_x1/*.gz")), foreign)
    return folder / "logs"


def _spoil(run: Path, whole: Path) -> None:
    """A failed cell, an unstable one, a truncated trace."""
    results = json.loads((run / "results.json").read_text())
    for one in results["cells"]:
        if one["variant"] == "quick" and (one["seconds"], one["batch_size"]) == (0.2, 2):
            one |= {"status": "failed", "reason": "The process was killed.", "rtf": None, "latency_s": None}
            one |= {"breakdown": None, "peak_memory_bytes": None, "verdict": None}
        if one["variant"] == "quick" and (one["seconds"], one["batch_size"]) == (0.2, 1):
            median = one["latency_s"]["median"]
            one["latency_s"]["ci95"] = [0.8 * median, 1.4 * median]
            one |= {"verdict": "unstable", "verdict_reasons": ["Somebody compiled a kernel."]}
        if one["variant"] == "slow" and one["status"] == "ok":
            for row in one["breakdown"]["labels"]:
                row["name"] = row["name"].replace("head", "tail")
    results["run"]["status"] = "running"
    (run / "results.json").write_text(json.dumps(results))
    trace = next(whole.glob("quick/0.2s_x1/*.gz"))
    (run / "quick/0.2s_x1" / trace.name).write_bytes(trace.read_bytes()[:500])


@pytest.fixture(scope="module")
def server(logdir: Path) -> Iterator[str]:
    yield from serve(logdir, logdir.parent / "tensorboard.log")


def serve(logdir: Path, log: Path) -> Iterator[str]:
    """The address of the real TensorBoard, started without our command line and with nothing configured."""
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "tensorboard.main",
        "--logdir",
        str(logdir),
        "--port",
        str(port),
        "--load_fast=false",
    ]
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True, cwd=program.ROOT)
        try:
            wait_for(lambda: _answers(port), 2 * PATIENCE)
            yield f"http://localhost:{port}/"
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _answers(port: int) -> bool:
    with urllib.request.urlopen(f"http://localhost:{port}/data/plugin/speech_profile/runs", timeout=30) as answer:
        return bool(answer.status == 200)


class Page:
    """The tab in the browser: found by what a reader sees or a screen reader says."""

    def __init__(self, browser: Chrome, address: str) -> None:
        self.browser, self.address = browser, address

    def open(self, **shown: str) -> Page:
        keys = "".join(f"&p.speech_profile.{key}={urllib.parse.quote(text, safe='')}" for key, text in shown.items())
        self.follow(f"{self.address}#speech_profile{keys}")
        return self

    def follow(self, link: str) -> None:
        self.browser.switch_to.default_content()
        self.browser.get("about:blank")  # a new page, not a change of its address
        self.browser.get(link)
        self.enter()

    def enter(self) -> None:
        self.browser.switch_to.default_content()
        frame = self.until(lambda: self.browser.find_elements(By.CSS_SELECTOR, "iframe[src*='speech_profile']"))[0]
        self.browser.switch_to.frame(frame)
        self.until(lambda: self.all("main"))

    @property
    def link(self) -> str:
        """The address as a user would copy it."""
        found: str = self.browser.execute_script("return window.parent.location.href")
        return found

    def until(self, ready: Callable[[], Any]) -> Any:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                if found := ready():
                    return found
            except (StaleElementReferenceException, WebDriverException, StopIteration):
                pass
            if time.monotonic() > end:
                shown = self.browser.find_element(By.TAG_NAME, "body").text
                raise AssertionError(f"did not come in {PATIENCE} s; the page says:\n{shown}")
            time.sleep(0.1)

    def all(self, selector: str) -> list[WebElement]:
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        found: WebElement = self.until(lambda: self.all(selector))[0]
        return found

    def text(self, selector: str = "main") -> str:
        return str(self.until(lambda: self.one(selector).text))

    def says(self, text: str) -> None:
        self.until(lambda: text in self.one("main").text)

    def click(self, selector: str) -> None:
        def done() -> bool:
            element = self.one(selector)
            self.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
            element.click()
            return True

        self.until(done)

    def choose(self, label: str, value: str) -> None:
        def done() -> bool:
            place = next(one for one in self.all("label") if one.text == label).get_attribute("for")
            options = Select(self.browser.find_element(By.ID, str(place))).options
            next(option for option in options if option.get_attribute("value") == value).click()
            return True

        self.until(done)

    def column(self, number: int) -> list[str]:
        rows = "[...document.querySelectorAll('[data-table] tbody tr')]"
        found: list[str] = self.browser.execute_script(
            f"return {rows}.map(row => row.cells[arguments[0]].innerText)", number
        )
        return found

    def sorted_by(self, column: str) -> str | None:
        return self.one(f"th:has([data-column='{column}'])").get_attribute("aria-sort")

    def data(self, selector: str, name: str) -> float:
        found = self.one(selector).get_attribute(f"data-{name}")
        return math.nan if found is None else float(found)  # not there yet: equal to nothing


@pytest.fixture
def page(browser: Chrome, server: str) -> Page:
    return Page(browser, server)


@pytest.fixture(scope="module")
def run(logdir: Path) -> str:
    """The name of the run as it was made."""
    return str(next(logdir.glob("recipe/*/results.json")).parent.relative_to(logdir))


@pytest.fixture(scope="module")
def own_run(logdir: Path) -> str:
    """That of a loop of one's own, under `profile`."""
    return str(next(logdir.glob("own-loop/*/results.json")).parent.relative_to(logdir))


CHOSEN = {"variant": "quick", "cell": "0.2s_x1"}


def test_the_tab_lists_runs_and_shows_the_grids_of_one(page: Page, run: str, own_run: str, logdir: Path) -> None:
    page.browser.get(page.address)
    page.until(lambda: "SPEECH PROFILE" in page.browser.find_element(By.TAG_NAME, "body").text.upper())
    page.open(run=run)
    listed = {str(option.get_attribute("value")): option.text for option in Select(page.one("#run-Run")).options}
    assert sorted(listed) == sorted([run, own_run, f"copies/{ODD}", "copies/spoiled", "copies/old", "torch"])
    dates = [re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d ", text) for text in listed.values()]
    assert all(dates), listed
    assert list(listed.values()) == sorted(listed.values(), key=lambda text: text[:16], reverse=True)
    assert "· Listening · complete ·" in listed[run].replace("modules.", "")
    assert "· running ·" in listed["copies/spoiled"]
    assert "traces only" in listed["torch"]
    results = json.loads((logdir / run / "results.json").read_text())
    cell = next(one for one in results["cells"] if one["variant"] == "quick" and one["status"] == "ok")
    shown = page.text(f"[data-grid='rtf'] [data-cell='{cell['seconds']:g}s_x{cell['batch_size']}']").split()[0]
    assert float(shown) == pytest.approx(cell["rtf"], rel=0.5)
    assert page.text("[data-grid='rtf'] [data-cell='0.4s_x2']") == "skipped"
    assert page.text("[data-grid='memory'] figcaption") == "Peak memory of the process, in MB"
    assert page.one("[data-weights]").text == "as constructed weights"


def test_a_click_opens_a_cell_and_its_tables_sort_and_filter(page: Page, run: str) -> None:
    page.open(run=run)
    page.says(MOVED)
    page.click("[data-grid='rtf'] [data-cell='0.2s_x1']")
    page.says(f"0.2 s of audio {TIMES} batch 1")
    page.until(lambda: {"encoder", "head"} <= set(page.column(0)))
    top = "return document.querySelector('[data-panel]').getBoundingClientRect().top / innerHeight"
    assert abs(page.browser.execute_script(top)) < 0.1, "details are in view, not below the grids"
    page.click("[data-tab='operator']")
    page.until(lambda: any(name.startswith("aten::") for name in page.column(0)))
    page.click("[data-column='calls']")
    page.until(lambda: page.sorted_by("calls") == "descending")
    calls = [float(text.replace(",", "")) for text in page.column(1)]
    assert calls == sorted(calls, reverse=True)
    page.click("[data-column='calls']")
    page.until(lambda: page.sorted_by("calls") == "ascending")
    assert [float(text.replace(",", "")) for text in page.column(1)] == sorted(calls)
    wanted = page.column(0)[0]
    page.one(".filter input").send_keys(wanted)
    page.until(lambda: page.column(0) and all(wanted in name for name in page.column(0)))
    page.click("[data-tab='module']")
    page.one(".filter input").clear()
    page.one(".filter input").send_keys("enc*")
    page.until(lambda: page.column(0) == ["encoder", "encoder.*"])


def test_a_loop_of_ones_own_opens_like_any_run(page: Page, own_run: str) -> None:
    """It says no length of audio, so there is no RTF; labels, operators and the trace are there."""
    page.open(run=own_run)
    page.click("[data-cell='0s_x1']")
    page.until(lambda: {"front", "output", "backward", "data loader"} <= set(page.column(0)))
    page.click("[data-tab='operator']")
    page.until(lambda: "aten::addmm" in page.column(0))
    page.click("[data-tab='trace']")
    page.until(lambda: page.data(".timeline", "spans") > 5)
    assert not page.all("[data-grid='rtf']")
    assert errors_of(page.browser) == []


def test_modules_are_a_tree_that_folds(page: Page, run: str) -> None:
    page.open(run=run, **CHOSEN, tab="module")
    page.until(lambda: [name.strip(" ▾▸\n") for name in page.column(0)] == ["(model)", "encoder", "*", "head"])
    page.click("[data-fold='encoder']")
    page.until(lambda: len(page.column(0)) == 3)
    assert page.one("[data-fold='encoder']").get_attribute("aria-expanded") == "false"
    page.click("[data-column='total_s']")  # among siblings: the model stays above what is in it
    page.click("[data-column='total_s']")
    page.until(lambda: [name.strip(" ▾▸\n") for name in page.column(0)] == ["(model)", "head", "encoder"])
    page.click(".folds button:last-child")
    page.until(lambda: len(page.column(0)) == 1)
    page.click(".folds button:first-child")
    page.until(lambda: len(page.column(0)) == 4)


def test_variants_stand_side_by_side_in_a_table(page: Page, run: str) -> None:
    """Each part of the slow variant takes five times as long."""
    page.open(run=run)
    slow, quick = "[data-variants] [data-of='slow/0.2s_x1']", "[data-variants] [data-of='quick/0.2s_x1']"
    page.until(lambda: page.one(slow).get_attribute("data-mark") == "slower")
    assert page.one(quick).get_attribute("data-mark") is None
    page.choose("Baseline", "slow")
    page.until(lambda: page.one(quick).get_attribute("data-mark") == "faster")
    page.choose("Figure", "tensors")
    page.until(lambda: page.one(quick).get_attribute("data-mark") == "same")
    page.click(slow)
    page.says(f"0.2 s of audio {TIMES} batch 1 slow")


def test_the_link_shows_the_same_again_and_back_undoes(page: Page, run: str) -> None:
    page.open(run=run)
    page.says(MOVED)
    page.choose("Variant", "slow")
    page.click("[data-grid='rtf'] [data-cell='0.4s_x1']")
    page.click("[data-tab='operator']")
    page.click("[data-column='own_s']")
    page.until(lambda: "sort=own_s" in page.link)
    link = page.link
    page.follow(link)
    page.says(f"0.4 s of audio {TIMES} batch 1 slow")
    page.until(lambda: page.sorted_by("own_s") == "descending")
    assert page.one("[data-tab='operator']").get_attribute("aria-selected") == "true"
    page.click("[data-tab='label']")
    page.until(lambda: "tab=label" in page.link)
    page.browser.execute_script("window.parent.history.back()")
    page.until(lambda: page.one("[data-tab='operator']").get_attribute("aria-selected") == "true")


def pixels(page: Page) -> int:
    """How many different colours the timeline has: more than two are a drawing."""
    script = """const canvas = document.querySelector('.timeline'), pen = canvas.getContext('2d');
    const data = pen.getImageData(0, 0, canvas.width, canvas.height).data, seen = new Set();
    for (let at = 0; at < data.length; at += 4) seen.add(data[at] << 16 | data[at + 1] << 8 | data[at + 2]);
    return seen.size"""
    return int(page.browser.execute_script(script))


def window(page: Page) -> tuple[float, float]:
    return page.data(".timeline", "begin"), page.data(".timeline", "end")


def test_the_timeline_draws_zooms_and_finds(page: Page, run: str) -> None:
    page.open(run=run, **CHOSEN, tab="trace")
    page.until(lambda: page.data(".timeline", "spans") > 5)
    assert pixels(page) > 5
    length = page.data(".timeline", "end")
    canvas = page.one(".timeline")
    canvas.send_keys("+")
    page.until(
        lambda: page.data(".timeline", "end") - page.data(".timeline", "begin") == pytest.approx(length / 2, rel=0.01)
    )
    canvas.send_keys(Keys.ARROW_LEFT)
    page.until(lambda: page.data(".timeline", "begin") < length / 4 - 1)
    ActionChains(page.browser).move_to_element(canvas).click().perform()
    before = page.data(".timeline", "end") - page.data(".timeline", "begin")
    page.browser.execute_script(
        "arguments[0].dispatchEvent(new WheelEvent('wheel', {deltaY: -100, ctrlKey: true, cancelable: true}))", canvas
    )
    page.until(lambda: page.data(".timeline", "end") - page.data(".timeline", "begin") < 0.9 * before)
    page.until(lambda: "window=" in page.link)
    page.one("[data-search]").send_keys("head")
    page.until(lambda: page.data("[data-hits]", "hits") >= 1)
    page.one("[data-search]").send_keys(Keys.ENTER)
    page.until(lambda: "head" in page.text(".details"))
    assert "call" in page.text(".details")
    page.one(".timeline").send_keys("+")
    page.until(lambda: "window={:.2f}-{:.2f}&".format(*window(page)) in f"{page.link}&")
    begin, end = window(page)
    page.follow(page.link)  # the window and the search are in it
    page.until(lambda: page.data(".timeline", "end") == pytest.approx(end, rel=0.01))
    assert page.data(".timeline", "begin") == pytest.approx(begin, rel=0.01, abs=1)
    page.click("[data-whole]")
    page.until(lambda: page.data(".timeline", "end") == pytest.approx(length))
    page.until(lambda: "encoder" in page.text("[data-in-view]"))


def drag(page: Page, selector: str, begin: float, end: float) -> None:
    """From one place to another; 0 is the left end of the element, 1 the right one."""
    element = page.one(selector)
    page.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    half = element.size["width"] / 2 - 1
    actions = ActionChains(page.browser, duration=20)
    actions.move_to_element_with_offset(element, int((2 * begin - 1) * half), 0).click_and_hold()
    actions.move_by_offset(int(2 * (end - begin) * half), 0).release().perform()


def test_the_timeline_is_measured_and_moved_as_in_other_viewers(page: Page, run: str) -> None:
    page.open(run=run, **CHOSEN, tab="trace")
    page.until(lambda: page.data(".timeline", "spans") > 5)
    length = page.data(".timeline", "end")
    page.click("[data-measure]")
    drag(page, ".timeline", 0.25, 0.5)
    page.until(lambda: page.data("[data-range]", "range") == pytest.approx(length / 4, rel=0.05))
    page.until(lambda: "in the measured range" in page.text("details:has([data-in-view]) summary"))
    assert window(page) == (0, length), "the view has not moved"
    page.until(lambda: "range=" in page.link)
    page.click("[data-measure]")
    drag(page, ".overview", 0.4, 0.6)
    page.until(lambda: window(page) == pytest.approx((0.4 * length, 0.6 * length), rel=0.05))
    drag(page, ".overview", 0.5, 0.7)  # it is in view: moved
    page.until(lambda: window(page) == pytest.approx((0.6 * length, 0.8 * length), rel=0.05))
    begin = window(page)[0]
    keys = ActionChains(page.browser).move_to_element(page.one(".timeline"))
    keys.send_keys("d").perform()  # without a click on it
    page.until(lambda: window(page)[0] > begin)
    keys.send_keys("a").perform()
    page.until(lambda: window(page)[0] == pytest.approx(begin))
    keys.send_keys("w").perform()
    page.until(lambda: window(page)[1] - window(page)[0] < 0.15 * length)
    keys.send_keys("s").perform()
    page.until(lambda: window(page)[1] - window(page)[0] > 0.19 * length)
    page.one(".timeline").send_keys(Keys.ESCAPE)
    page.until(lambda: not page.all("[data-range]"))


def test_memory_over_time_is_drawn(page: Page, run: str) -> None:
    page.open(run=run, **CHOSEN, tab="memory")
    page.until(lambda: page.data(".chart", "points") > 1)
    assert page.data(".peak", "peak") > 0
    assert page.all(".chart canvas")


def test_side_by_side_marks_a_known_difference(page: Page, run: str) -> None:
    """Each part of the slow variant takes five times as long; memory is the same."""
    page.open(run=run, **CHOSEN)
    page.click("[data-beside]")
    page.until(lambda: page.one("[data-grid='rtf'] [data-cell='0.2s_x1']").get_attribute("data-mark") == "slower")
    ratio = page.text("[data-grid='rtf'] [data-cell='0.2s_x1'] .mark").split()[0]
    assert float(ratio.removeprefix(TIMES)) > 2
    assert page.one("[data-grid='tensors'] [data-cell='0.2s_x1']").get_attribute("data-mark") == "same"
    page.until(lambda: {"encoder", "head"} <= set(page.column(0)))
    marks = dict(zip(page.column(0), page.column(5), strict=True))
    assert marks["encoder"].startswith("slower")
    page.choose("Right variant", "quick")  # beside itself
    page.until(lambda: page.one("[data-grid='rtf'] [data-cell='0.2s_x1']").get_attribute("data-mark") == "same")
    page.until(lambda: not page.all("[data-table] .row-slower, [data-table] .row-faster"))
    page.choose("Right run", f"copies/{ODD}")
    page.until(lambda: urllib.parse.quote(ODD, safe="!'()*") in page.link)
    page.says(ODD)
    page.choose("Right run", "copies/spoiled")
    page.choose("Right variant", "slow")
    page.until(lambda: "tail" in page.column(0))
    marks = dict(zip(page.column(0), page.column(5), strict=True))
    assert "left only" in marks["head"]
    assert "right only" in marks["tail"]


def test_unstable_and_failed_cells_say_why(page: Page) -> None:
    page.open(run="copies/spoiled", variant="quick", cell="0.2s_x1")
    unstable = page.one("[data-grid='rtf'] [data-cell='0.2s_x1']")
    assert "~40%" in unstable.text
    assert "unstable" in str(unstable.get_attribute("class"))
    page.says("Somebody compiled a kernel.")
    assert page.one("[data-status]").text == "running"
    page.click("[data-tab='trace']")
    page.says("ends too early or is damaged")
    page.click("[data-grid='rtf'] [data-cell='0.2s_x2']")
    page.says("The process was killed.")
    page.click("[data-tab='memory']")
    page.says("There is no trace of this cell.")


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        ({"run": "copies/old"}, "has the schema 0"),
        ({"run": "../../etc"}, "log folder"),
        ({"run": "no/such"}, "There is no 'no/such' in the log folder"),
        ({"run": f"copies/{ODD}", "cell": "9s_x9"}, "There is no cell 9s_x9"),
    ],
)
def test_a_message_instead_of_a_blank_page(page: Page, shown: dict[str, str], said: str) -> None:
    page.open(**shown)
    page.says(said)
    page.choose("Run", f"copies/{ODD}")  # and on from there
    page.until(lambda: page.all("[data-grid='rtf']"))


def test_a_run_that_goes_on_is_followed(page: Page, logdir: Path) -> None:
    """The page of a run that is going on looks again by itself."""
    file = logdir / "copies" / "spoiled" / "results.json"
    page.open(run="copies/spoiled", variant="quick")
    page.until(lambda: page.one("[data-status]").text == "running")
    before = file.read_text()
    try:
        changed = json.loads(before)
        changed["run"]["status"] = "interrupted"
        file.write_text(json.dumps(changed))
        page.until(lambda: page.one("[data-status]").text == "interrupted")
        colours = {page.one("[data-status]").value_of_css_property("color")}
        changed["run"]["status"] = "finished with failures"
        file.write_text(json.dumps(changed))
        page.until(lambda: page.one("[data-status]").text == "finished with failures")
        colours |= {page.one(place).value_of_css_property("color") for place in ("[data-status]", "body")}
        assert len(colours) == 3, "it has a colour of its own"
    finally:
        file.write_text(before)


def test_traces_of_torch_alone_open_too(page: Page) -> None:
    page.open(run="torch")
    page.until(lambda: page.data(".timeline", "spans") > 5)
    page.click("[data-tab='operator']")
    page.until(lambda: any(name.startswith("aten::") for name in page.column(0)))


def test_keys_alone_are_enough(page: Page, run: str) -> None:
    page.open(run=run)
    first = page.one("[data-grid='rtf'] [data-cell='0.2s_x1']")
    page.browser.execute_script("arguments[0].focus()", first)
    first.send_keys(Keys.ARROW_DOWN)
    focused = page.browser.switch_to.active_element
    assert focused.get_attribute("data-cell") == "0.4s_x1"
    assert "0.4 seconds of audio, batch of 1" in str(focused.get_attribute("aria-label"))
    focused.send_keys(Keys.ENTER)
    page.says(f"0.4 s of audio {TIMES} batch 1")
    tab = page.one("[data-tab='label']")
    page.browser.execute_script("arguments[0].focus()", tab)
    tab.send_keys(Keys.ARROW_RIGHT)
    page.until(lambda: page.one("[data-tab='module']").get_attribute("aria-selected") == "true")
    page.until(lambda: page.browser.switch_to.active_element.get_attribute("data-tab") == "module")
    unnamed = page.browser.execute_script(
        """return [...document.querySelectorAll('button, input, select, canvas, [role=img]')].filter(one =>
        !one.innerText && !one.getAttribute('aria-label') && !one.labels?.length).map(one => one.outerHTML)"""
    )
    assert unnamed == []


VIEWS = {  # of a cell, and what there is to see; the first again, so that each of them is also left
    "module": "[data-fold]",
    "operator": "[data-table]",
    "memory": ".chart canvas",
    "trace": ".timeline[data-spans]",
    "label": "[data-table]",
}


def test_no_view_complains_and_no_request_leaves_the_machine(page: Page, run: str) -> None:
    """Every view, light and dark, on a screen and on a phone: nothing in the console, nothing wider than the page."""
    wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    papers = set()
    for colours, width in itertools.product(("light", "dark"), (1280, 390)):
        prefer(page.browser, colours)
        page.browser.set_window_size(width, 900)
        page.open(run=run, **CHOSEN)
        page.one("[data-variants]")
        papers.add((colours, page.browser.execute_script("return getComputedStyle(document.body).backgroundColor")))
        for tab, there in VIEWS.items():
            page.click(f"[data-tab='{tab}']")
            page.one(f"#tab-panel {there}")
            assert page.browser.execute_script(wide) <= 0, (tab, width)
        page.click("[data-beside]")
        page.one("[data-pair]")
        page.click(".all-tables summary")
        page.one(".all-tables table")
        page.choose("Run", "torch")
        page.until(lambda: not page.all("[data-beside]"))
        page.click("[data-tab='trace']")
        page.one(f"#tab-panel {VIEWS['trace']}")
        assert page.browser.execute_script(wide) <= 0, width
        assert errors_of(page.browser) == [], (colours, width)
    assert len(papers) == 2
    asked = requests_of(page.browser)
    assert any("plugin/speech_profile/index.js" in address for address in asked)
    assert any("plugin/speech_profile/trace/cut" in address for address in asked)
    assert leaving(asked) == []


def test_the_picture_of_the_readme_can_be_made(browser: Chrome, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """PLUGIN_PICTURE=docs/plugin.png makes it there, PLUGIN_LOGDIR=logs of a run of one's own."""
    given, picture = os.environ.get("PLUGIN_LOGDIR"), Path(os.environ.get("PLUGIN_PICTURE", tmp_path / "plugin.png"))
    shown = {} if given else {"run": request.getfixturevalue("run")}
    with ExitStack() as stack:
        if given:
            address = stack.enter_context(contextmanager(serve)(Path(given).resolve(), tmp_path / "log"))
        else:
            address = request.getfixturevalue("server")
        page = Page(browser, address)
        browser.set_window_size(1280, 1650)
        page.open(tab="trace", **shown)
        cells = page.until(lambda: page.all("[data-grid='rtf'] .cell.ok"))
        page.browser.execute_script("arguments[0].click()", cells[-1])
        page.until(lambda: page.data(".timeline", "spans") > 5)
        page.until(lambda: page.all("[data-in-view] tbody tr"))
        page.until(lambda: not page.all("[data-variants]") or page.all("[data-variants] .mark"))
        page.browser.execute_script("window.scrollTo(0, 0)")  # grids and details
        browser.switch_to.default_content()
        assert browser.save_screenshot(str(picture))
    assert picture.stat().st_size > 50_000, "a page with grids and a timeline, not a blank one"
