# SPDX-License-Identifier: Apache-2.0
"""A bench: QEMU's MPS2 board with a marker, and ppk2lab's simulator of a PPK2 that sees it.

The board sends when each window began and ended, by its own clock, over its second UART. The
simulator's D0 is high for as long, and the current is that of `CURRENT_UA`.
"""

from __future__ import annotations

import os
import shutil
import socket
import struct
import threading
import time
from collections import deque
from pathlib import Path

from ppk2lab import PPK2
from ppk2lab.transport.mock import SimulatedPPK2

from boardprof.measure.ppk2 import Ppk2Meter
from tests.support import ROOT

MARKER = """

/* UART1 of AN386 as a wire: when the window began and ended, by COUNTER. */
#define MARKER(offset) BP_MPS2_REG(0x40005000u, offset)

void bp_port_marker(bool raised) {
    static uint32_t began;
    static bool high;
    uint32_t ended = BP_FPGAIO_COUNTER;
    if (high && !raised) {
        MARKER(0x10) = 16;
        MARKER(0x08) = BP_UART_TX;
        for (unsigned bit = 0; bit < 64; bit += 8) {
            while ((MARKER(0x04) & BP_UART_TX) != 0) {
            }
            MARKER(0x00) = (bit < 32 ? began >> bit : ended >> (bit - 32)) & 0xffu;
        }
    }
    high = raised;
    began = BP_FPGAIO_COUNTER;
}
"""

TICKS = 250
"""Of 25 MHz, in a sample of 10 us."""

CURRENT_UA = (12_000.0, 4000.0, 1000.0)
"""In the first 400 samples of a window, in later ones, and outside of windows."""


def add_board(folder: Path, wire: Path) -> Path:
    """Make a copy of qemu-cortex-m4 with a marker, whose wire is a Unix socket."""
    board = folder / "marked-m4"
    shutil.copytree(ROOT / "boards" / "qemu-cortex-m4", board)
    with (board / "port.c").open("a") as port:
        port.write(MARKER)
    text = (board / "board.toml").read_text()
    text = text.replace("sampling = 1,", "sampling = 1, marker = 1,")
    serial = '"tcp:127.0.0.1:{port},nodelay=on",'
    text = text.replace(serial, f'{serial} "-serial", "unix:{wire},server=on,wait=off",')
    (board / "board.toml").write_text(text)
    return board


class Wire:
    """What the simulator measures, as ppk2lab's Profile: one window after the other."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._pulses: deque[int] = deque()  # lengths in samples
        self._place = 0  # in the first one; below 0: before it
        self._is_connected = False

    def sample(self, index: int) -> tuple[float, int]:
        if not self._is_connected:  # what came before has no reader: QEMU drops it
            self._connect()
        if not self._pulses:
            return CURRENT_UA[2], 0
        place, self._place = self._place, self._place + 1
        if place < 0:
            return CURRENT_UA[2], 0
        if self._place == self._pulses[0]:
            self._pulses.popleft()
            self._place = -5
        return CURRENT_UA[place >= 400], 1

    def _connect(self) -> None:
        line = socket.socket(socket.AF_UNIX)
        end_s = time.monotonic() + 20
        while not self._is_connected:
            try:
                line.connect(self._path)
                self._is_connected = True
            except OSError:
                if time.monotonic() > end_s:
                    raise
                time.sleep(0.01)
        threading.Thread(target=self._listen, args=(line,), daemon=True).start()

    def _listen(self, line: socket.socket) -> None:
        with line, line.makefile("rb") as wire:
            while len(message := wire.read(8)) == 8:
                began, ended = struct.unpack("<II", message)
                if length := ended // TICKS - began // TICKS:
                    self._pulses.append(length)


def connect(text: str, timeout_s: float) -> Ppk2Meter:
    """Open the meter of the bench; WIRE is the socket."""
    simulator = SimulatedPPK2(profile=Wire(os.environ["WIRE"]), rate_limit_hz=100_000)
    return Ppk2Meter(PPK2.open(simulator=simulator))
