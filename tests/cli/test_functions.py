# SPDX-License-Identifier: Apache-2.0
"""`boardprof functions` lists what can be called in a file, what cannot and why, and structs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import boardprof
from tests.support import ROOT, requires_compiler

CODE = """\
#include <stdint.h>
typedef struct { float gain; int16_t taps[4]; struct { uint8_t on; } flags; } fir_state;
struct bits { unsigned low : 4; };
struct node { struct node *next; };
static __attribute__((noinline)) int32_t scaled(int32_t x) { return x * 3; }
int32_t fir(const int16_t *x, fir_state *state, uint32_t n) {
    return scaled((int32_t)(x[0] + state->gain)) + (int32_t)n;
}
void fir_setup(void) {}
int total(int n, ...) { return n; }
int walk(const struct node *first) { return first->next != 0; }
uint32_t low(const struct bits *b, const fir_state *old) { return b->low + old->flags.on; }
"""

RISCV = ["riscv64-unknown-elf-gcc", "-march=rv32imac", "-mabi=ilp32"]


def made(folder: Path, cc: list[str], *flags: str, text: str = CODE) -> Path:
    """Compile the code for a machine; return the object."""
    requires_compiler(cc[0])
    (folder / "code.c").write_text(text)
    command = [*cc, "-O2", "-g", "-ffreestanding", *flags, "-c", "code.c", "-o", "code.o"]
    subprocess.run(command, cwd=folder, check=True, timeout=60)
    return folder / "code.o"


LISTED = """\
Functions
  fir(x: const i16*, state: fir_state{16}*, n: u32) -> i32      code.c, set-up fir_setup
  low(b: const bits{4}*, old: const fir_state{16}*) -> u32      code.c
  walk(first: const node{BYTES}*) -> i32      code.c
Not callable
  total  code.c  it takes a variable number of arguments
Not offered
  scaled  code.c  static: --no-inline scaled compiles it out of line
Structs
  anonymous (1 bytes):
       0  on  u8
  bits (4 bytes):
       0  low  u32:4
  fir_state (16 bytes):
       0  gain   f32
       4  taps   i16[4]
      12  flags  anonymous{1}
  node (BYTES bytes):
       0  next  node{BYTES}*
"""


def listed(pointer: int) -> list[str]:
    """Return the lines that are expected, for pointers of ``pointer`` bytes."""
    return _squeezed(LISTED.replace("BYTES", str(pointer)))


@pytest.mark.parametrize("cc", [["gcc"], RISCV], ids=lambda cc: cc[0])
def test_an_object_is_listed_with_reasons_hints_and_structs(tmp_path: Path, cc: list[str]) -> None:
    done = boardprof("functions", made(tmp_path, cc))
    assert (done.code, done.err) == (0, "")
    assert _squeezed(done.out) == listed(8 if cc[0] == "gcc" else 4)


def _squeezed(text: str) -> list[str]:
    """Return lines with one space where there are more behind the first word."""
    return [line[:2] + " ".join(line.split()) for line in text.splitlines()]


@pytest.mark.parametrize("board", [None, "qemu-rv32"])
def test_a_source_is_compiled_for_a_board(tmp_path: Path, board: str | None) -> None:
    requires_compiler("riscv64-unknown-elf-gcc")
    (tmp_path / "code.c").write_text(CODE)
    chosen = ["-b", board] if board else []
    done = boardprof("functions", tmp_path / "code.c", *chosen)
    assert (done.code, done.err) == (0, "")
    assert _squeezed(done.out) == listed(4 if board else 8)


def test_a_kept_function_is_offered(tmp_path: Path) -> None:
    (tmp_path / "code.c").write_text(CODE)
    done = boardprof("functions", tmp_path / "code.c", "--no-inline", "scaled")
    assert done.code == 0
    assert "  scaled(x: i32) -> i32 " in done.out
    assert "Not offered" not in done.out


def test_flags_for_the_compiler_are_passed_on(tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "own.h").write_text("typedef short number;\n")
    text = "#include <own.h>\nNAME(number n);\nNAME(number n) { return SUM; }\n"
    (tmp_path / "code.c").write_text(text)
    flags = ["-I", str(tmp_path / "include"), "-D", "NAME=int f", "--cflags", "-DSUM=n+1"]
    done = boardprof("functions", tmp_path / "code.c", *flags)
    assert (done.code, done.out) == (0, "Functions\n  f(n: i16) -> i32  code.c\n")


def test_json_has_every_function_and_layout(tmp_path: Path) -> None:
    done = boardprof("functions", made(tmp_path, RISCV), "--json")
    facts = json.loads(done.out)
    assert (done.code, facts["schema_version"]) == (0, 1)
    functions = {fn["name"]: fn for fn in facts["functions"]}
    assert functions["fir"] == {
        "name": "fir",
        "signature": "(x: const i16*, state: fir_state{16}*, n: u32) -> i32",
        "parameters": [
            {"name": "x", "type": "const i16*"},
            {"name": "state", "type": "fir_state{16}*"},
            {"name": "n", "type": "u32"},
        ],
        "result": "i32",
        "setup": "fir_setup",
        "check": None,
        "source": "code.c",
        "reason": None,
        "wrapper": None,
    }
    assert functions["walk"]["signature"] == "(first: const node{4}*) -> i32"
    assert functions["total"]["signature"] is None
    assert functions["total"]["reason"] == "it takes a variable number of arguments"
    assert functions["total"]["wrapper"] == (
        "int total_wrapper(int n, int value) { return total(n, value); }"
    )
    assert facts["hidden"] == [
        {
            "name": "scaled",
            "source": "code.c",
            "why": "static: --no-inline scaled compiles it out of line",
        }
    ]
    structs = {struct["name"]: struct for struct in facts["structs"]}
    assert structs["bits"] == {
        "name": "bits",
        "bytes": 4,
        "fields": [{"name": "low", "offset": 0, "type": "u32:4", "shape": []}],
    }
    assert structs["fir_state"]["fields"][1:] == [
        {"name": "taps", "offset": 4, "type": "i16", "shape": [4]},
        {"name": "flags", "offset": 12, "type": "anonymous{1}", "shape": []},
    ]


def test_a_library_is_listed_with_its_members(tmp_path: Path) -> None:
    library = tmp_path / "libcode.a"
    command = ["ar", "rcs", str(library), str(made(tmp_path, ["gcc"]))]
    subprocess.run(command, check=True, timeout=60)
    done = boardprof("functions", library)
    assert (done.code, _squeezed(done.out)) == (0, listed(8))


def test_a_program_is_listed_too(tmp_path: Path) -> None:
    image = tmp_path / "image.elf"
    link = ["gcc", "-nostdlib", "-static", "-Wl,-e,fir", str(made(tmp_path, ["gcc"]))]
    link += ["-o", str(image)]
    subprocess.run(link, check=True, timeout=60)
    done = boardprof("functions", image)
    assert (done.code, _squeezed(done.out)) == (0, listed(8))


def test_without_debug_information_the_hint_says_how_to_have_it(tmp_path: Path) -> None:
    done = boardprof("functions", made(tmp_path, ["gcc"], "-g0", text="int f(int n) { return n; }"))
    assert done.code == 0
    assert done.out == (
        "Functions\n  (none)\n"
        "Not callable\n  f  code.c  its object code.o has no debug information\n"
    )
    assert done.err.startswith(
        "note: compile files without debug information with -g, or with -g -gdwarf-4. "
    )


def test_of_many_that_cannot_be_called_only_some_are_shown(tmp_path: Path) -> None:
    text = "".join(f"int f{i:02}(int n, ...) {{ return n + {i}; }}\n" for i in range(45))
    made(tmp_path, ["gcc"], text=text)
    done = boardprof("functions", tmp_path / "code.o")
    assert done.out.endswith("arguments\n  and 5 more: --all lists them\n")
    every = boardprof("functions", "--all", tmp_path / "code.o")
    assert every.out.count("it takes a variable number of arguments") == 45
    assert "more" not in every.out


def test_the_functions_for_the_tests_of_boards_are_all_callable() -> None:
    source = ROOT / "tests" / "boards" / "fixtures" / "signatures.c"
    facts = json.loads(boardprof("functions", source, "--json").out)
    assert [fn["name"] for fn in facts["functions"] if fn["reason"]] == []
    results = {fn["result"] for fn in facts["functions"]}
    assert results >= {None, "bool", "f32", "f64"}
    assert results >= {f"{kind}{bits}" for kind in "iu" for bits in (8, 16, 32, 64)}


# -- what goes wrong --------------------------------------------------------------------------


def test_no_such_file_is_2() -> None:
    done = boardprof("functions", "nowhere.o")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "error: The file or folder nowhere.o does not exist.\n"
        f"Try: check the path; a relative path begins at {Path.cwd()}\n"
    )


def test_a_target_of_run_is_told_to_be_no_file(tmp_path: Path) -> None:
    source = tmp_path / "fir.c"
    source.write_text("int fir(int n) { return n; }\n")
    done = boardprof("functions", f"{source}:fir")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"error: The file or folder {source}:fir does not exist.\n"
        f"Try: boardprof functions {source} lists all functions\n"
    )


@pytest.mark.parametrize("name", ["notes.txt", "notes.o", "notes.a"])
def test_what_is_no_object_is_2(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("no object\n")
    done = boardprof("functions", tmp_path / name)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"error: {tmp_path / name} cannot be read as an ELF file or a library of ELF files.\n"
        "Try: give an object (.o), a static library (.a), a shared library or a program\n"
    )


def test_a_thin_archive_is_2(tmp_path: Path) -> None:
    library = tmp_path / "libcode.a"
    command = ["ar", "rcsT", str(library), str(made(tmp_path, ["gcc"]))]
    subprocess.run(command, check=True, timeout=60)
    done = boardprof("functions", library)
    assert (done.code, done.out) == (2, "")
    assert (
        "libcode.a is a thin archive: it contains the names of objects, not the objects."
        in done.err
    )


def test_what_does_not_compile_is_7_with_the_compilers_words(tmp_path: Path) -> None:
    (tmp_path / "code.c").write_text("int f(int n) { return m; }\n")
    done = boardprof("functions", tmp_path / "code.c")
    assert (done.code, done.out) == (7, "")
    assert "error: 'm' undeclared" in done.err.replace("\u2018", "'").replace("\u2019", "'")


def test_an_unknown_board_is_2_with_the_nearest() -> None:
    done = boardprof("functions", "-b", "natve", ROOT / "tests/boards/fixtures/signatures.c")
    assert (done.code, done.out) == (2, "")
    assert "There is no board 'natve'; did you mean 'native'?" in done.err


def test_a_source_that_does_not_link_is_listed_all_the_same(tmp_path: Path) -> None:
    file = tmp_path / "part.c"
    file.write_text(
        "int missing(int); int only(int a) { return missing(a); }\n"
        "static __attribute__((noinline)) int once(int a) { return missing(a) + 1; }\n"
        "int both(int a) { return once(a) * once(a + 1); }\n"
    )
    done = boardprof(
        "functions", str(file), "-v", environment={"XDG_CACHE_HOME": str(tmp_path / "cache")}
    )
    assert done.code == 0
    assert "only(a: i32) -> i32" in done.out
    assert "once  part.c  static: --no-inline once compiles it out of line" in done.out
    assert done.err.count("-o ") == 1  # the file alone was compiled


def test_all_and_a_file_that_offers_nothing_list_what_nothing_calls(tmp_path: Path) -> None:
    unused = "static int unused(int x) { return x; }\n"
    (tmp_path / "s.c").write_text(unused)
    (tmp_path / "t.c").write_text(f"{unused}int used(int x) {{ return x; }}\n")
    line = "Not offered\n  unused  {}  static: --no-inline unused compiles it out of line\n"
    assert boardprof("functions", tmp_path / "s.c").out.endswith(line.format("s.c"))
    assert "unused" not in boardprof("functions", tmp_path / "t.c").out
    assert boardprof("functions", tmp_path / "t.c", "--all").out.endswith(line.format("t.c"))
