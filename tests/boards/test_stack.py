# SPDX-License-Identifier: Apache-2.0
"""The stack that a call takes, as each board sees it, against what its compiler says."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack
import pytest

from boardprof.base.errors import DeviceError
from boardprof.measure.board.board import Board
from boardprof.measure.connect import connect, guard_calls
from boardprof.target.build.build_options import BuildOptions
from boardprof.target.descriptions.board import BoardSpec
from tests.boards.conftest import available, hang_limit_s
from tests.firmware import build
from tests.support import run

SOURCE = Path(__file__).parent / "fixtures" / "stack.c"


@dataclass(frozen=True)
class Sizes:
    """Bytes of the fixture's arrays, and how deep its recursion goes, on one board."""

    painted: int
    some: int = 400
    much: int = 40000
    levels: int = 1000

    @property
    def flags(self) -> str:
        """For the compiler."""
        if self.much == Sizes.much:
            return "-O2"
        too_much = self.painted + 64
        return f"-O2 -DSOME={self.some} -DMUCH={self.much} -DTOO_MUCH={too_much}"


def sizes_of(spec: BoardSpec) -> Sizes:
    """Return sizes that fit what the board paints; beyond that it has 256 bytes and more."""
    painted = spec.build.config["stack"]
    if painted > 2 * Sizes.much:
        return Sizes(painted)
    return Sizes(painted, painted // 4, painted // 2, painted // 100)


def stack(board: Board, name: str, *arguments: int) -> list[int]:
    """Return [used, painted] of one call."""
    packed = b"".join(
        bytes(msgpack.packb(n)) for n in (board.dictionary.function(name).id, *arguments)
    )
    value: Any = board.session.value(
        board.dictionary.function("bp.stack").id, packed, 1 + len(arguments), name
    )
    return list(value)


@pytest.fixture(scope="module")
def stacked(spec: BoardSpec) -> Iterator[Board]:
    flags = sizes_of(spec).flags
    with connect(spec, image=build(spec, [SOURCE], BuildOptions(flags)).image) as board:
        yield board


def test_a_function_without_a_frame_takes_nothing(stacked: Board) -> None:
    used, painted = stack(stacked, "nothing_at_all")
    most = sizes_of(stacked.spec).painted
    assert used == 0
    assert most - 64 <= painted <= most


@pytest.mark.parametrize("function", ["some_bytes", "much"])
def test_an_array_that_is_filled_is_seen_whole(stacked: Board, function: str) -> None:
    sizes = sizes_of(stacked.spec)
    size = sizes.much if function == "much" else sizes.some
    used, _ = stack(stacked, function)
    assert size <= used <= size + 16


def test_more_than_was_painted_is_at_least_all_of_it(stacked: Board) -> None:
    used, painted = stack(stacked, "too_much")
    assert used == painted
    assert painted >= sizes_of(stacked.spec).painted - 64


def test_each_level_of_a_recursion_takes_as_much_as_the_last(stacked: Board) -> None:
    deep = sizes_of(stacked.spec).levels
    used = [stack(stacked, "recursive", levels)[0] for levels in (0, 1, 2, deep)]
    level = used[1] - used[0]
    assert 32 <= level <= 80
    assert used[2] - used[1] == level
    assert used[3] - used[0] == deep * level


@pytest.mark.parametrize("name", ["netduinoplus2", "stm32vldiscovery"])
def test_the_clocks_interrupt_is_in_no_call_though_it_comes_between_them(name: str) -> None:
    """SysTick wraps each 0.1 s on the one, 0.7 s on the other, and painting takes a while."""
    spec = available(name)
    with connect(spec, image=build(spec, [SOURCE]).image) as board:
        assert {stack(board, "nothing_at_all")[0] for _ in range(200)} == {0}


SPIN_C = """\
unsigned long spins(unsigned long n) {
    for (unsigned long i = 0; i < n; i++) { __asm__ volatile(""); }
    return n;
}
"""


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        # 2^24 ticks at 168 MHz, 10.75 ticks an instruction: an exception each 1,560,700 of them.
        ("netduinoplus2", range(490_000, 525_000, 1_000)),
        # 256 wraps of TIMER1 are 2^24 cycles.
        ("arduino-uno", range(1_674_000, 1_686_000, 1_500)),
    ],
)
def test_the_stack_does_not_depend_on_when_the_clock_wraps(
    name: str, numbers: range, tmp_path: Path
) -> None:
    """Some of these calls end right before a wrap, some have as many as a byte cannot count."""
    (tmp_path / "spin.c").write_text(SPIN_C)
    spec = available(name)
    with connect(spec, image=build(spec, [tmp_path / "spin.c"]).image) as board:
        (least,) = {stack(board, "spins", number)[0] for number in (1, 2, 3)}
        assert {stack(board, "spins", number)[0] for number in numbers} == {least}


def test_a_stack_overflow_is_caught_and_the_board_goes_on(stacked: Board) -> None:
    """Where the board says so; elsewhere it would be no test, but the end of the board."""
    if "stack-overflow" not in stacked.spec.guard.catches:
        assert stacked.spec.guard.missing["stack-overflow"]
        return
    with pytest.raises(DeviceError, match="stack"):
        stack(stacked, "endless", 0)
    assert stack(stacked, "nothing_at_all")[0] == 0


SECOND_CALL = """\
static volatile int calls;
int traps(void) { if (++calls == 2) { __builtin_trap(); } return calls; }
int hangs(void) { if (++calls == 2) { for (;;) { } } return calls; }
"""


@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("traps", "the function trapped in the call on painted stack"),
        ("hangs", "the call on painted stack did not end within the time limit"),
    ],
)
def test_a_measurement_is_not_lost_with_its_stack(
    spec: BoardSpec, tmp_path: Path, function: str, why: str
) -> None:
    """The first call is the one sample, the third is the one for the outputs."""
    limit_s = 1.0 if spec.clock.kind == "measured" else hang_limit_s(spec)
    (tmp_path / "second.c").write_text(SECOND_CALL)
    image = build(spec, [tmp_path / "second.c"]).image
    with connect(spec, image=image) as board:
        guard_calls(board.session, board.dictionary, board.spec, limit_s)
        measured = board.measure(function, warmup=0, repeat=1)
    assert (measured.stack, measured.result, len(measured.samples)) == (why, 3, 1)


@pytest.mark.parametrize("optimize", ["-O0", "-O2", "-Os"])
@pytest.mark.parametrize("name", ["qemu-cortex-m3", "qemu-rv32"])
def test_a_leafs_stack_is_the_compilers_own_figure(
    tmp_path: Path, name: str, optimize: str
) -> None:
    spec = available(name)
    command = [spec.build.cc, *spec.build.cflags, "-ffreestanding", "-std=gnu11", optimize]
    run([*command, "-fstack-usage", "-c", SOURCE, "-o", tmp_path / "stack.o"])
    lines = (tmp_path / "stack.su").read_text(encoding="utf-8").splitlines()
    frames = {line.split()[0].rpartition(":")[2]: int(line.split()[1]) for line in lines}
    with connect(spec, image=build(spec, [SOURCE], BuildOptions(optimize)).image) as board:
        for function in ("nothing_at_all", "some_bytes", "much"):
            used, _ = stack(board, function)
            # The lowest words of a frame may be there for its alignment alone.
            assert frames[function] - 16 < used <= frames[function], function
        used, _ = stack(board, "recursive", 9)
        assert frames["recursive"] * 10 - 16 < used <= frames["recursive"] * 10


def test_a_process_with_a_small_stack_paints_no_more_than_it_has(tmp_path: Path) -> None:
    spec = available("linux")
    command = ("prlimit", "--stack=131072:131072", *spec.launch.command)
    small = dataclasses.replace(spec, launch=dataclasses.replace(spec.launch, command=command))
    with connect(small, image=build(spec, [SOURCE]).image) as board:
        used, painted = stack(board, "some_bytes")
        assert 400 <= used <= 416
        assert 65536 < painted < 131072
