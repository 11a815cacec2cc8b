# SPDX-License-Identifier: Apache-2.0
"""A host without POSIX, such as Windows: a board at a port, and all that needs no board."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import Outcome, agent, boardprof, rows
from tests.support import ROOT, requires_tool

WORKLOADS = ROOT / "examples" / "workloads"
LACKING = {"PYTHONPATH": str(Path(__file__).parent), "PYTHONNOUSERSITE": "1"}


@pytest.fixture(scope="module", params=["--pty", "--listen=127.0.0.1:0"])
def port(request: pytest.FixtureRequest) -> Iterator[str]:
    """An agent at a serial port, which pyserial then reads, and one behind TCP."""
    with agent("-b", "linux", WORKLOADS, request.param) as found:
        yield found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("report") / "crc32.json"
    done = boardprof("run", "-b", "linux", f"{WORKLOADS}:crc32", "--json", file)
    assert done.code == 0, done.err
    return file


def lacking(*arguments: str | Path, folder: Path | None = None) -> Outcome:
    return boardprof(*arguments, environment=LACKING, folder=folder)


def python(*arguments: str, folder: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, **LACKING},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_what_is_taken_away_is_away_for_boardprof_alone(tmp_path: Path) -> None:
    (tmp_path / "boardprof_protocol.py").write_text("import os, select\nimport fcntl\n")
    code, text = python("-c", "import boardprof_protocol", folder=tmp_path)
    assert (code, "No module named 'fcntl'" in text) == (1, True)
    asked = "import fcntl, os, select; print(hasattr(os, 'fork'), hasattr(select, 'poll'))"
    assert python("-c", asked, folder=tmp_path) == (0, "True True\n")
    (tmp_path / "boardprof_protocol.py").write_text(asked.replace("fcntl, ", ""))
    assert python("-c", "import boardprof_protocol", folder=tmp_path) == (0, "False False\n")


def test_a_function_is_measured_at_a_port(port: str, tmp_path: Path) -> None:
    done = lacking("run", "-b", "linux", "-p", port, "crc32", "--json", tmp_path / "crc32.json")
    assert (done.code, rows(done.out)) == (0, ["crc32"]), done.err
    assert lacking("info", "-b", "linux", "-p", port).code == 0


def test_python_measures_at_a_port(port: str, tmp_path: Path) -> None:
    script = f"""
import boardprof
with boardprof.connect("linux", port={port!r}) as board:
    print(board.functions.crc32(), len(board.measure("crc32", repeat=3).samples))
"""
    code, text = python("-c", script, folder=tmp_path)
    assert (code, text) == (0, "None 3\n")


def test_pytest_measures_at_a_port(port: str, tmp_path: Path) -> None:
    (tmp_path / "test_crc.py").write_text(
        "def test_crc(boardprof):\n    assert boardprof('crc32')['Duration (us)'].n == 10\n"
    )
    arguments = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--bp-board", "linux")
    code, text = python(*arguments, "--bp-port", port, folder=tmp_path)
    assert (code, "1 passed" in text) == (0, True), text


@pytest.mark.parametrize(
    "words",
    [
        ("show", "{}"),
        ("show", "{}", "--table"),
        ("show", "{}", "--stats"),
        ("compare", "{}", "{}"),
        ("export", "csv", "{}"),
        ("export", "html", "{}"),
        ("export", "chrome", "{}"),
        ("boards",),
        ("decode", "{}"),
    ],
)
def test_what_needs_no_board_is_the_same_as_elsewhere(words: tuple[str, ...], report: Path) -> None:
    words = tuple(word.format(report) for word in words)
    expected, done = boardprof(*words), lacking(*words)
    assert (done.code, done.out, done.err) == (expected.code, expected.out, expected.err)


def test_a_run_is_kept_in_the_history_and_found_again(port: str, tmp_path: Path) -> None:
    environment = {**LACKING, "BOARDPROF_HISTORY": str(tmp_path / "history.sqlite")}
    run = ("run", "-b", "linux", "-p", port, "crc32", "--save", "first")
    assert boardprof(*run, environment=environment).code == 0
    assert "first" in boardprof("history", environment=environment).out


def test_firmware_is_built_without_posix(tmp_path: Path) -> None:
    requires_tool("arm-none-eabi-gcc", "gcc-arm-none-eabi")
    source = WORKLOADS / "crc32.c"
    done = lacking("build", "-b", "qemu-cortex-m4", source, "-o", tmp_path / "crc32.elf")
    assert done.code == 0, done.err


def test_com3_is_the_name_of_a_port() -> None:
    done = lacking("run", "-b", "nucleo-f446re", "-p", "COM3", "crc32")
    assert (done.code, done.err.splitlines()[0]) == (3, "error: Port COM3 does not exist.")


@pytest.mark.parametrize("board", ["native", "linux", "qemu-rv32"])
def test_a_board_that_is_started_needs_posix_and_says_so(board: str) -> None:
    done = lacking("run", "-b", board, f"{WORKLOADS}:crc32")
    assert done.code == 2
    assert f"error: Starting {board} needs a POSIX system, such as Linux" in done.err
    assert "-p PORT" in done.err
