# SPDX-License-Identifier: Apache-2.0
"""`boardprof flash` and `run --flash`: on boards that are processes behind a pseudo-terminal.

The tool that flashes, the reset button and the board are programs of their own; see
fixtures/desk.py.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import serial

from tests.cli.command import (
    BOARDPROF,
    FIXTURES,
    Outcome,
    boardprof,
    ended,
    offspring,
    wait_until,
    without_progress,
)
from tests.support import ROOT, requires_tool

DESK = str(FIXTURES / "desk.py")
SCALARS = FIXTURES / "scalars.c"
FIR = ROOT / "examples" / "workloads" / "fir_q15.c"
QEMU = (
    *("qemu-system-riscv32", "-M", "virt", "-bios", "none", "-display", "none"),
    *("-monitor", "none", "-icount", "shift=0,sleep=off", "-serial", "pty"),
)


@dataclass(frozen=True)
class Lab:
    """A board's folder, which boardprof finds, and the desk where the board is."""

    board: str
    folder: Path
    desk: Path
    site: Path

    @property
    def port(self) -> Path:
        return self.desk / "port"

    @property
    def environment(self) -> dict[str, str]:
        """What makes the board known, besides what is on the path already."""
        return {"PYTHONPATH": f"{self.site}:{os.environ.get('PYTHONPATH', '')}"}

    def run(self, *arguments: str | Path, timeout_s: float = 60.0) -> Outcome:
        """Run ``boardprof ARGUMENTS``, to which the board is known."""
        return boardprof(*arguments, environment=self.environment, timeout_s=timeout_s)

    def flash(self, *arguments: str | Path) -> Outcome:
        return self.run("flash", "-b", self.board, *arguments)


def toml(value: object) -> str:
    return json.dumps(value)  # texts and lists of them are written alike


def lab(
    tmp_path: Path,
    like: str,
    image: str = "{image}",
    flash: list[str] | None = None,
    more: str = "",
) -> Lab:
    """Make a board like one of ours, but on a wire, and the package that brings it."""
    folder = tmp_path / f"lab-{like}"
    shutil.copytree(ROOT / "boards" / like, folder)
    text = (folder / "board.toml").read_text()
    launch = text.index("[launch]")
    rest = text.index("[clock]")
    desk = tmp_path / "desk"
    desk.mkdir()
    command = flash or [sys.executable, DESK, "flash", str(desk), image]
    reset = [sys.executable, DESK, "reset", str(desk)]
    tables = [
        f'[launch]\nkind = "serial"\n\n[flash]\ncommand = {toml(command)}',
        f"reset = {toml(reset)}\nsettle_s = 0.05\n{more}\n",
    ]
    text = text[:launch] + "\n".join(tables) + "\n" + text[rest:]
    assert tomllib.loads(text)["launch"] == {"kind": "serial"}
    (folder / "board.toml").write_text(text)
    site = tmp_path / "site"
    info = site / "lab-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lab\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[boardprof.boards]\nany = lab_of_tests:board\n")
    (site / "lab_of_tests.py").write_text(f"board = {str(folder)!r}\n")
    return Lab(folder.name, folder, desk, site)


@contextmanager
def serving(lab: Lab, *command: str) -> Iterator[None]:
    """Run the desk with a board that is ``command``."""
    desk = [sys.executable, DESK, "serve", str(lab.desk), "--", *command]
    with subprocess.Popen(desk, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "the desk is there\n"
            yield
        finally:
            for pid in [*offspring(process.pid), process.pid]:
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def linux(tmp_path: Path) -> Iterator[Lab]:
    """A board like `linux`, whose agent starts anew with what was flashed."""
    made = lab(tmp_path, "linux")
    with serving(made, "{firmware}", "--pty"):
        yield made


def build_of(done: Outcome) -> str:
    assert done.code == 0, done.err
    return done.out.split()[-1]


# -- flash ------------------------------------------------------------------------------------


def test_sources_are_built_flashed_and_found_to_run(linux: Lab) -> None:
    done = linux.flash("-p", linux.port, FIR)
    assert done.code == 0, done.err
    assert done.out.startswith(f"{linux.board} at {linux.port} runs build ")
    # As the tool wrote it, and nothing else; each carriage return was read as the end of a line.
    assert done.err == "\nwriting:   0 %\nwriting:  50 %\nwriting: 100 %\nreset\n"
    ran = linux.run("run", "-b", linux.board, "-p", linux.port, "fir_q15", "--repeat", "1")
    assert (ran.code, ran.err) == (0, "")


def test_other_options_are_another_build_and_replace_the_first(linux: Lab) -> None:
    builds = {
        build_of(linux.flash("-p", linux.port, FIR, *options))
        for options in ([], ["-O3"], ["--source", SCALARS], [])
    }
    assert len(builds) == 3


def test_a_linked_image_is_flashed_as_it_is(linux: Lab, tmp_path: Path) -> None:
    image = tmp_path / "fir.elf"
    built = linux.run("build", "-b", linux.board, FIR, "-o", image)
    assert built.code == 0, built.err
    done = linux.flash("-p", linux.port, image)
    assert build_of(done) in built.out
    assert (linux.desk / "firmware").read_bytes() == image.read_bytes()


def test_an_image_that_does_not_tell_its_build_is_flashed_and_that_is_told(
    linux: Lab, tmp_path: Path
) -> None:
    image = tmp_path / "fir.elf"
    assert linux.run("build", "-b", linux.board, FIR, "-o", image).code == 0
    subprocess.run(["strip", image], check=True)
    done = linux.flash("-p", linux.port, image)
    assert (done.code, done.out.endswith(f"; {image} does not contain its own build id\n")) == (
        0,
        True,
    )


def test_without_a_port_it_is_flashed_and_not_checked(linux: Lab) -> None:
    done = linux.flash(FIR)
    assert (done.code, done.out) == (
        0,
        f"{linux.board} was flashed. Without a port, boardprof could not check what it runs.\n",
    )


def test_verbose_shows_the_commands_of_both(linux: Lab) -> None:
    done = linux.flash("-p", linux.port, FIR, "-v")
    assert f" {DESK} flash {linux.desk} /" in done.err
    assert f" {DESK} reset {linux.desk}\n" in done.err


def dry_run(board: str, *more: str | Path) -> list[str]:
    done = boardprof("flash", "-b", board, SCALARS, "--dry-run", *more)
    assert done.code == 0, done.err
    return shlex.split(done.out)


def test_a_dry_run_shows_the_command_and_runs_nothing() -> None:
    requires_tool("arm-none-eabi-gcc", "gcc-arm-none-eabi")
    words = dry_run("nucleo-f446re")
    assert words[:4] == ["openocd", "-f", "board/st_nucleo_f4.cfg", "-c"]
    assert re.fullmatch(r"program \{/.+\.elf\} verify reset exit", words[4])
    assert len(words) == 5


@pytest.mark.parametrize(
    ("board", "chosen"),
    [
        ("nucleo-f446re", ["-c", "adapter serial 0671FF"]),
        ("nrf52840dk", ["--uid", "0671FF"]),
        ("rpi-pico", ["--ser", "0671FF"]),
    ],
)
def test_a_probe_is_chosen_by_its_serial_number_in_each_tools_own_way(
    board: str, chosen: list[str]
) -> None:
    requires_tool("arm-none-eabi-gcc", "gcc-arm-none-eabi")
    words = dry_run(board, "--probe-serial", "0671FF")
    at = words.index(chosen[0], words.index("-f") + 2 if board == "nucleo-f446re" else 0)
    assert words[at : at + 2] == chosen


def test_a_tool_that_is_not_told_which_probe_says_what_to_add() -> None:
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    flash = ("flash", "-b", "esp32-c3", "-p", "/dev/ttyUSB9", SCALARS, "--dry-run")
    done = boardprof(*flash, "--probe-serial", "1")
    assert done.code == 2
    assert "esptool.py is not told which probe to use for esp32-c3" in done.err
    assert 'add "{choose}" and choose = [...] to [flash] in ' in done.err


def test_progress_is_on_the_terminal_while_the_tool_runs(tmp_path: Path) -> None:
    tool = ["sh", "-c", "test -t 1 && printf 'a terminal\\r'; : {image}"]
    made = lab(tmp_path, "linux", flash=tool)
    environment = {**os.environ, **made.environment}
    command = [*BOARDPROF, "flash", "-b", made.board, str(FIR)]
    main, other = os.openpty()
    with serving(made, "{firmware}", "--pty"):
        done = subprocess.run(
            command, stderr=other, stdout=subprocess.PIPE, env=environment, timeout=60, check=False
        )
    os.close(other)
    written = os.read(main, 10000)
    os.close(main)
    assert done.returncode == 0
    assert written.endswith(b"a terminal\rreset\r\n")  # behind the bar of a build that takes long


@pytest.mark.parametrize("image", ["{bin}", "{hex}"])
def test_the_toolchain_makes_what_the_tool_wants(
    tmp_path: Path, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    made = lab(tmp_path, "qemu-rv32", image)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))  # others flash at the same time
    address = ",addr=0x80000000,force-raw=on" if image == "{bin}" else ""
    with serving(made, *QEMU, "-device", "loader,file={firmware}" + address):
        done = made.run(
            "run", "-b", made.board, "-p", made.port, "--flash", f"{FIR}:fir_q15", "--repeat", "2"
        )
    assert done.code == 0, done.err
    assert "instructions" in done.out.splitlines()[0]
    first = (made.desk / "firmware").read_bytes()[:1]
    assert (first == b":") == (image == "{hex}")
    assert not list((tmp_path / "tmp").glob("boardprof-flash-*"))


# -- run --flash ------------------------------------------------------------------------------


def test_run_builds_flashes_connects_and_measures(linux: Lab, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    where = ("-b", linux.board, "-p", linux.port)
    options = ("--flash", "--repeat", "2", "--json", file)
    done = linux.run("run", *where, f"{FIR}:fir_q15", *options)
    assert done.code == 0, done.err
    assert done.out.startswith("Name ")
    report = json.loads(file.read_text())
    assert [row["Name"]["string"] for row in report["calls"]] == ["fir_q15"] * 2
    assert report["boardprof"]["measurements"][0]["flags"] == "-O2"


def test_a_sweep_flashes_each_setting(linux: Lab) -> None:
    where = ("-b", linux.board, "-p", linux.port)
    done = linux.run(
        "run", *where, f"{FIR}:fir_q15", "--flash", "--repeat", "2", "--sweep", "-O0|-O2"
    )
    assert done.code == 0, done.err
    rows = [line.split()[:2] for line in done.out.split("\n\n")[0].splitlines()[2:]]
    assert rows == [["fir_q15", "-O0"], ["fir_q15", "-O2"]]
    assert done.err.count("reset\n") == 2


def test_without_flash_another_build_at_the_port_is_refused(linux: Lab) -> None:
    assert linux.flash("-p", linux.port, FIR).code == 0
    done = linux.run("run", "-b", linux.board, "-p", linux.port, f"{FIR}:fir_q15", "-O3")
    assert (done.code, "runs build" in done.err) == (4, True)


# -- what goes wrong --------------------------------------------------------------------------


def test_a_board_that_goes_on_with_the_old_build_is_told(tmp_path: Path) -> None:
    tool = ["sh", "-c", ": does nothing with {image}"]
    made = lab(tmp_path, "linux", flash=tool)
    built = made.run("build", "-b", made.board, FIR, "-o", made.desk / "firmware")
    assert built.code == 0, built.err
    with serving(made, "{firmware}", "--pty"):
        done = made.flash("-p", made.port, FIR, "-O3")
        ran = made.run("run", "-b", made.board, "-p", made.port, "--flash", f"{FIR}:fir_q15", "-O3")
    assert (done.code, done.out) == (4, "")
    assert f"error: The board at {made.port} runs build " in done.err
    assert "Try: check that the board boots from what was flashed" in done.err
    assert (ran.code, ran.out) == (4, "")
    assert "Try: check that the board boots from what was flashed" in ran.err


def test_a_tool_that_finds_no_board_is_shown_as_it_wrote_it(tmp_path: Path) -> None:
    made = lab(tmp_path, "linux")  # and nobody at the desk
    done = made.flash("-p", made.port, FIR)
    assert (done.code, done.out) == (3, "")
    first, second, third = done.err.splitlines()
    assert first == "Error: no probe found"
    assert (
        second == f"error: {made.board} was not flashed: {sys.executable} ended with exit code 1."
    )
    assert third.startswith("Try: is the board's probe plugged in, is it the only one, ")
    assert f" The command in {made.folder} was: " in third


def test_a_port_that_another_program_has_is_told_before_anything_is_flashed(linux: Lab) -> None:
    assert linux.flash("-p", linux.port, FIR).code == 0
    before = (linux.desk / "firmware").read_bytes()
    with serial.Serial(os.path.realpath(linux.port), exclusive=True):
        done = linux.flash("-p", linux.port, FIR, "-O3")
    assert (done.code, done.out) == (3, "")
    assert f"error: {linux.port} is busy: " in done.err
    assert (linux.desk / "firmware").read_bytes() == before


def test_a_missing_tool_is_told_with_its_package(tmp_path: Path) -> None:
    made = lab(tmp_path, "linux", flash=["no-such-flasher", "{image}"], more='package = "flasher"')
    done = made.flash("-p", made.port, FIR)
    assert (done.code, done.out) == (7, "")
    assert done.err == (
        "error: no-such-flasher was not found on PATH.\n"
        "Try: install the package flasher (Debian: apt install flasher)\n"
    )


def test_a_tool_that_does_not_end_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    note = tmp_path / "pids"
    script = f"sleep 1000 & echo $$ $! > {note}; : {{image}}; wait"
    made = lab(tmp_path, "linux", flash=["sh", "-c", script], more="timeout_s = 0.5")
    done = made.flash("-p", made.port, FIR)
    assert (done.code, done.out) == (5, "")
    assert f"error: sh did not flash {made.board} within 0.5 s and was ended." in done.err
    pids = [int(pid) for pid in note.read_text().split()]
    wait_until(lambda: all(map(ended, pids)), "both have ended")


def test_an_interrupt_ends_the_tool(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    script = f"echo $$ > {note}.new; mv {note}.new {note}; : {{image}}; sleep 1000"
    made = lab(tmp_path, "linux", flash=["sh", "-c", script])
    command = [*BOARDPROF, "flash", "-b", made.board, str(FIR)]
    environment = {**os.environ, **made.environment}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        wait_until(note.exists, "the tool runs")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, without_progress(err).strip()) == (130, "interrupted")
    assert ended(int(note.read_text()))


def test_code_that_does_not_compile_flashes_nothing(linux: Lab, tmp_path: Path) -> None:
    bad = tmp_path / "bad.c"
    bad.write_text("int f(void) { return }\n")
    done = linux.flash("-p", linux.port, bad)
    assert (done.code, done.out) == (7, "")
    assert not (linux.desk / "firmware").exists()


@pytest.mark.parametrize("board", ["native", "linux", "qemu-rv32"])
def test_a_board_that_is_started_needs_no_flashing(board: str) -> None:
    done = boardprof("flash", "-b", board, FIR)
    assert (done.code, done.out) == (2, "")
    assert f"error: {board} needs no flashing: boardprof starts it with its firmware." in done.err
    done = boardprof("run", "-b", board, f"{FIR}:fir_q15", "--flash")
    assert (done.code, done.out) == (2, "")
    assert f"error: {board} needs no flashing" in done.err


def test_what_is_asked_of_flash_must_make_sense(tmp_path: Path) -> None:
    made = lab(tmp_path, "linux", flash=["tool", "-P", "{port}", "{image}"])
    cases = (
        (("flash", FIR), "Which board should be flashed?"),
        (("flash", "-b", made.board, FIR), "is flashed through its port.\nTry: give -p PORT"),
        (
            ("flash", "-b", made.board, "-p", "x", "none.c"),
            "The file or folder none.c does not exist",
        ),
        (("run", "-b", made.board, "-p", "x", "--flash", "f"), "There is nothing to flash."),
    )
    for arguments, message in cases:
        done = made.run(*arguments)
        assert (done.code, done.out) == (2, ""), done
        assert message in done.err


def test_a_board_whose_file_says_nothing_of_flashing_is_told(tmp_path: Path) -> None:
    made = lab(tmp_path, "linux")
    file = made.folder / "board.toml"
    text = file.read_text()
    file.write_text(text[: text.index("[flash]")] + text[text.index("[clock]") :])
    done = made.flash(FIR)
    assert (done.code, done.out) == (2, "")
    assert f"error: {file} does not say how to flash {made.board}." in done.err


def test_an_image_for_another_machine_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text("int f(void) { return 1; }\n")
    built = boardprof("build", "-b", "qemu-rv32", "f.c", "-o", "f.elf", folder=tmp_path)
    assert built.code == 0, built.err
    for more in ((), ("--dry-run",)):
        done = boardprof("flash", "-b", "nucleo-f446re", "f.elf", *more, folder=tmp_path)
        assert (done.code, done.err.splitlines()[0]) == (
            2,
            "error: f.elf is for RISC-V; nucleo-f446re is Arm.",
        )
