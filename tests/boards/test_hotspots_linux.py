# SPDX-License-Identifier: Apache-2.0
"""Profiles on Linux, recorded by callgrind: counts and paths that are known from the code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from boardprof.base.errors import MissingToolError, UsageError
from boardprof.measure.board.board import Board
from boardprof.results.report.profile import Profile
from boardprof.show.profile_tables import notes
from boardprof.target.build.build_options import BuildOptions
from tests.boards.conftest import available
from tests.firmware import build
from tests.support import requires_tool

CALLS = """\
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#define OUT_OF_LINE __attribute__((noinline, noclone, noipa))

OUT_OF_LINE static void wait(uint64_t n) {
    __asm__ volatile("1: sub $1, %0\\n jnz 1b" : "+r"(n) : : "cc");
}
void twice(uint64_t n) { wait(n); wait(n); }

OUT_OF_LINE uint32_t fib(uint32_t n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

OUT_OF_LINE uint32_t is_odd(uint32_t n);
OUT_OF_LINE uint32_t is_even(uint32_t n) { return n == 0 ? 1 : (is_odd(n - 1) ^ 1) ^ 1; }
OUT_OF_LINE uint32_t is_odd(uint32_t n) { return n == 0 ? 0 : (is_even(n - 1) ^ 1) ^ 1; }

OUT_OF_LINE uint32_t second(uint32_t n);
OUT_OF_LINE uint32_t third(uint32_t n);
OUT_OF_LINE uint32_t first(uint32_t n) { return n == 0 ? 1 : (second(n - 1) ^ 1) ^ 1; }
OUT_OF_LINE uint32_t second(uint32_t n) { return n == 0 ? 2 : (third(n - 1) ^ 1) ^ 1; }
OUT_OF_LINE uint32_t third(uint32_t n) { return n == 0 ? 3 : (first(n - 1) ^ 1) ^ 1; }
uint32_t circle(uint32_t n) { return first(n) + 1; }

OUT_OF_LINE static int by_value(const void *a, const void *b) {
    return *(const int32_t *)a - *(const int32_t *)b;
}
void sorted(int32_t *a) { qsort(a, 2, sizeof(*a), by_value); }

volatile uint32_t sink;
OUT_OF_LINE static void leaf(void) { sink++; }
void wild(void) { leaf(); leaf(); *(volatile uint32_t *)8 = 1; }

void more(uint64_t n);
void both(uint64_t n) { wait(n); more(n); }

extern void (*const other_wait)(uint64_t);
void by_pointer(uint64_t n) {
    void (*volatile each)(uint64_t) = wait;
    for (int i = 0; i < 2; i++, each = other_wait) each(n);
}
"""

MORE = """\
#include <stdint.h>
__attribute__((noinline, noclone, noipa)) static void wait(uint64_t n) {
    __asm__ volatile("1: nop\\n sub $1, %0\\n jnz 1b" : "+r"(n) : : "cc");
}
void more(uint64_t n) { wait(n); }
void (*const other_wait)(uint64_t) = wait;
"""


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    requires_tool("valgrind", "valgrind")
    folder = tmp_path_factory.mktemp("linux")
    sources = [folder / "calls.c", folder / "more.c"]
    for source, text in zip(sources, (CALLS, MORE), strict=True):
        source.write_text(text)
    options = BuildOptions("-O1 -fno-optimize-sibling-calls")
    with build(available("linux"), sources, options).open() as found:
        yield found


def calls_of(profile: Profile) -> dict[str, int]:
    return {" ".join(each.functions): each.calls for each in profile.paths()}


def test_a_loop_of_two_instructions_counts_two_a_round(board: Board) -> None:
    profile = board.hotspots("twice", 1000)
    own = {each.name: each for each in profile.functions()}
    assert own["wait"].self == 2 * (2 * 1000 + 1)  # and its return
    assert (own["wait"].calls, own["twice"].calls) == (2, 1)
    assert own["twice"].total == profile.sum() == own["wait"].self + own["twice"].self
    lines = {each.line: each.self for each in profile.lines() if each.file.endswith("calls.c")}
    assert lines[7] == 4000
    assert [each.self for each in profile.lines()] != []
    assert sum(each.self for each in profile.lines()) == profile.sum()


def test_static_functions_of_two_files_with_one_name_have_their_own_totals_and_calls(
    board: Board,
) -> None:
    found = board.hotspots("both", 1000).functions()
    waits = [each for each in found if each.name == "wait"]
    assert sorted((w.self, w.total, w.calls) for w in waits) == [(2001, 2001, 1), (3001, 3001, 1)]
    (more,) = (each for each in found if each.name == "more")
    assert more.total - more.self == 3001
    with pytest.raises(UsageError, match="Two functions named wait ran within one path of calls"):
        board.hotspots("by_pointer", 1000)


def test_recursion_is_one_path_with_all_its_calls(board: Board) -> None:
    profile = board.hotspots("fib", 10)
    assert calls_of(profile) == {"fib": 177}
    assert calls_of(board.hotspots("is_even", 9)) == {"is_even": 5, "is_even is_odd": 5}


@pytest.mark.parametrize("n", [7, 700, 7000])
def test_a_functions_total_has_all_that_it_called_in_turns(board: Board, n: int) -> None:
    """Beyond 1,000 calls within each other, callgrind tells only the innermost ones apart."""
    found = {each.name: each for each in board.hotspots("circle", n).functions()}
    one = found["first"].self // (n // 3 + 1)  # of each but the innermost, which are alike
    assert found["circle"].total - found["circle"].self == found["first"].total
    assert found["first"].total - found["second"].total == one
    assert found["second"].total - found["third"].total == one


def test_recursion_through_two_functions_beyond_what_callgrind_tells_apart_keeps_its_sum(
    board: Board,
) -> None:
    shallow, deep = (board.hotspots("is_even", n) for n in (500, 5000))
    rounds = 250, 2500
    last = shallow.sum() % 250  # of the innermost call
    assert (shallow.sum() - last) / rounds[0] == (deep.sum() - last) / rounds[1]
    assert calls_of(shallow) == {"is_even": 251, "is_even is_odd": 250}
    assert calls_of(deep) == {"is_even": 0, "is_even is_odd": 0}  # not known
    assert {e.name: e.total for e in deep.functions()}["is_even"] == deep.sum()


def test_functions_of_shared_libraries_have_their_names_and_call_back(board: Board) -> None:
    import numpy as np

    profile = board.hotspots("sorted", np.array([2, 1], np.int32))
    own = {each.name: each for each in profile.functions()}
    assert own["by_value"].calls == 1
    assert own["qsort"].total > own["by_value"].total
    assert own["qsort"].file == ""
    (path,) = (each.functions for each in profile.paths() if each.functions[-1] == "by_value")
    assert path[:2] == ("sorted", "qsort")


def test_a_call_that_traps_is_incomplete_and_the_next_one_is_recorded(board: Board) -> None:
    profile = board.hotspots("wild")
    assert not profile.is_complete
    assert "bad address 0x8" in profile.failure
    assert {each.name: each.calls for each in profile.functions()}["leaf"] == 2
    assert calls_of(board.hotspots("fib", 3)) == {"fib": 5}


def test_the_recorded_call_is_the_one_after_the_warmup(tmp_path: Path) -> None:
    source = tmp_path / "grows.c"
    source.write_text(
        "#include <stdint.h>\nstatic uint64_t calls;\nvoid grows(void) {\n"
        "    uint64_t n = ++calls;\n"
        '    __asm__ volatile("1: sub $1, %0\\n jnz 1b" : "+r"(n) : : "cc");\n}\n'
    )
    firmware = build(available("linux"), [source])
    found = []
    for warmup in (0, 1, 9):
        with firmware.open() as board:
            found.append(board.hotspots("grows", warmup=warmup).sum())
    assert [each - found[0] for each in found] == [0, 2 * 1, 2 * 9]  # two instructions a round


def test_its_counts_are_held_against_nothing_and_the_notes_say_so(board: Board) -> None:
    profile = board.hotspots("fib", 5)
    assert (profile.exact, profile.counted) == (True, {})
    told = "total not checked: callgrind simulates its own CPU"
    assert notes(profile) == [told]


def test_without_valgrind_the_error_names_the_package(
    board: Board, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = tmp_path / "other.c"
    source.write_text("void other(void) {}\n")
    with build(available("linux"), [source]).open() as other:
        monkeypatch.setattr("shutil.which", lambda name: None)
        with pytest.raises(MissingToolError, match="valgrind"):
            other.hotspots("other")


def test_on_native_the_error_names_linux(tmp_path: Path) -> None:
    source = tmp_path / "other.c"
    source.write_text("void other(void) {}\n")
    with build(available("native"), [source]).open() as other:
        with pytest.raises(UsageError, match="runs in this process") as caught:
            other.hotspots("other")
        assert "-b linux" in str(caught.value.hint)
