# SPDX-License-Identifier: Apache-2.0
"""Static libraries: members of every kind of name, and what the linker would take."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from boardprof.base.errors import UsageError
from boardprof.target.cfunction import signature
from boardprof.target.elf.functions import functions, hidden_functions
from boardprof.target.elf.object_file import members
from tests.unit.objects import MACHINES, RISCV, X86_64, compiled

LONG = "a_name_that_is_longer_than_fifteen_bytes"


def ar(folder: Path, name: str, *objects: Path, flags: str = "rcs") -> Path:
    """Make a static library."""
    library = folder / name
    subprocess.run(["ar", flags, str(library), *map(str, objects)], check=True, timeout=60)
    return library


@pytest.mark.parametrize("cc", MACHINES, ids=lambda cc: cc[0])
def test_the_functions_of_all_members_are_found(tmp_path: Path, cc: list[str]) -> None:
    short = compiled(tmp_path, "int one(int n) { return n; }", cc, name="one.c")
    long = compiled(tmp_path, "void two(const float *x) {}", cc, name=f"{LONG}.c")
    fns = {fn.name: fn for fn in functions([ar(tmp_path, "libx.a", short, long)])}
    int_type = "i16" if cc[0] == "avr-gcc" else "i32"
    assert signature(fns["one"]) == f"(n: {int_type}) -> {int_type}"
    assert signature(fns["two"]) == "(x: const f32*) -> void"
    assert (fns["one"].source, fns["two"].source) == ("one.c", f"{LONG}.c")


def test_members_without_debug_information_are_named_with_their_library(tmp_path: Path) -> None:
    made = compiled(tmp_path, "int one(int n) { return n; }", X86_64, "-g0", name=f"{LONG}.c")
    [fn] = functions([ar(tmp_path, "libx.a", made)])
    assert (fn.source, fn.reason) == (
        f"libx.a({LONG}.o)",
        f"its object libx.a({LONG}.o) has no debug information",
    )


def test_an_object_hides_what_is_in_a_library(tmp_path: Path) -> None:
    inner = compiled(tmp_path, "int f(void) { return 0; }", name="inner.c")
    library = ar(tmp_path, "libx.a", inner)
    own = compiled(tmp_path, "int f(int n) { return n; }", name="own.c")
    for files in ([library, own], [own, library]):
        [fn] = functions(files)
        assert signature(fn) == "(n: i32) -> i32"


def test_a_weak_function_of_an_object_hides_what_is_in_a_library(tmp_path: Path) -> None:
    library = ar(tmp_path, "libx.a", compiled(tmp_path, "int f(void) { return 0; }", name="i.c"))
    weak = compiled(tmp_path, "__attribute__((weak)) int f(int n) { return n; }", name="w.c")
    [fn] = functions([library, weak])
    assert signature(fn) == "(n: i32) -> i32"


def test_the_first_of_two_libraries_wins(tmp_path: Path) -> None:
    first = ar(tmp_path, "libx.a", compiled(tmp_path, "int f(void) { return 0; }", name="1.c"))
    second = ar(tmp_path, "liby.a", compiled(tmp_path, "int f(int n) { return n; }", name="2.c"))
    [fn] = functions([first, second])
    assert signature(fn) == "() -> i32"


def test_static_functions_of_a_library_are_named(tmp_path: Path) -> None:
    text = "static __attribute__((noinline)) int h(int n) { return n * 3; } int f(int n) "
    made = compiled(tmp_path, text + "{ return h(n); }", RISCV)
    assert hidden_functions([ar(tmp_path, "libx.a", made)]) == [
        ("h", "code.c", "static: --no-inline h compiles it out of line")
    ]


def test_names_of_bsd_stand_before_the_content(tmp_path: Path) -> None:
    header = f"{'#1/20':16}{0:<12}{0:<6}{0:<6}{644:<8}{20 + 5:<10}`\n".encode()
    library = tmp_path / "libx.a"
    library.write_bytes(b"!<arch>\n" + header + b"a_longer_name.o".ljust(20, b"\0") + b"hello\n")
    [member] = members(library)
    assert (member.label, member.content) == ("libx.a(a_longer_name.o)", b"hello")


def test_a_thin_archive_is_refused_with_what_to_do(tmp_path: Path) -> None:
    library = ar(tmp_path, "libx.a", compiled(tmp_path, "int f;"), flags="rcsT")
    with pytest.raises(UsageError) as caught:
        functions([library])
    assert "libx.a is a thin archive: it contains the names of objects" in str(caught.value)
    assert "Try: give the objects themselves" in str(caught.value)


def test_a_library_without_objects_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("text")
    library = ar(tmp_path, "libx.a", tmp_path / "notes.txt")
    with pytest.raises(UsageError, match=r"libx\.a is a library that contains no ELF object"):
        functions([library])


@pytest.mark.parametrize(
    ("at", "message"), [(30, "is truncated"), (-80, "does not begin|is truncated|cannot be read")]
)
def test_a_damaged_library_is_refused(tmp_path: Path, at: int, message: str) -> None:
    whole = ar(tmp_path, "libx.a", compiled(tmp_path, "int f(int n) { return n; }")).read_bytes()
    library = tmp_path / "cut.a"
    library.write_bytes(whole[: len(whole) // 2] if at > 0 else b"!<arch>\n" + whole[-at:])
    with pytest.raises(UsageError, match=message):
        functions([library])


def test_a_library_whose_sizes_are_no_numbers_is_refused(tmp_path: Path) -> None:
    header = b"x.o/".ljust(48) + b"\xff\xfe\xfd".ljust(10) + b"`\n"
    library = tmp_path / "libx.a"
    library.write_bytes(b"!<arch>\n" + header)
    with pytest.raises(UsageError, match="is not the size of a member"):
        functions([library])
