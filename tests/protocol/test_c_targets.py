# SPDX-License-Identifier: Apache-2.0
"""The agent compiles without a warning, and with nothing but itself, for every kind of core."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.support import AGENT, WARNINGS, built_once, defines, requires_tool, run

pytestmark = pytest.mark.slow

FLAGS = ("-Os", "-ffreestanding", *WARNINGS)
CONFIGS = {
    "smallest": {},
    "full": {
        "BP_CFG_ARENA": 4096,
        "BP_CFG_OPEN_WINDOWS": 4,
        "BP_CFG_CRC_TABLE": 1,
        "BP_CFG_BULK": 256,
        "BP_CFG_STREAM": 512,
        "BP_CFG_CLOCK": 1,
        "BP_CFG_STACK": 1024,
        "BP_CFG_INTERRUPTS": 1,
    },
}
EVERYTHING = {
    **CONFIGS["full"],
    "BP_CFG_GUARD": 1,
    "BP_CFG_INTERRUPTS": 2,
    "BP_CFG_TRACE": 256,
    "BP_CFG_TRACE_CLOCK": 1,
    "BP_CFG_TASKS": 4,
}
# What GCC may call on its own even in a freestanding program; bp_mem.c has them.
MEMORY = {"memcpy", "memmove", "memset", "memcmp"}
# A compiler's own arithmetic that a core lacks. Nothing else: no libc, no libatomic.
ARITHMETIC = re.compile(
    r"__(aeabi_\w*|u?(div|mod|cmp)\w+|ash[lr]di3|lshrdi3|do_(clear_bss|copy_data))"
)


@dataclass(frozen=True)
class Target:
    """A core: its compiler, and which of the tree's parts run on it."""

    prefix: str
    package: str
    flags: tuple[str, ...]
    arch: str | None
    collectors: tuple[str, ...] = ("ticks",)
    clang: tuple[str, ...] = ()  # flags for clang, instead of a compiler with the prefix

    def compiler(self) -> list[str]:
        if self.clang:
            return [requires_tool("clang", "clang"), *self.clang]
        return [requires_tool(f"{self.prefix}gcc", self.package), *self.flags]


TARGETS = {
    "Cortex-M0+": Target(
        "arm-none-eabi-",
        "gcc-arm-none-eabi",
        ("-mcpu=cortex-m0plus", "-mthumb"),
        "cortex_m",
        ("cycles32", "ticks"),
    ),
    "Cortex-M3": Target(
        "arm-none-eabi-",
        "gcc-arm-none-eabi",
        ("-mcpu=cortex-m3", "-mthumb"),
        "cortex_m",
        ("cycles32", "ticks"),
    ),
    "rv32imac": Target(
        "riscv64-unknown-elf-",
        "gcc-riscv64-unknown-elf",
        ("-march=rv32imac", "-misa-spec=2.2", "-mabi=ilp32", "-mcmodel=medany"),
        "riscv",
        ("cycles32", "cycles_instret", "ticks"),
    ),
    "rv64imac": Target(
        "riscv64-unknown-elf-",
        "gcc-riscv64-unknown-elf",
        # Zicsr is a part of the base in this version of the specification.
        ("-march=rv64imac", "-misa-spec=2.2", "-mabi=lp64", "-mcmodel=medany"),
        "riscv",
        ("cycles32", "cycles_instret", "ticks"),
    ),
    "aarch64": Target("aarch64-linux-gnu-", "gcc-aarch64-linux-gnu", (), None),
    "ATmega2560": Target("avr-", "gcc-avr", ("-mmcu=atmega2560",), "avr"),
}
# The same cores, for clang: not AVR, whose program memory clang does not know in C.
CLANG = {
    "Cortex-M0+": ("--target=armv6m-none-eabi", "-mcpu=cortex-m0plus"),
    "Cortex-M3": ("--target=armv7m-none-eabi", "-mcpu=cortex-m3"),
    "rv32imac": ("--target=riscv32-unknown-elf", "-march=rv32imac", "-mabi=ilp32"),
    "rv64imac": ("--target=riscv64-unknown-elf", "-march=rv64imac", "-mabi=lp64"),
    "aarch64": ("--target=aarch64-none-elf",),
}
TARGETS |= {f"{name}, clang": replace(TARGETS[name], clang=flags) for name, flags in CLANG.items()}


def compiled(target: Target, config: dict[str, int]) -> list[Path]:
    """Compile all that the target can run; return the objects."""
    sources = sorted((AGENT / "src").glob("*.c"))
    sources += [AGENT / "collectors" / f"bp_{name}.c" for name in target.collectors]
    includes = [f"-I{AGENT / 'include'}", f"-I{AGENT / 'src'}"]
    if target.arch is not None:
        sources += sorted((AGENT / "arch" / target.arch).glob("*.c"))
        includes.append(f"-I{AGENT / 'arch' / target.arch}")
    command = [*target.compiler(), *FLAGS, *defines(config), *includes, "-c"]
    return [built_once([*command, source], f"{source.stem}.o") for source in sources]


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("name", TARGETS)
def test_the_agent_compiles_without_a_warning_and_needs_no_library(name: str, config: str) -> None:
    target = TARGETS[name]
    objects = compiled(target, CONFIGS[config])
    nm = requires_tool(f"{target.prefix}nm", target.package)
    symbols = [line.split()[-2:] for line in run([nm, "-g", *objects]).splitlines() if " " in line]
    defined = {name for kind, name in symbols if kind != "U"}
    missing = {name for kind, name in symbols if kind == "U"} - defined
    linked = "bp_(port_|firmware$|stack|data|bss)"
    from_board = {name for name in missing if re.match(linked, name)}
    assert {name for name in missing - from_board if not ARITHMETIC.fullmatch(name)} == set()
    assert defined >= MEMORY


@pytest.mark.parametrize("name", ["Cortex-M0+", "Cortex-M3", "rv32imac", "rv64imac"])
def test_clang_takes_guards_hooks_and_probes_without_a_warning(name: str) -> None:
    assert compiled(TARGETS[f"{name}, clang"], EVERYTHING)


@pytest.mark.parametrize("name", TARGETS)
def test_every_symbol_of_the_agent_begins_with_bp(name: str) -> None:
    target = TARGETS[name]
    objects = compiled(target, CONFIGS["full"])
    nm = requires_tool(f"{target.prefix}nm", target.package)
    lines = run([nm, "-g", "--defined-only", *objects]).splitlines()
    names = {line.split()[-1] for line in lines if line and not line.endswith(":")}
    assert {found for found in names if not found.startswith("bp_")} - MEMORY == {"main"}


def headers() -> list[Path]:
    folders = ("include/boardprof", "src", "arch/cortex_m", "arch/riscv", "arch/posix")
    return [path for folder in folders for path in sorted((AGENT / folder).glob("*.h"))]


def compiler_for(header: Path) -> Target:
    """Return a target that a header is for: the host's own compiler for most."""
    host = Target("", "gcc", (), None)
    return {"cortex_m": TARGETS["Cortex-M3"], "riscv": TARGETS["rv32imac"]}.get(
        header.parent.name, host
    )


@pytest.mark.parametrize("header", headers(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_header_compiles_alone_and_twice(header: Path, tmp_path: Path) -> None:
    target = compiler_for(header)
    source = tmp_path / "header.c"
    source.write_text(f'#include "{header.name}"\n#include "{header.name}"\nextern int used;\n')
    includes = [f"-I{AGENT / 'include'}", f"-I{header.parent}"]
    run([*target.compiler(), *FLAGS, *includes, "-c", source, "-o", tmp_path / "header.o"])


@pytest.mark.parametrize(
    ("macro", "value"),
    [
        ("BP_CFG_MTU", 63),
        ("BP_CFG_MTU", 65536),
        ("BP_CFG_ACTIVE_COLLECTORS", 0),
        ("BP_CFG_ACTIVE_COLLECTORS", 9),
        ("BP_CFG_STATE_BYTES", 0),
        ("BP_CFG_STATE_BYTES", 4097),
        ("BP_CFG_OPEN_WINDOWS", 256),
        ("BP_CFG_HANDLES", 0),
        ("BP_CFG_HANDLES", 256),
        ("BP_CFG_BULK", 63),
        ("BP_CFG_BULK", 257),
        ("BP_CFG_RX_BYTES", 63),
        ("BP_CFG_STREAM", 1000),
        ("BP_CFG_STREAM", -1),
        ("BP_CFG_CLOCK", 2),
        ("BP_CFG_GUARD", 2),
        ("BP_CFG_STACK", 63),
        ("BP_CFG_STACK", -1),
        ("BP_CFG_CRC_TABLE", 2),
    ],
)
def test_a_size_out_of_range_is_refused_by_the_compiler(
    macro: str, value: int, tmp_path: Path
) -> None:
    cc = requires_tool("gcc", "gcc")
    source = tmp_path / "config.c"
    source.write_text('#include "boardprof/bp_config.h"\n')
    with pytest.raises(AssertionError, match=f"{macro} is out of range"):
        run([cc, f"-D{macro}={value}", f"-I{AGENT / 'include'}", "-fsyntax-only", source])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"BP_CFG_BULK": 64}, "BP_CFG_BULK needs BP_CFG_ARENA"),
        ({"BP_CFG_ARENA": 64, "BP_CFG_STREAM": 64}, "BP_CFG_STREAM needs BP_CFG_BULK"),
    ],
)
def test_what_an_option_needs_is_named(
    options: dict[str, int], reason: str, tmp_path: Path
) -> None:
    cc = requires_tool("gcc", "gcc")
    source = tmp_path / "config.c"
    source.write_text('#include "boardprof/bp_config.h"\n')
    with pytest.raises(AssertionError, match=reason):
        run([cc, *defines(options), f"-I{AGENT / 'include'}", "-fsyntax-only", source])
