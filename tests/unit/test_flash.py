# SPDX-License-Identifier: Apache-2.0
"""``[flash]`` of board.toml, what a tool is given and told of, and which build an image is."""

from __future__ import annotations

import dataclasses
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from boardprof.base.errors import (
    BoardError,
    BoardTimeoutError,
    BuildError,
    MissingToolError,
    UsageError,
)
from boardprof.target.build.builder import build
from boardprof.target.build.firmware import check_flashable, flash
from boardprof.target.descriptions.board import BoardSpec, board_spec, load_board
from boardprof.target.descriptions.tables import FlashSpec
from boardprof.target.elf.object_file import build_id_of, is_program
from tests.support import ROOT, requires_compiler

BOARD = """\
summary = "a board on a wire"
[build]
cc = "gcc"
package = "gcc"
[launch]
kind = "{kind}"
[clock]
kind = "measured"
[flash]
{flash}
"""


def board(folder: Path, flash: str, kind: str = "serial") -> BoardSpec:
    """Write and read a board's folder."""
    folder = folder / "lab-board"
    folder.mkdir()
    (folder / "port.c").write_text("")
    (folder / "board.toml").write_text(BOARD.format(kind=kind, flash=flash))
    return load_board(folder)


def with_tool(tmp_path: Path, script: str, **others: object) -> tuple[BoardSpec, Path]:
    """Return a board whose tool is a shell script in its folder, and an image."""
    spec = board(tmp_path, 'command = ["./tool", "{image}"]')
    tool = spec.folder / "tool"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(stat.S_IRWXU)
    assert spec.flash is not None
    image = tmp_path / "x.elf"
    image.write_bytes(Path(sys.executable).read_bytes()[:20])  # what it is for, and no more
    how = dataclasses.replace(spec.flash, settle_s=0.001, **others)  # type: ignore[arg-type]
    return dataclasses.replace(spec, flash=how), image


# -- board.toml -------------------------------------------------------------------------------


def test_a_command_alone_gets_the_defaults(tmp_path: Path) -> None:
    spec = board(tmp_path, 'command = ["tool", "{image}"]')
    assert spec.flash == FlashSpec(("tool", "{image}"), None, (), (), 0.5, 120.0)


def test_everything_that_can_be_said_is_read(tmp_path: Path) -> None:
    text = (
        'command = ["tool", "-P", "{port}", "{hex}"]\npackage = "tools"\n'
        'reset = ["tool", "-P", "{port}", "--reset"]\nsettle_s = 2\ntimeout_s = 30.5'
    )
    assert board(tmp_path, text).flash == FlashSpec(
        command=("tool", "-P", "{port}", "{hex}"),
        package="tools",
        reset=("tool", "-P", "{port}", "--reset"),
        settle_s=2.0,
        timeout_s=30.5,
    )


def test_a_board_need_not_say_how_it_is_flashed() -> None:
    assert board_spec("native").flash is None


@pytest.mark.parametrize(
    ("flash", "message"),
    [
        ('package = "x"', "[flash] command: the key is missing; it must be a list"),
        ("command = []", "[flash] command: the list is empty"),
        ('command = ["tool"]', '[flash] command: must contain "{image}", "{bin}" or "{hex}"'),
        ('command = ["tool", "{port}"]', 'must contain "{image}", "{bin}" or "{hex}"'),
        (
            'command = ["tool", "{elf}"]',
            '[flash] command: "{elf}" is not known; {bin}, {hex}, {image}, {port} are',
        ),
        ('command = ["tool", "{image:>9}"]', '"{image:>9}" is not known'),
        ('command = ["tool", "{image!r}"]', '"{image!r}" is not known'),
        ('command = ["tool", "{image}", "{"]', "[flash] command: "),
        ('command = ["tool", "{image}"]\nreset = ["tool", "{}"]', '[flash] reset: "{}" is not k'),
        (
            'command = ["tool", "{image}"]\nsettle_s = 0',
            "[flash] settle_s: must be a number above 0",
        ),
        ('command = ["tool", "{image}"]\ntimeout = 1', "[flash] timeout: unknown key; did you m"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, flash: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        board(tmp_path, flash)
    assert message in str(caught.value)


def test_a_board_that_is_started_has_no_command_to_flash_it(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r'a board with launch.kind = "library" can only be flashed'
    ):
        board(tmp_path, 'command = ["tool", "{image}"]', kind="library")


def test_plain_braces_are_written_twice(tmp_path: Path) -> None:
    spec, image = with_tool(tmp_path, 'echo "$2"; exit 1', command=("./tool", "{image}", "{{x}}"))
    with pytest.raises(BoardError, match=r"\n\{x\}\n"):
        flash(spec, image)


def test_the_lines_for_known_tools_in_the_documentation_are_accepted(tmp_path: Path) -> None:
    text = (ROOT / "boards" / "README.md").read_text()
    lines = re.findall(r"^# (command = \[.*\])$", text, re.MULTILINE)
    tools = []
    for number, line in enumerate(lines):
        folder = tmp_path / str(number)
        folder.mkdir()
        how = board(folder, line).flash
        assert how is not None
        tools.append(how.command[0])
    assert tools == ["openocd", "pyocd", "esptool.py", "picotool", "avrdude"]


# -- who can be flashed -----------------------------------------------------------------------


def test_a_board_that_is_started_is_refused_with_what_to_do() -> None:
    with pytest.raises(UsageError, match="native needs no flashing") as caught:
        check_flashable(board_spec("native"))
    assert caught.value.hint == "boardprof run -b native PATH:FUNCTION"


def test_a_tool_that_uses_the_port_needs_one(tmp_path: Path) -> None:
    spec = board(tmp_path, 'command = ["tool", "{image}"]\nreset = ["tool", "{port}"]')
    with pytest.raises(UsageError, match="lab-board is flashed through its port"):
        check_flashable(spec)
    assert check_flashable(spec, "/dev/ttyACM0") is spec.flash


# -- the tool ---------------------------------------------------------------------------------


def test_the_tool_gets_the_paths_and_runs_in_the_boards_folder(tmp_path: Path) -> None:
    note = tmp_path / "note"
    script = f'echo "$PWD $1 $2" >> {note}'
    command = ("./tool", "{image}", "{port}")
    spec, image = with_tool(tmp_path, script, command=command, reset=("./tool", "again", "{port}"))
    shown: list[str] = []
    flash(spec, image, str(tmp_path), on_command=shown.append)
    assert note.read_text().splitlines() == [
        f"{spec.folder} {image} {tmp_path}",
        f"{spec.folder} again {tmp_path}",
    ]
    assert shown == [f"./tool {image} {tmp_path}", f"./tool again {tmp_path}"]


def test_a_failing_tool_is_quoted_and_the_reset_is_left_out(tmp_path: Path) -> None:
    script = 'test "$1" = reset && touch was_reset; echo out; echo err >&2; exit 3'
    spec, image = with_tool(tmp_path, script, reset=("./tool", "reset"))
    with pytest.raises(BoardError) as caught:
        flash(spec, image)
    assert caught.value.exit_code == 3
    assert str(caught.value) == (
        "lab-board was not flashed: ./tool ended with exit code 3.\nout\nerr\n"
        "Try: is the board's probe plugged in, is it the only one, and may you open it (udev "
        "rules)? "
        f"The command in {spec.folder} was: ./tool {image}"
    )
    assert not (spec.folder / "was_reset").exists()


def test_a_tool_that_is_killed_is_told_by_the_signal(tmp_path: Path) -> None:
    spec, image = with_tool(tmp_path, "kill -SEGV $$; sleep 60")  # a signal may arrive late
    with pytest.raises(BoardError, match="ended by SIGSEGV"):
        flash(spec, image)


def test_a_tool_that_does_not_end_is_the_boards_time_out(tmp_path: Path) -> None:
    spec, image = with_tool(tmp_path, "echo waiting; touch begun; sleep 1000")
    assert spec.flash is not None
    for limit_s in (0.2, 3.0, 30.0):  # on a machine that stood still it may not have begun in time
        how = dataclasses.replace(spec.flash, timeout_s=limit_s)
        with pytest.raises(BoardTimeoutError) as caught:
            flash(dataclasses.replace(spec, flash=how), image)
        if (spec.folder / "begun").exists():
            break
    assert f"within {limit_s:g} s and was ended.\nwaiting\n" in str(caught.value)
    assert caught.value.exit_code == 5


def test_a_tool_that_is_missing_or_cannot_run_is_told_apart(tmp_path: Path) -> None:
    spec, image = with_tool(tmp_path, "", command=("./none", "{image}"), package="flasher")
    with pytest.raises(MissingToolError, match=r"\./none was not found on PATH") as missing:
        flash(spec, image)
    assert missing.value.package == "flasher"
    (spec.folder / "none").write_bytes(b"\x7fELF")
    (spec.folder / "none").chmod(stat.S_IRWXU)
    with pytest.raises(BoardError, match=r"\./none cannot be started: Exec format error"):
        flash(spec, image)


def test_the_key_of_agents_is_not_told_to_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOARDPROF_KEY", "secret")
    spec, image = with_tool(tmp_path, 'echo "[$BOARDPROF_KEY]"; exit 1')
    with pytest.raises(BoardError, match=r"\n\[\]\n"):
        flash(spec, image)


def test_an_image_that_is_none_is_told_before_the_tool_runs(tmp_path: Path) -> None:
    spec, image = with_tool(tmp_path, "touch has_run")
    with pytest.raises(UsageError, match=r"none\.elf does not exist"):
        flash(spec, tmp_path / "none.elf")
    how = dataclasses.replace(spec.flash or FlashSpec(()), command=("./tool", "{bin}"))
    with pytest.raises(BuildError, match=r"x\.elf cannot be converted"):
        flash(dataclasses.replace(spec, flash=how), image)
    assert not (spec.folder / "has_run").exists()


def test_the_port_is_waited_for(tmp_path: Path) -> None:
    port = tmp_path / "port"
    spec, image = with_tool(tmp_path, f"(sleep 0.3; touch {port}) > /dev/null 2>&1 &")
    flash(spec, image, os.fspath(port))
    assert port.exists()


# -- images -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["native", "linux", "qemu-rv32", "qemu-cortex-m3"])
def test_an_images_build_id_is_that_of_its_build(name: str) -> None:
    spec = board_spec(name)
    requires_compiler(spec.build.cc)
    firmware = build(spec)
    assert build_id_of(firmware.image) == firmware.build_id
    assert is_program(firmware.image)


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF" + bytes(60), b"int main;"])
def test_what_is_no_image_has_no_build_id(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    assert (build_id_of(file), is_program(file)) == (None, False)


def test_a_program_without_the_agent_has_no_build_id(tmp_path: Path) -> None:
    assert is_program(Path(sys.executable).resolve())
    assert build_id_of(Path(sys.executable).resolve()) is None
    assert (build_id_of(tmp_path), is_program(tmp_path)) == (None, False)


@pytest.mark.parametrize(
    ("kind", "order", "program"),
    [(1, 1, False), (2, 1, True), (3, 1, True), (4, 1, False), (2, 2, True), (1, 2, False)],
)
def test_an_object_file_is_no_program(tmp_path: Path, kind: int, order: int, program: bool) -> None:
    file = tmp_path / "file"
    number = kind.to_bytes(2, "little" if order == 1 else "big")
    file.write_bytes(b"\x7fELF\x01" + bytes([order]) + bytes(10) + number + bytes(2))
    assert is_program(file) is program


class Stuck(subprocess.Popen[bytes]):
    """A process whose end nobody sees, as of one that is stuck in a driver."""

    def wait(self, timeout: float | None = None) -> int:
        assert timeout is not None, "this would wait for ever"
        raise subprocess.TimeoutExpired(self.args, timeout)


def test_a_tool_that_cannot_be_ended_is_the_boards_time_out_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, image = with_tool(tmp_path, "exec sleep 1000", timeout_s=0.1)
    started: list[Stuck] = []

    def start(*arguments: Any, **options: Any) -> Stuck:
        started.append(Stuck(*arguments, **options))
        return started[-1]

    monkeypatch.setattr("boardprof.target.build.firmware.subprocess.Popen", start)
    with pytest.raises(BoardTimeoutError, match=r"within 0\.1 s"):
        flash(spec, image)
    super(Stuck, started[0]).wait(10.0)
