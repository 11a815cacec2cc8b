# SPDX-License-Identifier: Apache-2.0
"""Which program has the other end of a line, asked of real programs; and which is an emulator."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from boardprof.base.processes import commands_behind
from boardprof.target.descriptions.board import emulator_name

PTY = "import os, pty, time; m, s = pty.openpty(); print(os.ttyname(s), flush=True); time.sleep(60)"
LISTENER = (
    "import socket, time; s = socket.create_server(('127.0.0.1', 0));"
    "print(s.getsockname()[1], flush=True); time.sleep(60)"
)


@pytest.mark.parametrize(("program", "form"), [(PTY, "{}"), (LISTENER, "socket://127.0.0.1:{}")])
def test_the_program_at_the_other_end_of_a_line_is_found(program: str, form: str) -> None:
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = form.format(process.stdout.readline().strip())
            assert commands_behind(port) == [tuple(command)]
        finally:
            process.kill()


def test_nobody_is_behind_a_line_of_our_own_or_one_that_is_none(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert commands_behind(f"socket://127.0.0.1:{listener.getsockname()[1]}") == []
    assert commands_behind("socket://192.0.2.7:22") == []
    assert commands_behind(str(tmp_path / "ttyUSB0")) == []


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("/usr/bin/qemu-system-riscv32 -M virt", "qemu-system-riscv32"),
        ("qemu-arm ./fw.elf", "qemu-arm"),
        ("mono /opt/renode/bin/Renode.exe", "Renode"),
        ("renode lab.resc", "renode"),
        ("FVP_Corstone_SSE-300 -a fw.axf", "FVP_Corstone_SSE-300"),
        ("python3 -m boardprof agent serve", None),
        ("socat TCP-LISTEN:7101 /dev/ttyUSB0", None),
        ("./build/fw.elf qemu-system-arm", None),
        ("", None),
    ],
)
def test_an_emulator_is_known_by_its_program(command: str, name: str | None) -> None:
    assert emulator_name(command.split()) == name
