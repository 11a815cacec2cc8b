# SPDX-License-Identifier: Apache-2.0
"""However a run ends, no emulator and no agent is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from boardprof.target.descriptions.board import board_spec
from tests.cli.command import (
    BOARDPROF,
    FIXTURES,
    cpu_seconds,
    ended,
    offspring,
    rows,
    wait_until,
    without_progress,
)
from tests.support import requires_tool

BOARDS = ["linux", "qemu-rv32", "qemu-cortex-m3"]
ENTRIES = {
    "module": ["-m", "boardprof"],
    "script": [str(Path(sys.executable).parent / "boardprof")],
}
# Modules that are loaded one after the other, from the first on that the command asks for.
MOMENTS = ["signal", "typing", "click.core", "click", "boardprof.ui.cli.compare"]
MOMENTS += ["boardprof.ui.cli.commands", "msgpack", "construct", "boardprof.measure.board.board"]


@contextmanager
def endless_run(board: str) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """Yield a run that is within a function that never ends, and the processes it has started."""
    spec = board_spec(board)
    requires_tool(spec.build.cc, spec.build.package)
    if spec.launch.package:
        requires_tool(spec.launch.command[0], spec.launch.package)
    # Whoever runs the tests in the background may have had the signal ignored; a terminal has not.
    listening = ["env", "--default-signal=INT"]
    # The guard would end the function: an emulator may be through ten seconds in one.
    run = [*BOARDPROF, "run", "-b", board, "--timeout", "3600"]
    command = [*listening, *run, f"{FIXTURES / 'endless.c'}:b_endless"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            worker = process.pid
            if spec.launch.kind == "process":
                wait_until(lambda: is_one(agents(process.pid, board)), "the agent is started")
                (worker,) = agents(process.pid, board)
            before = cpu_seconds(worker)
            wait_until(lambda: cpu_seconds(worker) > before + 0.7, "the function runs")
            yield process, offspring(process.pid)
        finally:
            process.kill()


def agents(host: int, board: str) -> list[int]:
    """Return the children that run the board's image, without processes that these have begun.

    A linker, which writes it, has ``-o``.
    """
    words = {pid: command_line(pid) for pid in offspring(host)}
    image = f"/{board}.elf"
    found = [p for p, w in words.items() if "-o" not in w and any(v.endswith(image) for v in w)]
    below = {own for pid in found for own in offspring(pid)}
    return [pid for pid in found if pid not in below]


def command_line(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


def is_one(found: list[int]) -> bool:
    return len(found) == 1


@pytest.mark.parametrize("board", ["native", *BOARDS])
def test_ctrl_c_ends_with_130_and_leaves_nothing_running(board: str) -> None:
    with endless_run(board) as (process, started):
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=10)
        assert (process.returncode, out) == (130, "")
        assert without_progress(err).strip() == "interrupted"
        wait_until(lambda: all(ended(pid) for pid in started), "all that it began has ended", 5.0)
        assert bool(started) == (board != "native")


# It says when it is there: to the console, or to the emulated machine's 16550.
SAYING = """\
#ifdef UART
static void say(const char *text) {
    while (*text) {
        *(volatile char *)UART = *text++;
    }
}
#else
#include <stdio.h>
static void say(const char *text) {
    fputs(text, stdout);
    fflush(stdout);
}
#endif

void a_ends(void) {
}

void b_endless(void) {
    static volatile unsigned turns;
    say("\\nhere for ever\\n");
    for (;;) {
        turns++;
    }
}
"""


@pytest.mark.parametrize(
    ("board", "defines"), [("native", []), ("qemu-rv32", ["-D", "UART=0x10000000"])]
)
def test_ctrl_c_keeps_what_was_measured_and_tells_what_is_missing(
    board: str, defines: list[str], tmp_path: Path
) -> None:
    spec = board_spec(board)
    requires_tool(spec.build.cc, spec.build.package)
    source, file, said = tmp_path / "saying.c", tmp_path / "report.json", tmp_path / "err"
    source.write_text(SAYING)
    run = [*BOARDPROF, "run", "-b", board, f"{source}:all", *defines, "--console"]
    run += ["--timeout", "3600", "--table", "--json", str(file)]
    command = ["env", "--default-signal=INT", *run]
    with (
        said.open("w") as err,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=err, text=True) as process,
    ):
        try:
            wait_until(lambda: "here for ever" in said.read_text(), "it never ends", 60.0)
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=10)
        finally:
            process.kill()
    missing = "the rest, after it was interrupted"
    assert (process.returncode, rows(out)) == (130, ["a_ends"])
    assert f"\nMissing: {missing}\n" in out
    assert json.loads(file.read_text())["boardprof"]["missing"] == [missing]
    assert said.read_text().splitlines()[-2:] == [f"Report written to {file}", "interrupted"]


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_host_that_is_killed_takes_what_it_started_with_it(board: str, number: int) -> None:
    requires_tool("setpriv", "util-linux")
    with endless_run(board) as (process, started):
        assert started
        process.send_signal(number)
        assert process.wait(10) == -number
        wait_until(lambda: all(ended(pid) for pid in started), "the agent has ended", 5.0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_host_that_is_ended_while_it_compiles_leaves_no_file_and_no_compiler(
    number: int, tmp_path: Path
) -> None:
    (tmp_path / "endless.c").write_text('#include "endless.h"\n')
    os.mkfifo(tmp_path / "endless.h")  # no compiler comes to its end
    for folder in ("cache", "tmp"):
        (tmp_path / folder).mkdir()
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment["TMPDIR"] = str(tmp_path / "tmp")
    listening = ["env", "--default-signal=INT,TERM,HUP"]
    with subprocess.Popen(
        [*listening, *BOARDPROF, "run", "-q", "-b", "native", "endless.c:f"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            wait_until(lambda: bool(compilers(process.pid)), "a compiler reads it", 30.0)
            started = offspring(process.pid)
            process.send_signal(number)
            _, err = process.communicate(timeout=10)
        finally:
            process.kill()
    code = 130 if number == signal.SIGINT else -number
    assert (process.returncode, err.strip()) == (code, "interrupted")
    wait_until(lambda: all(ended(pid) for pid in started), "the compilers have ended", 5.0)
    assert [*(tmp_path / "tmp").iterdir()] == []
    assert [*(tmp_path / "cache" / "boardprof" / "tmp").iterdir()] == []


def compilers(host: int) -> list[int]:
    """Return the compilers below a process that read a file of the test's."""
    return [p for p in offspring(host) if any("cc1" in word for word in command_line(p)[:1])]


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("moment", MOMENTS)
def test_ctrl_c_while_modules_are_loaded_ends_with_130_and_no_traceback(
    entry: str, moment: str
) -> None:
    listening = ["env", "--default-signal=INT", sys.executable, "-X", "importtime"]
    # One that does not end by itself, or it might before the signal comes.
    run = ["run", "-b", "native", "--timeout", "3600", f"{FIXTURES / 'endless.c'}:b_endless"]
    command = [*listening, *ENTRIES[entry], *run]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            names = (line.rpartition("|")[2].strip() for line in process.stderr)
            assert moment in names  # it has just been loaded
            process.send_signal(signal.SIGINT)
            said = [line for line in process.stderr if not line.startswith("import time:")]
            assert process.wait(10) == 130
            assert "".join(said).strip() == "interrupted"
        finally:
            process.kill()


IN_A_CLASS = """
import signal, sys
from boardprof.ui.cli import commands, main

class Field:
    def __set_name__(self, owner, name):
        signal.raise_signal(signal.SIGINT)

commands.run_command = lambda arguments: type("Made", (), {"field": Field()})
sys.exit(main([]))
"""


def test_ctrl_c_while_a_class_is_made_ends_with_130_and_no_traceback() -> None:
    command = ["env", "--default-signal=INT", sys.executable, "-c", IN_A_CLASS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


UNRAISABLE = """
import signal, sys, time
from boardprof.ui.cli import commands, main

class Gone:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

def run_command(arguments):
    Gone()
    time.sleep(60)

commands.run_command = run_command
sys.exit(main())
"""


BUSY = """
import threading
started = threading.Thread.start

def start(thread):
    started(thread)
    thread.join(0.1)  # longer than the timer takes

threading.Thread.start = start
"""
"""A new thread is at its end before the one that began it goes on, as on a busy machine."""


@pytest.mark.parametrize("machine", ["", BUSY], ids=["quiet", "busy"])
def test_ctrl_c_that_comes_where_nothing_can_be_raised_comes_again(machine: str) -> None:
    """As where Python lets go of the lock of a module that it has loaded."""
    command = ["env", "--default-signal=INT", sys.executable, "-c", machine + UNRAISABLE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")
