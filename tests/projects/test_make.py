# SPDX-License-Identifier: Apache-2.0
"""The same firmware, built by make with boardprof.mk."""

from __future__ import annotations

import select
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from boardprof.base.errors import BoardError, UsageError
from boardprof.base.processes import commands_behind
from boardprof.measure.board.board import Board
from boardprof.measure.connect import connect
from tests.cli.command import boardprof, rows
from tests.projects.firmware import EXAMPLE, command, requires_board, shell
from tests.support import AGENT, requires_compiler

MAKEFILE = Path(__file__).parent / "fixtures" / "Makefile"

pytestmark = pytest.mark.board("qemu-rv32")


def make(folder: Path, *goals: str) -> str:
    options = [f"SOURCE={folder / 'source'}", f"BOARDPROF={command(folder)}"]
    # Not as a part of the make that may have started these tests.
    return shell(["env", "-u", "MAKEFLAGS", "-u", "MAKELEVEL", "make", *options, *goals], folder)


def made(folder: Path, *options: str) -> Path:
    requires_board("qemu-rv32")
    shutil.copy(MAKEFILE, folder)
    shutil.copytree(EXAMPLE, folder / "source")
    make(folder, "-j2", *options)
    return folder


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("make"))


@contextmanager
def running(image: Path, *options: str) -> Iterator[str]:
    """Start an image with its line at a port; yields the port as -p takes it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:  # which QEMU inherits
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        command = ["qemu-system-riscv32", "-M", "virt", "-bios", "none", "-display", "none"]
        command += ["-monitor", "none", "-kernel", str(image), "-serial", "chardev:line"]
        command += [
            *options,
            "-chardev",
            f"socket,id=line,fd={listener.fileno()},server=on,wait=off",
        ]
        # A host that is early meets the shell, as it does any program that is still being started.
        late = ["sh", "-c", 'sleep 0.3; exec "$@"', "sh", *command]
        with subprocess.Popen(late, pass_fds=[listener.fileno()]) as process:
            try:
                yield f"socket://{address}"
            finally:
                process.kill()


def test_the_image_has_the_functions_and_the_options_of_the_makefile(project: Path) -> None:
    with connect("qemu-rv32", image=project / "thermostat.elf") as board:
        assert list(board.functions) == ["heater_power", "isqrt", "smooth"]
        assert board.functions.isqrt(1000000) == 1000
        assert board.welcome.mtu_rx == 512
        assert board.dictionary.arena_bytes == 4096


def test_the_first_rule_of_the_project_stays_its_default(project: Path) -> None:
    assert make(project) == "make: Nothing to be done for 'all'.\n"


def test_a_function_that_is_registered_later_comes_into_the_table(project: Path) -> None:
    source = project / "source/app/measured.c"
    before = source.read_text()
    twice = "uint32_t twice(uint32_t x);\nuint32_t twice(uint32_t x) { return 2 * x; }\n"
    try:
        source.write_text(f"{before}{twice}BP_FUNCTION(twice);\n")
        assert "twice(x: u32) -> u32\n" in make(project)
        with connect("qemu-rv32", image=project / "thermostat.elf") as board:
            assert board.functions.twice(21) == 42
    finally:  # the other tests have the same project
        source.write_text(before)
        make(project)


def connected(port: str, board: str | None = None) -> Board:
    """Connect as soon as the emulator listens."""
    deadline = time.monotonic() + 30.0
    while True:
        try:
            return connect(board, port)
        except BoardError as error:
            if "belongs to the board" in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def test_a_board_that_boardprof_does_not_know_says_itself_what_it_is(tmp_path: Path) -> None:
    """Nobody has described it, and nothing is built for it: its agent tells all that is needed."""
    made(tmp_path, "BOARDPROF_BOARD=my-board")
    with running(tmp_path / "thermostat.elf") as port:
        with connected(port) as board:
            assert board.spec.name == "my-board"
            assert board.functions.isqrt(1000000) == 1000
        run = ("run", "-p", port, "isqrt", "x=1000000", "--repeat", "2")
        done = boardprof(*run, "--clock", "declared")
        assert done.code == 0, done.err
        assert rows(done.out) == ["isqrt"]
        assert " my-board " in done.out
        assert "my-board clock: declared" in done.out
        done = boardprof(*run)
        assert (done.code, done.out) == (2, "")
        assert "without -icount, QEMU's counters show the host's time" in done.err
        done = boardprof("info", "-p", port)
        assert done.out.startswith("my-board: a board without a description\n")
        with pytest.raises(BoardError, match="belongs to the board 'my-board', not 'qemu-rv32'"):
            connected(port, "qemu-rv32")


def test_doctor_checks_a_board_that_only_exists_in_firmware_and_its_line(tmp_path: Path) -> None:
    made(tmp_path, "BOARDPROF_BOARD=my-board", "BOARDPROF_PROOF=1")
    icount = ("-icount", "shift=0,sleep=off")
    with running(tmp_path / "thermostat.elf", *icount) as port:
        with connected(port) as board:
            assert board.functions.isqrt(1000000) == 1000
        done = boardprof("doctor", "-p", port)
        assert done.code == 0, done.out + done.err
        found = dict(line.split(None, 1) for line in done.out.splitlines() if line)
        assert found["instructions"].startswith("ok ")
        assert " counts a round, evenly, the same in every run" in found["instructions"]
        assert found["arena"].split(None, 1) == ["ok", "4,096 bytes"]
        done = boardprof("doctor", "--link", "-p", port, "--seconds", "0.3")
        assert done.code == 0, done.out + done.err
        assert done.out.startswith(f"Link: my-board at {port}\n")


def test_doctor_says_how_to_build_known_work_into_firmware(tmp_path: Path) -> None:
    made(tmp_path, "BOARDPROF_BOARD=my-board")
    with running(tmp_path / "thermostat.elf", "-icount", "shift=0,sleep=off") as port:
        with connected(port):
            pass
        done = boardprof("doctor", "-p", port)
        assert done.code == 2
        assert "The firmware of my-board lacks functions with known work: proof_depth, " in done.err
        assert "BOARDPROF_PROOF := 1" in done.err
        assert "boardprof build" not in done.err
        arguments = ("readings=int16[9999]:zeros", "out=NULL", "n=9")
        done = boardprof("run", "-p", port, "smooth", *arguments)
        assert "compile the agent with a larger BP_CFG_ARENA (" in done.err


def test_the_clock_of_a_board_that_an_emulator_plays_is_simulated_and_there_is_no_duration(
    tmp_path: Path,
) -> None:
    """Its agent says that it is a board of a declared clock, as on a desk."""
    made(tmp_path, "BOARDPROF_BOARD=my-board")
    icount = ("-icount", "shift=0,sleep=off")
    with running(tmp_path / "thermostat.elf", *icount) as port, connected(port) as board:
        found = board.profile("isqrt", 1000000, repeat=2)
        assert {"instructions", "ticks"} <= {*found.calls[0]}
        assert {"Duration (us)", "cycles"}.isdisjoint(found.calls[0])
        assert found.configuration["my-board clock"] == (
            "simulated, 10,000,000 ticks a second of the emulator's own time; there is no "
            "Duration: qemu-system-riscv32 runs at its port"
        )
        assert "no cycle model" in str(found.configuration["my-board unsupported"])


def test_an_emulated_board_at_a_port_has_only_the_counts_of_that_emulator(project: Path) -> None:
    """It may run with other options than boardprof's own."""
    image = project / "thermostat.elf"
    with running(image, "-icount", "shift=3,sleep=off") as port, connected(port) as board:
        found = board.profile("isqrt", 1000000, repeat=2)
        assert "instructions" not in found.calls[0]
        assert "QEMU counts 8 for each" in str(found.configuration["qemu-rv32 unsupported"])
    with (
        running(image) as port,
        connected(port) as board,
        pytest.raises(UsageError, match=r"instructions .without -icount, QEMU's counters show"),
    ):
        board.profile("isqrt", 1000000, repeat=2)


@contextmanager
def relayed(port: str) -> Iterator[str]:
    """Pass on what goes to a port, as from another machine: its emulator is not to be seen."""
    host, number = port.removeprefix("socket://").split(":")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_relay, args=(listener, (host, int(number))))
        thread.start()
        try:
            yield f"socket://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(timeout=30)
            assert not thread.is_alive()


def _relay(listener: socket.socket, to: tuple[str, int]) -> None:
    while True:
        try:
            ours, _ = listener.accept()
        except OSError:
            return
        with ours, socket.create_connection(to) as theirs:
            ends = {ours: theirs, theirs: ours}
            for end in ends:
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while True:
                ready, _, _ = select.select([*ends], [], [])
                passed = [(end, end.recv(65536)) for end in ready]
                if not all(data for _, data in passed):
                    break
                for end, data in passed:
                    ends[end].sendall(data)


def test_an_emulator_on_another_machine_is_found_out_by_what_it_counts(tmp_path: Path) -> None:
    made(tmp_path, "BOARDPROF_BOARD=my-board")
    icount = ("-icount", "shift=0,sleep=off")
    with running(tmp_path / "thermostat.elf", *icount) as port, relayed(port) as elsewhere:
        assert commands_behind(elsewhere) == []
        run = ("run", "-p", elsewhere, "isqrt", "x=1000000", "--number", "100", "--repeat", "3")
        with connected(elsewhere):
            pass
        found = boardprof(*run)
        assert found.code == 0, found.err
        assert "there is no Duration: each instruction takes one cycle, as on" in found.out
        assert "cycles/call" not in found.out
        # fewer instructions than it takes to tell
        assert "my-board clock: declared" in boardprof(*run, "--number", "1").out
        real = boardprof(*run, "--clock", "measured").out
        assert "my-board clock: measured" in real
        assert "cycles/call" in real


def test_a_known_board_at_a_port_needs_no_name(project: Path) -> None:
    with running(project / "thermostat.elf") as port, connected(port) as board:
        assert board.spec.name == "qemu-rv32"
        assert board.spec.clock.kind == "simulated"


@pytest.mark.parametrize(
    ("arch", "compiler", "core", "config", "brought"),
    [
        (
            *("riscv", "riscv64-unknown-elf-", "-march=rv32imac -misa-spec=2.2 -mabi=ilp32"),
            *("BP_CFG_GUARD=1", {"bp_arch_guard.c.o", "bp_arch_guard_enter.S.o"}),
        ),
        (
            *("cortex_m", "arm-none-eabi-", "-mcpu=cortex-m3 -mthumb", "BP_CFG_GUARD=1"),
            {"bp_arch_guard.c.o", "bp_arch_guard_enter.c.o", "bp_arch_guard_v6m.c.o"},
        ),
        ("cortex_m", "arm-none-eabi-", "-mcpu=cortex-m3 -mthumb", "BP_CFG_GUARD=0", set()),
        ("avr", "avr-", "-mmcu=atmega328p", "BP_CFG_MTU=128", {"bp_rom.c.o"}),
    ],
)
def test_an_option_brings_the_files_that_it_needs(
    arch: str, compiler: str, core: str, config: str, brought: set[str], tmp_path: Path
) -> None:
    requires_compiler(f"{compiler}gcc")
    (tmp_path / "f.c").write_text(
        '#include "boardprof/bp_function.h"\n'
        "int twice(int x);\nint twice(int x) { return 2 * x; }\nBP_FUNCTION(twice);\n"
    )
    (tmp_path / "Makefile").write_text(f"""\
CC := {compiler}gcc
BOARDPROF_BOARD := own
BOARDPROF_OBJECTS := f.o
BOARDPROF_CFLAGS := {core}
BOARDPROF_ARCH := {arch}
BOARDPROF_CONFIG := {config}
BOARDPROF_FREESTANDING := 1
BOARDPROF_AR := {compiler}ar
include {AGENT}/boardprof.mk
f.o: f.c
\t$(CC) $(BOARDPROF_CFLAGS) -gdwarf-4 $(BOARDPROF_CPPFLAGS) -c $< -o $@
""")
    library = "build/boardprof/libboardprof.a"
    shell(["make", f"BOARDPROF={command(tmp_path)}", library], tmp_path)
    members = set(shell([f"{compiler}ar", "t", library], tmp_path).split())
    assert "bp_agent.c.o" in members
    known = {f"{path.name}.o" for path in (AGENT / "arch" / arch).iterdir()}
    assert members & known == brought
