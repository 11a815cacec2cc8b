# SPDX-License-Identifier: Apache-2.0
"""What small C libraries print, and the notes on what they do not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from boardprof.base.metrics import Count
from boardprof.target.build.build_options import BuildOptions
from boardprof.target.elf.object_file import symbols
from tests.boards.conftest import SMALL, available
from tests.cli.command import boardprof
from tests.firmware import build

AVRS = ["arduino-uno", "arduino-mega"]

OUTPUT = """\
#include <stdio.h>
int line(int n) { return printf("value %d\\r\\n", n); }
int errors(int n) { return fprintf(stderr, "error %d\\n", n); }
int many(int n) { for (int i = 0; i < n; i++) putchar('a' + i % 26); return putchar('\\n'); }
int input(void) { return getchar(); }
static int kept;
static int keep(char byte, FILE *file) { (void)file; kept += byte; return 0; }
static FILE own = FDEV_SETUP_STREAM(keep, NULL, _FDEV_SETUP_WRITE);
int elsewhere(int n) { stdout = &own; printf("%d", n); return kept; }
"""


@pytest.mark.parametrize("name", AVRS)
def test_output_of_avr_libc_goes_to_the_console(tmp_path: Path, name: str) -> None:
    source = tmp_path / "out.c"
    source.write_text(OUTPUT)
    lines: list[str] = []
    with build(available(name), [source]).open(on_console=lines.append) as board:
        assert board.functions.line(7) == 9
        assert board.functions.errors(12) == 9
        assert board.functions.many(200) == ord("\n")
        assert board.functions.input() == -1
        # The USART takes 1,480 cycles for a byte, but not within a window.
        cycles = {row["cycles"] for row in board.profile("line", 7, repeat=30).calls}
        assert len(cycles) == 1
        assert cycles <= {Count(n) for n in range(1200, 1700)}
        lines_before = len(lines)
        assert board.functions.elsewhere(5) == ord("5")
        assert board.functions.line(7) == 9
        assert len(lines) == lines_before
    assert lines[:3] == ["value 7", "error 12", ("abcdefghijklmnopqrstuvwxyz" * 8)[:200]]
    assert set(lines[3:]) == {"value 7"}


@pytest.mark.parametrize("name", AVRS)
def test_an_image_without_output_has_no_stream(name: str) -> None:
    with build(available(name), [SMALL]).image.open("rb") as file:
        names = {symbol.name for symbol in symbols(ELFFile(file))}
    assert "bp_port_write" in names
    assert names.isdisjoint({"__iob", "bp_stdio", "bp_stdio_held"})


TEXTS = """\
#include <stdio.h>
#include <stddef.h>
int number(char *out, int n, float v) {{ return snprintf(out, n, "{printf}", (double)v); }}
"""
SCAN = """\
#include <stdio.h>
float number(const char *text) {{ float x = 0; sscanf(text, "{scanf}", &x); return x; }}
"""
NANO = "printf of newlib-nano cannot convert {} (f.o): link with -u _printf_float"
AVR = "printf of avr-libc cannot convert {} (f.o): link with -Wl,-u,vfprintf -lprintf_flt -lm"
AVR_SCAN = "scanf of avr-libc cannot convert {} (f.o): link with -Wl,-u,vfscanf -lscanf_flt -lm"
PICOLIBC = (
    "printf of picolibc cannot convert {} (f.o): link with -DPICOLIBC_DOUBLE_PRINTF_SCANF instead "
    "of -DPICOLIBC_INTEGER_PRINTF_SCANF"
)
IN_ORDER = "printf of {} cannot convert {} (f.o): pass the values in their order"
OTHER = "printf of {} cannot convert {} (f.o): pass the value as another type"


@pytest.mark.parametrize(
    ("name", "text", "ldflags", "note"),
    [
        ("microbit", "%.2f", "", NANO.format("%.2f")),
        ("microbit", "%d%% %+08.3e", "", NANO.format("%+08.3e")),
        ("stm32vldiscovery", "x=%Lg;", "", NANO.format("%Lg")),
        ("microbit", "%.2f", "-u _printf_float", ""),
        ("microbit", "100%% for %d", "", ""),
        ("microbit", "%lld", "", OTHER.format("newlib-nano", "%lld")),
        ("microbit", "%5hhu", "", OTHER.format("newlib-nano", "%5hhu")),
        ("microbit", "%ld %hd %s %c %p %*d", "", ""),
        ("qemu-cortex-m3", "%.2f %lld %hhd", "", ""),
        ("qemu-cortex-m3", "%zu", "", OTHER.format("newlib", "%zu")),
        ("qemu-cortex-m3", "%n", "", ""),
        ("qemu-cortex-m3", "%ls", "", OTHER.format("newlib", "%ls")),
        ("qemu-cortex-m3", "%d %2$d", "", IN_ORDER.format("newlib", "%2$d")),
        ("microbit", "%1$5ld", "", IN_ORDER.format("newlib-nano", "%1$5ld")),
        ("microbit", "%n", "", ""),
        ("arduino-uno", "%.2f", "", AVR.format("%.2f")),
        ("arduino-mega", "%-6.1f|", "", AVR.format("%-6.1f")),
        ("arduino-uno", "%.2f", "-Wl,-u,vfprintf -lprintf_flt -lm", ""),
        ("arduino-uno", "%llx", "", OTHER.format("avr-libc", "%llx")),
        ("arduino-uno", "%*d", "", OTHER.format("avr-libc", "%*d")),
        ("arduino-uno", "%ld %hhd %s %5.3d %S", "", ""),
        ("arduino-uno", "%n", "", OTHER.format("avr-libc", "%n")),
        ("arduino-uno", "%2$d", "", IN_ORDER.format("avr-libc", "%2$d")),
        ("qemu-rv32", "%.2f %lld %zu %hhd %a", "", ""),
        ("qemu-rv32", "%2$d %1$d", "", ""),
        ("qemu-rv32", "%n", "", OTHER.format("picolibc", "%n")),
        ("qemu-rv32", "%ls", "", OTHER.format("picolibc", "%ls")),
        ("qemu-rv32", "%.2f", "-DPICOLIBC_INTEGER_PRINTF_SCANF", PICOLIBC.format("%.2f")),
        ("hifive1", "%ld %s", "-DPICOLIBC_INTEGER_PRINTF_SCANF", ""),
    ],
)
def test_a_note_names_what_the_library_cannot_print(
    tmp_path: Path, name: str, text: str, ldflags: str, note: str
) -> None:
    (tmp_path / "f.c").write_text(TEXTS.format(printf=text))
    options = BuildOptions(ldflags=ldflags, cflags="-Wno-format")
    assert build(available(name), [tmp_path / "f.c"], options).libc_lacks == note


@pytest.mark.parametrize(("name", "returns"), [("microbit", 0), ("arduino-uno", 1)])
def test_the_report_keeps_the_note(tmp_path: Path, name: str, returns: int) -> None:
    (tmp_path / "f.c").write_text(TEXTS.format(printf="%.2f"))
    note = {"microbit": NANO, "arduino-uno": AVR}[name].format("%.2f")
    notes: list[str] = []
    firmware = build(available(name), [tmp_path / "f.c"])
    with firmware.open(on_note=notes.append) as board:
        report = board.profile("number", np.zeros(16, np.int8), 16, 3.14159, repeat=1)
    assert notes == [note]
    assert str(report.configuration[f"{name} libc"]).endswith(note)
    assert report.configuration[f"{name} returned"] == str(returns)


@pytest.mark.parametrize(
    ("name", "text", "ldflags", "note"),
    [
        ("arduino-uno", "%f", "", AVR_SCAN.format("%f")),
        ("arduino-uno", "%f", "-Wl,-u,vfscanf -lscanf_flt -lm", ""),
        (
            "microbit",
            "%5f",
            "",
            "scanf of newlib-nano cannot convert %5f (f.o): link with -u _scanf_float",
        ),
        ("microbit", "%5f", "-u _scanf_float", ""),
        (
            "qemu-cortex-m3",
            "%2hhu",
            "",
            "scanf of newlib cannot convert %2hhu (f.o): pass the value as another type",
        ),
        ("qemu-cortex-m3", "%f", "", ""),
    ],
)
def test_a_note_names_what_the_library_cannot_read(
    tmp_path: Path, name: str, text: str, ldflags: str, note: str
) -> None:
    (tmp_path / "f.c").write_text(SCAN.format(scanf=text))
    firmware = build(available(name), [tmp_path / "f.c"], BuildOptions(ldflags=ldflags))
    assert firmware.libc_lacks == note


def test_run_and_build_show_the_note_once(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text(TEXTS.format(printf="%.2f"))
    target = f"{tmp_path / 'f.c'}:number"
    done = boardprof("run", "-b", "microbit", target, "out=[16]:out", "n=16", "v=3.14159")
    assert done.err.count(f"note: {NANO.format('%.2f')}\n") == 1
    image = str(tmp_path / "f.elf")
    done = boardprof("build", "-b", "microbit", str(tmp_path / "f.c"), "-o", image)
    assert done.err.count(f"note: {NANO.format('%.2f')}\n") == 1
    flags = ("--ldflags", "-u _printf_float", "--expect", "return=4")
    done = boardprof("run", "-b", "microbit", target, "out=[16]:out", "n=16", "v=3.14159", *flags)
    assert (done.code, "cannot convert" in done.err) == (0, False)
