# SPDX-License-Identifier: Apache-2.0
"""Sampled profiles, held against the exact ones of the same call on the same board."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from boardprof.base.errors import (
    DeviceBoundsError,
    DeviceFaultError,
    DeviceTimeoutError,
    UsageError,
)
from boardprof.measure.board.board import Board
from boardprof.results.report.profile import FunctionCost, LineCost, Profile
from boardprof.target.build.build_options import BuildOptions
from tests.boards.conftest import available
from tests.cli.command import boardprof
from tests.firmware import build

MIXED = Path(__file__).parent / "fixtures" / "sampling" / "mixed.c"
QEMU = ("qemu-rv32", "qemu-rv64", "qemu-cortex-m4", "qemu-cortex-a53")
BOARDS = (*QEMU, "arduino-uno")
IN_MAKE_TEST = ("qemu-rv32", "qemu-cortex-m4", "arduino-uno")
LEAST = 0.05
RUNS, NEEDED = 200, 180

Place = str | tuple[str, int]


def by_name(profile: Profile) -> dict[Place, float]:
    """The share of each function; libgcc has several of one name."""
    found: defaultdict[Place, float] = defaultdict(float)
    for each in profile.functions():
        found[each.name] += each.share
    return found


def by_line(profile: Profile) -> dict[Place, float]:
    found: defaultdict[Place, float] = defaultdict(float)
    for each in profile.lines():
        found[each.file, each.line] += each.share
    return found


def place_of(cost: FunctionCost | LineCost) -> Place:
    return (cost.file, cost.line) if isinstance(cost, LineCost) else cost.name


def held(exact: dict[Place, float], sampled: list[FunctionCost] | list[LineCost]) -> set[Place]:
    """The places whose exact share is within their interval."""
    found = set()
    for each in sampled:
        assert each.interval is not None
        low, high = each.interval
        if low <= exact.get(place_of(each), 0.0) <= high:
            found.add(place_of(each))
    return found


@pytest.fixture(scope="module", params=IN_MAKE_TEST)
def mixed(request: pytest.FixtureRequest) -> Iterator[Board]:
    with build(available(request.param), [MIXED], BuildOptions()).open() as board:
        yield board


# -- shares -----------------------------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", BOARDS)
def test_in_9_of_10_runs_each_share_is_within_its_interval(name: str) -> None:
    with build(available(name), [MIXED], BuildOptions()).open() as board:
        exact = board.hotspots("mixed")
        functions, lines = by_name(exact), by_line(exact)
        hits: Counter[Place] = Counter()
        for seed in range(1, RUNS + 1):
            profile = board.hotspots("mixed", sampled=True, samples=400, seed=seed)
            hits.update(held(functions, profile.functions()))
            if name in QEMU:  # a line of AVR may get its neighbour's samples
                hits.update(held(lines, profile.lines()))
    wanted = [place for place, share in functions.items() if share >= LEAST]
    assert len(wanted) >= 4
    if name in QEMU:
        wanted += [place for place, share in lines.items() if share >= LEAST]
    assert {place: hits[place] for place in wanted if hits[place] < NEEDED} == {}


def test_the_shares_of_many_samples_are_the_exact_ones(mixed: Board) -> None:
    exact = by_name(mixed.hotspots("mixed"))
    profile = mixed.hotspots("mixed", sampled=True, samples=2000, seed=3)
    found = by_name(profile)
    assert not profile.exact
    assert 2000 <= profile.sum() < 2200
    assert {place for place, share in exact.items() if share >= LEAST} <= {*found}
    for place, share in exact.items():
        deviation = math.sqrt(share * (1 - share) / profile.sum())
        # AVR charges the last cycles of a function to the one that goes on.
        skid = 0.01 if mixed.spec.build.arch == "avr" else 0.0
        assert abs(found.get(place, 0.0) - share) < 4 * deviation + skid, place


def test_a_cpp_function_whose_symbol_is_mangled_is_sampled(tmp_path: Path) -> None:
    source = tmp_path / "spin.cpp"
    source.write_text(
        "namespace lab {\n"
        "int spin(int n) { int volatile i = 0; while (i < n) i = i + 1; return i; }\n"
        "}\n"
    )
    with build(available("linux"), [source], BuildOptions()).open() as board:
        profile = board.hotspots("lab::spin", 1_000_000, sampled=True, samples=20)
    assert "lab::spin" in {each.name for each in profile.functions()}
    assert profile.sum() >= 20


@pytest.mark.nightly
def test_the_shares_on_ibex_are_the_exact_ones() -> None:
    with build(available("ibex-rtl"), [MIXED], BuildOptions()).open() as board:
        exact = by_name(board.hotspots("mixed"))
        profile = board.hotspots("mixed", sampled=True, samples=600)
        found = by_name(profile)
        for place, share in exact.items():
            deviation = math.sqrt(share * (1 - share) / profile.sum())
            assert abs(found.get(place, 0.0) - share) < 4 * deviation + 0.01, place


def test_a_profile_says_how_it_was_sampled(mixed: Board) -> None:
    timers = {"qemu-rv32": "mtime", "qemu-cortex-m4": "SysTick", "arduino-uno": "TIMER1"}
    profile = mixed.hotspots("mixed", sampled=True, samples=100, seed=5)
    assert profile.sampled is not None
    assert (profile.sampled.timer, profile.sampled.seed) == (timers[mixed.spec.name], 5)
    assert profile.sampled.calls >= 1
    assert profile.columns == ("samples",)
    assert sum(each.self for each in profile.functions()) == profile.sum()
    assert sum(each.self for each in profile.lines()) == profile.sum()
    names = {each.name: each for each in profile.functions()}
    assert names["mixed"].total == profile.sum()
    assert {each.total for each in names.values() if each.name != "mixed"} == {None}


def test_each_call_finds_the_arguments_as_they_were_given(tmp_path: Path) -> None:
    """Sorting what is sorted already takes no time, so that a second call would be hit nowhere."""
    source = tmp_path / "sort.c"
    source.write_text(
        "#include <stdint.h>\n"
        "__attribute__((noipa)) static void move(int16_t *x, int i) {\n"
        "    for (; i > 0 && x[i - 1] > x[i]; i--) {\n"
        "        int16_t last = x[i]; x[i] = x[i - 1]; x[i - 1] = last;\n"
        "    }\n"
        "}\n"
        "void sort(int16_t *x, int n) { for (int i = 1; i < n; i++) move(x, i); }\n"
    )
    with build(available("qemu-rv32"), [source]).open() as board:
        falling = np.arange(100, 0, -1, dtype=np.int16)
        exact = by_name(board.hotspots("sort", falling.copy(), 100))
        given = falling.copy()
        profile = board.hotspots("sort", given, 100, sampled=True, samples=500)
        assert (given == falling).all()
        assert profile.sampled is not None
        assert profile.sampled.calls > 20
        assert exact["move"] > 0.95
        assert held(exact, profile.functions()) >= {"move"}


def test_time_on_linux_is_in_proportion_to_the_work(tmp_path: Path) -> None:
    source = tmp_path / "work.c"
    loop = "for (unsigned i = 0; i < n; i++) x = x * 1664525u + 1013904223u + (x >> 7);"
    source.write_text(
        f"__attribute__((noipa)) static unsigned most(unsigned x, unsigned n) {{ {loop} "
        "return x; }\n"
        f"__attribute__((noipa)) static unsigned rest(unsigned x, unsigned n) {{ {loop} "
        "return x + 1; }\n"
        "unsigned work(void) { return most(1, 300000) + rest(2, 100000); }\n"
    )
    with build(available("linux"), [source]).open() as board:
        profile = board.hotspots("work", sampled=True, samples=1000)
        found = by_name(profile)
        assert found["most"] == pytest.approx(0.75, abs=0.08)
        assert found["rest"] == pytest.approx(0.25, abs=0.08)
        assert profile.sampled is not None
        assert "CLOCK_MONOTONIC" in profile.sampled.timer


def test_the_code_of_shared_libraries_is_one_row(tmp_path: Path) -> None:
    source = tmp_path / "copy.c"
    source.write_text(
        "#include <string.h>\n"
        "static char from[1 << 20], to[1 << 20];\n"
        "void copy(void) { memcpy(to, from, sizeof to); memcpy(from, to, sizeof to); }\n"
    )
    with build(available("linux"), [source]).open() as board:
        found = by_name(board.hotspots("copy", sampled=True, samples=200))
        assert found["(code without a name)"] > 0.9
        assert {*found} <= {"(code without a name)", "copy"}


def test_a_counter_in_the_same_timer_counts_on_after_samples() -> None:
    spec = available("qemu-cortex-m3")
    collectors = ("systick", *spec.build.collectors)
    spec = replace(spec, build=replace(spec.build, collectors=collectors))
    with build(spec, [MIXED]).open() as board:
        before = board.profile("mixed", metrics=["cycles"], repeat=3)
        board.hotspots("mixed", sampled=True, samples=50)
        after = board.profile("mixed", metrics=["cycles"], repeat=3)
        for report in (before, after):
            # An instruction takes 256 ns, a cycle of 25 MHz 40 ns.
            ticks = [row["cycles"].value for row in report.calls]
            assert min(ticks) == pytest.approx(150_468 * 6.4, rel=0.01)


# -- what goes wrong --------------------------------------------------------------------------

LIMITED = """\
#include <stdint.h>
volatile uint16_t turns;
void stuck(void) { for (;;) turns++; }
uint16_t spin(uint16_t n) { for (turns = 0; turns < n; turns++) { } return turns; }
uint8_t peek(const uint8_t *p) { return *p; }
void nothing(void) { }
"""


@pytest.fixture(scope="module", params=["qemu-rv32", "qemu-cortex-m4", "qemu-cortex-a53"])
def limited(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Board]:
    source = tmp_path_factory.mktemp("limited") / "limited.c"
    source.write_text(LIMITED)
    with build(available(request.param), [source]).open(timeout_s=0.05) as board:
        yield board


def test_the_time_limit_ends_a_sampled_call_and_the_board_goes_on(limited: Board) -> None:
    for _ in range(2):
        with pytest.raises(DeviceTimeoutError, match="stuck"):
            limited.hotspots("stuck", sampled=True, warmup=0)
        assert limited.functions.spin(500) == 500
        profile = limited.hotspots("spin", 5000, sampled=True, samples=100)
        assert by_name(profile) == {"spin": 1.0}


def test_the_time_limit_ends_a_sampled_call_on_avr(tmp_path: Path) -> None:
    source = tmp_path / "limited.c"
    source.write_text(LIMITED)
    with build(available("arduino-uno"), [source]).open(timeout_s=0.2) as board:
        with pytest.raises(DeviceTimeoutError, match="stuck"):
            board.hotspots("stuck", sampled=True, warmup=0)
        assert board.functions.spin(500) == 500


def test_a_fault_in_a_sampled_call_has_its_line(limited: Board) -> None:
    with pytest.raises(DeviceFaultError, match="peek") as caught:
        limited.hotspots("peek", None, sampled=True, warmup=0)
    assert "limited.c:5" in str(caught.value)
    assert limited.functions.spin(3) == 3


def test_a_call_that_is_too_short_ends_with_few_samples(tmp_path: Path) -> None:
    source = tmp_path / "limited.c"
    source.write_text(LIMITED)
    with build(available("qemu-cortex-a53"), [source]).open() as board:
        profile = board.hotspots("nothing", sampled=True, samples=100_000)
    assert profile.sampled is not None
    assert (profile.sampled.wanted, profile.sampled.calls) == (100_000, 200_000)
    assert 0 < profile.sum() < 2000


def test_a_call_that_writes_beyond_an_array_is_told(tmp_path: Path) -> None:
    source = tmp_path / "beyond.c"
    source.write_text(
        "#include <stdint.h>\n"
        "void beyond(uint8_t *x) { for (int i = 0; i < 20; i++) x[i] = (uint8_t)i; }\n"
    )
    with (
        build(available("qemu-rv32"), [source]).open() as board,
        pytest.raises(DeviceBoundsError, match="beyond"),
    ):
        board.hotspots("beyond", np.zeros(16, np.uint8), sampled=True, samples=10)


def test_an_arena_that_is_full_of_arrays_has_no_room_for_samples(tmp_path: Path) -> None:
    source = tmp_path / "sum.c"
    source.write_text(
        "#include <stdint.h>\n"
        "uint16_t total(const uint8_t *x, uint16_t n) "
        "{ uint16_t s = 0; while (n--) s += x[n]; return s; }\n"
    )
    with build(available("arduino-uno"), [source]).open() as board:
        profile = board.hotspots("total", np.ones(300, np.uint8), 300, sampled=True, samples=100)
        assert profile.sum() >= 100
        with pytest.raises(UsageError, match="no room for samples in the arena of arduino-uno"):
            board.hotspots("total", np.ones(460, np.uint8), 460, sampled=True)


@pytest.mark.parametrize("name", ["native", "netduinoplus2"])
def test_a_board_without_a_timer_for_samples_says_so(name: str) -> None:
    with (
        build(available(name), [MIXED]).open() as board,
        pytest.raises(UsageError, match=f"{name} cannot sample its calls") as caught,
    ):
        board.hotspots("mixed", sampled=True)
    assert caught.value.hint is not None
    assert "linux" in caught.value.hint


@pytest.mark.parametrize(
    ("wrong", "what"),
    [({"samples": 0}, "samples"), ({"seed": -1}, "seed"), ({"seed": 2**32}, "seed")],
)
def test_numbers_out_of_range_are_refused(mixed: Board, wrong: dict[str, int], what: str) -> None:
    ask: Callable[..., Profile] = mixed.hotspots
    with pytest.raises(UsageError, match=what):
        ask("mixed", sampled=True, **wrong)


MASKED = """\
unsigned quiet(unsigned n) {
    unsigned s = 1;
    __asm__ volatile("csrci mstatus, 8");
    for (unsigned i = 0; i < n; i++) { s = s * 31 + i; __asm__ volatile("" :: "r"(s)); }
    __asm__ volatile("csrsi mstatus, 8");
    return s;
}
"""


def test_shares_of_code_that_masks_the_timers_interrupt_are_called_wrong(tmp_path: Path) -> None:
    (tmp_path / "masked.c").write_text(MASKED)
    words = ("hotspots", "-b", "qemu-rv32", tmp_path / "masked.c:quiet", "n=20000", "--sampled")
    done = boardprof(*words, "--samples", "20")
    assert done.code == 0, done.err
    assert (
        "sampled by mtime, whose interrupt the code masks: what runs masked is hit by no sample, "
        "so the shares may be wrong\n"
    ) in done.out
