# SPDX-License-Identifier: Apache-2.0
"""Objects of real compilers, for the tests of what is read from them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from boardprof.target.cfunction import CFunction, Field, Pointer, Scalar, Struct, signature
from boardprof.target.elf.functions import functions
from tests.support import requires_compiler, requires_tool

__all__ = ["ARM", "AVR", "MACHINES", "RISCV", "X86_64", "compiled", "fields", "found", "layout"]
__all__ += ["reason", "run_compiler", "signatures"]

X86_64 = ["gcc"]
ARM = ["arm-none-eabi-gcc", "-mcpu=cortex-m3", "-mthumb"]
RISCV = ["riscv64-unknown-elf-gcc", "-march=rv32imac", "-mabi=ilp32"]
AVR = ["avr-gcc", "-mmcu=atmega328p"]  # 16-bit int, 32-bit double, a compiler of 2015
MACHINES = [X86_64, ARM, RISCV, AVR]

_PACKAGES = {"clang++": "clang", "arm-none-eabi-g++": "gcc-arm-none-eabi"}
_OTHER_COMPILERS = {"clang", "clang++", "g++", "arm-none-eabi-g++"}


def run_compiler(folder: Path, command: Sequence[str]) -> None:
    """Run a compiler, or skip the test where there is none."""
    cc = command[0]
    if cc in _OTHER_COMPILERS:
        requires_tool(cc, _PACKAGES.get(cc, cc))
    else:
        requires_compiler(cc)
    subprocess.run([shutil.which(cc) or cc, *command[1:]], cwd=folder, check=True, timeout=60)


def compiled(
    folder: Path, text: str, cc: list[str] = X86_64, *flags: str, name: str = "code.c"
) -> Path:
    """Compile C text with the flags of a build; return the object."""
    (folder / name).write_text(text)
    made = (folder / name).with_suffix(".o")
    command = [*cc, "-std=gnu11", "-ffreestanding", "-O2", "-g", "-gdwarf-4", "-w", *flags]
    run_compiler(folder, [*command, "-c", name, "-o", str(made)])
    return made


def found(folder: Path, text: str, cc: list[str] = X86_64, *flags: str) -> dict[str, CFunction]:
    """Return the functions of C text."""
    return {fn.name: fn for fn in functions([compiled(folder, text, cc, *flags)])}


def signatures(folder: Path, text: str, cc: list[str] = X86_64, *flags: str) -> dict[str, str]:
    """Return the functions of C text with their signatures."""
    return {name: signature(fn) for name, fn in found(folder, text, cc, *flags).items()}


def reason(folder: Path, text: str, cc: list[str] = X86_64) -> str | None:
    """Return why the function ``f`` of C text cannot be called."""
    return found(folder, text, cc)["f"].reason


def layout(folder: Path, text: str, cc: list[str] = X86_64, *flags: str) -> Struct:
    """Return the struct that the first parameter of ``f`` points to."""
    fn = found(folder, text, cc, *flags)["f"]
    assert fn.reason is None, fn.reason
    pointer = fn.parameters[0].type
    assert isinstance(pointer, Pointer)
    assert isinstance(pointer.element, Struct)
    return pointer.element


def fields(struct: Struct) -> list[tuple[str, int, str]]:
    """Return name, offset and type with dimensions of each field: ``("taps", 4, "i16[4]")``."""
    return [(f.name, f.offset, _text(f)) for f in struct.fields]


def _text(field: Field) -> str:
    dimensions = "".join(f"[{n}]" for n in field.shape)
    match field.type:
        case Scalar(text):
            return text + dimensions
        case Struct(name, size):
            return f"{name}{{{size}}}{dimensions}"
        case Pointer() as pointer:
            return f"{pointer.text}{dimensions}"
