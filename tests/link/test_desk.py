# SPDX-License-Identifier: Apache-2.0
"""A board that is emulated here and real at a port: one firmware image, two descriptions."""

from __future__ import annotations

import select
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from boardprof.base.connection import Connection
from boardprof.base.errors import UsageError
from boardprof.measure.connect import connect
from boardprof.measure.doctor.link_test import try_link
from boardprof.target.build.firmware import check_flashable, flash
from boardprof.target.descriptions.board import BoardSpec, board_spec, load_board
from tests.firmware import build
from tests.support import requires_compiler

PORT = """
[port]
baud = 57600
clock = "declared"

[port.unsupported]
page-faults = "the real one has no pages"

[flash]
command = ["cp", "{image}", "flashed"]
settle_s = 0.001
"""
SIMULATOR = """\
command = ["{simulator}", "{image}", "--listen", "127.0.0.1:0"]
[launch.simulator]
sources = ["play.c"]
command = ["gcc", "-o", "{output}", "play.c"]
program = "gcc"
package = "gcc"
"""
PLAY = """\
#include <unistd.h>
int main(int argc, char **argv) { return argc > 1 ? execv(argv[1], argv + 1) : 2; }
"""


def copy_of_linux(tmp_path: Path, *changes: tuple[str, str]) -> BoardSpec:
    """Return the board of a process of this machine, changed."""
    requires_compiler("gcc")
    folder = tmp_path / "linux"
    shutil.copytree(board_spec("linux").folder, folder)
    text = (folder / "board.toml").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "board.toml").write_text(text + PORT)
    (folder / "play.c").write_text(PLAY)
    return load_board(folder)


COMMAND = 'command = ["{image}", "--listen", "127.0.0.1:0"]\n'
LISTEN = 'listen = "board"\n'
EMULATED = ('kind = "measured"', 'kind = "declared"\nemulated = true')


@contextmanager
def on_a_desk(image: Path) -> Iterator[str]:
    """Run an image on a pseudo-terminal, as a board on a serial line; yields the device."""
    with subprocess.Popen([image, "--pty"], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready, _, _ = select.select([process.stdout], [], [], 60.0)
            assert ready
            yield process.stdout.readline().removeprefix("listening on ").strip()
        finally:
            process.kill()


def test_without_a_port_the_simulator_is_built_and_plays_the_board(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    simulator = (COMMAND + LISTEN, LISTEN + SIMULATOR)
    spec = copy_of_linux(tmp_path, simulator, EMULATED)
    notes: list[str] = []
    with connect(spec, on_note=notes.append) as board:
        assert board.device.port.startswith("socket://")
        assert (board.device.clock_kind, board.device.emulated) == ("declared", True)
        assert "page-faults" not in board.device.unsupported
    assert notes == ["building the simulator of linux with gcc, once"]
    with connect(spec, on_note=notes.append):
        assert len(notes) == 1


def test_at_a_port_the_same_image_is_the_real_board(tmp_path: Path) -> None:
    spec = copy_of_linux(tmp_path, EMULATED)
    with on_a_desk(build(spec).image) as device, connect(spec, device) as board:
        assert board.device.port == device
        assert (board.device.clock_kind, board.device.emulated) == ("declared", False)
        assert board.device.unsupported["page-faults"] == "the real one has no pages"
        assert board.spec.launch.baud == 57600


def test_what_is_built_opens_at_a_port_as_the_real_board(tmp_path: Path) -> None:
    spec = copy_of_linux(tmp_path, EMULATED)
    firmware = build(spec)
    with on_a_desk(firmware.image) as device, firmware.open(device) as board:
        assert not board.device.emulated


def test_a_board_that_is_started_has_no_baud_rate(tmp_path: Path) -> None:
    spec = copy_of_linux(tmp_path)
    with pytest.raises(UsageError, match="linux is started on this machine and does not use a b"):
        connect(spec, baud=57600)


def test_the_test_of_a_line_takes_the_real_board_at_a_port(tmp_path: Path) -> None:
    spec = copy_of_linux(tmp_path, EMULATED)
    with on_a_desk(build(spec).image) as device:
        report = try_link(spec, Connection(device), seconds=0.2)
    assert report.port == device


def test_the_real_board_is_flashed_and_the_emulated_one_needs_none(tmp_path: Path) -> None:
    spec = copy_of_linux(tmp_path)
    image = build(spec).image
    flash(spec, image)
    assert (spec.folder / "flashed").read_bytes() == image.read_bytes()
    with pytest.raises(UsageError, match="needs no flashing: boardprof starts it"):
        check_flashable(board_spec("linux"))
