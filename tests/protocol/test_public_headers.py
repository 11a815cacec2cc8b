# SPDX-License-Identifier: Apache-2.0
"""The agent's public headers in C++: they compile, and what they declare has C's linkage."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.protocol.test_c_targets import EVERYTHING
from tests.support import AGENT, defines, requires_tool, run

HEADERS = sorted(path.name for path in (AGENT / "include/boardprof").glob("*.h"))
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-pedantic", "-Werror"]
COMPILERS = {
    "g++": ("g++", "g++", []),
    "clang++": ("clang++", "clang", []),
    "g++ for Arm": ("arm-none-eabi-g++", "gcc-arm-none-eabi", ["-mcpu=cortex-m3", "-mthumb"]),
    "clang++ for Arm": ("clang++", "clang", ["--target=armv7m-none-eabi"]),
    "g++ for RISC-V": (
        "riscv64-unknown-elf-g++",
        "gcc-riscv64-unknown-elf",
        ["-march=rv32imac", "-mabi=ilp32", "-misa-spec=2.2"],
    ),
    "clang++ for RISC-V": ("clang++", "clang", ["--target=riscv32-unknown-elf", "-mabi=ilp32"]),
    "g++ for AVR": ("avr-g++", "gcc-avr", ["-mmcu=atmega2560"]),
}
# A firmware's own part, all of it in C++.
FIRMWARE = """
#include "boardprof/bp.h"
#include "boardprof/bp_frame.h"
#include "boardprof/bp_port.h"

void bp_port_init() {}
size_t bp_port_read(uint8_t *, size_t) { return 0; }
void bp_port_write(const uint8_t *, size_t) {}
void bp_port_idle() {}
uint64_t bp_port_ticks() { return 0; }
uint32_t bp_port_coarse() { return 0; }
uint8_t bp_port_reset_cause() { return BP_RESET_UNKNOWN; }
uint32_t bp_port_boot_id() { return bp_crc32(0, nullptr, 0); }
const bp_port_clock_t bp_port_clock = {"no clock", 0, 0, 32, false};

static int answer(bp_call_t *call) {
    if (bp_arg_end(call) == 0) {
        bp_ret_uint(call, 42);
    }
    return call->err;
}
static const bp_function_t functions[] = {{"answer", "() -> u32", answer, nullptr}};
const bp_firmware_t bp_firmware = {"cpp", functions, nullptr, 1, 0, {1, 2, 3, 4, 5, 6, 7, 8}};

extern "C" void app() {
    bp_port_init();
    bp_serve();
}
"""


def compiled(name: str, standard: str, source: Path, text: str, *options: str) -> Path:
    program, package, flags = COMPILERS[name]
    source.write_text(text)
    made = source.with_suffix(".o")
    command = [requires_tool(program, package), *flags, f"-std={standard}", "-ffreestanding"]
    command += [*WARNINGS, f"-I{AGENT / 'include'}", *options, "-c", str(source), "-o", str(made)]
    run(command)
    return made


@pytest.mark.parametrize("options", [{}, EVERYTHING], ids=["smallest", "everything"])
@pytest.mark.parametrize("name", COMPILERS)
def test_every_public_header_compiles_alone_as_cpp(
    name: str, options: dict[str, int], tmp_path: Path
) -> None:
    for header in HEADERS:
        text = f'#include "boardprof/{header}"\n#include "boardprof/{header}"\n'
        compiled(name, "c++11", tmp_path / "header.cpp", text, *defines(options))


@pytest.mark.parametrize("name", COMPILERS)
def test_the_headers_together_compile_as_a_newer_cpp(name: str, tmp_path: Path) -> None:
    newest = "c++14" if "AVR" in name else "c++17"  # avr-gcc 5.4
    text = "".join(f'#include "boardprof/{header}"\n' for header in HEADERS)
    compiled(name, newest, tmp_path / "all.cpp", text, *defines(EVERYTHING))


PROBES = """
#include "boardprof/bp_trace.h"
void work(int *value, float real) {
    BP_RANGE(whole);
    BP_RANGE_BEGIN(inner);
    BP_RANGE_END(inner);
    BP_MARK(here);
    BP_VALUE(level, *value);
    BP_VALUE(real, real);
    BP_ISR_ENTER(tick);
    BP_ISR_EXIT(tick);
    BP_ISR_ENTER_NUMBER(BP_ISR_NUMBER());
    BP_ISR_EXIT_NUMBER();
    BP_TASK_SWITCH(value);
    BP_ALLOC(value, 4);
    BP_FREE(value);
}
"""


@pytest.mark.parametrize("language", ["c", "c++"])
@pytest.mark.parametrize("name", COMPILERS)
def test_each_probe_compiles(name: str, language: str, tmp_path: Path) -> None:
    """Clang for Arm is the front end of armclang."""
    program, package, flags = COMPILERS[name]
    source = tmp_path / "probes.c"
    source.write_text(PROBES)
    standard = "c11" if language == "c" else "c++11"
    options = [f"-std={standard}", "-ffreestanding", f"-I{AGENT / 'include'}", *defines(EVERYTHING)]
    options += [] if "AVR" in name else ["-Werror"]  # its return addresses may have three bytes
    made = ["-c", str(source), "-o", str(tmp_path / "probes.o")]
    run([requires_tool(program, package), *flags, "-x", language, *options, *made])


@pytest.mark.parametrize("name", COMPILERS)
def test_a_port_and_a_table_in_cpp_have_the_names_that_the_agent_links(
    name: str, tmp_path: Path
) -> None:
    made = compiled(name, "c++11", tmp_path / "firmware.cpp", FIRMWARE)
    nm = requires_tool("avr-nm" if "AVR" in name else "nm", "binutils")
    symbols = [line.split()[-2:] for line in run([nm, "-g", made]).splitlines()]
    defined = {symbol for kind, symbol in symbols if kind != "U"}
    assert defined >= {
        "bp_firmware",
        "bp_port_boot_id",
        "bp_port_clock",
        "bp_port_coarse",
        "bp_port_idle",
        "bp_port_init",
        "bp_port_read",
        "bp_port_reset_cause",
        "bp_port_ticks",
        "bp_port_write",
        "app",
    }
    missing = {
        symbol for kind, symbol in symbols if kind == "U" and symbol.startswith(("bp", "_Z"))
    }
    assert missing == {"bp_arg_end", "bp_crc32", "bp_ret_uint", "bp_serve"}
