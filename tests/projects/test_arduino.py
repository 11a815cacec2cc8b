# SPDX-License-Identifier: Apache-2.0
"""The agent as an Arduino library, built by Arduino's own builder and run on simavr."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from boardprof.base.metrics import Count
from boardprof.measure.connect import connect
from boardprof.target.build.build_options import BuildOptions
from boardprof.target.descriptions.board import board_spec
from tests.boards.conftest import available
from tests.cli.command import boardprof
from tests.firmware import build
from tests.projects.firmware import command, shell
from tests.support import AGENT, requires_tool

BOARD = "arduino-uno"
HARDWARE = Path("/usr/share/arduino/hardware")
BUILDER = Path("/usr/share/arduino-builder")
SKETCH = AGENT / "arduino" / "examples" / "Measure"

pytestmark = pytest.mark.board(BOARD)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sketch Measure as docs/arduino.md says; the image is build/Measure.ino.elf."""
    available(BOARD)
    requires_tool("arduino-builder", "arduino-builder")
    requires_tool("arduino-ctags", "arduino-ctags")
    folder = tmp_path_factory.mktemp("arduino")
    library = folder / "libraries" / "boardprof"
    done = boardprof(
        "runtime", "arduino", library, "-D", "BP_CFG_INTERRUPTS=1", "-D", "BP_CFG_STACK=128"
    )
    assert done.code == 0, done.err
    glue = shlex.split(done.out.splitlines()[-1])
    assert glue[:2] == ["boardprof", "glue"]
    sketch = folder / "Measure"
    shell(["cp", "-r", library / "examples" / "Measure", sketch], folder)
    flags = ["-mmcu=atmega328p", "-Os", "-gdwarf-4", f"-I{library / 'src'}"]
    shell(["avr-gcc", *flags, "-c", sketch / "measured.c", "-o", "measured.o"], folder)
    places = {"boardprof": command(folder), "OBJECT...": "measured.o", "BOARD": BOARD}
    places["bp_table.c"] = sketch / "bp_table.c"
    shell([places.get(word, word) for word in glue], folder)
    (folder / "build").mkdir()
    hardware = ["-hardware", HARDWARE, "-hardware", BUILDER, "-tools", BUILDER]
    # avr-gcc 5 has this macro in C only, and Arduino's String wants it.
    fix = "-prefs=compiler.cpp.extra_flags=-DDECIMAL_DIG=__DECIMAL_DIG__"
    shell(
        [
            *("arduino-builder", "-compile", "-fqbn", "arduino:avr:uno", *hardware),
            *("-libraries", library.parent, "-build-path", folder / "build", fix),
            sketch / "Measure.ino",
        ],
        folder,
    )
    return folder


def cycles(image: Path, *, mask: bool) -> set[int]:
    with connect(BOARD, image=image) as board:
        report = board.profile("isqrt", 1000000, warmup=2, repeat=5, mask_interrupts=mask)
    return {each.value for row in report.calls if isinstance(each := row["cycles"], Count)}


def test_a_function_takes_the_cycles_in_a_sketch_that_it_does_in_firmware_of_boardprof(
    folder: Path,
) -> None:
    options = BuildOptions(f"-Os -I{folder / 'libraries' / 'boardprof' / 'src'}")
    ours = build(board_spec(BOARD), [SKETCH / "measured.c"], options)
    expected = cycles(ours.image, mask=True)
    assert len(expected) == 1
    assert cycles(folder / "build" / "Measure.ino.elf", mask=True) == expected


def test_a_sketch_can_be_called_and_says_what_its_stack_is(folder: Path) -> None:
    with connect(BOARD, image=folder / "build" / "Measure.ino.elf") as board:
        assert board.functions.isqrt(1000000) == 1000
        assert board.functions.isqrt(99) == 9
        assert board.welcome.mtu_rx == 128
        report = board.profile("isqrt", 99, warmup=1, repeat=1)
        (stack,) = [row["Stack (bytes)"] for row in report.calls]
        # Its return address and what it pushes; TIMER0's handler is not always in it.
        assert isinstance(stack, Count)
        assert 2 <= stack.value <= 64


def test_an_existing_folder_is_not_overwritten(tmp_path: Path) -> None:
    done = boardprof("runtime", "arduino", tmp_path)
    assert done.code == 2
    assert f"{tmp_path} already exists." in done.err


def test_options_that_need_a_link_script_do_not_compile_in_a_library(tmp_path: Path) -> None:
    requires_tool("avr-gcc", "gcc-avr")
    done = boardprof("runtime", "arduino", tmp_path / "boardprof", "-D", "BP_CFG_GUARD=1")
    assert done.code == 0
    source = tmp_path / "boardprof" / "src"
    flags = ["-mmcu=atmega328p", "-DF_CPU=16000000L", "-I."]
    with pytest.raises(AssertionError, match="which an Arduino library cannot have"):
        shell(["avr-gcc", *flags, "-c", "bp_arduino_avr.c"], source)
