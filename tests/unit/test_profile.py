# SPDX-License-Identifier: Apache-2.0
"""What a profile says of functions, lines and paths, and its forms."""

from __future__ import annotations

import dataclasses
import gzip
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from boardprof.base.errors import DecodeError, ReportFileError, UnknownNameError, UsageError
from boardprof.base.metrics import Count
from boardprof.measure.hotspots.hotspot_run import read_record
from boardprof.results.record_json import form_of
from boardprof.results.report.profile import Frame, Profile, Symbol
from boardprof.results.report.report import Report
from boardprof.show.flame_graph import render_collapsed, render_speedscope, stacks_of
from boardprof.show.layout import fitted, plain
from boardprof.show.profile_files import callgrind, pprof, profile_json, render_callgrind
from boardprof.show.profile_tables import (
    functions_page,
    heading,
    instructions_page,
    lines_page,
    notes,
)
from tests.support import requires_tool
from tests.unit.profiles import profile_report, small_profile, straight_profile


def test_functions_have_their_own_cost_and_that_of_what_they_called() -> None:
    f, mul = small_profile().functions()
    assert (f.name, f.file, f.line, f.self, f.total, f.calls) == ("f", "f.c", 5, 13, 25, 1)
    assert (mul.name, mul.file, mul.self, mul.total, mul.calls) == ("__mul", "", 12, 12, 4)
    assert f.share == pytest.approx(0.52)


def test_lines_have_their_instructions_and_the_calls_that_these_make() -> None:
    lines = {(each.file, each.line): each for each in small_profile().lines()}
    assert sorted(lines) == [("", 0), ("f.c", 2), ("f.c", 7), ("f.c", 8)]
    assert (lines["f.c", 2].function, lines["f.c", 2].self) == ("twice", 4)
    assert (lines["f.c", 8].self, lines["f.c", 8].calls, lines["f.c", 8].executions) == (4, 12, 4)
    assert lines["f.c", 8].share == pytest.approx(0.16)  # of 25


def test_long_source_is_cut_beside_its_counts_and_keeps_its_indentation() -> None:
    small = small_profile()
    source = small.sources["f.c"].replace("return x + x;", "return x + x; /* it is twice x */")
    page = lines_page(dataclasses.replace(small, sources={"f.c": source}))
    lines = fitted(page, 40, styled=False).splitlines()
    begin = lines.index("Line  Self  Self %  Source")
    assert lines[begin + 1 : begin + 9] == [
        "1                   int twice(int x) {",
        "2        4    16.0      return x + x;...",
        "3                   }",
        "4",
        "5                   int f(int n) {",
        "6                       int sum = 0;",
        "7        5    20.0      for (int i = ...",
        "8        4    16.0          sum += tw...",
    ]


def test_interrupts_are_beside_the_call() -> None:
    profile = small_profile(with_interrupt=True)
    assert profile.interrupts() == 7
    assert [each.name for each in profile.functions()] == ["f", "__mul"]
    assert [each.functions for each in profile.paths()] == [("f",), ("f", "__mul")]
    assert sum(each.self for each in profile.lines()) == profile.sum() == 25
    assert notes(profile)[0] == "interrupts took 7 instructions, which are not in the total"


def test_a_cost_of_one_is_singular() -> None:
    one = straight_profile({2: (1, 1)}, "{\n    return;\n}\n")
    assert heading(one) == "f on desk: 1 instruction"
    assert heading(dataclasses.replace(one, columns=("misses",))) == "f on desk: 1 misses"
    small = small_profile(with_interrupt=True)
    counts = tuple((n, at, (1,) if at == 4 else cost) for n, at, cost in small.counts)
    told = notes(dataclasses.replace(small, counts=counts))
    assert told[0] == "interrupts took 1 instruction, which is not in the total"


def test_one_blank_line_is_between_files() -> None:
    small = small_profile()
    other = dataclasses.replace(small.instructions[0], frames=(Frame("f", "g.c", 1),))
    two = dataclasses.replace(
        small,
        instructions=(other, *small.instructions[1:]),
        sources={**small.sources, "g.c": "#define G\n"},
    )
    lines = plain(lines_page(two)).splitlines()
    assert [at for at, line in enumerate(lines) if not line] == [12, 16]
    assert lines[0] == "f.c: 8 (32.0 %)"
    assert lines[13] == "g.c: 5 (20.0 %)"
    assert lines[17:] == ["no file: 12 (48.0 %), __mul"]


def test_cycles_are_shown_where_the_board_has_them() -> None:
    profile = small_profile(["instructions", "cycles"])
    assert (profile.metric, profile.sum(), profile.sum("instructions")) == ("cycles", 250, 25)
    assert profile.functions()[0].self == 130
    assert profile.functions("instructions")[0].self == 13
    told = "The profile has no metric 'stalls'. Known: instructions, cycles"
    with pytest.raises(UnknownNameError, match=re.escape(told)):
        profile.functions("stalls")


def test_a_profile_is_read_from_its_own_json() -> None:
    profile = small_profile(["instructions", "cycles"], with_interrupt=True)
    form = form_of(Profile)
    record = json.loads(form.text(profile))
    assert form.read(record, ()) == profile
    found = profile_json(profile)
    assert found["functions"][0] == {
        "name": "f", "file": "f.c", "line": 5, "self": 130, "total": 250, "calls": 1,
    }  # fmt: skip
    assert {"file": "f.c", "line": 2, "self": 40} in found["lines"]
    assert (found["metric"], found["total"], found["exact"]) == ("cycles", 250, True)
    del record["counts"]
    with pytest.raises(ReportFileError, match="the key counts is missing"):
        form.read(record, ())
    record["counts"] = [[0]]
    with pytest.raises(ReportFileError, match="The profile is damaged"):
        form.read(record, ())


def test_what_others_have_named_does_nothing_to_a_terminal() -> None:
    hostile = "two\x1b]0;pwned\x07"
    small = small_profile()
    profile = dataclasses.replace(
        small,
        function=hostile,
        symbols=tuple(s._replace(name=hostile) for s in small.symbols),
        instructions=tuple(
            dataclasses.replace(i, frames=(Frame(hostile, "f.c", 7),), text=hostile)
            for i in small.instructions
        ),
        sources={"f.c": f"{hostile}\n" * 9},
        failure=hostile,
        state="incomplete left",
    )
    for page in (functions_page(profile), lines_page(profile), instructions_page(profile)):
        text = plain([heading(profile), *page, *notes(profile)])
        assert "pwned" in text
        assert not {"\x1b", "\x07"} & {*text}


# -- forms ------------------------------------------------------------------------------------


def test_stacks_add_up_to_the_call_with_inlined_functions_as_frames() -> None:
    stacks = stacks_of(small_profile(with_interrupt=True))
    names = {tuple(frame.function for frame in stack): cost for stack, cost in stacks.items()}
    assert names[("f", "twice")] == 4
    assert names[("f", "__mul")] == 12
    assert names[("(interrupts)", "on_timer")] == 7
    assert sum(stacks.values()) == 25 + 7


def test_collapsed_stacks_are_those_within_the_call() -> None:
    assert sorted(render_collapsed(profile_report(small_profile())).splitlines()) == [
        "desk;f 9",
        "desk;f;__mul 12",
        "desk;f;twice 4",
    ]


def test_callgrind_annotate_finds_the_same_figures(tmp_path: Path) -> None:
    requires_tool("callgrind_annotate", "valgrind")
    file = tmp_path / "callgrind.out"
    file.write_text(callgrind(small_profile(["instructions", "cycles"])))
    done = subprocess.run(
        ["callgrind_annotate", "--auto=no", "--threshold=100", str(file)],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    figures = [line.split() for line in done.stdout.splitlines() if "(" in line and "%" in line]
    found = {words[-1]: (words[0], words[2] if len(words) > 4 else "") for words in figures}
    assert found["f.c:f"][0] == "13"
    assert found["???:__mul"][0] == "12"
    assert any(words[0] == "25" and "PROGRAM" in words for words in figures)


def test_a_file_of_callgrind_holds_one_profile() -> None:
    with pytest.raises(UsageError, match=r"has 2 profiles\. A callgrind file holds one"):
        render_callgrind(profile_report(small_profile(), small_profile()))
    with pytest.raises(UsageError, match="The Report has no profile"):
        render_callgrind(Report([{"Name": "f", "Count": 1, "cycles": Count(3)}], {}, {}))


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Take a protocol buffer apart, by its specification."""

    def varint(at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            byte = message[at]
            value |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                return value, at

    at = 0
    while at < len(message):
        key, at = varint(at)
        value, at = varint(at)
        if key & 7 == 2:
            yield key >> 3, message[at : at + value]
            at += value
        else:
            yield key >> 3, value


def numbers(packed: int | bytes) -> list[int]:
    assert isinstance(packed, bytes)
    found, value, shift = [], 0, 0
    for byte in packed:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            found.append(value)
            value = shift = 0
    return found


def test_pprof_has_each_stack_leaf_first_with_all_columns() -> None:
    message = gzip.decompress(pprof([small_profile(["instructions", "cycles"])]))
    found = list(fields(message))
    texts = [value.decode() for field, value in found if field == 6 and isinstance(value, bytes)]
    assert texts[0] == ""

    def parts(field: int) -> list[dict[int, int | bytes]]:
        return [dict(fields(v)) for f, v in found if f == field and isinstance(v, bytes)]

    assert [texts[int(each[1])] for each in parts(1)] == ["instructions", "cycles"]
    functions = {each[1]: texts[int(each[2])] for each in parts(5)}
    lines = {each[1]: dict(fields(bytes(each[4]))) for each in parts(4)}  # type: ignore[arg-type]
    samples = {}
    for each in parts(2):
        stack = tuple(
            (functions[lines[place][1]], lines[place].get(2, 0)) for place in numbers(each[1])
        )
        samples[stack] = numbers(each[2])
    assert samples[("twice", 2), ("f", 8)] == [4, 40]
    assert samples[("__mul", 0), ("f", 5)] == [12, 120]
    assert [sum(column) for column in zip(*samples.values(), strict=True)] == [25, 250]


def test_speedscope_begins_with_what_is_within_the_call() -> None:
    document = json.loads(render_speedscope(profile_report(small_profile())))
    first = document["profiles"][0]
    assert first["name"] == "f on desk: instructions of one call"
    assert (first["endValue"], sum(first["weights"])) == (25, 25)
    names = [[document["shared"]["frames"][n]["name"] for n in s] for s in first["samples"]]
    assert ["f", "twice"] in names


# -- records ----------------------------------------------------------------------------------

RECORD = """\
boardprof-record 1
columns instructions
state complete
total 7
path 0 -1 100 1
path 1 -1 0 0
path 2 -1 0 0
ran 0 2 100 2121
not 0 1 106 1
end
"""


def test_a_record_has_the_count_of_each_instruction(tmp_path: Path) -> None:
    file = tmp_path / "record"
    file.write_text(RECORD)
    record = read_record(file)
    assert record.counts == {(0, 0x100): [2], (0, 0x104): [2], (0, 0x106): [1], (0, 0x10A): [2]}
    assert record.is_complete


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("end\n", "", "not complete, or of another version"),
        ("record 1", "record 2", "not complete, or of another version"),
        ("total 7", "total 8", r"add up to \[7\], its total is \[8\]"),
        ("ran 0 2 100", "ran 0 two 100", "Line 8 of the record is damaged: ran 0 two 100 2121"),
        ("state", "mood", "Line 3 of the record is damaged: mood complete"),
    ],
)
def test_a_damaged_record_is_refused(tmp_path: Path, before: str, after: str, why: str) -> None:
    file = tmp_path / "record"
    file.write_text(RECORD.replace(before, after))
    with pytest.raises(DecodeError, match=why):
        read_record(file)


def test_profiles_of_different_metrics_do_not_go_into_one_file_of_stacks() -> None:
    cycles = dataclasses.replace(small_profile(["cycles"]), board="uno")
    with pytest.raises(UsageError, match=r"do not add up: desk: instructions; uno: cycles\.\n"):
        render_collapsed(profile_report(small_profile(), cycles))
    both = dataclasses.replace(small_profile(["cycles", "instructions"]), board="uno")
    lines = render_collapsed(profile_report(small_profile(), both)).splitlines()
    assert "desk;f 9" in lines
    assert "uno;f 90" in lines  # its instructions, not its cycles


def test_a_line_feed_in_a_name_ends_no_line_of_a_profiles_file() -> None:
    odd = dataclasses.replace(
        small_profile(["two\nwords"]), symbols=(Symbol("f\ng;h", "f.c", 5),) * 3
    )
    assert "events: two-words\n" in callgrind(odd)
    assert "desk;f\\ng\\x3bh 9\n" in render_collapsed(profile_report(odd))


def test_a_profile_that_is_incomplete_says_so_to_callgrind() -> None:
    text = callgrind(dataclasses.replace(small_profile(), state="incomplete left"))
    assert "desc: Trigger: incomplete left" in text.splitlines()


def test_a_cost_without_a_line_does_not_show_the_last_line_of_the_source() -> None:
    profile = straight_profile({0: (2, 1), 3: (1, 4)}, "one\ntwo\nthree\nfour\n")
    lines = plain(lines_page(profile)).splitlines()
    assert lines[-1].split() == ["2", "33.3", "1"]
