# SPDX-License-Identifier: Apache-2.0
"""Functions of C++ and Rust with the names and calls of C."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from boardprof.target.cfunction import CFunction, Pointer, Struct, signature
from boardprof.target.elf.functions import functions, hidden_functions
from tests.unit.objects import compiled, fields, run_compiler

CPP = """\
#include <cstddef>
#include <cstdint>
struct Point { std::int16_t x, y; static int count; int sum() const { return x + y; } };
struct Point3 : Point { std::int32_t z; };
template <typename T> struct Pair { T first, second; };
class Filter { std::int32_t state[4]; public: std::int32_t run(std::int32_t x); };
struct Shape { virtual int area() { return 0; } int side; };
enum class Mode : std::uint8_t { off, on };
std::int32_t Filter::run(std::int32_t x) { return state[0] += x; }
namespace dsp {
int mangled(int n) { return n; }
extern "C" int nested(int n) { return n; }
}
extern "C" {
int references(const Point &a, Point &b, int &c, const int &d) { b = a; c = d; return 0; }
int moved(Point &&a) { return a.sum(); }
int table(const int (&x)[4]) { return x[0]; }
int derived(const Point3 *p) { return p->z + p->x; }
float pair(Pair<float> *p) { return p->first; }
int mode(Mode m, bool b, char16_t c, std::size_t n) { return b; }
std::int32_t run(Filter *f, std::int32_t x) { return f->run(x); }
int shape(Shape *s) { return s->side; }
int many(int n, ...) { return n; }
int member(int Point::*m) { return 0; }
int value(Point p) { return p.sum(); }
}
Shape instance;
"""

COMPILERS = [
    ["g++", "-gdwarf-4"],
    ["g++", "-gdwarf-5"],
    ["clang++", "-gdwarf-5"],
    ["arm-none-eabi-g++", "-mcpu=cortex-m3", "-mthumb", "-gdwarf-4"],
]


def cpp(folder: Path, command: list[str]) -> dict[str, CFunction]:
    (folder / "code.cpp").write_text(CPP)
    flags = ["-std=c++11", "-O2", "-w", "-c", "code.cpp", "-o", "code.o"]
    run_compiler(folder, [*command, *flags])
    return {fn.name: fn for fn in functions([folder / "code.o"])}


@pytest.mark.parametrize("command", COMPILERS, ids=" ".join)
def test_functions_of_cpp_with_names_of_c_are_offered(tmp_path: Path, command: list[str]) -> None:
    fns = cpp(tmp_path, command)
    is_arm = command[0].startswith("arm")
    size_t, shape = ("u32", "Shape{8}*") if is_arm else ("u64", "Shape{16}*")
    assert {name: signature(fn) for name, fn in fns.items() if fn.reason is None} == {
        "derived": "(p: const Point3{8}*) -> i32",
        "mode": f"(m: u8, b: bool, c: u16, n: {size_t}) -> i32",
        "moved": "(a: Point{4}*) -> i32",
        "dsp::mangled": "(n: i32) -> i32",
        "nested": "(n: i32) -> i32",
        "pair": "(p: Pair_float{8}*) -> f32",
        "references": "(a: const Point{4}*, b: Point{4}*, c: i32*, d: const i32*) -> i32",
        "run": "(f: Filter{16}*, x: i32) -> i32",
        "shape": f"(s: {shape}) -> i32",
        "Shape::area": f"(this: {shape}) -> i32",
        "table": "(x: const i32*) -> i32",
        "value": "(p: Point{4}) -> i32",
        "Filter::run": "(this: Filter{16}*, x: i32) -> i32",
    }
    assert fns["dsp::mangled"].symbol == "_ZN3dsp7mangledEi"
    assert fns["Filter::run"].symbol.startswith("_ZN6Filter3runE")


@pytest.mark.parametrize("command", COMPILERS, ids=" ".join)
def test_what_cannot_be_called_in_cpp_has_its_reason(tmp_path: Path, command: list[str]) -> None:
    fns = cpp(tmp_path, command)
    reasons = {name: fn.reason for name, fn in fns.items() if fn.reason is not None}
    assert reasons["many"] == "it takes a variable number of arguments"
    assert reasons["member"] == "its parameter 'm' is a pointer to a member"


BY_VALUE = """\
struct Plain { int x; Plain() : x(0) {} Plain(int n) : x(n) {} int get() const { return x; } };
struct Ends { int x; ~Ends(); };
struct Copied { int x; Copied(const Copied &); };
struct Moved { int x; Moved(Moved &&); };
struct Virtual { virtual int f() { return 1; } };
Virtual instance;
struct Derived : Ends { int y; };
struct Holds { Copied c[2]; };
extern "C" {
int plain(Plain p) { return p.x; }
int ends(Ends p) { return p.x; }
int copied(Copied p) { return p.x; }
int moved(Moved p) { return p.x; }
int with_virtual(Virtual p) { return 0; }
int derived(Derived p) { return p.y; }
int holds(Holds p) { return 0; }
}
"""


@pytest.mark.parametrize("command", COMPILERS, ids=" ".join)
def test_classes_that_cpp_passes_by_reference_are_refused(
    tmp_path: Path, command: list[str]
) -> None:
    (tmp_path / "code.cpp").write_text(BY_VALUE)
    whole = ["-fstandalone-debug"] if command[0] == "clang++" else []
    run_compiler(tmp_path, [*command, *whole, "-O2", "-w", "-c", "code.cpp", "-o", "code.o"])
    fns = {fn.name: fn for fn in functions([tmp_path / "code.o"])}
    assert signature(fns["plain"]) == "(p: Plain{4}) -> i32"
    for name in ("ends", "copied", "moved", "with_virtual", "derived", "holds"):
        assert fns[name].reason == (
            "its parameter 'p' is a struct by value, with a destructor, a copy constructor or "
            "virtual functions"
        )


def test_a_base_class_stands_in_the_derived_one(tmp_path: Path) -> None:
    pointer = cpp(tmp_path, ["g++", "-g"])["derived"].parameters[0].type
    assert isinstance(pointer, Pointer)
    assert isinstance(pointer.element, Struct)
    assert fields(pointer.element) == [("", 0, "Point{4}"), ("z", 4, "i32")]
    base = pointer.element.fields[0].type
    assert isinstance(base, Struct)
    assert fields(base) == [("x", 0, "i16"), ("y", 2, "i16")]


def test_a_static_function_of_cpp_with_a_name_of_c_is_hidden(tmp_path: Path) -> None:
    text = """\
    extern "C" {
    static __attribute__((noinline)) int apart(int n) { return n * 3; }
    int offered(int n) { return apart(n); }
    }
    static __attribute__((noinline)) int mangled(int n) { return n * 5; }
    int (*const user)(int) = mangled;
    """
    (tmp_path / "code.cpp").write_text(text)
    run_compiler(tmp_path, ["g++", "-O2", "-g", "-c", "code.cpp", "-o", "code.o"])
    assert hidden_functions([tmp_path / "code.o"]) == [
        ("apart", "code.cpp", "static: --no-inline apart compiles it out of line")
    ]


def test_an_inlined_function_of_cpp_is_not_advised_to_be_kept(tmp_path: Path) -> None:
    text = "namespace { int inlined(int n) { return n * 3; } }\n"
    (tmp_path / "code.cpp").write_text(text + "int offered(int n) { return inlined(n); }\n")
    run_compiler(tmp_path, ["g++", "-O2", "-g", "-c", "code.cpp", "-o", "code.o"])
    assert hidden_functions([tmp_path / "code.o"]) == [
        ("inlined", "code.cpp", "static and inlined: call it from a function of your own")
    ]


RUST = """\
#![crate_type = "lib"]
#![allow(improper_ctypes_definitions)]
use std::os::raw::c_void;
#[repr(C)] pub struct State { gain: f32, taps: [i16; 4], on: bool }
#[repr(C)] pub struct Node { next: *mut Node, value: i32 }
#[repr(u8)] #[derive(Clone, Copy)] pub enum Mode { Off, On }
pub enum Shape { Circle(f32), Square(u8, u16) }
#[no_mangle] pub extern "C" fn fir(x: *const i16, y: *mut i32, n: usize) -> i32 {
    let mut sum = 0;
    for i in 0..n { unsafe { sum += *x.add(i) as i32; *y.add(i) = sum; } }
    sum
}
#[no_mangle] pub extern "C" fn state(s: *mut State, old: *const State, m: Mode, b: bool) -> f64 {
    unsafe { (*s).gain = (*old).gain; }
    m as u8 as f64 + b as u8 as f64
}
#[no_mangle] pub extern "C" fn references(a: &i32, b: &mut u64, x: &[i16; 8], s: &State) -> u64 {
    *b = *a as u64 + s.on as u64;
    x[0] as u64
}
#[no_mangle] pub extern "C" fn bytes(a: *const c_void, b: *mut c_void) -> bool { a == b }
#[no_mangle] pub extern "C" fn shape(s: &Shape, n: u32) -> u32 {
    match s { Shape::Circle(_) => n, Shape::Square(a, _) => *a as u32 }
}
#[no_mangle] pub extern "C" fn node(n: *const Node) -> i32 { unsafe { (*n).value } }
#[no_mangle] pub extern "C" fn slice(x: &[i16]) -> i16 { x[0] }
#[no_mangle] pub extern "C" fn wide(a: i128) -> i32 { a as i32 + 7 }
#[no_mangle] pub extern "C" fn call(f: extern "C" fn(i32) -> i32) -> i32 { f(1) }
pub mod inner {
    #[no_mangle] pub extern "C" fn nested(a: i64, c: char) -> u64 { a as u64 + c as u64 }
    #[inline(never)] pub fn own(a: u8) -> u8 { a / 3 }
}
"""


@cache
def rustc() -> str:
    """Return the first rustc that runs: that of rustup does not until a toolchain is chosen.

    It takes half a gigabyte, and nothing else needs it. So `make setup` does not install it.
    """
    for folder in os.get_exec_path():
        program = Path(folder, "rustc")
        if os.access(program, os.X_OK):
            done = subprocess.run(
                [program, "--version"], capture_output=True, timeout=60, check=False
            )
            if done.returncode == 0:
                return str(program)
    pytest.skip("no rustc on PATH runs; nothing but this test needs it: apt-get install rustc")


def rust(folder: Path, *flags: str) -> dict[str, CFunction]:
    (folder / "code.rs").write_text(RUST)
    command = [rustc(), *flags, "-Awarnings", "--emit=obj", "code.rs", "-o", "code.o"]
    subprocess.run(command, cwd=folder, check=True, timeout=60)
    return {fn.name: fn for fn in functions([folder / "code.o"])}


@pytest.mark.parametrize("flags", [("-g",), ("-g", "-O")], ids=" ".join)
def test_functions_of_rust_with_names_of_c_are_offered(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    fns = rust(tmp_path, *flags)
    assert {name: signature(fn) for name, fn in fns.items() if fn.reason is None} == {
        "bytes": "(a: const void*, b: void*) -> bool",
        "call": "(f: fn*) -> i32",
        "fir": "(x: const i16*, y: i32*, n: u64) -> i32",
        "nested": "(a: i64, c: u32) -> u64",
        "node": "(n: const Node{16}*) -> i32",
        "references": "(a: const i32*, b: u64*, x: const i16*, s: const State{16}*) -> u64",
        "shape": "(s: const Shape{8}*, n: u32) -> u32",
        "state": "(s: State{16}*, old: const State{16}*, m: u8, b: bool) -> f64",
    }


def test_what_cannot_be_called_in_rust_has_its_reason(tmp_path: Path) -> None:
    fns = rust(tmp_path, "-g", "-O")
    reasons = {name: fn.reason for name, fn in fns.items()}
    assert reasons["slice"] == "its parameter 'x' is a struct by value"
    assert reasons["wide"] == "its parameter 'a' is 'i128' of 16 bytes"
    own = next(reason for name, reason in reasons.items() if "own" in name)
    assert own == 'its name is not a C name: declare own as #[no_mangle] pub extern "C"'


def test_an_enum_of_rust_with_data_is_bytes(tmp_path: Path) -> None:
    pointer = rust(tmp_path, "-g", "-O")["shape"].parameters[0].type
    assert isinstance(pointer, Pointer)
    assert pointer.element == Struct("Shape", 8, ())


def test_line_numbers_of_rust_make_no_signature(tmp_path: Path) -> None:
    fns = rust(tmp_path, "-O", "-Cdebuginfo=1")
    assert fns["fir"].reason == "its debug information has no types"


@pytest.mark.parametrize("code", [0x16, 0x7F])  # D; one that there is not
def test_of_a_language_that_is_not_known_functions_are_as_they_stand(
    tmp_path: Path, code: int
) -> None:
    """They have prototypes, whatever they say of it, and what is hidden stays unsaid."""
    text = "static __attribute__((noinline)) int own(int n) { return n * 3; }\n"
    text += "int f(int n) { return own(n); } int g(void) { return 1; }"
    made = compiled(tmp_path, text, ["gcc"], "-gdwarf-5")
    content = bytearray(made.read_bytes())
    with made.open("rb") as file:
        elf = ELFFile(file)
        at = elf.get_section_by_name(".debug_info")["sh_offset"]
        top = next(iter(elf.get_dwarf_info().iter_CUs())).get_top_DIE()
        language = top.attributes["DW_AT_language"]
    assert language.form == "DW_FORM_data1"
    content[at + language.offset] = code
    made.write_bytes(content)
    assert {fn.name: signature(fn) for fn in functions([made])} == {
        "f": "(n: i32) -> i32",
        "g": "() -> i32",
    }
    assert hidden_functions([made]) == []
