# SPDX-License-Identifier: Apache-2.0
"""Functions and their signatures, read from objects of real compilers for four machines."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from boardprof.base.errors import BuildError, UsageError
from boardprof.target.cfunction import CFunction, Parameter, Scalar, signature
from boardprof.target.elf.functions import functions, hidden_functions
from boardprof.target.elf.object_file import global_names, symbols
from tests.unit.objects import ARM, AVR, MACHINES, RISCV, X86_64, compiled, found, signatures

FIXED_WIDTH = """\
#include <stdbool.h>
#include <stdint.h>
typedef uint32_t word;
typedef const volatile word port;
int8_t a(uint8_t x, uint16_t y) { return 0; }
int16_t b(int32_t x, uint32_t y) { return 0; }
uint64_t c(int64_t x) { return x; }
bool d(bool x) { return x; }
float e(float gain) { return gain; }
word f(port x) { return x; }
void g(void) {}
"""


@pytest.mark.parametrize("cc", MACHINES, ids=lambda cc: cc[0])
def test_types_of_fixed_width_are_the_same_on_every_machine(tmp_path: Path, cc: list[str]) -> None:
    assert signatures(tmp_path, FIXED_WIDTH, cc) == {
        "a": "(x: u8, y: u16) -> i8",
        "b": "(x: i32, y: u32) -> i16",
        "c": "(x: i64) -> u64",
        "d": "(x: bool) -> bool",
        "e": "(gain: f32) -> f32",
        "f": "(x: u32) -> u32",
        "g": "() -> void",
    }


OWN_WIDTH = """\
enum mode { OFF, ON };
enum sign { MINUS = -1, PLUS = 1 };
int a(long x, long long y) { return 0; }
double b(double x) { return x; }
char c(enum mode m, enum sign s) { return 0; }
"""


@pytest.mark.parametrize(
    ("cc", "a", "b", "c"),
    [
        (X86_64, "(x: i64, y: i64) -> i32", "(x: f64) -> f64", "(m: u32, s: i32) -> i8"),
        (ARM, "(x: i32, y: i64) -> i32", "(x: f64) -> f64", "(m: u8, s: i8) -> u8"),
        (RISCV, "(x: i32, y: i64) -> i32", "(x: f64) -> f64", "(m: u32, s: i32) -> u8"),
        (AVR, "(x: i32, y: i64) -> i16", "(x: f32) -> f32", "(m: u16, s: i16) -> i8"),
    ],
    ids=["x86-64", "arm", "riscv", "avr"],
)
def test_types_of_c_have_the_machines_own_width(
    tmp_path: Path, cc: list[str], a: str, b: str, c: str
) -> None:
    assert signatures(tmp_path, OWN_WIDTH, cc) == {"a": a, "b": b, "c": c}


@pytest.mark.parametrize("flags", [["-O0"], ["-O3"], ["-gdwarf-5"], ["-gz"], ["-flto"]], ids=str)
@pytest.mark.parametrize("cc", [X86_64, RISCV], ids=lambda cc: cc[0])
def test_flags_of_the_compiler_change_no_signature(
    tmp_path: Path, cc: list[str], flags: list[str]
) -> None:
    text = FIXED_WIDTH + "int later(int); int first(int n) { return later(n); }\n"
    text += "int later(int n) { return n; }\n"
    shown = signatures(tmp_path, text, cc, "-ffat-lto-objects", *flags)
    assert shown["a"] == "(x: u8, y: u16) -> i8"
    assert shown["first"] == "(n: i32) -> i32"
    assert shown["later"] == "(n: i32) -> i32"


def test_a_function_carries_its_parts(tmp_path: Path) -> None:
    i32, f32 = Scalar("i32", "int32_t", 4), Scalar("f32", "float", 4)
    assert functions([compiled(tmp_path, "int fir(float gain) { return 0; }\n", X86_64)]) == [
        CFunction(
            name="fir",
            parameters=(Parameter("gain", f32),),
            result=i32,
            setup=None,
            check=None,
            source="code.c",
            reason=None,
            line=1,
        )
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "struct __attribute__((packed)) s { char a; int b; }; void f(struct s x) {}",
            "its parameter 'x' is a struct by value, whose layout was changed by an attribute",
        ),
        (
            "struct s { _Complex float z; }; struct s f(void) {}",
            "its result is a struct by value, whose members are not known",
        ),
        (
            "void f(long double x) {}",
            "its parameter 'x' is 'long double' of 16 bytes",
        ),
        ("void f(__int128 x) {}", "its parameter 'x' is '__int128' of 16 bytes"),
        ("_Complex float f(void) { return 0; }", "its result is 'complex float' of 8 bytes"),
        (
            "typedef int v4 __attribute__((vector_size(16))); void f(v4 x) {}",
            "its parameter 'x' is a vector",
        ),
        ("int f(int n, ...) { return n; }", "it takes a variable number of arguments"),
        (
            "int f(x) float x; { return 0; }",
            "it has no prototype: it is defined in the style used before C89",
        ),
        (
            "int g(int n) { return n; } void *h(void) { return g; } "
            "int f(int) __attribute__((ifunc(\"h\")));",
            "it has no debug information about its type: it is an ifunc, and its resolver does not "
            "return that type",
        ),
        ("int f(int n) __asm__(\"f\"); __asm__(\".globl f\\n.type f,@function\\nf: ret\");",
         "its object code.o has no debug information"),
    ],
)  # fmt: skip
def test_a_function_of_which_no_call_can_be_made_is_listed_with_the_reason(
    tmp_path: Path, text: str, reason: str
) -> None:
    fn = found(tmp_path, text)["f"]
    assert fn.reason == reason
    assert fn.parameters == ()
    assert fn.result is None
    assert signature(fn) == ""


@pytest.mark.parametrize(
    "text",
    [
        'int g(int n) { return n; } int f(int) __attribute__((alias("g")));',
        'static int g(int n) { return n; } int f(int) __attribute__((weak, alias("g")));',
        "static int g(int n) { return n; } static int (*h(void))(int) { return g; } "
        'int f(int) __attribute__((ifunc("h")));',
        "static int g(int n) { return n; } typedef int type(int); type *h(void) { return g; } "
        'int f(int) __attribute__((ifunc("h")));',
        '#ifdef __x86_64__\n__attribute__((target_clones("avx2", "default")))\n#endif\n'
        "int f(int n) { return n; }",
    ],
    ids=["alias", "weak", "ifunc", "typedef", "clones"],
)
def test_another_name_of_a_function_has_its_type(tmp_path: Path, text: str) -> None:
    fns = found(tmp_path, text)
    assert signature(fns["f"]) == "(n: i32) -> i32"
    assert "f.resolver" not in fns


def test_a_name_that_does_not_fit_the_table_is_a_reason(tmp_path: Path) -> None:
    longest, too_long = "n" * 63, "n" * 64
    fns = found(tmp_path, f"void {longest}(void) {{}} void {too_long}(void) {{}}")
    assert fns[longest].reason is None
    assert fns[too_long].reason == "its name is longer than 63 bytes"


def test_empty_parentheses_mean_no_parameters(tmp_path: Path) -> None:
    assert signatures(tmp_path, "int f() { return 1; }") == {"f": "() -> i32"}


def test_a_parameter_without_a_name_is_numbered(tmp_path: Path) -> None:
    assert signatures(tmp_path, "int f(int, int n) { return n; }") == {
        "f": "(arg0: i32, n: i32) -> i32"
    }


def test_only_global_functions_are_offered_and_neither_main_nor_bp(tmp_path: Path) -> None:
    text = """\
    static int hidden(int n) { return n; }
    inline int nowhere(int n) { return n; }
    extern int elsewhere(int n);
    int variable;
    int offered(int n) { return hidden(n) + nowhere(n) + elsewhere(n); }
    int bp_private(void) { return 0; }
    int main(void) { return 0; }
    """
    assert list(found(tmp_path, text)) == ["offered"]


def test_global_names_are_found_among_hundreds_of_local_ones(tmp_path: Path) -> None:
    labels = "".join(f'__asm__(".local_{n}:");\n' for n in range(500))
    text = "extern int other; int here(void) { return other; } int value;\n" + labels
    with compiled(tmp_path, text).open("rb") as file:
        names = dict(global_names(ELFFile(file)))
    assert names == {"here": True, "other": False, "value": True}


@pytest.mark.parametrize("cc", MACHINES, ids=lambda cc: cc[0])
def test_symbols_are_those_that_pyelftools_reads(tmp_path: Path, cc: list[str]) -> None:
    text = """\
    extern int other;
    __attribute__((noinline)) static int own(int n) { return n + other; }
    __attribute__((weak)) int maybe(void) { return own(2); }
    int value = 7;
    int common;
    int here(int n) { return own(n) + maybe(); }
    """
    with compiled(tmp_path, text, cc).open("rb") as file:
        elf = ELFFile(file)
        table = elf.get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        wanted = [
            (each.name, each["st_value"], each["st_size"], each["st_info"]["bind"][4:],
             each["st_shndx"] != "SHN_UNDEF", isinstance(each["st_shndx"], int))
            for each in table.iter_symbols()
        ]  # fmt: skip
        found = [
            (each.name, each.value, each.size, ("LOCAL", "GLOBAL", "WEAK")[each.bind],
             each.is_defined, each.is_in_section)
            for each in symbols(elf)
        ]  # fmt: skip
    assert found == wanted
    assert {name for name, *_ in wanted} >= {"other", "own", "maybe", "value", "here"}


def test_functions_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    text = "void c(void) {} void a(void) {} void b(void) {}"
    assert list(found(tmp_path, text)) == ["a", "b", "c"]


@pytest.mark.parametrize("cc", MACHINES, ids=lambda cc: cc[0])
def test_set_up_and_check_belong_to_their_function(tmp_path: Path, cc: list[str]) -> None:
    text = """\
    int sum;
    void fir(void) { sum += 3; }
    void fir_setup(void) { sum = 0; }
    int fir_check(void) { return sum != 3; }
    void iir(void) { sum -= 1; }
    """
    fns = found(tmp_path, text, cc)
    assert list(fns) == ["fir", "iir"]
    assert (fns["fir"].setup, fns["fir"].check) == ("fir_setup", "fir_check")
    assert (fns["iir"].setup, fns["iir"].check) == (None, None)


def test_set_up_and_check_may_stand_in_another_file(tmp_path: Path) -> None:
    hooks = compiled(tmp_path, "void fir_setup(void) {}", X86_64, name="hooks.c")
    code = compiled(tmp_path, "int fir(int n) { return n; }", X86_64)
    [fn] = functions([hooks, code])
    assert (fn.name, fn.setup, fn.check) == ("fir", "fir_setup", None)


@pytest.mark.parametrize(
    "text",
    [
        "void lonely_setup(void) {}",
        "void x(void) {} void x_setup(int n) {}",
        "void x(void) {} int x_setup(void) { return 0; }",
        "void x(void) {} void x_check(void) {}",
        "void x(void) {} _Bool x_check(void) { return 0; }",
        "void x(void) {} short x_check(void) { return 0; }",
        "void x(void) {} int x_check(int n) { return 0; }",
        "static void x(void) {} void x_setup(void) { x(); }",
    ],
)
def test_what_has_only_the_name_of_a_set_up_or_check_is_a_function(
    tmp_path: Path, text: str
) -> None:
    fns = found(tmp_path, text)
    assert any(name.endswith(("_setup", "_check")) for name in fns)
    assert all(fn.setup is None and fn.check is None for fn in fns.values())


def test_a_function_in_two_files_is_an_error_that_names_both(tmp_path: Path) -> None:
    one = compiled(tmp_path, "void fir(void) {}", X86_64, name="one.c")
    two = compiled(tmp_path, "void fir(void) {}", X86_64, name="two.c")
    with pytest.raises(BuildError) as caught:
        functions([one, two])
    assert "The function fir is defined twice: in one.c and in two.c." in str(caught.value)
    assert "make one of them static" in str(caught.value)


@pytest.mark.parametrize("weak_first", [True, False])
def test_a_weak_function_gives_way_to_one_that_is_not(tmp_path: Path, weak_first: bool) -> None:
    weak = compiled(tmp_path, "__attribute__((weak)) int f(void) { return 0; }", X86_64)
    strong = compiled(tmp_path, "int f(int n) { return n; }", X86_64, name="strong.c")
    [fn] = functions([weak, strong] if weak_first else [strong, weak])
    assert signature(fn) == "(n: i32) -> i32"


def test_a_linked_image_is_read_as_well(tmp_path: Path) -> None:
    made = compiled(tmp_path, "int f(int n) { return n; }", RISCV)
    image = tmp_path / "image.elf"
    link = [*RISCV, "-nostdlib", "-Wl,-e,0", str(made), "-o", str(image)]
    subprocess.run(link, check=True, timeout=60)
    assert [signature(fn) for fn in functions([image])] == ["(n: i32) -> i32"]


def test_what_is_no_elf_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "code.o"
    file.write_text("not an object")
    with pytest.raises(UsageError, match=r"code\.o cannot be read as an ELF file"):
        functions([file])


def test_a_damaged_object_is_refused_wherever_it_was_damaged(tmp_path: Path) -> None:
    whole = compiled(tmp_path, FIXED_WIDTH, RISCV).read_bytes()
    cut = tmp_path / "cut.o"
    for size in range(4, len(whole), len(whole) // 50):
        cut.write_bytes(whole[:size])
        with pytest.raises(UsageError, match=r"cut\.o cannot be read as an ELF file"):
            functions([cut])


def test_an_object_of_link_time_optimisation_alone_is_refused(tmp_path: Path) -> None:
    made = compiled(tmp_path, "int f(int n) { return n; }", X86_64, "-flto", "-fno-fat-lto-objects")
    with pytest.raises(UsageError, match="has only intermediate code for -flto, no machine code"):
        functions([made])


def test_an_object_of_clangs_link_time_optimisation_is_refused(tmp_path: Path) -> None:
    made = compiled(tmp_path, "int f(int n) { return n; }", ["clang"], "-flto")
    with pytest.raises(UsageError, match="it is LLVM bitcode"):
        functions([made])


# -- without debug information ----------------------------------------------------------------


@pytest.mark.parametrize("cc", [X86_64, RISCV, AVR], ids=lambda cc: cc[0])
def test_a_function_without_debug_information_is_listed(tmp_path: Path, cc: list[str]) -> None:
    fns = found(tmp_path, "int f(int n) { return n; }", cc, "-g0")
    assert fns["f"].reason == "its object code.o has no debug information"


@pytest.mark.parametrize("cc", [X86_64, RISCV], ids=lambda cc: cc[0])
def test_line_numbers_alone_make_no_signature(tmp_path: Path, cc: list[str]) -> None:
    text = "int f(int n) { return n; } void g(void) {}"
    fns = found(tmp_path, text, cc, "-g1")
    assert {fn.reason for fn in fns.values()} == {"its debug information has no types"}


def test_a_file_without_any_type_has_signatures_all_the_same(tmp_path: Path) -> None:
    assert signatures(tmp_path, "void f() {} void g(void) {}") == {
        "f": "() -> void",
        "g": "() -> void",
    }


@pytest.mark.parametrize("version", ["-gdwarf-4", "-gdwarf-5"])
def test_debug_information_in_another_file_is_named(tmp_path: Path, version: str) -> None:
    fns = found(tmp_path, "int f(int n) { return n; }", X86_64, version, "-gsplit-dwarf")
    assert fns["f"].reason == (
        "its debug information is in another file: compile it without -gsplit-dwarf"
    )


def test_what_an_assembler_says_of_a_function_is_no_type(tmp_path: Path) -> None:
    (tmp_path / "f.s").write_text(".text\n.globl f\n.type f,@function\nf: ret\n.size f, .-f\n")
    subprocess.run(["gcc", "-g", "-c", "f.s"], cwd=tmp_path, check=True, timeout=60)
    [fn] = functions([tmp_path / "f.o"])
    assert fn.reason == "it has no debug information about its type"


# -- what is hidden ---------------------------------------------------------------------------

HIDDEN = """\
static __attribute__((noinline)) int apart(int n) { return n * 3; }
static int within(int n) { return n * 5; }
static int unused(int n) { return n * 7; }
inline int everywhere(int n) { return n * 9; }
int offered(int n) { return apart(n) + within(n) + everywhere(n); }
"""


@pytest.mark.parametrize("cc", MACHINES, ids=lambda cc: cc[0])
def test_static_and_inlined_functions_are_named_with_what_to_do(
    tmp_path: Path, cc: list[str]
) -> None:
    assert hidden_functions([compiled(tmp_path, HIDDEN, cc)]) == [
        ("apart", "code.c", "static: --no-inline apart compiles it out of line"),
        ("everywhere", "code.c", "inlined: --no-inline everywhere compiles it out of line"),
        ("within", "code.c", "static and inlined: --no-inline within compiles it out of line"),
    ]


def test_a_function_that_the_linker_left_out_is_named(tmp_path: Path) -> None:
    text = "int used(int n) { return n; } int unused(int n) { return n; }"
    made = compiled(tmp_path, text, RISCV, "-ffunction-sections")
    image = tmp_path / "image.elf"
    link = [*RISCV, "-nostdlib", "-Wl,--gc-sections,-e,used", str(made), "-o", str(image)]
    subprocess.run(link, check=True, timeout=60)
    assert [fn.name for fn in functions([image])] == ["used"]
    assert hidden_functions([image]) == [
        ("unused", "code.c", "removed by the linker: nothing refers to it")
    ]


# -- programs and libraries -------------------------------------------------------------------


def test_a_shared_library_without_its_symbol_table_offers_what_it_exports(tmp_path: Path) -> None:
    text = 'int f(int n) { return n; } __attribute__((visibility("hidden"))) int g(void) {}'
    made = compiled(tmp_path, text, X86_64, "-fPIC")
    library = tmp_path / "libf.so"
    commands = [
        ["gcc", "-shared", "-nostdlib", str(made), "-o", str(library)],
        ["objcopy", "--strip-all", "--keep-section=.debug_*", str(library)],
    ]
    for command in commands:
        subprocess.run(command, check=True, timeout=60)
    assert [f"{fn.name}{signature(fn)}" for fn in functions([library])] == ["f(n: i32) -> i32"]
