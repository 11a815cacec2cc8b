# SPDX-License-Identifier: Apache-2.0
"""Frames that do not fit the stack, or of which painting cannot see the end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from boardprof.base.errors import DeviceFaultError
from boardprof.measure.board.board import Board
from boardprof.measure.board.image import BoardImage, StackCheck
from boardprof.results.record import Stack
from boardprof.target.build.build_options import BuildOptions
from boardprof.target.descriptions.board import BoardSpec
from boardprof.target.elf.stack_need import image_stack
from tests.boards.conftest import available
from tests.firmware import build

SOURCE = """\
#define WRITTEN(name, size, at)            \\
    int name(int n) {                      \\
        volatile char bytes[size];         \\
        bytes[at] = (char)n;               \\
        return bytes[at];                  \\
    }
WRITTEN(small, 400, 0)
WRITTEN(upper_end, 200000, 199999)
WRITTEN(behind_the_paint, 2097152, 0)
WRITTEN(too_large, 67108864, 67108863)
static __attribute__((noinline)) WRITTEN(inner, 67108864, 67108863)
int outer(int n) { return inner(n) + 1; }
static __attribute__((noinline)) WRITTEN(wide, 2097152, 2097151)
int calls_wide(int n) { return wide(n) + 1; }
int recursive(int n) { volatile int m = n; return m == 0 ? 0 : recursive(m - 1) + m; }
"""
NAMES = [
    "small",
    "upper_end",
    "behind_the_paint",
    "too_large",
    "outer",
    "calls_wide",
    "recursive",
    "nothing_of_the_kind",
]


# One of each architecture, with more than 2 MB of stack; x86-64 twice: a process, a library.
LARGE = ["linux", "native", "qemu-cortex-a53", "qemu-cortex-m3", "qemu-rv32", "qemu-rv64"]


@pytest.fixture(scope="module", params=LARGE)
def spec(request: pytest.FixtureRequest) -> BoardSpec:
    return available(request.param)


@pytest.fixture(scope="module", params=["-O0", "-O2", "-Os"])
def image(
    request: pytest.FixtureRequest, spec: BoardSpec, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    source = tmp_path_factory.mktemp("need") / "need.c"
    source.write_text(SOURCE)
    return build(spec, [source], BuildOptions(request.param)).image


@pytest.fixture
def board(spec: BoardSpec, image: Path) -> Iterator[Board]:
    from boardprof.measure.connect import connect

    with connect(spec, image=image) as connected:
        yield connected


def test_the_image_tells_each_frame(image: Path) -> None:
    needs = image_stack(image, NAMES).needs
    assert needs.keys() == set(NAMES) - {"nothing_of_the_kind"}
    for name, size in (("upper_end", 200000), ("behind_the_paint", 2097152)):
        # x86-64 lets a leaf use 128 bytes below its frame.
        assert size - 128 <= needs[name].own <= size + 128
        assert needs[name].total == needs[name].largest == needs[name].own
    assert needs["outer"].own <= 128
    assert needs["outer"].largest_of == "inner"
    assert 67108864 - 128 <= needs["outer"].total <= 67108864 + 256
    assert needs["recursive"].total == needs["recursive"].own <= 128


@pytest.mark.parametrize(("function", "whose"), [("too_large", "too_large"), ("outer", "inner")])
def test_a_frame_that_does_not_fit_the_stack_is_not_tried(
    board: Board, function: str, whose: str
) -> None:
    for attempt in (lambda: board.measure(function, 1), lambda: board.functions[function](1)):
        with pytest.raises(DeviceFaultError) as caught:
            attempt()
        assert caught.value.cause == "stack-overflow"
        assert f"{function} was not called: it needs 67,1" in str(caught.value)
        assert f"arrays in {whose} smaller" in str(caught.value)
    assert board.functions.small(5) == 5


def test_a_stack_that_painting_cannot_see_is_no_number(board: Board) -> None:
    upper, behind, calls = (
        board.measure(name, 1, warmup=0, repeat=1).stack
        for name in ("upper_end", "behind_the_paint", "calls_wide")
    )
    # Without optimisation the parameter is kept below the array, and so is seen.
    is_seen = isinstance(upper, Stack) and 200000 <= upper.used <= 200100
    assert is_seen or str(upper).startswith("upper_end reserves ")
    assert re.fullmatch(
        r"behind_the_paint reserves 2,097,\d\d\d bytes; only [\d,]+ are checked", str(behind)
    )
    assert str(calls).startswith("wide, which calls_wide may call, reserves 2,097,")


def test_a_stack_that_may_go_on_below_what_painting_has_seen_is_no_number(board: Board) -> None:
    some = board.measure("recursive", 1000, warmup=0, repeat=1).stack
    assert isinstance(some, Stack)
    for depth in (263_000, 300_000):
        levels = 1000 * depth // some.used
        deep = board.measure("recursive", levels, warmup=0, repeat=1).stack
        told = r"recursive used all of the 26\d,\d\d\d bytes that are checked"
        assert re.fullmatch(told, str(deep))


def test_a_stack_that_painting_sees_is_one(board: Board) -> None:
    small = board.measure("small", 1, warmup=0, repeat=1).stack
    assert isinstance(small, Stack)
    assert 400 - 128 <= small.used <= 400 + 128


@pytest.mark.parametrize("kept", ["{", '{"needs": 1}', None])
def test_a_cache_that_is_damaged_or_cannot_be_used_ends_no_measurement(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: str | None
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "boardprof" / "functions"

    def check() -> StackCheck:
        known = BoardImage(["too_large"])
        known.file, known.is_of_this_host = image, True
        check = StackCheck("lab-board", known)
        return check

    if kept is None:
        folder.parent.mkdir()
        folder.write_text("a file in the folder's place: nothing can be read or written there")
    else:
        check().figure("too_large", Stack(0, 0))
        (file,) = folder.iterdir()
        file.write_text(kept)
    with pytest.raises(DeviceFaultError, match="it needs 67,1"):
        check().require("too_large")


def test_an_image_that_cannot_be_read_tells_nothing(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(b"\x7fELF and no more")
    assert image_stack(tmp_path / "image", ["f"]).needs == {}
    assert image_stack(tmp_path / "missing", ["f"]).room is None


RECURSIVE = """\
#define FRAME(size) volatile char bytes[size]; bytes[0] = (char)n
int a(int n);
int b(int n);
int c(int n);
int a(int n) { FRAME(1000); return n == 0 ? bytes[0] : b(n - 1) + bytes[0]; }
int b(int n) { FRAME(1400); return n == 0 ? c(n) + bytes[0] : a(n - 1) + c(n - 1) + bytes[0]; }
int c(int n) { FRAME(1800); return n == 0 ? bytes[0] : a(n - 1) + bytes[0]; }
"""


def test_a_recursion_of_several_needs_the_same_in_whatever_order_it_is_asked_for(
    spec: BoardSpec, tmp_path: Path
) -> None:
    (tmp_path / "recursive.c").write_text(RECURSIVE)
    image = build(spec, [tmp_path / "recursive.c"], BuildOptions("-O0")).image
    asked = image_stack(image, ["a", "b", "c"]).needs
    assert asked == image_stack(image, ["c", "b", "a"]).needs
    assert asked == {name: image_stack(image, [name]).needs[name] for name in "abc"}
    for name in "abc":
        assert 4200 <= asked[name].total <= 4200 + 3 * 200
        assert asked[name].largest_of == "c"


UNKNOWN = """\
int all(int n) { volatile char b[n]; for (int i = 0; i < n; i += 4096) b[i] = 1; return b[0]; }
int low(int n) { volatile char b[n]; b[0] = 1; return b[0]; }
int calls_low(int n) { return low(n) + 1; }
static int inc(int n) { return n + 1; }
static int (*volatile function)(int) = inc;
int through(int n) { return function(n) + 1; }
int plain(int n) { volatile char b[100]; b[0] = (char)n; return b[0]; }
"""
WIDE = """
static int big(int n) { volatile char b[SIZE]; b[0] = (char)n; return b[0]; }
static int small(int n) { volatile char b[40]; b[0] = (char)n; return b[0]; }
static int (*volatile function)(int) = FIRST;
int through(int n) { return function(n) + 1; }
int set(int n) { function = n ? small : big; return n; }
static int below(int n) { volatile char b[SIZE]; b[0] = (char)n; return b[0]; }
int chain(int n) { volatile char b[SIZE]; b[SIZE - 1] = (char)n; return below(n) + b[SIZE - 1]; }
"""
PAINTED = {"qemu-rv32": 262144, "native": 262144, "hifive1": 2048}


def stacks(name: str, source: Path, flags: str, *calls: tuple[str, int]) -> list[Stack | str]:
    """Return the stack of calls on a board, which is started once."""
    from boardprof.measure.connect import connect

    spec = available(name)
    image = build(spec, [source], BuildOptions(flags)).image
    with connect(spec, image=image) as board:
        found = [board.measure(call, n, warmup=0, repeat=1).stack for call, n in calls]
    assert all(each is not None for each in found)
    return [each for each in found if each is not None]


@pytest.mark.parametrize("name", PAINTED)
def test_a_frame_of_variable_size_is_no_number(name: str, tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text(UNKNOWN)
    fits, beyond = (1000, 1500) if name == "hifive1" else (262000, 300000)
    calls = [("all", fits), ("low", beyond), ("calls_low", fits), ("through", 1), ("plain", 1)]
    flags = "-O2 -fno-inline"
    of_all, of_low, of_caller, by_pointer, plain = stacks(name, tmp_path / "f.c", flags, *calls)
    may = (
        r"may reserve a variable number of bytes \(at least [\d,]+ were used\); only [\d,]+ are .*"
    )
    assert re.fullmatch("all " + may, str(of_all))
    assert re.fullmatch("low " + may, str(of_low))
    assert re.fullmatch("low, which calls_low may call, " + may, str(of_caller))
    told = r"through may call functions through pointers or a library, and (all|low) " + may
    assert re.fullmatch(told, str(by_pointer))
    assert isinstance(plain, Stack)
    assert 100 <= plain.used <= 128


@pytest.mark.parametrize("name", PAINTED)
def test_a_pointer_may_reach_each_frame_of_the_image(name: str, tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text(WIDE)
    size = PAINTED[name] + 8000 if name != "hifive1" else 2064
    for first in ("big", "small") if name != "hifive1" else ("small",):
        flags = f"-O2 -DSIZE={size} -DFIRST={first}"
        (found,) = stacks(name, tmp_path / "f.c", flags, ("through", 1))
        told = r"through may call functions through pointers or a library, and \w+ reserves "
        assert re.match(told + r"[\d,]+ bytes; only [\d,]+ are checked", str(found))
    # The same call has a number if all frames of the image fit.
    size = 200 if name == "hifive1" else 1000
    (found,) = stacks(name, tmp_path / "f.c", f"-O2 -DSIZE={size} -DFIRST=big", ("through", 1))
    assert isinstance(found, Stack)
    assert size <= found.used <= size + 64


MEASURED_TOO = """\
volatile int zero;
__attribute__((noinline)) int large(int x) {
    char b[300];
    __asm__ volatile("" :: "r"(b) : "memory");
    return x + zero;
}
__attribute__((noinline)) int small(int x) { return x * zero; }
int direct(int x) { return large(x) + 1; }
static int (*const table[])(int) = {small, large};
int by_table(int x) { return table[1 + zero](x) + 3; }
"""


@pytest.mark.parametrize("name", ["qemu-cortex-m3", "qemu-rv32", "qemu-cortex-a53", "ibex-rtl"])
def test_a_pointer_may_reach_a_function_that_is_also_measured_and_called(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "table.c").write_text(MEASURED_TOO)
    with build(available(name), [tmp_path / "table.c"]).open() as board:
        found = board.measure("by_table", 1, repeat=1, warmup=0).stack
    assert isinstance(found, str)
    assert found.startswith("large, which by_table may call, reserves 3")


JUMPED_TO = """\
volatile int zero;
__attribute__((noinline)) static int leaf(int x) {
    char b[300];
    __asm__ volatile("" :: "r"(b) : "memory");
    return x + zero;
}
int tail(int x) {
    zero = 0;
    return leaf(x);
}
__attribute__((cold, noinline)) static int rare(int x) { return leaf(x) + leaf(x + zero); }
int seldom(int x) {
    if (x > 0) { zero = 0; x = rare(x) + 1; }
    return x * 3;
}
"""


@pytest.mark.parametrize("function", ["tail", "seldom"])
@pytest.mark.parametrize("name", ["native", "linux", "arduino-uno", "arduino-mega"])
def test_a_frame_that_a_jump_reaches_is_seen(name: str, function: str, tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text(JUMPED_TO)
    with build(available(name), [tmp_path / "f.c"]).open() as board:
        found = board.measure(function, 1, repeat=1, warmup=0).stack
    assert isinstance(found, str)
    assert found.startswith(f"leaf, which {function} may call, reserves ")


def test_two_frames_that_do_not_fit_together_are_no_number(tmp_path: Path) -> None:
    """The upper one leaves a trace at its upper end, the lower one beyond what is checked."""
    (tmp_path / "f.c").write_text(WIDE)
    flags = "-O2 -fno-inline -DSIZE=200000 -DFIRST=small"
    (found,) = stacks("qemu-rv32", tmp_path / "f.c", flags, ("chain", 1))
    assert re.fullmatch(r"chain used all of the 262,\d\d\d bytes that are checked", str(found))


# By hand: recur(3) has four frames of `rec`, and the last one's array is not written.
LAST_FRAME = """\
#define APART __attribute__((noinline, noclone))
#define HOLD(p) __asm__ volatile("" :: "r"(p) : "memory")
volatile int vs;
APART int rec(int n) {
    char b[1000];
    HOLD(b);
    return vs = n <= 0 ? vs : rec(n - 1) + 1;
}
int recur(int n) { vs = rec(n); return vs; }
APART int wri(int n) {
    volatile char b[1000];
    for (int i = 0; i < 1000; i++) b[i] = (char)n;
    if (n <= 0) return b[0];
    vs = wri(n - 1);
    return vs + b[1];
}
int written(int n) { vs = wri(n); return vs; }
APART int few(int n) { volatile int k = n; return n <= 0 ? k : few(n - 1) + k; }
int small(int n) { vs = few(n); return vs; }
APART int odd(int n);
APART int even(int n) { volatile int k = n; return n <= 0 ? k : odd(n - 1) + k; }
APART int odd(int n) {
    char b[1000];
    HOLD(b);
    return vs = n <= 0 ? vs : even(n - 1) + 1;
}
int mutual(int n) { vs = even(n); return vs; }
APART int leaf(int n) { char b[1000]; HOLD(b); return vs + n; }
APART int down(int n) { volatile int k = n; return n <= 0 ? leaf(n) + k : down(n - 1) + k; }
int deepest(int n) { vs = down(n); return vs; }
"""


@pytest.mark.parametrize("name", ["native", "qemu-cortex-m3", "qemu-rv32"])
def test_an_unwritten_frame_at_the_end_of_a_recursion_is_no_number(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "f.c").write_text(LAST_FRAME)
    calls = [(each, 3) for each in ("recur", "mutual", "deepest", "written", "small")]
    *unknown, written, small = stacks(name, tmp_path / "f.c", "-O2", *calls)
    for told, function, callee in zip(
        unknown, ("recur", "mutual", "deepest"), ("rec", "odd", "leaf"), strict=True
    ):
        assert re.match(f"{callee}, which {function} may call, reserves [1,0-9]+ bytes", str(told))
        least = int(str(told).rpartition("at least ")[2].removesuffix(" bytes").replace(",", ""))
        assert least < 4 * 1000
    assert isinstance(written, Stack)
    assert isinstance(small, Stack)
    assert 4 * 1000 <= written.used <= 4 * 1040
    assert small.used <= 4 * 40
