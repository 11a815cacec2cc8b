# SPDX-License-Identifier: Apache-2.0
"""The same signature is read from every form in which compilers write debug information."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection

from boardprof.target.cfunction import signature
from boardprof.target.elf.functions import functions
from tests.unit.objects import ARM, RISCV, X86_64, compiled, signatures

TEXT = """\
typedef __INT16_TYPE__ sample;
typedef struct { float gain; sample taps[4]; _Bool on; } fir_state;
enum level { LOW = -1, HIGH = 1 };
float fir(const sample *x, fir_state *s, enum level level, const fir_state *old) {
    s->gain = old->gain + x[0] + level;
    return s->gain;
}
"""

DWARF64 = ("-gdwarf-5", "-gdwarf64")


COMPRESSED_OF_OLD = ("-gz=zlib-gnu",)  # clang cannot write it any more
FORMS = [
    ("-gdwarf-4",),
    ("-gdwarf-5",),
    DWARF64,
    ("-gz",),
    COMPRESSED_OF_OLD,
    ("-gdwarf-4", "-fdebug-types-section"),
    ("-gdwarf-5", "-fdebug-types-section"),
]


@pytest.mark.parametrize(
    ("cc", "flags"),
    [
        *((cc, flags) for cc in (X86_64, ARM, RISCV) for flags in FORMS),
        *((["clang"], flags) for flags in FORMS if flags is not COMPRESSED_OF_OLD),
    ],
    ids=lambda words: words[0] if isinstance(words, list) else " ".join(words),
)
def test_every_form_on_every_machine(tmp_path: Path, cc: list[str], flags: tuple[str, ...]) -> None:
    level = "i8" if cc[0].startswith("arm") else "i32"  # its enums are as short as they can be
    assert signatures(tmp_path, TEXT, cc, *flags) == {
        "fir": f"(x: const i16*, s: fir_state{{16}}*, level: {level}, old: const fir_state{{16}}*)"
        " -> f32"
    }


@pytest.mark.parametrize("version", ["-gdwarf-4", "-gdwarf-5"])
@pytest.mark.parametrize(
    "target",
    ["i686-linux-gnu", "riscv32", "riscv64", "armeb-none-eabi", "aarch64", "mips", "powerpc64"],
)
def test_every_word_size_and_byte_order(tmp_path: Path, target: str, version: str) -> None:
    assert signatures(tmp_path, TEXT, ["clang", f"--target={target}"], version) == {
        "fir": "(x: const i16*, s: fir_state{16}*, level: i32, old: const fir_state{16}*) -> f32"
    }


@pytest.mark.parametrize("version", ["-gdwarf-3", "-gdwarf-4", "-gdwarf-5"])
def test_addresses_of_two_bytes_are_read(tmp_path: Path, version: str) -> None:
    assert signatures(tmp_path, TEXT, ["clang", "--target=msp430"], version) == {
        "fir": "(x: const i16*, s: fir_state{14}*, level: i16, old: const fir_state{14}*) -> f32"
    }


EM_XTENSA, EM_SH = 94, 42  # ELF, "Machine"
R_RISCV_32 = 1  # RISC-V ELF psABI


@pytest.mark.parametrize("machine", [EM_XTENSA, EM_SH])
@pytest.mark.parametrize("version", ["-gdwarf-4", "-gdwarf-5"])
def test_addends_may_be_in_the_section_instead_of_the_relocation(
    tmp_path: Path, machine: int, version: str
) -> None:
    """So do the assemblers for Xtensa and SH-4; this object is RISC-V's, rewritten in that way."""
    made = compiled(tmp_path, TEXT, RISCV, version)
    content = bytearray(made.read_bytes())
    with made.open("rb") as file:
        elf = ELFFile(file)
        for section in elf.iter_sections():
            if not isinstance(section, RelocationSection) or ".debug" not in section.name:
                continue
            target = elf.get_section(section["sh_info"])["sh_offset"]
            for i, entry in enumerate(section.iter_relocations()):
                if entry["r_info_type"] != R_RISCV_32:
                    continue
                at = section["sh_offset"] + i * section["sh_entsize"] + 8
                struct.pack_into("<i", content, target + entry["r_offset"], entry["r_addend"])
                struct.pack_into("<i", content, at, 0)
    struct.pack_into("<H", content, 18, machine)
    made.write_bytes(content)
    assert {fn.name: signature(fn) for fn in functions([made])} == {
        "fir": "(x: const i16*, s: fir_state{16}*, level: i32, old: const fir_state{16}*) -> f32"
    }
