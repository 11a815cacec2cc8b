# SPDX-License-Identifier: Apache-2.0
"""The board that is simulated from its RTL: every counter held against the simulation's own counts.

The simulator counts for itself, from the signals of the buses and of the core's ID stage, and
writes marks (boards/ibex-rtl/sim/counts.h): at each read of a counter, and around each call.
"""

from __future__ import annotations

import dataclasses
import itertools
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

from boardprof.base.errors import DeviceFaultError, DeviceTimeoutError
from boardprof.base.metrics import Count, Percent, Ratio
from boardprof.measure.board.board import Board
from boardprof.measure.connect import connect
from boardprof.results.report.report import Report
from boardprof.target.build.build_options import BuildOptions
from boardprof.target.descriptions.board import BoardSpec, board_spec
from boardprof.target.toolchain.simulator import build_simulator
from boardprof_protocol.blob import split_blobs
from tests.boards.conftest import available
from tests.cli.command import cpu_seconds, wait_until
from tests.firmware import build
from tests.support import requires_tool
from tests.tools.insn_count import symbol_range

pytestmark = pytest.mark.timeout(900)  # the first of them builds the simulator

BOARD = Path(__file__).parents[2] / "boards" / "ibex-rtl"
FIXTURES = Path(__file__).parent / "fixtures" / "ibex"
DENSE = Path(__file__).parents[2] / "examples" / "accelerator" / "dense_i8.c"
CALLERS = ("bp_window", "bp_thunk_void", "bp_call_target", "bp_single", "bp_call_painted")

HPM = {
    "data-waits": 0xB03,
    "instruction-waits": 0xB04,
    "loads": 0xB05,
    "stores": 0xB06,
    "jumps": 0xB07,
    "branches": 0xB08,
    "branches-taken": 0xB09,
    "compressed-instructions": 0xB0A,
    "multiply-waits": 0xB0B,
    "divide-waits": 0xB0C,
}
"""The number of each counter's register."""

CPU = {"cycles": 0xB00, "instructions": 0xB02}

ENGINE = {
    "jobs": 0x80002040,
    "busy": 0x80002048,
    "read-stalls": 0x80002050,
    "write-stalls": 0x80002058,
    "macs": 0x80002060,
}
"""The address of each counter's lower half."""

ADDITIVE = (
    "instructions",
    "loads",
    "stores",
    "jumps",
    "branches",
    "branches-taken",
    "compressed-instructions",
)
"""What a function counts whatever ran before it: no waits, which depend on the fetches."""

ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "triple": (np.zeros(64, np.int32),),
    "product": (12345, 678),
    "quotient": (1000, 7),
    "askew": (np.arange(8, dtype=np.uint8),),
    "thrice": (4,),
}

COUNTED = sorted(ARGUMENTS)
DENSE_BY = ["dense_by_both", "dense_by_engine"]

IN_MARKS = {"compressed-instructions": "compressed"}


@dataclass(frozen=True)
class Marks:
    """What the simulator wrote: kind, address, and its counts by name."""

    path: Path

    def rows(self, kind: str, address: int) -> list[dict[str, int]]:
        lines = self.path.read_text(encoding="ascii").splitlines()
        names = lines[0].split()[3:]
        rows = [line.split() for line in lines[1:]]
        return [
            dict(zip(names, map(int, row[2:]), strict=True))
            for row in rows
            if row[0] == kind and int(row[1], 16) == address
        ]

    def counted(self, kind: str, address: int, name: str) -> list[int]:
        return [row[IN_MARKS.get(name, name)] for row in self.rows(kind, address)]


@dataclass(frozen=True)
class Watched:
    """The board, and what its simulator counts."""

    board: Board
    marks: Marks
    entries: dict[str, int]
    reports: dict[str, Report] = dataclasses.field(default_factory=dict)

    def report(self, function: str) -> Report:
        """Three samples, taken once; two calls come behind them."""
        if function not in self.reports:
            given = ARGUMENTS.get(function, ())
            self.reports[function] = self.board.profile(function, *given, warmup=0, repeat=3)
        return self.reports[function]


def spec_of_board() -> BoardSpec:
    spec = available("ibex-rtl")
    requires_tool("verilator", "verilator")
    return spec


def start(folder: Path, *sources: Path) -> Watched:
    spec = spec_of_board()
    firmware = build(spec, sources, BuildOptions(includes=(str(BOARD),)))
    image = firmware.image
    marks = folder / "marks.txt"
    entries = {f.name: symbol_range(image, f.name)[0] for f in firmware.functions}
    entries["bp_empty"] = symbol_range(image, "bp_empty")[0]
    thunks = [f"bp_thunk_of_{f.name}" for f in firmware.functions if f.parameters or f.result]
    options = ["--marks", str(marks)]
    for address in entries.values():
        options += ["--entry", f"{address:#x}"]
    for name in (*CALLERS, *thunks):
        low, high = symbol_range(image, name)
        options += ["--stop", f"{low:#x}:{high:#x}"]
    launch = dataclasses.replace(spec.launch, command=(*spec.launch.command, *options))
    watched = dataclasses.replace(spec, launch=launch)
    return Watched(connect(watched, image=image), Marks(marks), entries)


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    found = start(tmp_path_factory.mktemp("counted"), FIXTURES / "counted.c")
    with found.board:
        yield found


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    found = start(tmp_path_factory.mktemp("engine"), FIXTURES / "engine_jobs.c", DENSE)
    with found.board:
        yield found


@pytest.fixture(scope="module")
def ends() -> Iterator[Board]:
    spec = spec_of_board()
    with connect(spec, image=build(spec, [FIXTURES / "ends.c"]).image) as board:
        board.session.line.locate = None
        limit(board, 20)
        yield board


def limit(board: Board, ms: int) -> None:
    guard = board.dictionary.function("bp.guard")
    board.session.call(guard.id, msgpack.packb(ms), 1)


def values(report: Report, counter: str) -> list[int]:
    return [v.value for row in report.calls if isinstance(v := row.get(counter), Count)]


def blob_values(
    report: Report, schema_id: int, names: dict[str, int]
) -> dict[str, list[tuple[int, int]]]:
    """Return each counter as it was read at each sample's start and at its end.

    A body has all values at the start and then all at the stop, 64 bits each.
    """
    found: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
    assert report.extra is not None
    for sample in report.extra["measurements"][0]["samples"]:
        (body,) = (
            blob.body
            for blob in split_blobs(bytes.fromhex(sample["blobs"]))
            if blob.schema_id == schema_id
        )
        words = [int.from_bytes(body[i : i + 8], "little") for i in range(0, len(body), 8)]
        for i, name in enumerate(names):
            found[name].append((words[i], words[i + len(names)]))
    return found


def holds(read: list[int], windows: list[tuple[int, int]]) -> bool:
    """Whether each window's two values were read one behind the other."""
    return set(windows) <= set(itertools.pairwise(read))


# ---- The CPU ----


def test_every_counter_is_there(counted: Watched) -> None:
    counters = [c for each in counted.board.dictionary.collectors for c in each.counters]
    assert {c.name: c.status.name for c in counters} == dict.fromkeys(
        (*ENGINE, *HPM, "ticks", "cycles", "instructions"), "OK"
    )


def test_a_loop_over_64000_elements_counts_its_loads_stores_and_branches(counted: Watched) -> None:
    report = counted.report("triple")
    assert values(report, "loads") == [64_000, 64_000, 64_000]
    assert values(report, "stores") == [64_000, 64_000, 64_000]
    assert values(report, "branches") == [65_000, 65_000, 65_000]
    assert values(report, "branches-taken") == [63_999, 63_999, 63_999]
    assert values(report, "jumps") == [1, 1, 1]  # its return


@pytest.mark.parametrize("function", COUNTED)
def test_raw_counts_are_the_simulators_at_the_same_reads(counted: Watched, function: str) -> None:
    report = counted.report(function)
    read = blob_values(report, 1000, HPM) | blob_values(report, 1, CPU)
    for name, register in (HPM | CPU).items():
        assert holds(counted.marks.counted("csr", register, name), read[name]), name


@pytest.mark.parametrize("function", COUNTED)
def test_net_counts_are_the_simulators_from_the_first_instruction_to_the_return(
    counted: Watched, function: str
) -> None:
    report = counted.report(function)
    for name in ADDITIVE:
        calls = counted.marks.counted("call", counted.entries[function], name)
        assert values(report, name) == calls[-5:-2], name


def test_the_empty_functions_return_takes_two_cycles(counted: Watched) -> None:
    """What is added back to each net count of cycles and of ticks (schema.py)."""
    counted.report("product")
    found = counted.marks.rows("call", counted.entries["bp_empty"])
    assert {(row["cycles"], row["instructions"]) for row in found} == {(2, 1)}


@pytest.mark.parametrize("function", COUNTED)
def test_net_cycles_are_the_simulators_and_the_wait_for_the_first_instruction(
    counted: Watched, function: str
) -> None:
    """The simulator counts from the first instruction's arrival on. One that does not begin at a
    multiple of four may have to be waited for a cycle longer than the empty function, and that is
    the function's.
    """
    report = counted.report(function)
    address = counted.entries[function]
    calls = counted.marks.counted("call", address, "cycles")[-5:-2]
    waits = counted.marks.counted("call", address, "instruction-waits")[-5:-2]
    longer = [
        net - own for net, own in zip(values(report, "instruction-waits"), waits, strict=True)
    ]
    assert all(0 <= wait <= 1 for wait in longer)
    assert address % 4 == 2 or longer == [0, 0, 0]
    net = [own + wait for own, wait in zip(calls, longer, strict=True)]
    assert values(report, "cycles") == values(report, "ticks") == net


def test_a_product_waits_two_cycles_and_a_quotient_36(counted: Watched) -> None:
    """Ibex reference guide, "Pipeline Details": 3 cycles for MUL, 37 for DIVU."""
    product, quotient = counted.report("product"), counted.report("quotient")
    assert values(product, "multiply-waits") == [2, 2, 2]
    assert values(product, "divide-waits") == [0, 0, 0]
    assert values(quotient, "multiply-waits") == [0, 0, 0]
    assert values(quotient, "divide-waits") == [36, 36, 36]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """Its board only starts the one that is recorded, whose simulator then writes the marks."""
    found = start(tmp_path_factory.mktemp("recorded"), FIXTURES / "counted.c")
    with found.board:
        yield found


@pytest.mark.parametrize("function", COUNTED)
def test_a_profile_has_the_simulators_cycles_and_waits_between_the_same_two_edges(
    recorded: Watched, function: str
) -> None:
    profile = recorded.board.hotspots(function, *ARGUMENTS[function])
    calls = recorded.marks.rows("call", recorded.entries[function])
    assert {name: profile.sum(name) for name in profile.columns} == {
        name: calls[-3][name] for name in profile.columns
    }  # two calls come behind it
    for name in profile.columns:
        assert sum(each.self for each in profile.functions(name)) == profile.sum(name)
        assert sum(each.self for each in profile.lines(name)) == profile.sum(name)


def test_a_division_and_a_load_wait_at_their_own_lines(recorded: Watched) -> None:
    (divides,) = [
        e for e in recorded.board.hotspots("quotient", 1000, 7).lines("divide-waits") if e.self
    ]
    assert divides.self == 36


def test_a_duration_is_the_cycles_at_ten_megahertz(counted: Watched) -> None:
    report = counted.report("triple")
    assert values(report, "ticks") == values(report, "cycles")
    durations: list[Any] = [row["Duration (us)"] for row in report.calls]
    assert [d.microseconds for d in durations] == [c / 10 for c in values(report, "cycles")]


# ---- The accelerator ----


@pytest.mark.parametrize("function", ["dense_in_c", *DENSE_BY])
def test_all_three_ways_give_the_same_sums(engine: Watched, function: str) -> None:
    engine.report(function)  # its check is run behind each sample


@pytest.mark.parametrize(("function", "rows"), [("dense_by_engine", 64), ("dense_by_both", 32)])
def test_a_job_counts_its_products(engine: Watched, function: str, rows: int) -> None:
    report = engine.report(function)
    assert values(report, "jobs") == [1, 1, 1]
    assert values(report, "macs") == [rows * 128] * 3


@pytest.mark.parametrize(("function", "rows"), [("dense_by_engine", 64), ("dense_by_both", 32)])
def test_a_job_is_busy_for_what_it_reads_and_writes_and_its_stalls(
    engine: Watched, function: str, rows: int
) -> None:
    """The vector takes a cycle a word and one more; a row the same, and one for its result."""
    report = engine.report(function)
    stalled = zip(values(report, "read-stalls"), values(report, "write-stalls"), strict=True)
    work = (32 + 1) + rows * (32 + 1 + 1)
    assert values(report, "busy") == [work + reads + writes for reads, writes in stalled]


@pytest.mark.parametrize("function", DENSE_BY)
def test_the_engines_raw_counts_are_the_simulators_at_the_same_reads(
    engine: Watched, function: str
) -> None:
    read = blob_values(engine.report(function), 1001, ENGINE)
    for name, address in ENGINE.items():
        assert holds(engine.marks.counted("engine", address, name), read[name]), name


@pytest.mark.parametrize("function", DENSE_BY)
def test_the_cores_raw_counts_beside_the_engine_are_the_simulators(
    engine: Watched, function: str
) -> None:
    read = blob_values(engine.report(function), 1000, HPM)
    for name, register in HPM.items():
        assert holds(engine.marks.counted("csr", register, name), read[name]), name


@pytest.mark.parametrize("function", DENSE_BY)
def test_the_engines_net_counts_are_the_simulators_of_the_call(
    engine: Watched, function: str
) -> None:
    report = engine.report(function)
    for name in ENGINE:
        calls = engine.marks.counted("call", engine.entries[function], name)
        assert values(report, name) == calls[-5:-2], name


def test_core_and_engine_get_in_each_others_way(engine: Watched) -> None:
    words, out = np.ones(64, np.int8), np.zeros(64, np.int32)
    alone = engine.board.profile("job_beside_loads", words, out, 64, 0, warmup=0, repeat=1)
    beside = engine.board.profile("job_beside_loads", words, out, 64, 7, warmup=0, repeat=1)
    assert values(alone, "read-stalls") == values(alone, "write-stalls") == [0]
    (reads,), (writes,) = values(beside, "read-stalls"), values(beside, "write-stalls")
    assert reads > 10
    assert values(beside, "busy") == [(16 + 1) + 64 * (16 + 1 + 1) + reads + writes]
    # An access that nobody delays takes one cycle of waiting.
    accesses = values(beside, "loads")[0] + values(beside, "stores")[0]
    assert values(beside, "data-waits")[0] > accesses + 10
    assert values(beside, "macs") == values(alone, "macs") == [64 * 64]


def test_the_engine_multiplies_signed_bytes(engine: Watched) -> None:
    vector = np.array([-128, 127, -1, 0, 1, 2, 3, 4], np.int8)
    matrix = np.array([[-128] * 8, [127] * 8, [1, 0, 0, 0, 0, 0, 0, -4]], np.int8)
    out = np.zeros(3, np.int32)
    assert engine.board.functions.job(vector, matrix, out, 8, 3, 8) == 0
    assert out.tolist() == [-1024, 1016, -144]


@pytest.mark.parametrize(
    ("vector", "matrix", "out", "length", "rows"),
    [
        pytest.param(0x9000_0000, 0x0018_0000, 0x0018_0000, 64, 1, id="vector"),
        pytest.param(0x0018_0000, 0x0020_0000, 0x0018_0000, 64, 1, id="matrix"),
        pytest.param(0x0018_0000, 0x0018_0000, 0x8000_0000, 64, 1, id="out"),
        pytest.param(0x0018_0000, 0x0018_0000, 0x0018_0000, 0, 1, id="no length"),
        pytest.param(0x0018_0000, 0x0018_0000, 0x0018_0000, 1028, 1, id="length"),
        pytest.param(0x0018_0000, 0x0018_0000, 0x0018_0000, 64, 0, id="no rows"),
    ],
)
def test_a_job_out_of_range_fails_and_the_next_one_runs(
    engine: Watched, vector: int, matrix: int, out: int, length: int, rows: int
) -> None:
    assert engine.board.functions.job_at(vector, matrix, out, length, rows) == 2
    sums = np.zeros(1, np.int32)
    ones = np.ones(4, np.int8)
    assert engine.board.functions.job(ones, ones, sums, 4, 1, 4) == 0
    assert sums.tolist() == [4]


def test_a_report_shows_the_accelerator_as_a_device_of_its_own(engine: Watched) -> None:
    report = engine.report("dense_by_engine")
    cpu, accelerator, *_ = report.calls
    assert cpu["Device"] == "ibex-rtl"
    assert accelerator["Device"] == "ibex-rtl accelerator"
    assert "macs" not in cpu
    assert "cycles" not in accelerator
    cycles, busy = values(report, "cycles")[0], values(report, "busy")[0]
    assert accelerator["Utilisation (%)"] == Percent(100 * busy / cycles)
    assert accelerator["MACs/cycle"] == Ratio(8192 / busy)
    assert 3.5 < 8192 / busy < 4


# ---- Guarded calls ----


def fault(board: Board, function: str, *args: object) -> DeviceFaultError:
    with pytest.raises(DeviceFaultError) as caught:
        board.functions[function](*args)
    return caught.value


@pytest.mark.parametrize(
    ("function", "cause"),
    [
        ("writes_null", "bad-address"),
        ("reads_nothing", "bad-address"),
        ("calls_nothing", "bad-address"),
        ("is_illegal", "illegal-instruction"),
        ("breaks", "breakpoint"),
    ],
)
def test_a_fault_ends_the_call_and_no_more(ends: Board, function: str, cause: str) -> None:
    before = ends.functions.interrupts()
    assert fault(ends, function).cause == cause
    assert ends.functions.interrupts() == before


def test_an_overflow_of_the_stack_ends_at_the_fence(ends: Board) -> None:
    limit(ends, 10_000)
    assert fault(ends, "overflows", 0).cause == "stack-overflow"
    limit(ends, 20)


@pytest.mark.parametrize("function", ["hangs", "hangs_masked", "hangs_masked_and_disabled"])
def test_a_hang_ends_also_with_interrupts_off(ends: Board, function: str) -> None:
    before = ends.functions.interrupts()
    for _ in range(3):
        with pytest.raises(DeviceTimeoutError):
            ends.functions[function]()
    assert ends.functions.interrupts() == before


# ---- The simulator ----


@pytest.fixture(scope="module")
def simulator() -> Path:
    spec = spec_of_board()
    assert spec.launch.simulator is not None
    return build_simulator(spec, spec.launch.simulator)


def test_it_takes_no_processor_while_the_board_waits(ends: Board, simulator: Path) -> None:
    image = build(board_spec("ibex-rtl"), [FIXTURES / "ends.c"]).image
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)
        port = server.getsockname()[1]
        with subprocess.Popen([simulator, image, f"127.0.0.1:{port}"]) as process:
            connection, _ = server.accept()
            with connection:
                wait_until(lambda: rests(process.pid), "it takes no processor, once booted", 60.0)
            assert process.wait(timeout=10) == 0  # the host has closed the line


def rests(pid: int) -> bool:
    """Whether a process that has begun to work takes no processor for half a second."""
    before = cpu_seconds(pid)
    time.sleep(0.5)
    return 0 < before == cpu_seconds(pid)


@pytest.mark.parametrize(
    ("words", "says", "code"),
    [
        (["nothing.elf", "127.0.0.1:1"], "cannot be read", 1),
        (["nothing.elf"], "write PROGRAM.elf ADDRESS:PORT", 2),
        (["nothing.elf", "127.0.0.1:1", "--entry", "1"], "--marks is missing", 2),
        (["nothing.elf", "127.0.0.1:1", "--speed", "1"], "--speed", 2),
        (["text.elf", "127.0.0.1:1"], "no 32-bit RISC-V program", 1),
        (["short.elf", "127.0.0.1:1"], "cut short", 1),
    ],
)
def test_it_says_what_is_wrong_with_its_arguments(
    tmp_path: Path, simulator: Path, words: list[str], says: str, code: int
) -> None:
    (tmp_path / "text.elf").write_text("text " * 20)
    (tmp_path / "short.elf").write_bytes(b"\x7fELF")
    done = subprocess.run(
        [simulator, *words], cwd=tmp_path, capture_output=True, text=True, timeout=10
    )
    assert says in done.stderr
    assert done.returncode == code


def test_the_header_is_the_generated_one(tmp_path: Path) -> None:
    for name in ("schema.py", "ibex_wire.h"):
        shutil.copy(BOARD / name, tmp_path)
    check = [sys.executable, tmp_path / "schema.py", "--check"]
    assert subprocess.run(check, timeout=60).returncode == 0
    header = tmp_path / "ibex_wire.h"
    header.write_text(header.read_text().replace("macs_stop", "macs_end", 1))
    done = subprocess.run(check, timeout=60, capture_output=True, text=True)
    assert done.returncode == 1
    assert "\n-    uint64_t macs_end;" in done.stdout
    assert "\n+    uint64_t macs_stop;" in done.stdout
