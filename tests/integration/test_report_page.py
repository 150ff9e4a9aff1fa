"""report.html in a real browser without a network: whole, in light and dark, on wide and narrow screens, and paper."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from tests.helpers.browser import errors_of, prefer, requests_of
from tests.integration.conftest import WholeRun

pytestmark = pytest.mark.slow

WIDE, NARROW = (1280, 900), (390, 800)

# The least contrast of what is written, in the page and in its plots, against the page. 4.5 is what WCAG asks of text.
CONTRAST = """
function light(colour) {
  const parts = colour.match(/[\\d.]+/g).map(Number);
  const linear = parts.slice(0, 3).map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
}
const paper = light(getComputedStyle(document.body).backgroundColor);
function contrast(colour) {
  const [high, low] = [light(colour), paper].sort((a, b) => b - a);
  return (high + 0.05) / (low + 0.05);
}
const words = [...document.querySelectorAll('p, td, th, h1, h2, h3, li, a, summary')];
const drawn = [...document.querySelectorAll('svg text')];
const colours = [...words.map(e => getComputedStyle(e).color), ...drawn.map(e => getComputedStyle(e).fill)];
return Math.min(...colours.map(contrast));
"""


@pytest.fixture(scope="module")
def page(whole_run: WholeRun) -> str:
    """The page that the run itself wrote."""
    return (whole_run.folder / "report.html").as_uri()


def test_the_page_is_whole_and_asks_for_nothing(browser: Chrome, page: str) -> None:
    browser.get(page)
    assert browser.find_element(By.TAG_NAME, "h1").text == "secret_models.Encoder, 2 variants, random weights"
    for section in ("verdicts", "plots", "tables", "environment", "measured"):
        assert browser.find_element(By.ID, section).size["height"] > 50
    plots = browser.find_elements(By.CSS_SELECTOR, "figure svg")
    assert len(plots) >= 5
    assert all(plot.size["width"] > 300 and plot.size["height"] > 100 for plot in plots)
    assert all(plot.accessible_name for plot in plots)
    assert len(browser.find_elements(By.TAG_NAME, "table")) > 5
    assert requests_of(browser) == []
    assert errors_of(browser) == []


def test_links_at_the_top_lead_to_their_sections(browser: Chrome, page: str) -> None:
    browser.get(page)
    links = browser.find_elements(By.CSS_SELECTOR, "nav a")
    assert len(links) >= 5
    for link in links:
        assert browser.find_element(By.ID, str(link.get_attribute("href")).rsplit("#", 1)[1])


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_all_that_is_written_can_be_read(browser: Chrome, page: str, colours: str) -> None:
    prefer(browser, colours)
    browser.get(page)
    background = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(23, 25, 28)"}[colours]
    assert browser.execute_script(CONTRAST) >= 4.5


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_the_page_fits_the_screen_and_tables_scroll_in_their_boxes(
    browser: Chrome, page: str, size: tuple[int, int]
) -> None:
    browser.set_window_size(*size)
    browser.get(page)
    width = browser.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert width[0] <= width[1]
    outside = "return [...document.querySelectorAll('.box')].filter(e => e.getBoundingClientRect().right > innerWidth)"
    assert browser.execute_script(outside) == []
    if size == NARROW:
        scrolls = "return [...document.querySelectorAll('.box')].some(e => e.scrollWidth > e.clientWidth)"
        assert browser.execute_script(scrolls), "a wide table keeps its width, and scrolls"
        assert browser.execute_script("return document.querySelector('.box').tabIndex") == 0, "by keys too"


def test_the_page_prints_on_white_paper(browser: Chrome, page: str, tmp_path: Path) -> None:
    prefer(browser, "dark")
    browser.get(page)
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]},
    )
    assert browser.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.execute_script("return getComputedStyle(document.querySelector('nav')).display") == "none"
    printed = base64.b64decode(browser.print_page())
    assert printed.startswith(b"%PDF")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
