# SPDX-License-Identifier: Apache-2.0
"""A real browser, and the page as somebody uses it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select

from boardprof.results.report.report import Report
from boardprof.show.html import render_html
from tests.support import requires_tool

HOSTILE = "</script><script>window.ran=1</script>\"'>\n<img src=x onerror=window.ran=2>\u202eevil"
DEADLINE_S = 30.0


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = requires_tool("chromium", "chromium")
    profile = tmp_path_factory.mktemp("profile")
    for argument in ("--headless=new", "--no-sandbox", f"--user-data-dir={profile}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = Service(requires_tool("chromedriver", "chromium-driver"))
    driver = webdriver.Chrome(options=options, service=service)
    driver.set_page_load_timeout(DEADLINE_S)
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture
def page(browser: webdriver.Chrome, tmp_path: Path) -> Iterator[Page]:
    """A page that is opened; whatever a test does, it makes no request and no error."""
    opened = Page(browser, tmp_path)
    opened.width(1280)
    opened.scheme("light")
    yield opened
    assert opened.requests() == []
    assert browser.get_log("browser") == []


class Page:
    """The page, as somebody uses it."""

    def __init__(self, browser: webdriver.Chrome, folder: Path) -> None:
        self.browser, self.folder = browser, folder

    def open(self, report: Report, **options: Any) -> None:
        self.open_text(render_html(report, **options))

    def open_text(self, text: str) -> None:
        self.browser.get("about:blank")
        self.browser.get_log("performance")
        file = self.folder / "page.html"
        file.write_text(text, encoding="utf-8")
        self.browser.get(file.as_uri())

    def requests(self) -> list[str]:
        """Return what was asked for, but for the page itself and what stands in it."""
        logged = (json.loads(e["message"])["message"] for e in self.browser.get_log("performance"))
        sent = [m["params"] for m in logged if m["method"] == "Network.requestWillBeSent"]
        urls = [params["request"]["url"] for params in sent]
        own = ((self.folder / "page.html").as_uri(), "data:", "blob:null/")
        return [url for url in urls if not url.startswith(own)]

    def all(self, selector: str) -> list[WebElement]:
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        return [element.text for element in self.all(selector)]

    def column(self, table: str, title: str) -> list[str]:
        heads = [text.strip() for text in self.texts(f"#{table} thead th")]
        place = heads.index(title) + 1
        return self.texts(f"#{table} tbody tr > :nth-child({place})")

    def head(self, table: str, title: str) -> WebElement:
        heads = self.all(f"#{table} thead th")
        return next(head for head in heads if head.text.strip() == title)

    def choose(self, metric: str) -> None:
        Select(self.all("#metric")[0]).select_by_visible_text(metric)

    def script(self, text: str) -> Any:
        return self.browser.execute_script(text)  # type: ignore[no-untyped-call]

    def width(self, pixels: int) -> None:
        size = {"width": pixels, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def scheme(self, name: str) -> None:
        feature = {"name": "prefers-color-scheme", "value": name}
        media = {"media": "", "features": [feature]}
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)

    def paper(self) -> None:
        """Lay the page out as it is printed on A4, 210 mm less two margins of 12.5 mm."""
        self.width(700)
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        # The resize comes with the next frame; on paper it comes before the print, too.
        frames = (
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))"
        )
        self.browser.execute_async_script(frames)  # type: ignore[no-untyped-call]
        self.script("dispatchEvent(new Event('beforeprint'))")
