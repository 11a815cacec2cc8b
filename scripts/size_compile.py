# SPDX-License-Identifier: Apache-2.0
"""Targets for which the agent must compile, warnings being errors, though no board has them yet."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from boardprof.base.files import runtime_dir
from boardprof.target.toolchain.cache import Cache
from boardprof.target.toolchain.compiler import Compiler, Unit
from scripts.size_build import OPTIONS

__all__ = ["PORTABLE", "STRICT", "Portable", "compile_agent"]

_FLAGS = ("-Os", "-ffreestanding")
STRICT = (
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Wshadow",
    "-Wmissing-prototypes",
    "-pedantic",
    "-Werror",
)
"""A user's build has none of these: a compiler that we have not seen may warn of anything."""


@dataclass(frozen=True)
class Portable:
    """A target without a board.

    Attributes:
        name: as printed.
        cc: the compiler.
        package: the Debian package that has it.
        collectors: those that the target can have.
        cflags: which core.
        arch: folder below the agent's ``arch/``; None: there is none for this target.
    """

    name: str
    cc: str
    package: str
    collectors: tuple[str, ...]
    cflags: tuple[str, ...] = ()
    arch: str | None = None


PORTABLE = (
    Portable(
        "rv64imac",
        "riscv64-unknown-elf-gcc",
        "gcc-riscv64-unknown-elf",
        ("cycles32", "cycles_instret", "ticks"),
        ("-march=rv64imac", "-misa-spec=2.2", "-mabi=lp64", "-mcmodel=medany"),
        "riscv",
    ),
    Portable(
        "aarch64", "aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu", ("ticks",), (), "aarch64"
    ),
    Portable("avr", "avr-gcc", "gcc-avr", ("ticks",), ("-mmcu=atmega328p",), "avr"),
)


def compile_agent(target: Portable) -> int:
    """Compile all of the agent with each of the options; return the number of objects.

    Raises:
        MissingToolError: the compiler is not installed.
        BuildError: a file does not compile without a warning.
    """
    units = dict.fromkeys(unit for option in OPTIONS for unit in _units(target, option.config))
    compiler = Compiler(target.cc, target.package, Cache())
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return len(list(pool.map(compiler.compile, units)))


def _units(target: Portable, config: Mapping[str, int]) -> Iterator[Unit]:
    runtime = runtime_dir()
    files = sorted(runtime.glob("src/*.c"))
    files += [runtime / "collectors" / f"bp_{name}.c" for name in target.collectors]
    folders = [("-I", runtime / "include")]
    if target.arch is not None:
        folder = runtime / "arch" / target.arch
        files += sorted([*folder.glob("*.c"), *folder.glob("*.S")])
        folders.append(("-I", folder))
    options = tuple(f"-DBP_CFG_{key.upper()}={value}" for key, value in config.items())
    for file in files:
        flags = (
            *_FLAGS,
            *target.cflags,
            *options,
            *(("-std=c11", *STRICT) if file.suffix == ".c" else ()),
        )
        yield Unit(runtime, str(file.relative_to(runtime)), flags, tuple(folders))
