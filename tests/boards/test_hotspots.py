# SPDX-License-Identifier: Apache-2.0
"""Exact profiles of calls: the sums are the boards' own counts, the paths are those of the code."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from boardprof.base.errors import BoardError, DeviceError, MissingToolError, UsageError
from boardprof.measure.board.board import Board
from boardprof.results.comparison.profile_difference import profile_difference
from boardprof.results.report.profile import Profile
from boardprof.target.build.build_options import BuildOptions
from tests.boards.conftest import ROOMY, WORKLOADS, available, spec_of
from tests.boards.test_masked import SUM, ticking
from tests.boards.witness import NAMES, SIGNATURES, argument
from tests.firmware import build
from tests.tools.insn_count import build_plugin, plugin_argument, read_counts, symbol_range

RECORDED = [name for name in ROOMY if spec_of(name).launch.record]
PATHS = Path(__file__).parent / "fixtures" / "hotspots" / "paths.c"
IN_MAKE_TEST = {"qemu-rv32", "qemu-cortex-m4"}
BOARDS = [
    name if name in IN_MAKE_TEST else pytest.param(name, marks=pytest.mark.nightly)
    for name in RECORDED
]


@pytest.fixture(scope="module", params=BOARDS)
def paths(request: pytest.FixtureRequest) -> Iterator[Board]:
    with build(available(request.param), [PATHS], BuildOptions("-O1")).open() as board:
        yield board


def calls_of(profile: Profile) -> dict[str, int]:
    """Each path without the measured function, and how often it was taken."""
    return {" ".join(each.functions[1:]): each.calls for each in profile.paths()}


def check_sums(profile: Profile) -> None:
    """See that functions, lines and paths are parts of one sum, which is the board's count.

    A pipeline fetches a first instruction before the call begins, for a cycle at most: where it is
    spread over two words (tests/boards/test_ibex_rtl.py).
    """
    assert profile.is_complete
    for name in profile.columns:
        total = profile.sum(name)
        assert sum(each.self for each in profile.functions(name)) == total
        assert sum(each.self for each in profile.lines(name)) == total
        assert sum(each.self for each in profile.paths(name)) == total
        if name == profile.checked:
            assert profile.counted[name] == total
        elif name in profile.counted:
            assert profile.counted[name] - total in (0, 1)


# -- paths ------------------------------------------------------------------------------------


def test_recursion_is_one_path_with_all_its_calls(paths: Board) -> None:
    profile = paths.hotspots("fib", 10)
    check_sums(profile)
    assert calls_of(profile) == {"": 177}  # 2 * fib(11) - 1
    (fib,) = profile.functions()
    assert (fib.name, fib.self, fib.total, fib.calls) == ("fib", profile.sum(), profile.sum(), 177)


def test_functions_that_call_each_other_each_have_one_path(paths: Board) -> None:
    profile = paths.hotspots("is_even", 9)
    check_sums(profile)
    assert calls_of(profile) == {"": 5, "is_odd": 5}  # with 9, 7, 5, 3, 1 and 8, 6, 4, 2, 0
    totals = {each.name: each.total for each in profile.functions()}
    assert totals["is_even"] == profile.sum()
    assert totals["is_odd"] == profile.sum() - _until_first_call(profile)


def _until_first_call(profile: Profile) -> int:
    """Instructions of the outermost call that are not within a call of is_odd."""
    own = {each.name: each for each in profile.functions()}["is_even"]
    return own.self // own.calls


def test_a_tail_call_is_below_the_function_that_made_it(paths: Board) -> None:
    profile = paths.hotspots("tail", 1)
    check_sums(profile)
    assert calls_of(profile) == {"": 1, "middle": 1, "middle last": 1}
    own = {each.name: each for each in profile.functions()}
    assert own["middle"].total == own["middle"].self + own["last"].self
    assert own["tail"].total == profile.sum()


def test_tail_calls_in_turns_take_no_more_than_their_two_paths(paths: Board) -> None:
    profile = paths.hotspots("table_tennis", 100_000)
    check_sums(profile)
    assert calls_of(profile) == {"": 1, "ping": 50_001, "ping pong": 50_000}
    ping, pong = (e for name in ("ping", "pong") for e in profile.functions() if e.name == name)
    assert ping.total == ping.self + pong.self
    turn = pong.self // 50_000  # of which each, and of ping, has as many instructions
    assert ping.total - pong.total == turn


def test_a_deep_recursion_is_followed_to_its_end(paths: Board) -> None:
    profile = paths.hotspots("deep", 1000)
    check_sums(profile)
    assert calls_of(profile) == {"": 1, "depth": 1001}


def test_calls_through_a_table_go_to_the_functions_in_it(paths: Board) -> None:
    profile = paths.hotspots("dispatch", 9)
    check_sums(profile)
    assert calls_of(profile) == {"": 1, "square": 3, "twice": 6}


def test_a_jump_table_is_not_a_call(paths: Board) -> None:
    profile = paths.hotspots("choose", 16)
    check_sums(profile)
    assert calls_of(profile) == {"": 1, "twice": 2, "square": 2}


def test_longjmp_leads_back_to_the_function_that_called_setjmp(paths: Board) -> None:
    profile = paths.hotspots("caught", 4)
    check_sums(profile)
    calls = calls_of(profile)
    assert calls["thrower"] == 5
    assert calls["thrower longjmp"] == calls["setjmp"] == calls["after"] == 1


def test_what_runs_after_a_longjmp_out_of_a_recursion_is_not_in_the_functions_it_left(
    paths: Board,
) -> None:
    totals = []
    for work in (1, 1000):
        profile = paths.hotspots("rescued", 4, work)
        check_sums(profile)
        own = {each.name: each for each in profile.functions()}
        assert (own["dive"].calls, own["climb"].calls) == (5, 5)
        assert own["dive"].self > 3 * work
        totals.append(own["climb"].total)
    assert totals[0] == totals[1]


def test_each_way_to_a_function_is_a_path_of_its_own(paths: Board) -> None:
    profile = paths.hotspots("many", 1)
    check_sums(profile)
    leaves = {path: n for path, n in calls_of(profile).items() if path.endswith(" leaf")}
    assert leaves == {
        f"three three_{a} two two_{b} one one_{c} leaf": 1 for a in "ab" for b in "ab" for c in "ab"
    }
    own = {each.name: each for each in profile.functions()}
    assert [own[name].calls for name in ("three", "two", "one", "leaf")] == [1, 2, 4, 8]


def test_lines_are_those_of_inlined_functions(paths: Board) -> None:
    profile = paths.hotspots("inlined", 10)
    check_sums(profile)
    assert calls_of(profile) == {"": 1}
    source = PATHS.read_text().splitlines()
    lines = {source[each.line - 1].strip(): each for each in profile.lines() if each.line}
    stored = lines["bp_sink = x;"]
    assert (stored.function, stored.executions) == ("inner", 20)  # two deep, twice in each round


def test_a_helper_of_the_compiler_has_its_name(paths: Board) -> None:
    profile = paths.hotspots("divided", 10**12, 7)
    check_sums(profile)
    helpers = {each.name for each in profile.functions()} - {"divided", "__udivmoddi4"}
    if paths.spec.build.arch == "cortex_m":
        assert helpers == {"__aeabi_ldivmod"}
    else:
        assert helpers == ({"__divdi3"} if paths.spec.name in ("qemu-rv32", "ibex-rtl") else set())


# -- which call -------------------------------------------------------------------------------

GROWS = """\
static unsigned calls;
volatile unsigned sink;
void grows(void) {
    calls++;
    for (unsigned i = 0; i < calls; i++)
        sink = i;
}
"""


@pytest.mark.parametrize("name", [*BOARDS, pytest.param("arduino-uno", marks=pytest.mark.nightly)])
def test_the_recorded_call_is_the_one_after_the_warmup(name: str, tmp_path: Path) -> None:
    """The loop of call N has N rounds."""
    source = tmp_path / "grows.c"
    source.write_text(GROWS)
    firmware = build(available(name), [source], BuildOptions("-O1"))
    for warmup, rounds in ((0, 1), (1, 2), (2, 3), (10, 11)):
        with firmware.open() as board:
            profile = board.hotspots("grows", warmup=warmup)
        check_sums(profile)
        assert [each.executions for each in profile.lines() if each.line == 6] == [rounds]


# -- what does not return ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["qemu-rv32", "qemu-cortex-a53", "qemu-cortex-m4"])
def test_the_profile_of_a_trap_ends_before_the_instruction_that_trapped(
    name: str, tmp_path: Path
) -> None:
    """The load is right before the return, and only one call of many has a null pointer."""
    source = tmp_path / "null.c"
    source.write_text(
        "int null(const int *p) { return *p; }\n"
        "static int calls;\n"
        "int third(int x) { return ++calls == 3 ? *(volatile int *)0 : x; }\n"
    )
    with build(available(name), [source]).open() as board:
        profile = board.hotspots("null", None)
        assert "null trapped on the board: bad address 0x0" in profile.failure
        assert (profile.state, profile.sum()) == ("incomplete left", 0)
        assert {each.name for each in profile.functions()} <= {"null"}
        third = board.hotspots("third", 1, warmup=5)
        assert third.state == "incomplete left"
        assert {each.name for each in third.functions()} == {"third"}


def test_a_call_that_hangs_after_a_warmup_is_the_one_in_the_profile(tmp_path: Path) -> None:
    source = tmp_path / "second.c"
    source.write_text(
        "static volatile int calls;\nvoid second(void) {\n    calls++;\n"
        "    while (calls == 2) {}\n}\n"
    )
    with build(available("qemu-rv32"), [source]).open(timeout_s=0.05) as board:
        profile = board.hotspots("second", warmup=3)
    assert not profile.is_complete
    assert profile.sum() > 1_000_000


def test_a_call_that_traps_has_a_profile_of_what_ran(paths: Board) -> None:
    profile = paths.hotspots("wild")
    assert (profile.state, profile.is_complete) == ("incomplete left", False)
    assert "wild trapped on the board: bad address 0xfffffff0" in profile.failure
    assert calls_of(profile) == {"": 1, "leaf": 2}
    assert paths.hotspots("fib", 3).is_complete  # the board goes on


def test_a_call_that_is_ended_by_its_limit_has_a_profile_of_what_ran() -> None:
    firmware = build(available("qemu-rv32"), [PATHS], BuildOptions("-O1"))
    with firmware.open(timeout_s=0.05) as board:
        profile = board.hotspots("endless")
        assert "endless did not end within 0.05 s" in profile.failure
        assert not profile.is_complete
        # An instruction takes a nanosecond of the board's clock.
        assert 45_000_000 < profile.sum() < 55_000_000


def test_a_call_that_never_began_has_no_profile(tmp_path: Path) -> None:
    source = tmp_path / "f.c"
    source.write_text("#include <stdint.h>\nuint32_t f(const uint8_t *p) { return *p; }\n")
    with build(available("qemu-rv32"), [source]).open() as board:
        with pytest.raises(UsageError, match="p of f is an object"):
            board.hotspots("f", object())
        with pytest.raises(DeviceError):
            board.functions.f(None)


def test_a_conditional_call_that_is_not_made_is_no_interrupt(tmp_path: Path) -> None:
    source = tmp_path / "conditional.c"
    source.write_text(
        "__attribute__((naked)) unsigned conditional(unsigned x) {\n"
        '    __asm__("push {r4, lr}\\n cmp r0, #0\\n it eq\\n bleq 1f\\n"\n'
        '            "adds r0, #1\\n adds r0, #1\\n pop {r4, pc}\\n 1: bx lr\\n");\n'
        "}\n"
    )
    with build(available("qemu-cortex-m4"), [source]).open() as board:
        for x, executed in ((1, 7), (0, 8)):
            profile = board.hotspots("conditional", x)
            check_sums(profile)
            assert (profile.sum(), profile.interrupts()) == (executed, 0)


def test_the_recorded_call_finds_arrays_as_they_were_given(tmp_path: Path) -> None:
    """After the warm-up, which sorts, a second call would have nothing to move."""
    source = tmp_path / "sort.c"
    source.write_text(
        "#include <stdint.h>\n"
        "void sort(int16_t *x, int n) {\n"
        "    for (int i = 1; i < n; i++)\n"
        "        for (int k = i; k > 0 && x[k - 1] > x[k]; k--) {\n"
        "            int16_t last = x[k]; x[k] = x[k - 1]; x[k - 1] = last;\n"
        "        }\n"
        "}\n"
    )
    with build(available("qemu-rv32"), [source]).open() as board:
        falling = np.arange(50, 0, -1, dtype=np.int16)
        given = falling.copy()
        profile = board.hotspots("sort", given, 50)
        check_sums(profile)
        assert (given == falling).all()
        moves = [each.executions for each in profile.lines() if each.line == 5]
        assert moves == [1225]  # 50 * 49 / 2
        report = board.profile("sort", given, 50, repeat=1)
        assert report.calls[0]["instructions"].value == profile.sum()


# -- sums -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BOARDS)
def test_the_profile_of_each_workload_adds_up_to_the_boards_count(name: str) -> None:
    with build(available(name), [WORKLOADS]).open() as board:
        for function in NAMES:
            profile = board.hotspots(function)
            check_sums(profile)
            report = board.profile(function, warmup=1, repeat=1)
            assert report.calls[0]["instructions"].value == profile.sum("instructions"), function


@pytest.mark.parametrize("name", ["qemu-cortex-m3", "qemu-cortex-m55"])
def test_profiles_by_the_clocks_instructions_are_those_of_another_counter(
    name: str, tmp_path: Path
) -> None:
    """QEMU's other plugin is of the tests, and shares no code with the recorder."""
    firmware = build(available(name), [WORKLOADS])
    entries = {each: symbol_range(firmware.image, each)[0] for each in NAMES}
    stops = [symbol_range(firmware.image, stop) for stop in ("bp_window", "bp_thunk_void")]
    counts = tmp_path / "counts"
    plugin = plugin_argument(build_plugin(), list(entries.values()), stops, counts)
    spec = available(name)
    launch = dataclasses.replace(spec.launch, command=(*spec.launch.command, *plugin))
    watched = dataclasses.replace(firmware, board=dataclasses.replace(spec, launch=launch))
    with watched.open() as board:
        for function in NAMES:
            profile = board.hotspots(function, warmup=0)
            check_sums(profile)
            assert profile.counted == {"instructions": profile.sum()}
            # The recorded call is the first of its entry from a window; singles come after it.
            assert profile.sum() in read_counts(counts, 0)[entries[function]]


def test_the_profile_of_each_signature_adds_up_to_the_boards_count() -> None:
    firmware = build(available("qemu-rv32"), [SIGNATURES])
    with firmware.open() as board:
        for function in firmware.functions:
            given = [argument(each.name, each.type) for each in function.parameters]
            profile = board.hotspots(function.name, *given)
            check_sums(profile)
            assert profile.counted, function.name


# -- tools ------------------------------------------------------------------------------------


def test_without_a_compiler_for_the_plugin_its_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "f.c"
    source.write_text("int f(int x) { return x + 1; }\n")
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for tool in Path(folder).glob("*"):
            is_there = os.path.lexists(tools / tool.name)  # a link may lead nowhere
            if tool.name not in ("gcc", "cc") and not is_there:
                (tools / tool.name).symlink_to(tool)
    with build(available("qemu-rv32"), [source]).open() as board:
        monkeypatch.setenv("PATH", str(tools))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # which has no plugin
        with pytest.raises(MissingToolError, match="gcc was not found on PATH") as caught:
            board.hotspots("f", 1)
        assert caught.value.hint is not None
        assert "apt install gcc" in caught.value.hint


def test_a_qemu_that_refuses_the_plugin_is_told_with_the_version_that_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its words are those of plugins/loader.c of QEMU 9, where an old plugin meets a new QEMU."""
    source = tmp_path / "f.c"
    source.write_text("int f(int x) { return x + 1; }\n")
    real = shutil.which("qemu-system-riscv32")
    newer = tmp_path / "bin" / "qemu-system-riscv32"
    newer.parent.mkdir()
    newer.write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        '*--version*) echo "QEMU emulator version 99.0.0";;\n'
        "*-plugin*) echo 'qemu-system-riscv32: Could not load plugin x.so: plugin requires API "
        "version 2, but this QEMU supports only a minimum version of 5' >&2; exit 1;;\n"
        f'*) exec {real} "$@";;\n'
        "esac\n"
    )
    newer.chmod(0o755)
    monkeypatch.setenv("PATH", f"{newer.parent}{os.pathsep}{os.environ['PATH']}")
    with build(available("qemu-rv32"), [source]).open() as board:
        with pytest.raises(BoardError, match="does not load the recorder") as caught:
            board.hotspots("f", 1)
        assert "only a minimum version of 5" in caught.value.message
        assert caught.value.hint is not None
        assert "7.2 and 10.0 of Debian 12 and 13" in caught.value.hint
        assert board.functions.f(1) == 2


# -- interrupts -------------------------------------------------------------------------------


def test_interrupts_within_a_call_are_not_in_its_profile(tmp_path: Path) -> None:
    changes = {
        '"ticks", "riscv_hpm"]': '"riscv_hpm", "interrupts"]',
        "guard = 1, ": "",  # a guarded call lets no other interrupt in
    }
    spec = ticking("qemu-rv32", tmp_path / "ticking", "ticking_rv32_port.c", changes)
    source = tmp_path / "sum.c"
    source.write_text(SUM)
    with build(spec, [source]).open() as board:
        quiet = board.profile("sum", 500_000, mask_interrupts=True, repeat=1).calls[0]
        profile = board.hotspots("sum", 500_000)
        assert profile.counted["instructions"] == quiet["instructions"].value
    check_sums(profile)
    handlers = {
        profile.symbols[profile.tree[node].symbol].name for node in profile.in_interrupts - {1}
    }
    assert "trap" in handlers
    # Four or five of them, each with a loop of 100 rounds and the agent's hooks.
    assert 4 * 100 * 2 < profile.interrupts() < 5 * 2000
    assert calls_of(profile) == {"": 1}


# -- why --------------------------------------------------------------------------------------


def test_the_difference_of_two_profiles_names_function_and_line(tmp_path: Path) -> None:
    source = WORKLOADS / "fir_q15.c"
    narrow = tmp_path / "fir_q15.c"
    narrow.write_text(source.read_text().replace("int64_t sum = 0;", "int32_t sum = 0;"))
    found = []
    for file in (narrow, source):
        with build(available("qemu-rv32"), [file]).open() as board:
            found.append(board.hotspots("fir_q15"))
    difference = profile_difference(*found)
    assert (difference.before, difference.after) == (found[0].sum(), found[1].sum())
    assert sum(each.change for each in difference.functions) == found[1].sum() - found[0].sum()
    assert sum(each.change for each in difference.lines) == found[1].sum() - found[0].sum()
    most = difference.lines[0]
    assert most.text == "sum += (int32_t)h[k] * *(newest - k);"
    assert (most.times_before, most.times_after) == (8192, 8192)
    assert difference.functions[0].name == "fir"


def test_a_loop_of_a_single_branch_is_no_interrupt(tmp_path: Path) -> None:
    source = tmp_path / "rest.c"
    source.write_text("void rest(void) { for (;;) {} }\n")
    with build(available("qemu-rv32"), [source]).open(timeout_s=0.2) as board:
        profile = board.hotspots("rest")
    assert not profile.is_complete
    assert profile.sum() > 1_000_000
    (path,) = profile.paths()
    assert (path.functions, path.calls) == (("rest",), 1)
    assert profile.interrupts() < 1000  # the board's own, at its time limit


# -- other code -------------------------------------------------------------------------------

TEMPLATES = PATHS.with_name("templates.cpp")
OUTLINED = PATHS.with_name("outlined.c")


@pytest.mark.parametrize("name", ["qemu-rv32", "qemu-cortex-m4"])
def test_functions_of_cpp_have_the_names_of_the_source(name: str) -> None:
    with build(available(name), [TEMPLATES]).open() as board:
        profile = board.hotspots("total", np.arange(16, dtype=np.int32), 16)
    check_sums(profile)
    assert {each.name.partition(".")[0]: each.calls for each in profile.functions()} == {
        "total": 1,
        "sum_of<total::{lambda(long)#1}>": 1,
        "total::{lambda(long)#1}::operator()": 16,
        "dsp::Gain::operator()": 16,
        "limited<long>": 16,
    }
    names = {each.function for each in profile.lines()}
    assert {"limited<long>", "dsp::Gain::operator()"} <= names


def test_code_that_saves_registers_for_others_is_a_function_of_its_own() -> None:
    """Each entry of libgcc's code goes on in the next one, without a jump."""
    options = BuildOptions("-Os", cflags="-msave-restore")
    with build(available("qemu-rv32"), [OUTLINED], options).open() as board:
        profile = board.hotspots("outlined", 10)
    check_sums(profile)
    found = {each.name: each for each in profile.functions()}
    assert (found["leaf"].calls, found["thrice"].calls) == (60, 20)
    saves = [each for each in profile.functions() if each.name.startswith("__riscv_save_")]
    assert sum(each.calls for each in saves) == 20 + 1  # of thrice, and of outlined
    last = found["__riscv_restore_0"]
    assert last.calls == 20 + 1
    assert last.total == last.self == 21 * 6  # three registers, the stack pointer, return
    for each in profile.functions():
        assert each.total >= each.self, each.name
