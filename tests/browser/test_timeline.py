# SPDX-License-Identifier: Apache-2.0
"""The page of a recording in a real browser: its timeline by keyboard and mouse, and its tables."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from boardprof.results.probes.run import ProbeRun
from boardprof.show.probe_files import render_probe_page
from tests.browser.conftest import HOSTILE, Page
from tests.unit.recordings import COUNT, STEP, block, event, recording, two_tasks
from tests.unit.test_heap import TASK, leaking


def show(page: Page, made: ProbeRun) -> None:
    page.open_text(render_probe_page(made, {TASK: "task.c:12 (worker)"}))


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.all("#timeline")[0].send_keys(key)


def said(page: Page) -> str:
    return page.texts("#event")[0]


def span(page: Page) -> str:
    return page.texts("#span")[0]


NOTHING = "0,0,0,0"


def colours(page: Page, row: int) -> set[str]:
    """Return the colours that a row of the drawing has; `NOTHING` where nothing is drawn."""
    return set(
        page.script(
            "const canvas = document.querySelector('canvas');"
            "const copy = Object.assign(document.createElement('canvas'),"
            " {width: canvas.width, height: canvas.height});"
            "const pen = copy.getContext('2d', {willReadFrequently: true});"
            "pen.drawImage(canvas, 0, 0);"
            f"const row = pen.getImageData(0, {row}, canvas.width, 1).data;"
            "const found = new Set();"
            "for (let i = 0; i < row.length; i += 4) found.add(row.slice(i, i + 4).join());"
            "return [...found];"
        )
    )


def test_the_page_names_the_board_and_has_its_ranges_by_share(page: Page) -> None:
    show(page, two_tasks())
    assert page.texts("h1") == ["bench"]
    rows = [row.text.split() for row in page.all("main table tbody tr")]
    assert rows[0][:2] == ["control", "1"]
    assert rows[1][:2] == ["filter", "1"]


def test_keys_choose_a_track_and_go_from_event_to_event(page: Page) -> None:
    show(page, two_tasks())
    seen = []
    for key in ("n", "n", "n", Keys.ARROW_DOWN, Keys.ARROW_DOWN, "n", "n", "p"):
        press(page, key)
        seen.append(said(page))
    assert seen == [
        "what runs: task 0x20000100, 20 cycles from 10 cycles",
        "what runs: systick, 10 cycles from 30 cycles",
        "what runs: task 0x20000100, 30 cycles from 40 cycles",
        "(scheduler)",
        "task 0x20000100",
        "task 0x20000100: control, 40 cycles from 20 cycles",
        "task 0x20000100: step at 25 cycles",
        "task 0x20000100: control, 40 cycles from 20 cycles",
    ]


def test_values_of_counters_are_told(page: Page) -> None:
    show(page, two_tasks())
    for _ in range(7):
        press(page, Keys.ARROW_DOWN)
    press(page, "n")
    assert said(page) == "volts: 2.5 at 85 cycles"
    press(page, Keys.ARROW_DOWN, "n")
    assert said(page) == "events dropped: 3 events at 110 cycles"


def test_keys_and_buttons_zoom_and_move(page: Page) -> None:
    show(page, two_tasks())
    assert span(page) == "0 cycles to 200 cycles"
    press(page, "+")
    assert span(page) == "50 cycles to 150 cycles"
    press(page, Keys.ARROW_LEFT)
    assert span(page) == "30 cycles to 130 cycles"
    press(page, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert span(page) == "100 cycles to 200 cycles"  # no further than its end
    press(page, "-")
    assert span(page) == "0 cycles to 200 cycles"
    page.all("#in")[0].click()
    assert span(page) == "50 cycles to 150 cycles"
    page.all("#all")[0].click()
    assert span(page) == "0 cycles to 200 cycles"


def test_the_mouse_drags_and_a_click_tells_what_is_there(page: Page) -> None:
    show(page, two_tasks())
    press(page, "+")
    canvas = page.all("canvas")[0]
    quarter = canvas.size["width"] / 4
    ActionChains(page.browser).move_to_element(canvas).click_and_hold().move_by_offset(
        round(quarter), 0
    ).release().perform()
    assert span(page) == "25 cycles to 125 cycles"
    left, top = -canvas.size["width"] / 2, -canvas.size["height"] / 2
    # In the middle of the first row's slice from 40 to 70, as 25 to 125 is shown.
    ActionChains(page.browser).move_to_element_with_offset(
        canvas, round(left + canvas.size["width"] * 0.3), round(top + 28)
    ).click().perform()
    assert said(page) == "what runs: task 0x20000100, 30 cycles from 40 cycles"


def test_memory_over_time_is_a_track_and_its_call_sites_are_a_table(page: Page) -> None:
    show(page, leaking())
    assert "task.c:12 (worker) 100 60 1 100 2" in [
        row.text.replace("\n", " ") for row in page.all("main table tbody tr")
    ]
    press(page, "n", "n")
    assert said(page) == "live memory: 140 bytes at 20 cycles"


def test_events_narrower_than_a_pixel_are_drawn_and_the_row_is_not_empty(page: Page) -> None:
    records = [event(10, 16 + i % 2) for i in range(60_000)]
    show(page, recording(block(records[:60_000], 600_000)))
    assert len(colours(page, 30)) >= 2
    press(page, *["+"] * 12)
    assert len(colours(page, 30)) >= 2


def test_values_narrower_than_a_pixel_keep_their_extremes(page: Page) -> None:
    records = [event(10, COUNT, 100 * (i % 2)) for i in range(30_000)]
    show(page, recording(block(records, 300_000)))
    for row in (25, 40, 60):  # from top to bottom, all along
        assert NOTHING not in colours(page, row)
    press(page, *["+"] * 14)
    assert NOTHING in colours(page, 40)  # between the flanks
    assert len(colours(page, 40)) >= 2


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_window(page: Page, width: int, scheme: str) -> None:
    page.width(width)
    page.scheme(scheme)
    show(page, two_tasks())
    assert page.script("return document.documentElement.scrollWidth") <= width
    assert page.all("canvas")[0].size["width"] <= width
    assert len(colours(page, 28)) >= 3


def test_names_from_a_board_are_only_text(page: Page) -> None:
    show(page, recording(block([event(1, STEP)], 1), board=HOSTILE, port=HOSTILE, build_id=HOSTILE))
    assert page.script("return window.ran") is None
    assert page.all("h1 img, .facts img") == []
