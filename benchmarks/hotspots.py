# SPDX-License-Identifier: Apache-2.0
"""What recording a call costs, and how long addresses take to become lines.

Run from the repository: ``python benchmarks/hotspots.py [--json] [--instructions N]``. Each call
executes N instructions (10^9 unless given): the ten workloads of examples/ in turns, and beside
them code that calls a function every ten instructions, which costs a recorder most. `paths_s` is
what a recorded call with 19,607 call paths takes, each of them new. The same
requests go to a board without a recorder, to one whose recorder is not asked, and to one that
records; what they differ by is the one recorded call. Seconds are of processors. Ends with 7 when
something cannot be built or run, and with 0 otherwise, targets met or not.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from boardprof.base.errors import BoardprofError
from boardprof.measure.board.board import Board
from boardprof.measure.connect import Firmware
from boardprof.measure.hotspots.hotspot_run import HotspotRun
from boardprof.target.build.builder import build
from boardprof.target.descriptions.board import BoardSpec, board_spec
from boardprof.target.elf.addresses import frames_at, symbol_table

BOARDS = ("qemu-rv32", "qemu-cortex-m4")
SLOWDOWN = {"qemu-rv32": 1.5, "qemu-cortex-m4": 1.6}
"""A recorded call may take this many times a plain one; on a Cortex-M4 it has core cycles, too."""
ADDRESSES = 10_000
LINES_S = 1.0
PATHS_S = 0.1
FAILED = 7
WORKLOADS = Path(__file__).resolve().parents[1] / "examples" / "workloads"
TIMEOUT_S = 600.0

NAMES = sorted(path.stem for path in WORKLOADS.glob("*.c"))
WORK = "".join(
    [
        *(f"void {name}(void);\n" for name in NAMES),
        "void work(unsigned rounds) {\n    while (rounds--) {\n",
        *(f"        {name}();\n" for name in NAMES),
        "    }\n}\n",
    ]
)

CALLS = """\
#include <stdint.h>
static volatile uint32_t table[64];
__attribute__((noinline)) static uint32_t mix(uint32_t x, uint32_t i) {
    uint32_t y = table[i & 63] + (x ^ x >> 7);
    if (y & 16) { y = y * 31u + i; }
    table[y & 63] = y;
    return y;
}
void work(uint32_t rounds) {
    uint32_t x = 1;
    for (uint32_t i = 0; i < rounds; i++) { x = mix(x, i); }
    table[0] = x;
}
"""


def seconds(do: Callable[[], object], *, of_this: bool = True) -> float:
    """Return the time that processors spend on something, in emulators and in this process."""
    began_s, own_s = _processors_s(), time.process_time()
    do()
    return _processors_s() - began_s - (0 if of_this else time.process_time() - own_s)


def _wall_s(do: Callable[[], object]) -> float:
    began_s = time.monotonic()
    do()
    return time.monotonic() - began_s


def _processors_s() -> float:
    own = time.process_time()
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    return own + sum(tick_s * _ticks(child) for child in _below(os.getpid()))


def _below(process: int) -> Iterator[int]:
    for file in Path(f"/proc/{process}/task").glob("*/children"):
        for child in map(int, file.read_text().split()):
            yield child
            yield from _below(child)


def _ticks(process: int) -> int:
    """Return user and system time, proc(5): fields 14 and 15, behind the name in brackets."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def slowdown(name: str, sources: Sequence[Path], instructions: int) -> dict[str, float]:
    """Return the figures of one board for the function ``work`` of some sources."""
    firmware = build(board_spec(name), sources)
    with Firmware.of(firmware).open(timeout_s=TIMEOUT_S, wall_timeout_s=TIMEOUT_S) as board:
        assert board.start_again is not None
        assert board.image is not None
        watched: list[Board] = []

        def start(spec: BoardSpec) -> Board:
            watched.append(board.start_again(spec))  # type: ignore[misc]
            return watched[-1]

        with closing(HotspotRun(board.spec, board.image, {"work": "work"}, start)) as recording:
            few = recording.profile("work", 10, warmup=0).sum("instructions")
            rounds = round(instructions * 10 / few)
            before = board.calls or 0
            plain_s = seconds(lambda: board.measure("work", rounds, warmup=0, repeat=1))
            calls = (board.calls or 0) - before
            idle_s = seconds(lambda: watched[0].measure("work", rounds, warmup=0, repeat=1))
            recorded_s = seconds(lambda: recording.profile("work", rounds, warmup=0))
    one_s = plain_s / calls
    return {
        "plain_s": one_s,
        "watched_by_plain": idle_s / plain_s,
        "recorded_by_plain": (recorded_s - idle_s * (calls - 1) / calls) / one_s,
    }


LEVELS, WIDTH = 5, 7
"""Of a tree of calls: 7 + 7² + ... + 7⁵ paths."""


def _tree() -> str:
    names = [[f"f{level}_{i}" for i in range(WIDTH)] for level in range(LEVELS)]
    code = ["static volatile unsigned sum;"]
    for level in reversed(range(LEVELS)):
        below = "".join(f" {name}();" for name in names[level + 1]) if level + 1 < LEVELS else ""
        code += [
            f"__attribute__((noinline)) static void {name}(void) {{{below} sum += {i}; }}"
            for i, name in enumerate(names[level])
        ]
    calls = "".join(f" {name}();" for name in names[0])
    return "\n".join([*code, f"void work(void) {{{calls} }}\n"])


def paths_s(source: Path) -> float:
    """Return what the emulator takes to record a call with many paths, without the call itself."""
    source.write_text(_tree())
    with Firmware.of(build(board_spec(BOARDS[0]), [source])).open() as board:
        assert board.start_again is not None
        assert board.image is not None
        with closing(
            HotspotRun(board.spec, board.image, {"work": "work"}, board.start_again)
        ) as run:
            run.profile("work", warmup=0)  # translates the code
            recorded_s = seconds(lambda: run.profile("work", warmup=0), of_this=False)
            board.measure("work", warmup=0, repeat=1)
            plain_s = seconds(lambda: board.measure("work", warmup=0, repeat=1), of_this=False)
    return recorded_s - plain_s


def lines_s() -> float:
    """Return how long the lines of `ADDRESSES` addresses of an image take."""
    image = build(board_spec(BOARDS[0]), [WORKLOADS]).image
    addresses = [
        address
        for code in symbol_table(image).functions
        for address in range(code.low, code.high, 2)
    ][:ADDRESSES]
    assert len(addresses) == ADDRESSES
    return min(_wall_s(lambda: frames_at(image, addresses)) for _ in range(3))


def main() -> int:
    """Print the figures; return the exit status."""
    parser = argparse.ArgumentParser(description="What recording a call costs.")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument("--instructions", type=int, default=10**9, metavar="N")
    options = parser.parse_args()
    found: dict[str, float] = {}
    try:
        with tempfile.TemporaryDirectory() as folder:
            work, calls = Path(folder) / "work.c", Path(folder) / "calls.c"
            work.write_text(WORK)
            calls.write_text(CALLS)
            for name in BOARDS:
                for what, sources in (("workloads", [WORKLOADS, work]), ("calls", [calls])):
                    figures = slowdown(name, sources, options.instructions)
                    found |= {f"{name} {what} {n}": value for n, value in figures.items()}
            found["paths_s"] = paths_s(Path(folder) / "paths.c")
        found["lines_s"] = lines_s()
    except BoardprofError as error:
        print(error, file=sys.stderr)
        return FAILED
    if options.json:
        print(json.dumps(found))
        return 0
    for label, value in found.items():
        is_limited = label.endswith("workloads recorded_by_plain")
        limit = SLOWDOWN[label.partition(" ")[0]] if is_limited else None
        limit = {"lines_s": LINES_S, "paths_s": PATHS_S}.get(label, limit)
        told = "" if limit is None else f"  (at most {limit:g})" + "  MISSED" * (value > limit)
        print(f"{label:44} {value:6.2f}{told}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
