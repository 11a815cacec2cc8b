# SPDX-License-Identifier: Apache-2.0
"""An ELF file is compared with what the board at a port runs, wherever both are known."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from boardprof.base.errors import BuildMismatchError
from boardprof.measure.connect import connect
from boardprof.target.descriptions.board import BoardSpec
from tests.boards.conftest import available
from tests.cli.command import Outcome, boardprof
from tests.support import ROOT

PROBES = ROOT / "tests" / "boards" / "fixtures" / "probes" / "calls.c"
F = "int f(int a) { return a * 3; }\n"
SLOWER_F = "int f(int a) { for (volatile int i = 0; i < 9; i++); return a * 3; }\n"
WAYS = [
    ("run", "f", "a=3"),
    ("run", "f", "a=3", "--hotspots", "--sampled"),
    ("hotspots", "f", "a=3", "--sampled"),
    ("trace", "--time", "100ms"),
    ("trace", "in_range", "n=3"),
    ("top", "--interval", "100ms", "--count", "1"),
    ("dump",),
    ("info",),
    ("metrics",),
]


@dataclass(frozen=True)
class Running:
    """A board at a port, the image that it runs, and the ELF file of another build."""

    board: str
    port: str
    image: Path
    build: str
    other: Path
    other_build: str


@contextmanager
def started(spec: BoardSpec, image: Path) -> Iterator[str]:
    """Start an image in a board's emulator; yields its port, which listens already."""
    with socket.create_server(("127.0.0.1", 0)) as listener:  # which QEMU inherits
        command = [word.replace("{image}", str(image)) for word in spec.launch.command[:-1]]
        line = f"socket,id=line,fd={listener.fileno()},server=on,wait=off"
        command += ["chardev:line", "-chardev", line]
        with subprocess.Popen(command, pass_fds=[listener.fileno()]) as process:
            try:
                yield f"socket://127.0.0.1:{listener.getsockname()[1]}"
            finally:
                process.kill()


def built(board: str, folder: Path, name: str, code: str) -> tuple[Path, str]:
    """Build an image with probes and ``code``; return it and the build id that is printed."""
    source = folder / f"{name}.c"
    source.write_text(PROBES.read_text() + code)
    done = boardprof("build", "-b", board, source, "-o", folder / f"{name}.elf")
    assert done.code == 0, done.err
    found = re.search(r", build ([0-9a-f]{16})$", done.out, re.MULTILINE)
    assert found is not None, done.out
    return folder / f"{name}.elf", found[1]


@pytest.fixture(scope="module", params=["qemu-cortex-m4", "qemu-rv32"])
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    spec = available(request.param)
    folder = tmp_path_factory.mktemp("images")
    image, build = built(spec.name, folder, "a", F)
    other, other_build = built(spec.name, folder, "b", SLOWER_F)
    with started(spec, image) as port:
        yield Running(spec.name, port, image, build, other, other_build)


def refused(running: Running) -> str:
    return (
        f"The board at {running.port} runs build {running.build}; {running.other} is build "
        f"{running.other_build}.\n"
        f"Try: flash {running.other} (boardprof flash), or name the ELF of the image that runs"
    )


@pytest.mark.parametrize("command", WAYS, ids=" ".join)
def test_an_elf_of_another_build_is_refused(running: Running, command: tuple[str, ...]) -> None:
    name, *rest = command
    done = boardprof(name, "-p", running.port, "--image", running.other, *rest)
    assert (done.code, done.out, done.err) == (4, "", f"error: {refused(running)}\n")


def test_an_elf_of_another_build_is_refused_in_python(running: Running) -> None:
    for board in (None, running.board):
        with pytest.raises(BuildMismatchError) as caught:
            connect(board, running.port, image=running.other)
        assert str(caught.value) == refused(running)
    with connect(port=running.port) as board, pytest.raises(BuildMismatchError):
        board.set_image(running.other, is_of_this_host=False)


def test_the_elf_of_the_image_that_runs_is_taken_without_a_note(running: Running) -> None:
    done = measured(running, running.image)
    assert (done.code, done.err) == (0, "")
    with connect(port=running.port, image=running.image) as board:
        assert board.functions.f(3) == 9


def test_an_elf_without_symbols_is_taken_with_one_note(running: Running, tmp_path: Path) -> None:
    image = tmp_path / "stripped.elf"
    strip = available(running.board).build.cc.replace("gcc", "strip")
    subprocess.run([strip, "-o", str(image), str(running.other)], check=True, timeout=60)
    done = measured(running, image)
    note = (
        f"note: {image} has no build id, so boardprof cannot check that the board at "
        f"{running.port} runs it\n"
    )
    assert (done.code, done.err) == (0, note)


def measured(running: Running, image: Path) -> Outcome:
    where = ("-p", running.port, "--image", image)
    return boardprof("run", *where, "f", "a=3", "--no-warnings", "--repeat", "2")
