# SPDX-License-Identifier: Apache-2.0
"""Profiles that a debug probe samples, through the real OpenOCD. No probe is there: see openocd.py.

Two things stand for one. Drawn program counters show that the host sorts them rightly and states
intervals that hold. A core in QEMU that runs meanwhile shows that samples are taken in the call.
"""

from __future__ import annotations

import json
import random
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from boardprof.base.errors import BoardError, BoardprofError, DeviceFaultError, UsageError
from boardprof.measure.board.board import Board
from boardprof.results.report.profile import Profile
from boardprof.show.profile_tables import notes
from boardprof.target.elf.addresses import symbol_table
from tests.boards.conftest import available
from tests.boards.openocd import SCRIPTS, asked, openocd, tcl_list
from tests.cli.command import boardprof, wait_until
from tests.firmware import build

MIXED = Path(__file__).parent / "fixtures" / "sampling" / "mixed.c"
NO_PC = 0xFFFFFFFF
PCSR, DEMCR = 0xE000101C, 0xE000EDFC

OTHERS = """\
#include <stdint.h>
uint8_t peek(const uint8_t *p) { return *p; }
static uint32_t moves;
__attribute__((noipa)) static void move(int16_t *x, int i) {
    for (; i > 0 && x[i - 1] > x[i]; i--, moves++) {
        int16_t last = x[i]; x[i] = x[i - 1]; x[i - 1] = last;
    }
}
void sort(int16_t *x, int n) { for (int i = 1; i < n; i++) move(x, i); }
void sort_setup(void) { moves = 0; }
int sort_check(void) { return moves != 100 * 99 / 2; }
"""


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    """A board whose agent cannot sample."""
    others = tmp_path_factory.mktemp("others") / "others.c"
    others.write_text(OTHERS)
    spec = available("qemu-cortex-m4")
    config = {**spec.build.config, "sampling": 0}
    spec = replace(spec, build=replace(spec.build, config=config))
    with build(spec, [MIXED, others]).open() as opened:
        yield opened


def entry(board: Board, name: str) -> int:
    assert board.image is not None
    return symbol_table(board.image).entries[name]


def core(board: Board, drawn: list[int], boot_id: int | None = None) -> list[str]:
    """Return Tcl that makes OpenOCD read this board's memory, and these program counters."""
    assert board.image is not None
    names = subprocess.run(
        ["arm-none-eabi-nm", board.image], check=True, capture_output=True, text=True
    ).stdout
    (state,) = [int(line.split()[0], 16) for line in names.splitlines() if line[10:] == " bp_agent"]
    words = [1, 2, 3, board.welcome.boot_id if boot_id is None else boot_id, *range(12)]
    return [
        f"source {SCRIPTS / 'drawn.tcl'}",
        f"set core({state}) {tcl_list(words)}",
        f"set core({DEMCR}) 0x10",
        f"set drawn {tcl_list(drawn)}",
    ]


# -- what is sampled ----------------------------------------------------------------------------


def test_each_share_is_within_its_interval_and_other_samples_are_told(board: Board) -> None:
    exact = board.hotspots("mixed")
    weights = Counter[int]()
    for _, number, cost in exact.counts:
        weights[exact.instructions[number].address] += cost[0]
    # A pack of 1,000 that is shuffled: each address is in it as often as its share.
    order = [pc for pc, cost in sorted(weights.items()) for _ in range(cost)]
    in_call = [order[len(order) * n // 1000] for n in range(1000)]
    agent = [entry(board, name) for name in ("bp_measure", "bp_poll", "main")]
    drawn = [*in_call, *agent * 40, *[NO_PC] * 50]
    random.Random(7).shuffle(drawn)
    with openocd(*core(board, drawn)) as servers:
        profile = board.hotspots("mixed", sampled=True, samples=1000, seed=3, probe=servers["tcl"])
        reads = int(asked(servers["tcl"], "set reads"))
        written = asked(servers["tcl"], "set written")
    found = {each.name: each for each in profile.functions()}
    shares = {each.name: each.share for each in exact.functions() if each.share >= 0.05}
    assert {*shares} == {"checksum", "digits", "fill", "sort", "spin", "step"}
    for name, share in shares.items():
        interval = found[name].interval
        assert interval is not None
        assert interval[0] <= share <= interval[1], name
    how = profile.sampled
    assert how is not None
    assert (how.timer, how.wanted, how.seed) == ("DWT PCSR", 1000, 3)
    assert profile.sum() >= 1000
    # Everything that was read after the first look is a sample, the agent's, or none.
    read = Counter(drawn[(reads - 1 - n) % len(drawn)] for n in range(_read_in_all(profile)))
    assert how.unreadable == read[NO_PC] > 20
    assert how.outside == sum(read[pc] for pc in agent) > 40
    addresses = Counter[int]()
    for _, number, cost in profile.counts:
        addresses[profile.instructions[number].address] += cost[0]
    assert addresses == Counter({pc: n for pc, n in read.items() if pc in weights})
    # The DWT is on, and other bits of DEMCR are as they were.
    assert written == "{0xe000edfc 32 0x1000010}"
    assert notes(profile)[:2] == [
        f"{how.outside:,} more hit the agent or another stack",
        f"{how.unreadable:,} reads found no program counter: the core was halted, or what it "
        "executed must not be debugged",
    ]


def _read_in_all(profile: Profile) -> int:
    assert profile.sampled is not None
    return profile.sum() + profile.sampled.outside + profile.sampled.unreadable


def test_arrays_are_put_back_and_the_check_is_made_for_each_call(board: Board) -> None:
    """A second call would sort what is sorted already, and the check would fail."""
    falling = np.arange(100, 0, -1, dtype=np.int16)
    given = falling.copy()
    drawn = [entry(board, name) for name in ("move", "sort_setup", "move", "sort", "sort_check")]
    with openocd(*core(board, drawn)) as servers:
        profile = board.hotspots(
            "sort", given, 100, sampled=True, samples=100, probe=servers["tcl"]
        )
    assert (given == falling).all()
    assert profile.sampled is not None
    assert profile.sampled.calls > 50
    assert {each.name for each in profile.functions()} == {"move", "sort"}
    assert profile.sampled.outside == pytest.approx(profile.sum() * 2 / 3, abs=3)


def test_a_fault_in_a_call_is_told_and_the_board_goes_on(board: Board) -> None:
    with openocd(*core(board, [entry(board, "peek"), entry(board, "bp_poll")])) as servers:
        with pytest.raises(DeviceFaultError, match="peek"):
            board.hotspots("peek", None, sampled=True, warmup=0, probe=servers["tcl"])
        assert board.functions.peek(np.array([7], np.uint8)) == 7


# -- what goes wrong ----------------------------------------------------------------------------


def refused(board: Board, probe: str) -> BoardprofError:
    with pytest.raises(BoardprofError) as caught:
        board.hotspots("mixed", sampled=True, samples=100, probe=probe)
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    "probe", ["localhost", ":6666", "localhost:tcl", "localhost:66666", "", "::1:6666", "[]:6666"]
)
def test_an_address_of_another_form_is_refused(board: Board, probe: str) -> None:
    error = refused(board, probe)
    assert isinstance(error, UsageError)
    assert f"{probe!r} is not the address of a debug probe" in str(error)
    assert "localhost:6666" in str(error)


def test_no_openocd_is_told(board: Board) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    error = refused(board, f"127.0.0.1:{port}")
    assert isinstance(error, BoardError)
    assert f"No OpenOCD at 127.0.0.1:{port}: Connection refused." in str(error)


def test_a_port_that_is_not_the_tcl_server_is_told(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("boardprof.measure.hotspots.sampled_call._ANSWER_S", 0.5)
    with openocd() as servers:
        error = refused(board, servers["telnet"])
    assert isinstance(error, BoardError)
    assert "not of telnet or gdb" in str(error)


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ("proc read_memory args { error {target not examined yet} }", BoardError, "not examined"),
        ("proc read_memory args { exec kill -9 [pid] }", BoardError, "closed the connection"),
        ("proc read_memory args { return 16 }", BoardError, "answered '16', not 16 numbers"),
        ("rename read_memory {}", BoardError, 'invalid command name "read_memory"'),
        (f"set drawn {NO_PC}", BoardError, "is halted, or what it executes must not be debugged"),
        ("set drawn 0", UsageError, "has no DWT_PCSR, or it does not change: it read 0x0"),
        (
            "set drawn {0x60000000 0x60000010}",
            BoardError,
            "does not find a program counter in the image",
        ),
    ],
)
def test_a_probe_that_reads_nothing_useful_is_told(
    board: Board, change: str, kind: type[BoardprofError], message: str
) -> None:
    with openocd(*core(board, [0]), change) as servers:
        error = refused(board, servers["tcl"])
    assert isinstance(error, kind)
    assert message in str(error)


def test_the_same_program_counter_each_time_is_no_profile(board: Board) -> None:
    place = entry(board, "mixed")
    with openocd(*core(board, [place])) as servers:
        error = refused(board, servers["tcl"])
    assert isinstance(error, UsageError)
    assert f"it read {place:#x} each time" in str(error)


def test_a_probe_at_another_board_is_told_by_its_memory(board: Board) -> None:
    with openocd(*core(board, [entry(board, "mixed")], boot_id=4711)) as servers:
        error = refused(board, servers["tcl"])
    assert isinstance(error, BoardError)
    assert "does not find the memory of qemu-cortex-m4" in str(error)


def test_a_server_that_does_not_answer_is_given_up(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("boardprof.measure.hotspots.sampled_call._ANSWER_S", 0.5)
    change = "proc read_memory args { sleep 3000 }"
    began_s = time.monotonic()
    with openocd(*core(board, [0]), change) as servers:
        error = refused(board, servers["tcl"])
    assert time.monotonic() - began_s < 3.0
    assert isinstance(error, BoardError)
    assert "does not answer: no answer in time" in str(error)


def test_a_core_that_is_not_a_cortex_m_is_refused() -> None:
    with (
        build(available("qemu-rv32"), [MIXED]).open() as other,
        openocd() as servers,
        pytest.raises(UsageError, match="qemu-rv32 has no DWT_PCSR"),
    ):
        other.hotspots("mixed", sampled=True, probe=servers["tcl"])


def test_a_probe_without_sampled_is_refused(board: Board) -> None:
    with pytest.raises(UsageError, match="A debug probe takes samples"):
        board.hotspots("mixed", probe="localhost:6666")


# -- a core that runs ---------------------------------------------------------------------------

STEPS = """\
#include <stdint.h>
#define LOOP for (uint32_t i = 0; i < n; i++) { x = x * 1664525u + 1013904223u + (x >> 7); }
__attribute__((noipa)) static uint32_t most(uint32_t x, uint32_t n) { LOOP return x; }
__attribute__((noipa)) static uint32_t rest(uint32_t x, uint32_t n) { LOOP return x + 1; }
uint32_t steps(void) { return most(1, 9000) + rest(2, 3000); }
"""


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[str, Path, str]]:
    """A board at a port that never pauses: the port, the source, and QEMU's monitor."""
    source, monitor = tmp_path / "steps.c", tmp_path / "monitor"
    source.write_text(STEPS)
    spec = available("qemu-cortex-m4")
    image = build(spec, [source]).image
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    command = [part.format(image=image, port=port) for part in spec.launch.command]
    monitors = ["-qmp", f"unix:{monitor},server=on,wait=off"]
    serial = f"{command.pop()},server=on,wait=off"
    with subprocess.Popen([*command, serial, *monitors]) as qemu:
        try:
            wait_until(monitor.exists, "QEMU's monitor")
            yield f"127.0.0.1:{port}", source, str(monitor)
        finally:
            qemu.kill()


def test_a_running_core_is_sampled_in_its_calls(running: tuple[str, Path, str]) -> None:
    """QEMU's time goes nearly by instructions: three fourths of the call, by its source."""
    port, source, monitor = running
    with openocd(f"set monitor {monitor}", f"source {SCRIPTS / 'qemu.tcl'}") as servers:
        done = boardprof(
            *("hotspots", "-b", "qemu-cortex-m4", "-p", port, f"{source}:steps", "--json", "-"),
            *("--sampled", "--samples", "60", "--debug-probe", servers["tcl"]),
        )
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert (found["exact"], found["record"]["sampled"]["timer"]) == (False, "DWT PCSR")
    assert found["record"]["sampled"]["calls"] > 100
    shares = {each["name"]: each["share"] for each in found["functions"]}
    assert shares["most"] == pytest.approx(0.75, abs=0.2)
    assert shares["rest"] == pytest.approx(0.25, abs=0.2)


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_report_keeps_what_a_probe_has_sampled(running: tuple[str, Path, str]) -> None:
    port, source, monitor = running
    report = source.with_name("report.json")
    with openocd(f"set monitor {monitor}", f"source {SCRIPTS / 'qemu.tcl'}") as servers:
        done = boardprof(
            *("run", "-b", "qemu-cortex-m4", "-p", port, f"{source}:steps", "--repeat", "2"),
            *("--hotspots", "--sampled", "--debug-probe", servers["tcl"], "--json", report),
            timeout_s=300.0,
        )
    assert done.code == 0, done.err
    assert "sampled by DWT PCSR, not counted" in boardprof("show", report, "--lines").out


@pytest.mark.parametrize(
    ("options", "needed"),
    [
        (["hotspots", "--debug-probe", "localhost:1"], "--sampled"),
        (["run", "--debug-probe", "localhost:1"], "--hotspots --sampled"),
        (["run", "--hotspots", "--debug-probe", "localhost:1"], "--hotspots --sampled"),
    ],
)
def test_the_option_needs_samples(options: list[str], needed: str) -> None:
    done = boardprof(*options, f"{MIXED}:mixed")
    assert (done.code, done.out) == (2, "")
    assert done.err == f"error: --debug-probe works only with {needed}.\nTry: add {needed}\n"


@pytest.mark.parametrize("options", [["hotspots", "--sampled"], ["run", "--hotspots", "--sampled"]])
def test_a_missing_openocd_is_told_before_anything_is_built(options: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        probe = f"127.0.0.1:{taken.getsockname()[1]}"
    done = boardprof(*options, "--debug-probe", probe, "-b", "qemu-cortex-m4", f"{MIXED}:none")
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith(f"error: No OpenOCD at {probe}: Connection refused.\nTry: start it")
