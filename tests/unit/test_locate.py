# SPDX-License-Identifier: Apache-2.0
"""Addresses of real images, of several kinds, as source lines."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from boardprof.base.errors import Location
from boardprof.target.elf.addresses import locate
from tests.support import requires_tool, run

pytestmark = pytest.mark.slow

SOURCE = """\
static volatile int sink;
void first(void);
void second(void);
void unused(void);
void unused(void) {
    sink = 3;
}
void first(void) {
    sink = 1;
    __asm__ volatile(".globl here\\nhere: nop");
    sink = 2;
}
static int inner(int n) {
    __asm__ volatile(".globl there\\nthere: nop");
    return n + sink;
}
void second(void) {
    sink = inner(sink);
}
"""

KINDS = {
    "a program at any address": ["gcc", "-fPIE", "-pie"],
    "a program at its own address": ["gcc", "-fno-pie", "-no-pie"],
    "a shared library": ["gcc", "-fPIC", "-shared"],
    "DWARF 4": ["gcc", "-gdwarf-4"],
    "optimised": ["gcc", "-O2"],
    "sections that nobody needs thrown away": [
        *("gcc", "-O2", "-ffunction-sections", "-Wl,--gc-sections", "-Wl,-e,first"),
        "-Wl,-u,second",
    ],
    "RISC-V": ["riscv64-unknown-elf-gcc", "-Os"],
    "Thumb code from address 0": ["arm-none-eabi-gcc", "-mcpu=cortex-m3", "-mthumb", "-Ttext=0"],
}
PACKAGES = {
    "gcc": "gcc",
    "riscv64-unknown-elf-gcc": "gcc-riscv64-unknown-elf",
    "arm-none-eabi-gcc": "gcc-arm-none-eabi",
}


def built(folder: Path, compiler: str, *flags: str, debug: str = "-g") -> Path:
    """Compile SOURCE as ``src/place.c`` in ``folder``."""
    cc = requires_tool(compiler, PACKAGES[compiler])
    (folder / "src").mkdir()
    source = folder / "src" / "place.c"
    source.write_text(SOURCE)
    image = folder / "image"
    run([cc, debug, *flags, "-nostdlib", "-Wl,-u,here", source, "-o", image])
    return image


def address(image: Path, symbol: str) -> int:
    for line in run([requires_tool("nm", "binutils"), image]).splitlines():
        value, _, name = line.rpartition(" ")
        if name == symbol:
            return int(value.split()[0], 16)
    raise AssertionError(f"{image} has no {symbol}")


@pytest.mark.parametrize("kind", KINDS)
def test_an_address_is_found_in_every_kind_of_image(kind: str, tmp_path: Path) -> None:
    image = built(tmp_path, *KINDS[kind])
    path = str(tmp_path / "src" / "place.c")
    assert locate(image, address(image, "here")) == Location(path, 10, "first")
    there = locate(image, address(image, "there"))
    assert there is not None
    assert (there.path, there.line) == (path, 14)
    assert there.function in ("inner", "second")


def test_every_byte_of_an_instruction_belongs_to_its_line(tmp_path: Path) -> None:
    """A return address less one is within the call."""
    image = built(tmp_path, "gcc", "-O0")
    begin, end = address(image, "first"), address(image, "inner")
    lines = [place.line for pc in range(begin, end) if (place := locate(image, pc))]
    assert len(lines) == end - begin
    assert sorted(set(lines)) == [8, 9, 10, 11, 12]
    assert lines == sorted(lines)


def test_without_debug_information_the_function_is_found_alone(tmp_path: Path) -> None:
    image = built(tmp_path, "gcc", debug="-g0")
    place = locate(image, address(image, "here"))
    assert place == Location("", 0, "first")
    assert str(place) == "(in first)"


def test_an_address_that_is_nowhere_and_a_file_that_is_no_image_give_none(tmp_path: Path) -> None:
    image = built(tmp_path, "gcc")
    assert locate(image, 0x7FFF_0000_0000) is None
    assert locate(image, 0) is None
    assert locate(tmp_path / "src" / "place.c", 4) is None
    assert locate(tmp_path / "gone", 4) is None


def test_a_damaged_image_gives_a_place_or_none_and_never_an_error(tmp_path: Path) -> None:
    image = built(tmp_path, "gcc")
    pc = address(image, "here")
    whole = image.read_bytes()
    rng = random.Random(1)
    asked = 0
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(20):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        image.write_bytes(damaged)
        place = locate(image, pc)
        asked += place is None or isinstance(place, Location)
    assert asked == 300


def test_a_place_is_shown_without_its_folder() -> None:
    assert str(Location("/a/b/crash.c", 12, "crash")) == "crash.c:12 (in crash)"
    assert str(Location("crash.c", 12, None)) == "crash.c:12"


def test_without_addr2line_the_function_is_found_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = built(tmp_path, "gcc")
    pc = address(image, "here")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert locate(image, pc) == Location("", 0, "first")
