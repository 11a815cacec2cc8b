# SPDX-License-Identifier: Apache-2.0
"""Why a call costs more: functions and lines that gained, across edits of the source."""

from __future__ import annotations

import dataclasses

import pytest

from boardprof.base.metrics import Count, Duration
from boardprof.results.comparison.compare import compare
from boardprof.results.comparison.profile_difference import (
    aligned_lines,
    plain_name,
    profile_difference,
)
from boardprof.results.report.profile import Frame, Profile, Symbol
from boardprof.results.report.report import Report
from boardprof.show.comparison_table import change_rows, comparison_table, rest_text
from tests.unit.profiles import profile_report, small_profile, straight_profile

BEFORE = "int f(void) {\n    a();\n    b();\n    c();\n}\n"


def test_a_line_that_has_moved_is_the_same_line() -> None:
    after = "/* A comment. */\n\n" + BEFORE
    found = profile_difference(
        straight_profile({2: (3, 10), 3: (5, 10)}, BEFORE),
        straight_profile({4: (3, 10), 5: (9, 10)}, after),
    )
    (line,) = found.lines
    assert (line.first, line.text, line.change) == (5, "b();", 40)
    assert (found.before, found.after, found.scale) == (80, 120, 1)
    assert change_rows(found)[1]["What"] == "10 times, 5 to 9 each"


def test_a_line_that_was_edited_is_the_same_line_if_it_is_still_like_it() -> None:
    before = "x = (long)y * z;\n"
    found = profile_difference(
        straight_profile({1: (2, 8)}, before), straight_profile({1: (4, 8)}, "x = y * z;\n")
    )
    (line,) = found.lines
    assert (line.before, line.after, line.is_new, line.is_gone) == (16, 32, False, False)


def test_lines_that_are_gone_have_the_numbers_that_they_had() -> None:
    found = profile_difference(
        straight_profile({1: (1, 2), 2: (1, 3), 3: (1, 8)}, "abcd();\nefgh();\nx = (long)y * z;\n"),
        straight_profile({1: (1, 8)}, "x = y * z;\n"),
    )
    assert [(each.first, each.text, each.is_gone) for each in found.lines] == [
        (2, "efgh();", True),
        (1, "abcd();", True),
    ]


def test_a_function_that_went_to_another_file_is_gone_from_the_one_and_new_in_the_other() -> None:
    before = straight_profile({1: (2, 10)}, "a();\n")
    moved = [
        dataclasses.replace(each, frames=(Frame("f", "g.c", 1),)) for each in before.instructions
    ]
    after = dataclasses.replace(before, instructions=tuple(moved), sources={"g.c": "a();\n"})
    assert [
        (each.file, each.text, each.change) for each in profile_difference(before, after).lines
    ] == [
        ("f.c", "a();", -20),
        ("g.c", "a();", 20),
    ]
    assert [line.text for line in aligned_lines(before, after, "instructions")["g.c"]] == ["a();"]


def test_lines_without_a_like_are_new_and_gone() -> None:
    found = profile_difference(
        straight_profile({2: (1, 5)}, "{\n    abcdefgh();\n}\n"),
        straight_profile({2: (1, 60)}, "{\n    0123456789;\n}\n"),
    )
    assert {(each.text, each.is_new, each.is_gone) for each in found.lines} == {
        ("0123456789;", True, False),
        ("abcdefgh();", False, True),
    }
    texts = {row["What"] for row in change_rows(found)}
    assert texts >= {"new, 60 times", "gone, 5 times before"}


def test_neighbours_that_cancel_out_are_one_change() -> None:
    """The compiler has moved an instruction from line 2 to line 3."""
    found = profile_difference(
        straight_profile({2: (5, 850), 3: (5, 860), 4: (1, 10)}, BEFORE),
        straight_profile({2: (0, 0), 3: (10, 860), 4: (2, 10)}, BEFORE),
    )
    assert [(each.first, each.last, each.change) for each in found.lines] == [
        (2, 3, 50),
        (4, 4, 10),
    ]


def test_a_loop_that_runs_more_often_says_so() -> None:
    found = profile_difference(
        straight_profile({2: (3, 100)}, BEFORE), straight_profile({2: (3, 200)}, BEFORE)
    )
    assert change_rows(found)[1]["What"] == "100 to 200 times"


def renamed(profile: Profile, index: int, name: str) -> Profile:
    symbols = list(profile.symbols)
    symbols[index] = Symbol(name, "", 0)
    return dataclasses.replace(profile, symbols=tuple(symbols))


def test_a_helper_that_is_new_is_named_with_its_calls() -> None:
    found = profile_difference(
        straight_profile({7: (1, 5), 8: (2, 4)}, small_profile().sources["f.c"]), small_profile()
    )
    rows = {row["Where"]: row for row in change_rows(found)}
    assert rows["__mul"]["What"] == "new, 4 calls"
    assert rows["__mul"]["Change"] == "+12"


def test_a_clone_of_the_compiler_is_its_function() -> None:
    assert plain_name("fir.constprop.0") == "fir"
    assert plain_name(".Lstart") == ".Lstart"
    found = profile_difference(small_profile(), renamed(small_profile(), 2, "__mul.part.0"))
    assert (found.functions, found.lines) == ((), ())


def test_a_function_that_is_inlined_into_itself_alone_is_not_told_as_inlined() -> None:
    small = small_profile()
    unrolled = dataclasses.replace(
        small.instructions[2], frames=(Frame("f", "f.c", 8), Frame("f", "f.c", 7))
    )
    instructions = (*small.instructions[:2], unrolled, small.instructions[3])
    found = profile_difference(
        dataclasses.replace(small, instructions=instructions, counts=small.counts[1:]),
        dataclasses.replace(small, instructions=instructions),
    )
    assert [(each.name, each.change, each.inlined_after) for each in found.functions] == [
        ("f", 5, False)
    ]


def test_what_is_not_shown_is_counted() -> None:
    many = "".join(f"line_{n}_{n * 7919}();\n" for n in range(1, 9))
    found = profile_difference(
        straight_profile({n: (1, 10) for n in range(1, 9)}, many),
        straight_profile({n: (1, 10 + n) for n in range(1, 9)}, many),
    )
    assert len(change_rows(found)) == 1 + 5
    assert rest_text(found) == "and 3 more lines with smaller changes"


# -- metrics that the profile does not have ----------------------------------------------------


def measured(times: int, **metrics: object) -> Report:
    """Return a Report whose profile has 3 instructions for each time that line 2 runs."""
    extra = profile_report(straight_profile({2: (3, times)}, BEFORE)).extra
    rows = [{"Name": "f", "Count": 1, "Device": "desk", **metrics}] * 9
    return Report(rows, {}, {}, extra)


def reasons(before: Report, after: Report) -> list[str]:
    lines = comparison_table(compare(before, after)).splitlines()
    return [line for line in lines if line.startswith("Where ") and line.endswith(":")]


def test_ticks_are_explained_once_by_the_instructions_that_the_profile_has() -> None:
    before = measured(100, ticks=Count(480), **{"Duration (us)": Duration(19)})
    after = measured(200, ticks=Count(960), **{"Duration (us)": Duration(38)})
    compared = compare(before, after)
    assert reasons(before, after) == ["Where Duration (us) of f on desk changed, in instructions:"]
    (line,) = [each for each in str(compared).splitlines() if each.startswith("f.c:2 ")]
    assert line.split()[1:4] == ["300", "600", "+300"]
    title = "#### Where Duration (us) of f on desk changed, in instructions\n"
    assert title in compared.markdown()


def test_what_the_profile_has_explains_itself_and_nothing_else_is_explained() -> None:
    before = measured(100, ticks=Count(480), instructions=Count(300))
    after = measured(200, ticks=Count(960), instructions=Count(600))
    assert reasons(before, after) == ["Where instructions of f on desk changed:"]


@pytest.mark.parametrize(
    ("times", "ticks"),
    [(100, 960), (200, 480), (200, 240)],
    ids=["the same instructions", "the same ticks", "more instructions, less ticks"],
)
def test_instructions_do_not_explain_ticks_that_changed_otherwise(times: int, ticks: int) -> None:
    before, after = measured(100, ticks=Count(480)), measured(times, ticks=Count(ticks))
    assert reasons(before, after) == []


def test_a_count_that_does_not_grow_with_work_is_not_explained_by_instructions() -> None:
    before = measured(100, **{"stack bytes": Count(480)})
    assert reasons(before, measured(200, **{"stack bytes": Count(960)})) == []
