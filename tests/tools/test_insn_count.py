# SPDX-License-Identifier: Apache-2.0
"""The plugin's counts against counts made by hand, on tiny assembly firmware in QEMU."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.support import requires_compiler, requires_tool
from tests.tools.insn_count import (
    InsnCountError,
    build_plugin,
    plugin_argument,
    read_counts,
    symbol_range,
)

DEADLINE_S = 60.0
ICOUNT = ("-icount", "shift=0,sleep=off")
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Machine:
    """An emulated board and what its firmware executes, counted by hand from the source."""

    source: str
    compiler: tuple[str, ...]
    emulator: tuple[str, ...]
    emulator_package: str
    thumb_bit: int
    counts: dict[str, list[int]]


RV32 = Machine(
    source="insn_count_riscv.S",
    compiler=(
        "riscv64-unknown-elf-gcc",
        "-march=rv32imac",
        "-misa-spec=2.2",
        "-mabi=ilp32",
        "-Wl,-Ttext=0x80000000",
    ),
    emulator=("qemu-system-riscv32", "-M", "virt", "-bios", "none"),
    emulator_package="qemu-system-misc",
    thumb_bit=0,
    counts={
        "straight": [5, 5],  # called twice; its call from `nested` belongs to `nested`
        "loop": [22],  # 1 + 10 x 2 + 1
        "recurse": [26],  # 3 x 8 for depth 3, 2, 1, and 2 at depth 0
        "nested": [11],  # 6 + the 5 of `straight`
        "mmio": [7],  # two device reads in the middle of a block
        "mmio_poll": [18],  # 2 + 5 x 3 + 1, each pass begins with a device read
        "long_block": [2001],  # a timer cuts it at an arbitrary instruction
        "interrupted": [9],  # 5 + the 4 of the interrupt handler
        "trapping": [9],  # 3, the trapping load among them, + the 6 of the trap handler
    },
)

RV64 = replace(
    RV32,
    compiler=(
        "riscv64-unknown-elf-gcc",
        "-march=rv64imac",
        "-misa-spec=2.2",
        "-mabi=lp64",
        "-mcmodel=medany",
        "-Wl,-Ttext=0x80000000",
    ),
    emulator=("qemu-system-riscv64", "-M", "virt", "-bios", "none"),
)

CORTEX_M3 = Machine(
    source="insn_count_cortex_m3.S",
    compiler=("arm-none-eabi-gcc", "-mcpu=cortex-m3", "-mthumb", "-Wl,-Ttext=0"),
    emulator=("qemu-system-arm", "-M", "mps2-an385"),
    emulator_package="qemu-system-arm",
    thumb_bit=1,
    counts={
        "straight": [5, 5],
        "loop": [22],  # 1 + 10 x 2 + 1
        "recurse": [17],  # 3 x 5 for depth 3, 2, 1, and 2 at depth 0
        "conditional": [5],  # an instruction whose condition fails counts
        "mmio": [7],  # one read and one two-register load from devices
        "mmio_poll": [19],  # 3 + 5 x 3 + 1
    },
)

AARCH64 = Machine(
    source="insn_count_aarch64.S",
    compiler=("aarch64-linux-gnu-gcc", "-static", "-Wl,-Ttext=0x40080000", "-Wl,--build-id=none"),
    emulator=("qemu-system-aarch64", "-M", "virt", "-cpu", "cortex-a53", "-nic", "none"),
    emulator_package="qemu-system-arm",
    thumb_bit=0,
    counts={
        "straight": [5, 5],
        "loop": [22],  # 1 + 10 x 2 + 1
        "recurse": [20],  # 3 x 6 for depth 3, 2, 1, and 2 at depth 0
        "nested": [9],  # 4 + the 5 of `straight`
        "mmio": [6],
        "mmio_poll": [18],  # 2 + 5 x 3 + 1
        "trapping": [7],  # 3, the trapping one among them, + the 4 of the handler
    },
)


def build(machine: Machine, out_dir: Path) -> Path:
    requires_compiler(machine.compiler[0])
    requires_tool(machine.emulator[0], machine.emulator_package)
    elf = out_dir / "firmware.elf"
    sources = ["-nostdlib", str(HERE / machine.source)]
    subprocess.run([*machine.compiler, *sources, "-o", str(elf)], timeout=60, check=True)
    return elf


def emulate(
    machine: Machine, elf: Path, clock: tuple[str, ...], plugin: list[str]
) -> subprocess.Popen[str]:
    screen = ["-display", "none", "-monitor", "none", "-serial", "null"]
    command = [*machine.emulator, *screen, "-kernel", str(elf), *clock, *plugin]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def kill_when_counted(emulator: subprocess.Popen[str], out: Path, lines: int) -> None:
    """Wait until QEMU exits or the last line is in the file, then leave it no time to flush."""
    deadline = time.monotonic() + DEADLINE_S
    while emulator.poll() is None and time.monotonic() < deadline:
        if out.exists() and out.read_text().count("\n") >= lines:
            break
        time.sleep(0.02)
    emulator.kill()
    emulator.communicate(timeout=10)


def measure(
    machine: Machine, plugin: Path, clock: tuple[str, ...], tmp: Path
) -> dict[str, list[int]]:
    elf = build(machine, tmp)
    out = tmp / "counts, one a line.txt"
    entries = {name: symbol_range(elf, name)[0] for name in machine.counts}
    odd = [address | machine.thumb_bit for address in entries.values()]
    stops = [symbol_range(elf, "_start")]
    emulator = emulate(machine, elf, clock, plugin_argument(plugin, odd, stops, out))
    kill_when_counted(emulator, out, sum(map(len, machine.counts.values())))
    counts = read_counts(out)
    return {name: counts.get(address, []) for name, address in entries.items()}


@pytest.fixture(scope="module")
def plugin() -> Path:
    return build_plugin()


CLOCKS = pytest.mark.parametrize("clock", [ICOUNT, ()], ids=["icount", "host-time"])


@CLOCKS
@pytest.mark.parametrize("machine", [RV32, RV64], ids=["rv32", "rv64"])
def test_counts_on_riscv_are_the_counts_by_hand(
    machine: Machine, plugin: Path, clock: tuple[str, ...], tmp_path: Path
) -> None:
    assert measure(machine, plugin, clock, tmp_path) == machine.counts


@CLOCKS
def test_counts_on_aarch64_are_the_counts_by_hand(
    plugin: Path, clock: tuple[str, ...], tmp_path: Path
) -> None:
    assert measure(AARCH64, plugin, clock, tmp_path) == AARCH64.counts


@CLOCKS
def test_counts_on_cortex_m3_are_the_counts_by_hand(
    plugin: Path, clock: tuple[str, ...], tmp_path: Path
) -> None:
    assert measure(CORTEX_M3, plugin, clock, tmp_path) == CORTEX_M3.counts


@pytest.mark.parametrize(
    ("entries", "stops", "message"),
    [
        ([0x80000010], [(0x80000000, 0x80000020)], "an entry lies inside a stop range"),
        ([0x80000020], [(0x80000010, 0x80000010)], "not a range"),
        ([0x80000020], [], "needs at least one entry=, one stop= and out="),
    ],
)
def test_options_without_sense_keep_qemu_from_starting(
    plugin: Path,
    tmp_path: Path,
    entries: list[int],
    stops: list[tuple[int, int]],
    message: str,
) -> None:
    elf = build(RV32, tmp_path)
    argument = plugin_argument(plugin, entries, stops, tmp_path / "counts")
    emulator = emulate(RV32, elf, ICOUNT, argument)
    _, complaint = emulator.communicate(timeout=DEADLINE_S)
    assert emulator.returncode != 0
    assert message in complaint


def test_an_entry_at_the_end_of_a_stop_range_is_outside_it(plugin: Path, tmp_path: Path) -> None:
    elf = build(RV32, tmp_path)
    out = tmp_path / "counts"
    _, stop_end = symbol_range(elf, "_start")
    straight, _ = symbol_range(elf, "straight")
    assert straight == stop_end
    argument = plugin_argument(plugin, [straight], [symbol_range(elf, "_start")], out)
    kill_when_counted(emulate(RV32, elf, ICOUNT, argument), out, lines=3)
    assert read_counts(out) == {straight: [5, 5, 8]}  # 8: also what `nested` does after its call


@pytest.mark.parametrize(("nested", "count"), [(False, 16), (True, 25)])
def test_nested_pairs_end_with_the_stop_of_the_outermost(
    plugin: Path, tmp_path: Path, nested: bool, count: int
) -> None:
    """A function of depth 3 that calls itself: 3 x 5 + 1 up to its first return, 26 in all."""
    elf = build(RV32, tmp_path)
    out = tmp_path / "counts"
    recurse, end = symbol_range(elf, "recurse")
    argument = plugin_argument(plugin, [recurse], [(end - 2, end)], out, nested=nested)
    kill_when_counted(emulate(RV32, elf, ICOUNT, argument), out, lines=1)
    assert read_counts(out) == {recurse: [count]}


def test_a_symbol_range_is_half_open_and_has_no_thumb_bit(tmp_path: Path) -> None:
    elf = build(CORTEX_M3, tmp_path)
    assert symbol_range(elf, "straight") == (0x28, 0x34)


def test_an_absent_symbol_is_an_error(tmp_path: Path) -> None:
    elf = build(CORTEX_M3, tmp_path)
    with pytest.raises(InsnCountError, match="0 symbols named absent, need exactly 1"):
        symbol_range(elf, "absent")


def test_a_line_that_is_no_count_is_an_error(tmp_path: Path) -> None:
    out = tmp_path / "counts"
    out.write_text("0x80000020 5\n0x80000020\n")
    with pytest.raises(InsnCountError, match="counts:2: '0x80000020' is not '0xENTRY COUNT'"):
        read_counts(out)


def test_a_missing_c_compiler_names_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InsnCountError, match="install the package gcc"):
        build_plugin()
