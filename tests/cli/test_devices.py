# SPDX-License-Identifier: Apache-2.0
"""``boardprof devices``: who answers at which port."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from pathlib import Path

from tests.cli.command import FIXTURES, agent, boardprof

SCALARS = FIXTURES / "scalars.c"


def test_an_agent_on_a_serial_line_and_one_on_tcp_are_named() -> None:
    with (
        agent("-b", "linux", SCALARS, "--pty") as line,
        agent("-b", "linux", SCALARS, "--listen", "127.0.0.1:0") as port,
    ):
        done = boardprof("devices", line, port, "--json")
        table = boardprof("devices", line)
    assert done.code == 0
    found = json.loads(done.out)
    assert found["schema_version"] == 1
    assert [(each["port"], each["board"], each["state"]) for each in found["devices"]] == [
        (line, "linux", "free"),
        (port, "linux", "free"),
    ]
    assert all(len(each["build_id"]) == 16 for each in found["devices"])
    head, row = table.out.splitlines()
    assert head.split() == ["Port", "Board", "Agent", "State"]  # a pseudo-terminal is no USB device
    assert row.split() == [line, "linux", found["devices"][0]["agent"], "free"]


def test_what_another_program_has_is_named_and_not_touched() -> None:
    ours, theirs = os.openpty()
    try:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        done = boardprof("devices", os.ttyname(theirs), "--json")
        os.set_blocking(ours, False)
        try:
            sent = os.read(ours, 64)
        except BlockingIOError:
            sent = b""
    finally:
        os.close(ours)
        os.close(theirs)
    (found,) = json.loads(done.out)["devices"]
    assert found["board"] == ""
    assert found["state"].startswith("busy: held by ")
    assert f"(pid {os.getpid()})" in found["state"]
    assert sent == b""


def test_silence_and_absence_are_told_apart(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    name = os.ttyname(theirs)
    os.close(theirs)  # so that nobody has it open
    try:
        done = boardprof("devices", name, str(tmp_path / "ttyUSB9"), "--json")
    finally:
        os.close(ours)
    silent, absent = json.loads(done.out)["devices"]
    assert silent["state"] == "silent: no agent answered within 2 s"
    assert absent["state"] == f"Port {tmp_path / 'ttyUSB9'} does not exist."


def test_a_firmware_that_only_prints_has_a_row_with_its_last_line() -> None:
    ours, theirs = os.openpty()
    name = os.ttyname(theirs)
    os.close(theirs)
    ended = threading.Event()

    def firmware() -> None:
        while not ended.wait(0.1):
            os.write(ours, b"boot\r\nx = 1\r\n")

    printing = threading.Thread(target=firmware)
    printing.start()
    try:
        done = boardprof("devices", name)
    finally:
        ended.set()
        printing.join()
        os.close(ours)
    head, row = done.out.splitlines()
    assert head.split() == ["Port", "State"]
    assert row == f"{name}  no agent answered within 2 s, but the port sends text: x = 1"
