# SPDX-License-Identifier: Apache-2.0
"""What the linker complains of, in plain words."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from boardprof.base.errors import BuildError
from boardprof.target.build.build_errors import explain, undefined_symbols
from boardprof.target.descriptions.board import BoardSpec, board_spec, load_board
from tests.support import requires_compiler
from tests.unit.building import build, changed, folder_of, requires_library

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("shared_cache")]

OUTPUT = """\
/usr/bin/ld: /cache/objects/12/fir.o: in function `fir':
./fir.c:3: undefined reference to `nowhere'
/usr/bin/ld: ./fir.c:9: undefined reference to `nowhere'
/usr/bin/ld: libdsp.a(iir.o): in function `iir':
iir.c:(.text.iir+0x8): undefined reference to `filter_state'
/usr/bin/ld: /cache/objects/34/b.o: undefined reference to `bare'
collect2: error: ld returned 1 exit status
"""

OVERFLOW = """\
Memory region         Used Size  Region Size  %age Used
             rom:       11604 B         4 MB      0.28%
             ram:     8000128 B       512 KB   1525.90%
/usr/bin/ld: x.elf section `.bss' will not fit in region `ram'
/usr/bin/ld: region `ram' overflowed by 7475840 bytes
"""


@pytest.fixture
def rv32() -> BoardSpec:
    return board_spec("qemu-rv32")


def test_each_undefined_symbol_is_named_with_who_uses_it() -> None:
    assert undefined_symbols(OUTPUT) == {
        "nowhere": ["fir in fir.c:3", "fir in fir.c:9"],
        "filter_state": ["iir in iir.c"],
        "bare": ["b.o"],
    }


def test_undefined_symbols_are_sentences(rv32: BoardSpec) -> None:
    assert explain(OUTPUT, rv32, ["filter_state"]) == (
        "nowhere is not defined; fir in fir.c:3 and fir in fir.c:9 use it. "
        "filter_state is not defined; iir in iir.c uses it "
        "(it is static elsewhere: --no-inline filter_state). "
        "bare is not defined; b.o uses it."
    )


def test_an_overflow_has_both_figures(rv32: BoardSpec) -> None:
    assert explain(OVERFLOW, rv32) == (
        "The program needs 8,000,128 bytes of ram; qemu-rv32 has 524,288."
    )
    alone = OVERFLOW.splitlines()[-1]
    assert explain(alone, rv32) == (
        "The program is 7,475,840 bytes too large for the ram of qemu-rv32."
    )


OUTSIDE = """\
Memory region         Used Size  Region Size  %age Used
            text:       17444 B        32 KB     53.23%
            data:       10052 B         2 KB    490.82%
ld: address 0x802640 of uno.elf section `.bss' is not within region `data'
ld: address 0x802844 of uno.elf section `.noinit' is not within region `data'
"""


def test_sections_at_fixed_addresses_that_leave_the_memory_have_both_figures() -> None:
    uno = board_spec("arduino-uno")
    assert explain(OUTSIDE, uno) == "The program needs 10,052 bytes of data; arduino-uno has 2,048."
    without_figures = "".join(OUTSIDE.splitlines(keepends=True)[3:])
    assert explain(without_figures, uno) == (
        ".bss has no room in the data of arduino-uno. "
        ".noinit has no room in the data of arduino-uno."
    )


def test_a_missing_heap_names_malloc(rv32: BoardSpec) -> None:
    output = "/usr/bin/ld: libc.a(sbrkr.o): in function `_sbrk_r':\ns.c:5: undefined reference to "
    said = explain(output + "`_sbrk'", rv32)
    assert said is not None
    assert said.startswith("malloc needs a heap, and qemu-rv32 has none")


def test_other_complaints_have_their_sentences_or_none(rv32: BoardSpec) -> None:
    twice = "/usr/bin/ld: b.o:(.bss+0x0): multiple definition of `n'; /x/a.o:(.bss+0x0): "
    assert explain(twice + "first defined here", rv32) == (
        "n is defined twice, the first time in a.o."
    )
    assert explain("ld: cannot find -lfoo: No such file or directory", rv32) == (
        "The library for -lfoo was not found: give its folder with -L."
    )
    assert explain("/usr/bin/ld: too little is left for the stack", rv32) == (
        "The program leaves too little of the memory of qemu-rv32 for the stack."
    )
    output = (
        "Memory region         Used Size  Region Size  %age Used\n"
        "             rom:          50 B        64 KB      0.08%\n"
        "             ram:        9000 B        10 KB     87.89%\n"
        "/usr/bin/ld: too little is left for the stack\n"
    )
    assert explain(output, rv32) == (
        "The program leaves too little of the memory of qemu-rv32 for the stack: "
        "it takes 9,000 of 10,240 bytes of ram."
    )
    assert explain("ld: internal error", rv32) is None


def test_code_that_is_larger_than_the_board_is_told_with_the_board_s_figures(
    tmp_path: Path, rv32: BoardSpec
) -> None:
    folder_of(tmp_path, {"big.c": "char big[8000000]; int f(int i) { return big[i]; }"})
    requires_compiler(rv32.build.cc)
    with pytest.raises(BuildError) as caught:
        build(rv32, [tmp_path])
    assert caught.value.hint == (
        "use smaller arrays, or build fewer of the files (the agent's arena takes 262,144 bytes of "
        "the RAM)"
    )
    first, _, rest = str(caught.value).partition("\n")
    told = re.fullmatch(
        r"qemu-rv32\.elf does not link: The program needs ([\d,]+) bytes of ram; "
        r"qemu-rv32 has 4,194,304\.",
        first,
    )
    excess = re.search(r"overflowed by (\d+) bytes", rest)  # the linker's own count
    assert told
    assert excess
    needed_bytes = int(told[1].replace(",", ""))
    assert needed_bytes == 4_194_304 + int(excess[1])
    assert 8_000_000 < needed_bytes < 9_000_000


def test_code_that_is_larger_than_the_flash_is_told_where_the_linker_gives_an_address(
    tmp_path: Path,
) -> None:
    model = board_spec("qemu-cortex-m3")
    requires_compiler(model.build.cc)
    shutil.copytree(model.folder, folder := tmp_path / "m3")
    script = (folder / "link.ld").read_text()
    at_page = "SECTIONS { .text.f 0x1000 : { *(.rodata.big) *(.text.f) } > rom }\n"
    (folder / "link.ld").write_text(script.replace("INCLUDE", at_page + "INCLUDE", 1))
    text = "const char big[5000000] = {1}; int f(int i) { return big[i]; }"
    folder_of(tmp_path / "code", {"big.c": text})
    with pytest.raises(BuildError) as caught:
        build(load_board(folder), [tmp_path / "code"])
    first, _, rest = str(caught.value).partition("\n")
    assert first.startswith("m3.elf does not link: The program needs 5,0")
    assert first.endswith(" bytes of rom; m3 has 4,194,304.")
    assert "is not within region" in rest
    assert caught.value.hint == "compile with -Os, use smaller arrays, or build fewer of the files"


@pytest.mark.parametrize("name", ["qemu-rv32", "qemu-cortex-m3", "arduino-uno"])
def test_malloc_without_a_heap_does_not_link(tmp_path: Path, name: str) -> None:
    text = "#include <stdlib.h>\nvoid *f(int n) { return malloc(n); } int g(void) { return !f(3); }"
    folder_of(tmp_path, {"f.c": text})
    spec = board_spec(name)
    requires_library(spec)
    with pytest.raises(BuildError, match="malloc needs a heap"):
        build(changed(spec, libc_heap=0), [tmp_path])


def test_a_header_of_a_library_that_is_not_installed_names_its_package(
    tmp_path: Path, rv32: BoardSpec
) -> None:
    folder_of(tmp_path, {"f.c": "#include <string.h>\nint f(void) { return 1; }"})
    requires_compiler(rv32.build.cc)
    without = changed(rv32, libc_cflags=(), libc_package="picolibc-of-the-board")
    with pytest.raises(BuildError, match=r"string\.h belongs to the C library, which is") as caught:
        build(without, [tmp_path])
    assert "apt install picolibc-of-the-board" in str(caught.value)
    assert caught.value.exit_code == 7


def test_a_function_of_a_library_that_is_not_installed_names_its_package(
    tmp_path: Path, rv32: BoardSpec
) -> None:
    text = "int strcmp(const char *a, const char *b);\nint f(const char *s) "
    folder_of(tmp_path, {"f.c": text + '{ return strcmp(s, "x"); }'})
    requires_compiler(rv32.build.cc)
    without = changed(rv32, libc_cflags=(), libc_package="picolibc-of-the-board")
    with pytest.raises(BuildError, match=r"strcmp is not defined; f in f\.c:2 uses it") as caught:
        build(without, [tmp_path], optimize="-O0")
    assert "install the package picolibc-of-the-board" in str(caught.value)


@pytest.mark.parametrize(
    ("header", "hint"),
    [
        ("cstdint", "include <stdint.h> instead, and use its names without std::; or "),
        ("array", "avoid <array>; or build for a board whose toolchain has it"),
    ],
)
def test_a_cpp_header_that_the_toolchain_does_not_have_is_said_to_be_of_the_cpp_library(
    tmp_path: Path, rv32: BoardSpec, header: str, hint: str
) -> None:
    requires_library(rv32)
    folder_of(tmp_path, {"f.cpp": f"#include <{header}>\n"})
    without = changed(rv32, cflags=(*rv32.build.cflags, "-nostdinc++"))  # as if it were not there
    with pytest.raises(BuildError, match=f"<{header}> belongs to the C\\+\\+ library") as caught:
        build(without, [tmp_path])
    assert "toolchain of qemu-rv32 lacks" in str(caught.value)
    assert hint in str(caught.value.hint)
    assert f"f.cpp:1:10: fatal error: {header}: No such file" in str(caught.value)
    folder_of(tmp_path, {"f.cpp": '#include "vectors"\n'})
    with pytest.raises(BuildError) as own:
        build(without, [tmp_path])
    assert "C++ library" not in str(own.value)
