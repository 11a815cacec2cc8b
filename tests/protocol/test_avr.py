# SPDX-License-Identifier: Apache-2.0
"""The agent on an emulated ATmega2560: 16-bit ints, 8 KiB of RAM, tables in flash alone."""

from __future__ import annotations

import os
import select
import struct
import subprocess
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgpack
import pytest

from boardprof_protocol.codes import FrameKind
from boardprof_protocol.frame import FrameDecoder
from tests.memory_board import AgentBoard, BoardError, blob_counts
from tests.support import (
    AGENT,
    C_TESTS,
    WARNINGS,
    agent_sources,
    built_once,
    defines,
    requires_tool,
)

pytestmark = pytest.mark.slow

DEADLINE_S = 20.0
CONFIG = {"BP_CFG_ARENA": 1024, "BP_CFG_OPEN_WINDOWS": 2, "BP_CFG_CRC_TABLE": 1}
CONFIG |= {"TEST_POINTERS": 1, "BP_CFG_STACK": 1024}


class QemuBoard(AgentBoard):
    """The emulator, its UART on two pipes."""

    def __init__(self, emulator: subprocess.Popen[bytes]) -> None:
        assert emulator.stdin is not None
        assert emulator.stdout is not None
        self._stdin = emulator.stdin
        self._stdout = emulator.stdout

    def send(self, data: bytes) -> bytes:
        """Return all up to the frame that ends the request."""
        self._stdin.write(data)
        self._stdin.flush()
        received = b""
        deadline = time.monotonic() + DEADLINE_S
        while not any(f.kind != FrameKind.PROGRESS for f in FrameDecoder().feed(received)):
            left_s = deadline - time.monotonic()
            ready, _, _ = select.select([self._stdout], [], [], max(left_s, 0.0))
            assert ready, f"no answer within {DEADLINE_S} s; so far: {received!r}"
            piece = os.read(self._stdout.fileno(), 4096)
            assert piece, "the emulator has gone"
            received += piece
        return received


@pytest.fixture(scope="module")
def image() -> Path:
    cc = requires_tool("avr-gcc", "gcc-avr and avr-libc")
    sources = [*agent_sources(), AGENT / "arch" / "avr" / "bp_rom.c"]
    sources += [AGENT / "collectors" / f"bp_{name}.c" for name in ("ticks", "cycles_instret")]
    sources += [C_TESTS / name for name in ("avr_board.c", "firmware.c")]
    includes = [f"-I{AGENT / 'include'}", f"-I{AGENT / 'src'}", f"-I{C_TESTS / 'arch'}"]
    flags = ["-mmcu=atmega2560", "-Os", "-ffreestanding", *WARNINGS, *defines(CONFIG)]
    return built_once([cc, *flags, *includes, *sources], "agent.elf")


@pytest.fixture
def avr(image: Path) -> Iterator[QemuBoard]:
    qemu = requires_tool("qemu-system-avr", "qemu-system-misc")
    command = [qemu, "-M", "mega2560", "-bios", str(image), "-display", "none", "-monitor", "none"]
    emulator = subprocess.Popen(
        [*command, "-serial", "stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    board = QemuBoard(emulator)
    try:
        board.hello()
        yield board
    finally:
        emulator.kill()
        emulator.communicate(timeout=DEADLINE_S)


def test_the_board_says_that_its_pointers_have_two_bytes(avr: QemuBoard) -> None:
    welcome = avr.hello(session=0x4321).fields
    assert (welcome.pointer_size, welcome.flags, welcome.mtu_rx) == (2, 0, 256)
    assert list(welcome.build_id) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_all_tables_are_read_from_flash(avr: QemuBoard) -> None:
    welcome = avr.hello(session=0x4321).fields
    sections = [list(avr.section(number)) for number in range(4)]
    assert zlib.crc32(b"".join(b"".join(bodies) for bodies in sections)) == welcome.dictionary_hash
    functions = [msgpack.unpackb(body) for body in sections[1]]
    assert msgpack.unpackb(sections[0][0]) == ["memory", "0.2.0", 1024]
    assert functions[7] == ["probe_a.init", "", False]
    work = functions.index(["work", "() -> void", True])
    assert functions[work + 1 : work + 3] == [
        ["add", "(a: i32, b: i32) -> i32", True],
        ["half", "", False],
    ]
    scale = functions.index(["scale", "(y: i32*, n: u32) -> void", True])
    assert functions[scale + 1 : scale + 2] == [
        ["follow", "(p: u8*, n: u32) -> u8*", True],
    ]
    assert msgpack.unpackb(sections[2][3]) == ["ticks", 3, 1, 0xCB2AD80A, 1]
    assert msgpack.unpackb(sections[3][4]) == ["ticks", "TCNT1", 16, 16000000, 0, False, 0, 0]


def test_functions_run_with_arguments_of_32_and_64_bits(avr: QemuBoard) -> None:
    assert avr.call("count") == 1
    assert avr.call("add", -(2**31), 2**31 - 1) == -1
    assert avr.call("echo", bytes(range(200))) == bytes(range(200))


def test_a_double_is_unsupported(avr: QemuBoard) -> None:
    with pytest.raises(BoardError, match="UNSUPPORTED"):
        avr.call("half", 2.5)


def test_a_measurement_counts_each_call(avr: QemuBoard) -> None:
    work = avr.names().index("work")
    samples, blobs = avr.call(1, work, 0, 2, 5, 7, 1)
    assert (samples, blob_counts(blobs)) == (5, [7, 7, 7, 7, 7, 35])


def test_a_measurement_makes_progress_though_the_clock_wraps_244_times_a_second(
    avr: QemuBoard,
) -> None:
    work = avr.names().index("work")
    # Rounds of microseconds: what is read of 4 ms would else be more than half by chance alone.
    *progress, answer = avr.exchange(avr.frame(1, work, 0, 20_000, 1, 1, 1))
    assert answer.kind == FrameKind.RESULT
    assert len(progress) > 1


def test_a_window_of_the_host_works(avr: QemuBoard) -> None:
    window = avr.call("probe_a.start")
    avr.call("work")
    avr.call("work")
    assert blob_counts(avr.call("probe_a.stop", window)) == [2]


def test_a_length_beyond_16_bits_is_no_shorter_one(avr: QemuBoard) -> None:
    block = avr.call("bp.alloc", 100)
    avr.call("bp.write", block, 0, b"abcd")
    assert avr.call("bp.read", block, 0, 4) == b"abcd"
    for offset, length in [(0, 0x10004), (0x10000, 4), (0xFFFF0000, 0x10004)]:
        with pytest.raises(BoardError, match="BAD_OFFSET, detail 100"):
            avr.call("bp.read", block, offset, length)
    with pytest.raises(BoardError, match="NO_MEMORY"):
        avr.call("bp.alloc", 0x10004)


def test_a_pointer_of_16_bits_is_an_argument_and_is_put_back(avr: QemuBoard) -> None:
    block, copy = avr.call("bp.alloc", 8), avr.call("bp.alloc", 8)
    avr.call("bp.write", copy, 0, b"\x01\x00\x00\x00\xfe\xff\xff\xff")
    for _ in range(2):
        avr.call("scale", struct.pack("<4I", block, 0, 8, copy), 2)
        assert avr.call("bp.read", block, 0, 8) == b"\x02\x00\x00\x00\xfc\xff\xff\xff"


def test_the_stack_of_a_call_is_measured(avr: QemuBoard) -> None:
    used, painted = avr.call("bp.stack", avr.names().index("deep"))
    assert 200 <= used <= 212
    assert 900 <= painted <= 1024
