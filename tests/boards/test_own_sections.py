# SPDX-License-Identifier: Apache-2.0
"""Variables, constants and functions in sections whose names no link script knows."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest

from boardprof.base.errors import BuildError
from tests.boards.conftest import NAMES, available, spec_of
from tests.firmware import build

SOURCE = """\
#include <stdint.h>
#define IN(name) __attribute__((section(name)))
IN(".ccmram") volatile int32_t ccm = 7;
IN("calibration") volatile int32_t calibrated[2] = {80, 8};
IN(".noinit_cfg") volatile int32_t configured = 9;
IN(".rodata_fast") const int32_t constant = 10;
IN(".data_sram2") volatile uint8_t odd[13] = {1, [12] = 11};
IN(".fast_data") volatile uint64_t wide __attribute__((aligned(32))) = 1200000000000;
IN(".bss_fast") volatile int32_t zero;
__asm__(".pushsection .fast_zeros, \\"aw\\", %nobits\\n"
        ".globl zeros\\nzeros: .zero 40\\n.popsection");
extern volatile int32_t zeros[10];
static volatile int32_t usual = 13;
static volatile int32_t cleared;
extern volatile int32_t __start_calibration[], __stop_calibration[];
IN(".ramfunc") __attribute__((noinline)) int32_t fast(int32_t n) { return 3 * n + usual; }

int32_t variables(void) { return ccm * 100 + calibrated[1] * 10 + configured; }
int32_t constants(void) { return *(const volatile int32_t *)&constant; }
int32_t bytes(void) { return odd[0] * 100 + odd[11] + odd[12]; }
int32_t is_wide(void) { return wide == 1200000000000 && (uintptr_t)&wide % 32 == 0; }
int32_t zeroes(void) { return zero + zeros[0] + zeros[9] + cleared; }
int32_t set(void) { return zero = zeros[0] = zeros[9] = cleared = configured = 5; }
int32_t all(void) { return (int32_t)(__stop_calibration - __start_calibration); }
int32_t called(void) { return fast(2); }
"""


@pytest.mark.parametrize("name", [n for n in NAMES if spec_of(n).build.link_script])
def test_start_up_initialises_sections_of_any_name(tmp_path: Path, name: str) -> None:
    source = tmp_path / "own.c"
    source.write_text(SOURCE)
    firmware = build(available(name), [source])
    for _ in range(2):  # also what the first start has changed
        with firmware.open() as board:
            assert board.functions.variables() == 789
            assert board.functions.constants() == 10
            assert board.functions.bytes() == 111
            assert board.functions.is_wide() == 1
            assert board.functions.zeroes() == 0
            assert board.functions.all() == 2
            assert board.functions.called() == 19
            assert board.functions.set() == 5


@pytest.mark.parametrize("name", ["arduino-uno", "arduino-mega"])
@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '__attribute__((section(".ccmram"))) volatile int gain = 7;',
            "does not copy the section .ccmram of own.o (gain), so it would not have its values",
        ),
        (
            '__attribute__((section(".constants"))) const int gain = 7;',
            "does not copy the section .constants of own.o (gain), so",
        ),
        (
            '__attribute__((section("lab"))) volatile int gain = 7, more = 8, a[2] = {1}, b = 2;',
            "does not copy the section lab of own.o (",
        ),
        (
            '__asm__(".section .fast,\\"aw\\",@nobits\\n.globl gain\\ngain: .zero 4\\n.previous");'
            "extern volatile int gain;",
            "does not clear the section .fast of own.o",
        ),
    ],
)
def test_a_section_that_avr_libc_does_not_initialise_is_refused(
    tmp_path: Path, name: str, line: str, message: str
) -> None:
    source = tmp_path / "own.c"
    source.write_text(f"{line}\nint f(void) {{ return *(volatile const int *)&gain; }}\n")
    with pytest.raises(BuildError) as caught:
        build(available(name), [source])
    assert f"Start-up on {name} {message}" in str(caught.value)


@pytest.mark.parametrize("name", ["microbit", "hifive1"])
def test_a_gap_between_sections_that_flash_does_not_have_is_refused(
    tmp_path: Path, name: str
) -> None:
    """The linker aligns variables in RAM, and packs their values in flash.

    There is a gap, since the variables before it take at least 4 and less than 1,024 bytes.
    """
    source = tmp_path / "own.c"
    source.write_text(
        "static volatile int usual = 3;\n"
        '__attribute__((section("wide"), aligned(1024))) volatile int gain = 4;\n'
        "int f(void) { return gain + usual; }\n"
    )
    with pytest.raises(BuildError) as caught:
        build(available(name), [source])
    assert f"on {name} does not copy the section wide of own.o (gain), so" in str(caught.value)
    source.write_text(source.read_text().replace('"wide"', '".wide"'))
    with build(available(name), [source]).open() as board:
        assert board.functions.f() == 7


@pytest.mark.parametrize("name", ["arduino-uno", "arduino-mega"])
def test_functions_in_sections_of_any_name_run_on_an_avr(tmp_path: Path, name: str) -> None:
    """Values of .data come after them in the flash."""
    source = tmp_path / "own.c"
    source.write_text(
        "static volatile int usual = 13;\n"
        '__attribute__((section(".ramfunc"), noinline)) int fast(int n) { return 3 * n + usual; }\n'
        '__attribute__((section("lab"), noinline)) int called(int n) { return fast(n) + usual; }\n'
    )
    with build(available(name), [source]).open() as board:
        assert board.functions.called(2) == 32


@pytest.mark.parametrize("section", ["ccm", ".fast_code"])
def test_a_link_script_that_leaves_a_section_to_nobody_is_refused(
    tmp_path: Path, section: str
) -> None:
    """A board's own script may put sections where start-up does not copy them."""
    spec = available("microbit")
    shutil.copytree(spec.folder, tmp_path / "lab")
    script = tmp_path / "lab" / "link.ld"
    text = script.read_text()
    text += f"SECTIONS {{ .own : {{ *({section}) }} > ram AT > rom }} INSERT AFTER .noinit;\n"
    script.write_text(text)
    source = tmp_path / "own.c"
    variable = '__attribute__((section("ccm"))) volatile int gain = 7;'
    function = '__attribute__((section(".fast_code"), noinline)) int half(int n) { return n / 2; }'
    uses = {"ccm": f"{variable} int f(void) {{ return gain; }}"}
    source.write_text(
        uses.get(section, f"{function} int f(int n) {{ return half(n + 1); }}") + "\n"
    )
    lab = dataclasses.replace(spec, folder=tmp_path / "lab")
    what = {
        "ccm": "does not copy the section .own (gain), so it would not have its values",
        ".fast_code": "does not copy the section .own (half), so its code would not be there",
    }[section]
    with pytest.raises(BuildError) as caught:
        build(lab, [source])
    assert f"Start-up on microbit {what}" in str(caught.value)
