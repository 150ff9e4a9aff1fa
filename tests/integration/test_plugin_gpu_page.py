"""The tab on traces of a GPU, in a real browser: traces written by hand, whose sums are drawn in traces.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome

from tests.helpers.browser import errors_of
from tests.integration.test_plugin_page import TIMES, Page, serve
from tests.unit.tensorboard_plugin.traces import GEMM, STEPS, Events, as_of_torch_1, write

pytestmark = pytest.mark.slow
INSIDE = " \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} "
LONG = "void at::native::" + "very_" * 30 + "long_name<float>(at::TensorIteratorBase&, float)"


def renamed(events: Events) -> Events:
    return [dict(event, name=LONG) if event["name"] == GEMM else event for event in events]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two ranks of a job under names of their own, and a trace of older torch with a long name of a kernel."""
    logs = tmp_path_factory.mktemp("gpu")
    for rank in range(2):
        write(logs / "job" / f"rank{rank}.json", STEPS, {"distributedInfo": {"rank": rank, "world_size": 2}})
    write(logs / "older" / "a.pt.trace.json.gz", as_of_torch_1(renamed(STEPS)))
    yield from serve(logs, logs.parent / "tensorboard-gpu.log")


@pytest.fixture
def page(browser: Chrome, server: str) -> Iterator[Page]:
    yield Page(browser, server)
    browser.set_window_size(1280, 900)


def test_the_gpu_tab_comes_first_and_ranks_stand_side_by_side(page: Page) -> None:
    page.open(run="job")
    advice = page.text("[data-advice]")
    assert "The GPU is idle 33.3% of a step (37.5 µs of 112 µs)" in advice
    assert "waits for the DataLoader" in advice
    assert page.text("[data-device='0']").split("\n")[:4] == ["utilisation", "62.2%", "SM efficiency", "44.4%"]
    assert page.data("[data-steps]", "steps") == 2
    assert "whole" not in page.text("[data-steps]")
    page.until(lambda: page.data("[data-ranks]", "ranks") == 2)
    assert "rank1.json 1 0 2 0.113 62.2%" in page.text("[data-ranks]").replace("\n", " ")
    page.click("[data-ranks] tr:nth-child(2) .link")
    page.until(lambda: "trace=rank1.json" in page.link)
    assert errors_of(page.browser) == []


def test_a_kernel_is_followed_to_its_launch(page: Page) -> None:
    page.open(run="job", tab="kernels")
    page.until(lambda: page.column(0)[:2] == ["gemm<float, 4>", "backward<float>"])
    assert page.column(1)[0] == "2"
    assert page.column(2)[0] == "0.0800"
    page.click("[data-table] .link")
    details = page.text(".details").replace(TIMES, "x").replace(INSIDE, "/")
    assert "grid 40 x 1 x 1, block 128 x 1 x 1, registers per thread 32, shared memory 1.02 kB" in details
    assert "launched by cudaLaunchKernel in ProfilerStep#1/aten::conv2d/aten::cudnn_convolution" in details
    assert "it ran 10.0 µs later" in details
    page.click("[data-in-trace]")
    page.until(lambda: page.data("canvas.timeline", "links") == 1)
    page.click("[data-launch] button")
    page.until(lambda: page.one(".details").get_attribute("data-span") == "cudaLaunchKernel")
    assert "launched gemm<float, 4> (40.0 µs), which ran 10.0 µs later" in page.text("[data-launched]")
    assert errors_of(page.browser) == []


@pytest.mark.parametrize("width", [1280, 390])
def test_figures_stay_in_view_beside_a_long_name(page: Page, width: int) -> None:
    page.browser.set_window_size(width, 900)
    for tab in ("kernels", "operator"):
        page.open(run="older", tab=tab)
        page.until(lambda: page.column(0))
        edges = "row => row.cells[1].getBoundingClientRect().right"
        rows = "[...document.querySelectorAll('[data-table] tbody tr')]"
        assert max(page.browser.execute_script(f"return {rows}.map({edges})")) < width
        if width >= 1280:  # all figures, not the first alone
            figures = "[...document.querySelectorAll('[data-table] td.number')]"
            right = "cell => cell.getBoundingClientRect().right"
            assert max(page.browser.execute_script(f"return {figures}.map({right})")) < width
        assert page.browser.execute_script("return document.documentElement.scrollWidth") <= width
    whole = page.open(run="older", tab="kernels").one(f"[title='{LONG}']").text
    assert whole.startswith("very_very_")
    assert len(whole) <= 72
