# SPDX-License-Identifier: Apache-2.0
"""The HTML page in a real browser: no request, no error, all by keyboard, and no name runs."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from boardprof.metrics import Duration, Metric
from boardprof.render.html import render_html
from boardprof.report.report import Report
from tests.support import requires_tool

HOSTILE = "</script><script>window.ran=1</script>\"'>\n<img src=x onerror=window.ran=2>\u202eevil"
DEADLINE_S = 30.0

EXTRA = {
    "schema_version": 1,
    "devices": {
        "q": {
            "clock_kind": "simulated",
            "emulated": True,
            "unsupported": {"cycles": "QEMU has no cycle model"},
            "cflags": ["-march=rv32imac_zicsr_zifencei", "-mabi=ilp32", "-O2"] * 3,
        }
    },
}


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
    yield opened
    assert opened.requests() == []
    assert browser.get_log("browser") == []


class Page:
    """The page, as somebody uses it."""

    def __init__(self, browser: webdriver.Chrome, folder: Path) -> None:
        self.browser, self.folder = browser, folder

    def open(self, report: Report, **options: Any) -> None:
        self.browser.get("about:blank")
        self.browser.get_log("performance")
        file = self.folder / "page.html"
        file.write_text(render_html(report, **options), encoding="utf-8")
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

    def script(self, text: str) -> Any:
        return self.browser.execute_script(text)  # type: ignore[no-untyped-call]

    def width(self, pixels: int) -> None:
        size = {"width": pixels, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def scheme(self, name: str) -> None:
        feature = {"name": "prefers-color-scheme", "value": name}
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def rows(name: str, values: list[int], **more: Metric | int) -> list[dict[str, Metric | int]]:
    return [{"Name": name, "Device": "q", "Count": 1, "instructions": v, **more} for v in values]


def three() -> Report:
    calls = [
        *rows("fir", [400, 400, 400], ticks=4),
        *rows("crc", [70, 72, 90, 71], ticks=9),
        *rows("sort", [900, 910, 905], ticks=1),
    ]
    return Report(calls, {"q": {"instructions": 5000}}, {"q clock": "simulated"}, EXTRA)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("pixels", [1280, 390])
def test_it_fits_the_screen_in_both_schemes(page: Page, scheme: str, pixels: int) -> None:
    page.width(pixels)
    page.scheme(scheme)
    page.open(three())
    assert page.script("return innerWidth") == pixels
    assert page.script("return document.documentElement.scrollWidth") <= pixels
    paper = page.script("return getComputedStyle(document.body).backgroundColor")
    brightness = sum(int(part) for part in paper.removeprefix("rgb(").rstrip(")").split(","))
    assert (brightness > 600) == (scheme == "light")
    page.width(1280)


def test_it_says_what_board_and_what_clock(page: Page) -> None:
    page.open(three())
    assert page.texts("h1") == ["3 functions on q"]
    assert page.texts(".card .tag") == ["Simulated clock: no wall time", "Emulated"]
    assert "cycles: QEMU has no cycle model" in page.texts(".card dd.caution")[0]


def test_tables_show_medians_the_largest_first(page: Page) -> None:
    page.open(three())
    assert page.column("samples-table", "Function") == ["sort", "fir", "crc"]
    assert page.column("samples-table", "Median") == ["905", "400", "71.5"]
    assert page.column("samples-table", "CV")[1] == "exact"
    assert page.column("metrics-table", "ticks") == ["1", "4", "9"]
    assert page.texts("#metrics-table tfoot tr") == ["Total of q 5,000"]


def test_a_header_sorts_by_keyboard_and_says_so(page: Page) -> None:
    page.open(three())
    head = page.head("metrics-table", "ticks")
    assert head.get_attribute("aria-sort") == "none"
    head.find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    assert page.column("metrics-table", "Function") == ["crc", "fir", "sort"]
    assert page.head("metrics-table", "ticks").get_attribute("aria-sort") == "descending"
    head.find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    assert page.column("metrics-table", "Function") == ["sort", "fir", "crc"]
    page.head("metrics-table", "Function").find_element(By.TAG_NAME, "button").send_keys(" ")
    assert page.column("metrics-table", "Function") == ["crc", "fir", "sort"]


def test_a_chosen_function_shows_its_samples_and_keeps_the_focus(page: Page) -> None:
    page.open(three())
    assert page.texts("#detail-title")[0].startswith("sort")
    buttons = page.all("#samples-table tbody button")
    next(each for each in buttons if each.text == "crc").send_keys(Keys.ENTER)
    assert page.texts("#detail-title") == ["crc — instructions per call, q"]
    assert page.script("return document.activeElement.textContent") == "crc"
    assert len(page.all("#order circle")) == 4
    assert page.texts("#order circle title") == [""] * 4  # shown by the pointer alone
    titles = page.script(
        "return [...document.querySelectorAll('#order title')].map(t=>t.textContent)"
    )
    assert titles == ["sample #0: 70", "sample #1: 72", "sample #2: 90", "sample #3: 71"]
    counts = page.script(
        "return [...document.querySelectorAll('#histogram rect title')].map(t=>t.textContent)"
    )
    assert sum(int(text.split()[0]) for text in counts) == 4


def test_another_metric_and_a_part_of_a_name_choose_what_is_shown(page: Page) -> None:
    page.open(three())
    page.all("#metric")[0].send_keys("ticks")
    assert page.column("samples-table", "Function") == ["crc", "fir", "sort"]
    assert page.texts("#detail-title") == ["sort — ticks per call, q"]
    assert page.texts("#histogram") == ["All 3 samples: 1."]
    page.all("#find")[0].send_keys("Or")
    assert page.column("samples-table", "Function") == ["sort"]
    page.all("#find")[0].send_keys("x")
    assert page.texts("#samples-table tbody") == ["No function's name has this in it."]


def test_hostile_names_are_shown_and_do_not_run(page: Page) -> None:
    row: dict[str, Metric | int] = {
        **dict.fromkeys(("Name", "Device", "Flags", "Argument Shapes"), HOSTILE),
        "Count": 1,
        f"n {HOSTILE}": 3,
    }
    facts = {"clock_kind": HOSTILE, "port": HOSTILE, "unsupported": {HOSTILE: HOSTILE}}
    extra = {"schema_version": 1, "devices": {HOSTILE: facts}}
    report = Report([row], {HOSTILE: {HOSTILE: 1}}, {HOSTILE: HOSTILE}, extra)
    page.open(report, before=report)
    assert page.script("return [window.ran ?? null, document.images.length]") == [None, 0]
    (name,) = page.texts("#samples-table tbody button")
    assert name == HOSTILE.replace("\n", "\\n").replace("\u202e", "\\u202e")
    assert page.script("return document.querySelector('#samples-table tbody bdi') !== null")


def test_right_to_left_names_do_not_turn_what_stands_beside_them(page: Page) -> None:
    page.open(Report(rows("\u05d0\u05d1\u05d2", [12]), {}, {}, EXTRA))
    found = page.script("return [...document.querySelectorAll('h1 bdi')].map(e => e.textContent)")
    assert found == ["\u05d0\u05d1\u05d2", "q"]
    assert page.column("samples-table", "Median") == ["12"]


def test_what_changed_stands_above_with_its_verdict(page: Page) -> None:
    older = Report(
        [
            *rows("fir", [380, 380, 380], ticks=4),
            *rows("crc", [70, 72, 90, 71], ticks=9),
            *rows("old", [1, 1, 1], ticks=1),
        ],
        {"q": {"instructions": 4000}},
        {"q clock": "simulated"},
        EXTRA,
    )
    page.open(three(), before=older)
    found = dict(
        zip(
            zip(
                page.column("changes-table", "Function"),
                page.column("changes-table", "Metric"),
                strict=True,
            ),
            page.column("changes-table", "Verdict"),
            strict=True,
        )
    )
    assert found[("fir", "instructions")] == "▲ worse"
    assert found[("old", "instructions")] == "− removed"
    assert found[("sort", "instructions")] == "+ added"
    assert ("crc", "instructions") not in found
    change = page.column("changes-table", "Change")
    assert change[page.column("changes-table", "Function").index("fir")] == "+5.26\u2009%"
    page.all("#only-changed")[0].send_keys(" ")
    assert "crc" in page.column("changes-table", "Function")


def test_how_many_became_worse_and_better_stands_above_the_rows(page: Page) -> None:
    older = [*rows("fir", [380] * 3), *rows("crc", [90] * 4), *rows("sort", [910] * 3)]
    newer = [*rows("fir", [400] * 3), *rows("crc", [70] * 4), *rows("sort", [910] * 3)]
    page.open(Report(newer, {}, {}, EXTRA), before=Report(older, {}, {}, EXTRA))
    assert page.texts("#verdicts span") == ["1 worse", "1 better", "1 same"]
    assert page.texts("#changes-note") == ["This run against an older run."]
    assert not page.all("#runs")[0].is_displayed()


def two_boards() -> Report:
    calls = [
        *rows("fir", [400, 410, 405]),
        *rows("crc", [200, 210, 205]),
        *({**row, "Device": "small"} for row in rows("fir", [4, 4, 4])),
    ]
    return Report([*calls, {"Name": "crc", "Device": "small", "Count": 1, "ticks": 7}], {}, {})


def test_counts_of_different_boards_have_a_scale_each(page: Page) -> None:
    page.open(two_boards())
    assert page.column("samples-table", "Device") == ["q", "q", "small"]
    widths = page.script(
        "return [...document.querySelectorAll('#samples-table .bar')].map(b=>b.getBBox().width)"
    )
    assert widths[2] > 0.9 * widths[0] > 1.5 * widths[1]
    assert page.all("#scales")[0].is_displayed()
    page.all("#metric")[0].send_keys("ticks")
    assert page.texts("#lacking") == ["No ticks on q."]


def test_on_a_phone_the_board_stands_below_the_name(page: Page) -> None:
    page.width(390)
    page.open(two_boards())
    assert page.texts("#samples-table tbody th") == ["fir\nq", "crc\nq", "fir\nsmall"]
    heads = [text for text in page.texts("#samples-table thead th") if text]
    assert heads[:3] == ["Function", "Median", "Spread of the samples"]
    page.width(1280)


@pytest.mark.parametrize("samples", [4, 15_000])
def test_the_button_saves_the_whole_report(page: Page, samples: int) -> None:
    report = Report(rows("fir", [i * i for i in range(samples)]), {}, {}, EXTRA)
    page.open(report)
    settings = {"behavior": "allow", "downloadPath": str(page.folder)}
    page.browser.execute_cdp_cmd("Browser.setDownloadBehavior", settings)
    page.all("#save")[0].send_keys(Keys.ENTER)
    file = page.folder / "report.json"
    until = time.monotonic() + DEADLINE_S
    while not file.exists() and time.monotonic() < until:
        time.sleep(0.02)
    assert Report.from_json(file.read_bytes()) == report


def test_a_hundred_thousand_samples_stay_usable(page: Page) -> None:
    rng = random.Random(1)
    calls = (
        {"Name": f"f{i % 300}", "Count": 1, "Duration (us)": Duration(5 + rng.random())}
        for i in range(99_700)
    )
    spiked = [{"Name": "f7", "Count": 1, "Duration (us)": Duration(900.0)}] * 300
    page.open(Report([*calls, *spiked], {}, {}))
    assert len(page.all("#samples-table tbody tr")) == 200
    page.all("#samples-table .more")[0].send_keys(Keys.ENTER)
    assert len(page.all("#samples-table tbody tr")) == 300
    took_s = []
    for is_largest_first in (True, False, True):  # in one of them the machine may stand still
        begin = time.monotonic()
        page.head("samples-table", "Max").find_element(By.TAG_NAME, "button").click()
        first = page.texts("#samples-table tbody tr:first-child th")
        took_s.append(time.monotonic() - begin)
        assert (first == ["f7"]) == is_largest_first
    assert min(took_s) < 5.0


def test_an_empty_report_is_a_page_as_well(page: Page) -> None:
    page.open(Report([], {}, {}))
    assert page.texts("h1") == ["0 functions"]
    assert not page.all("#samples")[0].is_displayed()
