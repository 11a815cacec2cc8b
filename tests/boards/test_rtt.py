# SPDX-License-Identifier: Apache-2.0
"""Boards without a UART: a debug probe moves the bytes through memory (SEGGER RTT)."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from boardprof.base.errors import BoardTimeoutError, LinkError
from boardprof.measure.board.board import Board
from boardprof.measure.connect import connect
from boardprof.results.report.report import Report
from tests.boards.conftest import SMALL, WORKLOADS, available
from tests.boards.openocd import openocd
from tests.cli.command import boardprof, wait_until
from tests.firmware import build
from tests.rtt_probe import RttProbe, with_rtt

BOARDS = pytest.mark.parametrize("name", ["qemu-cortex-m3", "qemu-rv32"])
ARRAYS = Path(__file__).parents[1] / "link" / "fixtures" / "arrays.c"
CRC32 = {"qemu-cortex-m3": 28_682, "qemu-rv32": 40_971}
"""Instructions of a call, as QEMU counts them in its plugin interface."""


def firmware(name: str, *sources: Path, up: int = 1024) -> Path:
    return build(with_rtt(available(name), up), sources).image


@contextmanager
def through_a_probe(
    name: str, *sources: Path, up: int = 1024, greeting: bytes = b""
) -> Iterator[tuple[Board, RttProbe]]:
    image = firmware(name, *sources, up=up)
    with (
        closing(RttProbe(available(name), image, greeting=greeting)) as probe,
        connect(name, probe.port, image=image) as board,
    ):
        yield board, probe


def counts(report: Report) -> list[object]:
    return [(row["Name"], row["instructions"]) for row in report.calls]


@BOARDS
def test_the_ten_workloads_take_as_many_instructions_as_over_a_uart(name: str) -> None:
    over_uart = build(available(name), [WORKLOADS])
    names = [function.name for function in over_uart.functions]
    assert len(names) == 10
    with connect(name, image=over_uart.image) as board:
        expected = [counts(board.profile(each, warmup=0, repeat=1)) for each in names]
    with through_a_probe(name, WORKLOADS) as (board, _):
        assert [counts(board.profile(each, warmup=0, repeat=1)) for each in names] == expected
        (row,) = board.profile("crc32", warmup=1, repeat=1).calls
        assert row["instructions"].value == CRC32[name]


@BOARDS
def test_arrays_of_many_rings_go_there_and_come_back(name: str) -> None:
    with through_a_probe(name, ARRAYS, up=64) as (board, _):  # the smallest ring
        x = np.arange(1_000, dtype=np.int32)
        board.functions.count_up(x, 1_000)
        assert (x == np.arange(1, 1_001)).all()


def test_no_copy_of_the_identifier_is_in_what_is_loaded() -> None:
    with firmware("qemu-cortex-m3", SMALL).open("rb") as stream:
        loaded = b"".join(segment.data() for segment in ELFFile(stream).iter_segments("PT_LOAD"))
    assert b"boardprof\0" in loaded
    assert b"SEGGER" not in loaded


@BOARDS
def test_a_board_whose_control_block_is_overwritten_repairs_it_and_goes_on(name: str) -> None:
    chance = random.Random(5)
    values = (0, 7, 1024, 1025, 0xFFFFFFFF)
    with through_a_probe(name, ARRAYS) as (board, probe):
        with probe.lock:
            intact = [(ring.name, ring.buffer, ring.size) for ring in probe.rings()]
        for n in range(30):
            with probe.lock:
                _, down = probe.rings()
                for at in chance.sample(range(down.address - 48, down.address + 24, 4), 3):
                    value = chance.choice([*values, chance.getrandbits(32)])
                    probe.stub.write(at, value.to_bytes(4, "little"))
                wait_until(lambda p=probe: rings_after_a_moment(p) == intact, "repaired")
            assert board.functions.sum_of([n, 10], 2) == n + 10


def test_a_probe_leaves_alone_what_start_up_code_is_clearing() -> None:
    with through_a_probe("qemu-cortex-m3", ARRAYS) as (board, probe):
        with probe.lock:
            assert probe.block is not None
            probe.stub.write(probe.block, bytes(16 + 8 + 24 + 8))  # up to the address of a ring
            assert [ring.is_active for ring in probe.rings()] == [False, False]
            probe.stub.ask(then_go=True)
        assert board.functions.sum_of([1, 10], 2) == 11


def rings_after_a_moment(probe: RttProbe) -> list[tuple[int, int, int]]:
    probe.stub.ask(then_go=True)
    time.sleep(0.001)
    rings = probe.rings()
    return [(ring.name, ring.buffer, ring.size) for ring in rings if ring.is_active]


def test_a_greeting_of_the_server_is_not_an_answer() -> None:
    greeting = b"SEGGER J-Link V7.96a - Real time terminal output\r\nProcess: JLinkGDBServer\r\n"
    with through_a_probe("qemu-rv32", SMALL, greeting=greeting) as (board, _):
        assert board.functions.sort() is None
        assert "Real time terminal output" in board.console


def test_a_server_without_a_control_block_is_an_error_that_says_what_to_do() -> None:
    with openocd("rtt server start 0 0") as servers:
        port = servers["rtt"].replace("localhost", "rtt://127.0.0.1")
        with pytest.raises(BoardTimeoutError, match=r"rtt setup ADDRESS SIZE .*BP_CFG_RTT"):
            connect(port=port, timeout_s=0.5)


def test_a_server_that_ends_is_a_lost_connection() -> None:
    with through_a_probe("qemu-rv32", SMALL) as (board, probe):
        probe.close()
        with pytest.raises(LinkError, match=r"rtt://127\.0\.0\.1:\d+ is lost"):
            board.functions.sort()


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["rtt://127.0.0.1:1"], 3, "Connection refused.\nTry: start the RTT server"),
        (["rtt://127.0.0.1"], 2, "'rtt://127.0.0.1' is not a port."),
        (["rtt://127.0.0.1:9", "--baud", "9600"], 2, "rtt://127.0.0.1:9 has no baud rate."),
        (["rtt://127.0.0.1:9", "--key-file", "k"], 2, "debug probe's port, which has no key."),
    ],
)
def test_a_port_that_cannot_be_is_an_error(words: list[str], code: int, text: str) -> None:
    outcome = boardprof("info", "-p", *words)
    assert outcome.code == code
    assert text in outcome.err
