"""report.html in a real browser without a network: whole, in light and dark, on wide and narrow screens, and paper."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

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
const words = [...document.querySelectorAll('p, td, th, h1, h2, h3, li, a, summary, dt, dd, small, span, figcaption')];
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
    assert browser.find_element(By.TAG_NAME, "h1").text == "secret_models.Encoder"
    for section in ("answer", "failures", "variants", "plots", "unstable", "tables", "environment", "measured"):
        assert browser.find_element(By.ID, section).size["height"] > 50
    plots = browser.find_elements(By.CSS_SELECTOR, "figure svg")
    assert len(plots) >= 5
    assert all(plot.size["width"] > 300 and plot.size["height"] > 100 for plot in plots)
    assert all(plot.accessible_name for plot in plots)
    assert len(browser.find_elements(By.TAG_NAME, "table")) > 5
    assert requests_of(browser) == []
    assert errors_of(browser) == []


def test_the_answer_is_on_the_first_screen(browser: Chrome, page: str) -> None:
    """Tiles, summary and the grid of RTF, one below the other, then what failed."""
    browser.set_window_size(*WIDE)
    browser.get(page)
    tops = [browser.find_element(By.CSS_SELECTOR, name).rect["y"] for name in (".tiles", ".summary", "#answer table")]
    assert tops == sorted(tops)
    assert tops[-1] < WIDE[1]
    tiles = browser.find_element(By.CSS_SELECTOR, ".tiles").text
    for said in ("RTF", "Latency of one call", "Peak memory of the process", "Fastest variant", "4 failed"):
        assert said in tiles
    failed = browser.find_element(By.ID, "failures")
    assert "cannot read" in failed.text
    red = failed.find_element(By.TAG_NAME, "li").value_of_css_property("color")
    assert red == "rgba(163, 32, 29, 1)"


def test_figures_say_more_when_they_are_pointed_at(browser: Chrome, page: str) -> None:
    browser.set_window_size(*WIDE)
    browser.get(page)
    tip = browser.find_element(By.ID, "tip")
    for name in ("#answer td button", "#variants td [data-tip]", "#plots svg [data-tip]"):
        assert not tip.is_displayed()
        found = browser.find_element(By.CSS_SELECTOR, name)
        # Scrolling hides it, and is told to the page a frame later.
        browser.execute_async_script(
            "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'});"
            "requestAnimationFrame(() => requestAnimationFrame(() => arguments[1]()))",
            found,
        )
        ActionChains(browser).move_to_element(found).perform()
        WebDriverWait(browser, 10).until(lambda _: tip.is_displayed())
        assert tip.text == found.get_attribute("data-tip")
        ActionChains(browser).send_keys(Keys.ESCAPE).perform()
    figure = browser.find_element(By.CSS_SELECTOR, "#answer td button")
    assert re.search(r"^0\.1 s x 1: RTF [\d.]+, no 95 % CI, 1 round, unstable$", str(figure.get_attribute("data-tip")))


def test_a_figure_leads_to_its_cell_and_the_trace(browser: Chrome, page: str, whole_run: WholeRun) -> None:
    """By the keyboard: the card opens with Enter and closes with Escape."""
    browser.get(page)
    figure = browser.find_element(By.CSS_SELECTOR, "#answer td button")
    card = browser.find_element(By.ID, str(figure.get_attribute("popovertarget")))
    assert not card.is_displayed()
    figure.send_keys(Keys.ENTER)
    assert card.is_displayed()
    assert "float32, 0.1 s x 1" in card.text
    for said in ("RTF ", "RTFx ", "latency ", "peak memory ", "python profile.py tensorboard", "cell=0.1s_x1"):
        assert said in card.text
    link = card.find_element(By.TAG_NAME, "a")
    assert str(link.get_attribute("href")).startswith(whole_run.folder.as_uri())
    assert link.text.startswith("float32/0.1s_x1/")
    ActionChains(browser).send_keys(Keys.ESCAPE).perform()
    assert not card.is_displayed()
    why = browser.find_element(By.CSS_SELECTOR, "#answer td a.why")
    why.click()
    assert browser.current_url.endswith("#unstable")
    reasons = browser.find_element(By.ID, "unstable")
    assert browser.execute_script("return arguments[0].getBoundingClientRect().top < innerHeight", reasons)


def test_tables_are_sorted_by_the_heads_of_their_columns(browser: Chrome, page: str) -> None:
    """By the keyboard too; what is no number comes last."""
    browser.get(page)
    table = browser.find_element(By.CSS_SELECTOR, "#answer table")
    column = "return [...arguments[0].tBodies[0].rows].map(row => row.cells[1].innerText)"
    heads = table.find_elements(By.CSS_SELECTOR, "thead th")
    button = heads[1].find_element(By.TAG_NAME, "button")
    for key, order in ((Keys.ENTER, "ascending"), (Keys.SPACE, "descending")):
        button.send_keys(key)
        assert heads[1].get_attribute("aria-sort") == order
        shown = [float(text.split()[0]) for text in browser.execute_script(column, table)]
        assert shown == sorted(shown, reverse=order == "descending")
    for last in ("total", "failed"):
        tables = browser.find_elements(By.CSS_SELECTOR, "#tables table")
        row = "return [...arguments[0].tBodies[0].rows].some(r => [...r.cells].some(c => c.innerText === arguments[1]))"
        table = next(table for table in tables if browser.execute_script(row, table, last))
        for _ in range(2):
            table.find_elements(By.CSS_SELECTOR, "thead button")[1].click()
            bottom = table.find_elements(By.CSS_SELECTOR, "tbody tr")[-1]
            assert last in bottom.text.split()


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
