"""The site that `make docs` builds: whole, grouped, without dead links, searchable from a folder without network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import pytest
from ruamel.yaml import YAML
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.helpers.browser import errors_of, requests_of
from tests.helpers.program import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(path.stem for path in DOCS.glob("*.md"))
OF_THE_WEB = ("http://", "https://", "mailto:")


class Page(NamedTuple):
    """What a page holds: anchors, what it links to, what it loads, its text."""

    ids: set[str]
    links: list[str]
    loads: list[str]
    text: str


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.text: list[str] = []
        self.within: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        self.loads += [given[name] for name in ("src", "href") if tag != "a" and name in given]
        if tag in ("script", "style"):
            self.within.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.within and tag == self.within[-1]:
            self.within.pop()

    def handle_data(self, data: str) -> None:
        if not self.within:
            self.text.append(data)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Page]:
    read = {}
    for path in sorted(set(site.glob("*.html")) - {site / "404.html"}):  # its addresses begin at a server's root
        reader = _Reader()
        reader.feed(path.read_text())
        read[path.stem] = Page(reader.ids, reader.links, reader.loads, "".join(reader.text))
    return read


def test_every_page_is_in_the_navigation_once_and_in_a_group(pages: dict[str, Page]) -> None:
    navigation = YAML(typ="safe", pure=True).load((ROOT / "mkdocs.yml").read_text())["nav"]
    groups = {name: listed for group in navigation for name, listed in group.items()}
    assert list(groups) == ["Start", "Guides", "Reference", "Background"]
    listed = Counter(Path(page).stem for group in groups.values() for page in group)
    assert listed == Counter(PAGES)
    assert set(pages) == set(PAGES)
    titles = [re.search(r"(?m)^# (.+)$", (DOCS / f"{page}.md").read_text())[1] for page in PAGES]  # type: ignore[index]
    assert max(Counter(titles).values()) == 1


def test_code_is_rendered_as_code(pages: dict[str, Page]) -> None:
    """A fence or a table that the renderer does not take for one stays in the text."""
    for name, page in pages.items():
        assert "```" not in page.text, name
        assert "|---" not in page.text, name


def test_links_and_anchors_lead_somewhere(pages: dict[str, Page], site: Path) -> None:
    for name, page in pages.items():
        assert len(page.links) > 20, name
        for link in page.links:
            target, _, anchor = link.partition("#")
            if link.startswith(OF_THE_WEB):
                continue
            assert not target or (site / target).is_file(), f"{name} links to {link}"
            found = pages.get(Path(target).stem if target else name)
            assert not anchor or found is None or anchor in found.ids, f"{name} links to {link}"


def test_nothing_is_loaded_from_the_network(pages: dict[str, Page], site: Path) -> None:
    for name, page in pages.items():
        assert not [address for address in page.loads if address.startswith((*OF_THE_WEB, "//"))], name
        assert all((site / re.split("[?#]", address)[0]).exists() for address in page.loads), name


@pytest.mark.slow
def test_the_search_works_from_a_folder_without_network(browser: Chrome, site: Path) -> None:
    browser.get((site / "index.html").as_uri())
    browser.find_element(By.CSS_SELECTOR, "input.md-search__input").send_keys("noise floor")
    WebDriverWait(browser, 20).until(
        lambda page: "Is my machine fit" in page.find_element(By.CSS_SELECTOR, ".md-search-result__list").text
    )
    assert requests_of(browser) == []
    assert errors_of(browser) == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
def test_no_page_is_wider_than_the_screen(width: int, browser: Chrome, site: Path) -> None:
    """Wide tables and code scroll within their place."""
    device = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 1000}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", device)
    try:
        for page in PAGES:
            browser.get((site / f"{page}.html").as_uri())
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width, page
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
