"""The browser of the tests is one: it runs pages, reaches no network, and tells what was asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.support.ui import WebDriverWait

from tests.helpers.browser import errors_of, leaving, prefer, requests_of

pytestmark = pytest.mark.slow

OUTSIDE = ("http://charts.example/loader.js", "http://192.0.2.7/font.woff")


def test_requests_that_would_leave_the_machine_fail_and_are_told(browser: Chrome, tmp_path: Path) -> None:
    scripts = "".join(
        f"<script src={address} onerror='failed += 1' onload='failed -= 9'></script>" for address in OUTSIDE
    )
    page = tmp_path / "page.html"
    page.write_text(f"<script>failed = 0</script>{scripts}<img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>")
    browser.get(page.as_uri())
    WebDriverWait(browser, 30).until(lambda page: page.execute_script("return failed") == len(OUTSIDE))
    asked = requests_of(browser)
    assert sorted(leaving(asked)) == sorted(OUTSIDE)
    assert requests_of(browser) == []
    assert len(errors_of(browser)) >= len(OUTSIDE)


def test_pages_can_be_asked_in_both_colours(browser: Chrome) -> None:
    dark = "return matchMedia('(prefers-color-scheme: dark)').matches"
    assert not browser.execute_script(dark)
    prefer(browser, "dark")
    assert browser.execute_script(dark)
