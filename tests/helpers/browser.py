"""A real browser for tests of pages: Chromium without a screen and without a network, and what it asked for.

`browser` in conftest.py hands it out; without Chromium the tests that need it skip, and say what to install.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

MISSING = (
    "no Chromium here; `apt-get install chromium chromium-driver` (as root) brings the browser that this test drives"
)
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ON_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")
NOT_THE_NETWORK = ("data", "blob", "about", "chrome", "devtools", "file")
ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--hide-scrollbars",
    "--window-size=1280,900",
    # No network: no name but this machine's is found, and an address written as digits meets a closed door.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    "--proxy-server=127.0.0.1:9",
    "--proxy-bypass-list=127.0.0.1;localhost",
)


def installed() -> tuple[str, str] | None:
    """The browser and its driver, where both are there."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


def start(browser: str, driver: str, profile: Path) -> Chrome:
    """A browser whose profile is in a folder of its own. `quit()` ends it."""
    options = ChromeOptions()
    options.binary_location = browser
    for argument in (*ARGUMENTS, f"--user-data-dir={profile}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    return Chrome(options, Service(driver))


def requests_of(browser: Chrome) -> list[str]:
    """The addresses that pages asked for since this was last called, without what a page carries in itself."""
    asked = []
    for entry in browser.get_log("performance"):
        message: dict[str, Any] = json.loads(entry["message"])["message"]
        if message["method"] in ("Network.requestWillBeSent", "Network.webSocketCreated"):
            parameters = message["params"]
            asked.append(str(parameters["request"]["url"] if "request" in parameters else parameters["url"]))
    return [address for address in asked if urlsplit(address).scheme not in NOT_THE_NETWORK]


def leaving(requests: list[str]) -> list[str]:
    """Those that would leave this machine."""
    return [address for address in requests if urlsplit(address).hostname not in ON_THIS_MACHINE]


def errors_of(browser: Chrome) -> list[str]:
    """What pages complained of in the console since this was last called."""
    return [str(entry["message"]) for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def prefer(browser: Chrome, colours: str) -> None:
    """Say to pages that the user likes `light` or `dark` colours."""
    features = [{"name": "prefers-color-scheme", "value": colours}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
