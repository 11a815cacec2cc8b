# SPDX-License-Identifier: Apache-2.0
"""The page's flame graph, functions and source in a real browser, by mouse and by keyboard."""

from __future__ import annotations

import dataclasses

import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from boardprof.results.report.profile import Frame, Profile
from boardprof.results.report.report import Report
from tests.browser.conftest import HOSTILE, Page
from tests.unit.profiles import profile_report, small_profile


def frames(page: Page) -> list[str]:
    return [element.get_attribute("aria-label") or "" for element in page.all("#flame g")]


def focus(page: Page) -> str:
    return str(page.script("return document.activeElement.getAttribute('aria-label')"))


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.browser.switch_to.active_element.send_keys(key)


def test_a_frame_has_the_cost_of_what_it_calls_and_the_notes_stand_below(page: Page) -> None:
    page.open(profile_report(small_profile(with_interrupt=True)))
    assert frames(page) == [
        "f: 25 (100.0\u2009%), itself 9; f.c",
        "__mul: 12 (48.0\u2009%), itself 12",
        "twice: 4 (16.0\u2009%), itself 4; f.c",
    ]
    assert (
        "interrupts took 7 instructions, which are not in the total" in page.texts("#call-note")[0]
    )
    assert page.column("functions-table", "Function") == ["f", "__mul"]
    assert page.column("functions-table", "Self") == ["13", "12"]
    widths = [e.size["width"] for e in page.all("#flame rect")]
    assert widths[1] / widths[0] == pytest.approx(12 / 25, abs=0.01)


def test_keys_go_from_frame_to_frame_and_zoom(page: Page) -> None:
    page.open(profile_report(small_profile()))
    page.script("document.querySelector('#flame g[tabindex=\"0\"]').focus()")
    seen = []
    for key in (Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ARROW_LEFT, Keys.ARROW_UP, Keys.ARROW_DOWN):
        press(page, key)
        seen.append(focus(page).partition(":")[0])
    assert seen == ["__mul", "twice", "__mul", "f", "__mul"]
    press(page, Keys.ENTER)
    assert [text.partition(":")[0] for text in frames(page)] == ["f", "__mul"]
    rectangles = [element.size["width"] for element in page.all("#flame rect")]
    assert rectangles[0] == rectangles[1]
    assert focus(page).startswith("__mul")
    press(page, Keys.ESCAPE)
    assert len(frames(page)) == 3
    page.all("#flame g")[2].click()
    page.all("#zoom-out")[0].click()
    assert len(frames(page)) == 3


def test_a_part_of_a_name_marks_its_frames_and_says_their_share(page: Page) -> None:
    page.open(profile_report(small_profile()))
    page.all("#frame-find")[0].send_keys("twi")
    assert page.texts("#matched") == ["16.0\u2009% in frames with \u201ctwi\u201d"]
    assert [e.get_attribute("aria-label")[:5] for e in page.all("#flame .match")] == ["twice"]
    page.all("#frame-find")[0].clear()
    page.all("#frame-find")[0].send_keys("f")  # a frame below one that matches counts once
    assert page.texts("#matched") == ["100.0\u2009% in frames with \u201cf\u201d"]


def test_another_metric_has_its_own_widths_and_lines(page: Page) -> None:
    page.open(profile_report(small_profile(["instructions", "cycles"])))
    assert frames(page)[0].startswith("f: 250 ")
    Select(page.all("#call-metric")[0]).select_by_visible_text("instructions")
    assert frames(page)[0].startswith("f: 25 ")
    costs = page.texts("#source tbody td:nth-child(2)")
    assert [int(cost) for cost in costs if cost] == [4, 5, 4]


def grown() -> Profile:
    """A profile whose helper costs twice as much, and whose line 8 was written anew."""
    small = small_profile()
    twice = tuple(
        (node, number, (cost[0] * 2,) if small.instructions[number].symbol == 2 else cost)
        for node, number, cost in small.counts
    )
    lines = small.sources["f.c"].splitlines()
    lines[7] = "completely different text here"
    return dataclasses.replace(
        small,
        counts=twice,
        total=(37,),
        totals=((37,), (0,), (24,)),
        counted={"instructions": 37},
        sources={"f.c": "\n".join(lines) + "\n"},
    )


def test_against_an_older_run_frames_and_lines_have_their_change(page: Page) -> None:
    page.open(profile_report(grown()), before=profile_report(small_profile()))
    assert "__mul: 24 (64.9\u2009%), itself 24; before 12, +12" in frames(page)
    assert [e.get_attribute("class") for e in page.all("#flame g")][1] == "frame grew3"
    assert page.column("functions-table", "Change") == ["+12", ""]
    assert page.all("#source tr.gone")  # line 8 as it was
    Select(page.all("#widths")[0]).select_by_visible_text("the older run")
    assert "__mul: 24 (48.0\u2009%), itself 24; before 12, +12" in frames(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("pixels", [1280, 390])
def test_it_fits_the_screen(page: Page, scheme: str, pixels: int) -> None:
    page.width(pixels)
    page.scheme(scheme)
    page.open(profile_report(grown()), before=profile_report(small_profile()))
    assert page.script("return document.documentElement.scrollWidth") <= pixels


def test_a_list_of_long_calls_fits_a_narrow_screen(page: Page) -> None:
    page.width(390)
    one = small_profile()
    report = profile_report(one, dataclasses.replace(one, board="desk-with-a-long-name"))
    for row in (report.extra or {})["measurements"]:
        row["arguments"] = "input=[256]:random(7), output=[256]:zeros, coefficients=[64]:random(9)"
    page.open(report)
    assert len(page.all("#call option")) == 2
    assert page.all("#call")[0].size["width"] <= 390
    assert page.script("return document.documentElement.scrollWidth") <= 390


def test_the_flame_graph_is_that_of_the_row_that_is_chosen_also_when_a_link_chooses_it(
    page: Page,
) -> None:
    one = small_profile()
    report = profile_report(one, dataclasses.replace(one, board="desk-2"))
    page.open(report)
    chosen = Select(page.all("#call")[0])
    assert chosen.first_selected_option.text == "f on desk"
    page.all("#samples-table tbody th button")[1].click()
    assert chosen.first_selected_option.text == "f on desk-2"
    page.script("location.hash = '#f,desk'; location.reload()")
    assert Select(page.all("#call")[0]).first_selected_option.text == "f on desk"
    page.script("location.hash = '#f,desk-2'; location.reload()")
    assert Select(page.all("#call")[0]).first_selected_option.text == "f on desk-2"


def test_on_paper_nothing_is_cut_off(page: Page) -> None:
    small = small_profile()
    long = "".join(f"int line_{n}; /* {'word ' * 30}*/\n" for n in range(200))
    rows = [dataclasses.replace(i, frames=(Frame("f", "f.c", 150),)) for i in small.instructions]
    page.open(
        profile_report(
            dataclasses.replace(small, sources={"f.c": long}, instructions=tuple(rows)),
            dataclasses.replace(small, board="a-board-with-a-name-of-many-letters"),
        )
    )
    page.paper()
    cut = """return [...document.querySelectorAll('.scroll')].filter((each) =>
        each.scrollWidth > each.clientWidth || each.scrollHeight > each.clientHeight)
        .map((each) => [each.id, each.scrollWidth, each.clientWidth])"""
    assert page.script(cut) == []
    assert page.script("return document.documentElement.scrollWidth") <= 700
    assert page.script("return document.querySelector('.flame').clientWidth") == 700
    label = page.all("#flame text")[0].get_attribute("transform")
    assert label == "scale(1.4285714285714286 1)"  # 1000 units on 700 pixels: letters keep shape


def test_hostile_names_and_sources_are_shown_and_do_not_run(page: Page) -> None:
    small = small_profile()
    hostile = dataclasses.replace(
        small,
        symbols=tuple(s._replace(name=HOSTILE, file=HOSTILE) for s in small.symbols),
        instructions=tuple(
            dataclasses.replace(i, frames=(Frame(HOSTILE, "f.c", 7),)) for i in small.instructions
        ),
        sources={"f.c": f"{HOSTILE}\n" * 9},
        failure=HOSTILE,
        state="incomplete left",
    )
    page.open(profile_report(hostile))
    assert page.script("return window.ran") is None
    assert "onerror" in frames(page)[0]
    assert page.all("#hotspots img") == []


def test_a_report_without_profiles_has_no_such_section(page: Page) -> None:
    report = profile_report(small_profile())
    plain = Report(list(report.calls), {}, {}, {"schema_version": 1})
    page.open(plain)
    assert page.all("#hotspots") == []
