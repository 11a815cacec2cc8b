# SPDX-License-Identifier: Apache-2.0
"""The generated table: clean C on every machine, and values that arrive as they were sent."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import cffi
import msgpack
import pytest

from boardprof.base.files import runtime_dir
from boardprof.measure.connect import Firmware
from boardprof.target.build.builder import build
from boardprof.target.build.glue import fit, table_source
from boardprof.target.cfunction import (
    CHAR,
    FUNCTION,
    CFunction,
    CType,
    Field,
    Parameter,
    Pointer,
    Scalar,
    Struct,
    signature,
    wire_signature,
)
from boardprof.target.descriptions.board import board_spec
from tests.support import requires_compiler

WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wmissing-prototypes"]
WARNINGS += ["-pedantic", "-Werror"]
COMPILERS = [
    ["gcc", "-fPIC"],
    ["arm-none-eabi-gcc", "-mcpu=cortex-m0plus", "-mthumb", "-ffreestanding"],
    ["riscv64-unknown-elf-gcc", "-march=rv32imac", "-mabi=ilp32", "-ffreestanding"],
    ["avr-gcc", "-mmcu=atmega328p"],
]
SCALARS = [
    *[Scalar(f"i{8 * n}", f"int{8 * n}_t", n) for n in (1, 2, 4, 8)],
    *[Scalar(f"u{8 * n}", f"uint{8 * n}_t", n) for n in (1, 2, 4, 8)],
    Scalar("f32", "float", 4),
    Scalar("f64", "double", 8),
    Scalar("bool", "bool", 1),
]

STRUCT = Struct("fir_state", 24)
ELEMENTS = [*SCALARS, STRUCT, None]

USER_C = """\
#include <stdbool.h>
#include <stdint.h>
enum level { LOW = -5, HIGH = 5 };
int8_t of_i8(int8_t x) { return x; }
int16_t of_i16(int16_t x) { return x; }
int32_t of_i32(int32_t x) { return x; }
int64_t of_i64(int64_t x) { return x; }
uint8_t of_u8(uint8_t x) { return x; }
uint16_t of_u16(uint16_t x) { return x; }
uint32_t of_u32(uint32_t x) { return x; }
uint64_t of_u64(uint64_t x) { return x; }
float of_f32(float x) { return x; }
double of_f64(double x) { return x; }
bool of_bool(bool x) { return x; }
enum level of_enum(enum level x) { return x; }
double mixed(uint8_t a, double b, int16_t c, float d, bool e, int64_t f, uint16_t g, uint32_t h) {
    return a + b + c + d + e + (double)f + g + h;
}
int64_t answer(void) { return 42; }
static int stored, prepared;
void store(int x) { stored = x; }
void act(void) { stored += 1; }
void act_setup(void) { prepared += 1; }
int act_check(void) { return stored + 10 * prepared; }
int t(void) { return 1; }
int abs(int x) { return x < 0 ? -x : x; }
struct pair { int16_t first; double second; };
double sum(const double *x, const struct pair *p, uint8_t n) {
    double sum = p->first + p->second;
    for (uint8_t i = 0; i < n; i++) { sum += x[i]; }
    return sum;
}
void fill(void *to, uint8_t value, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) { ((uint8_t *)to)[i] = value; }
}
bool is_null(const int16_t *p) { return p == 0; }
"""

# Only what bp.h promises: the types of a table's rows and of a call.
BP_H = """
typedef struct { const uint8_t *in, *in_end; uint8_t *out, *out_end;
                 uint32_t detail; int err; uint8_t argc; } bp_call_t;
typedef struct { void *fn; void (*thunk)(void *, void *); int (*unpack)(bp_call_t *, void *);
                 void (*pack)(bp_call_t *, const void *); void (*setup)(void);
                 int (*check)(void); } bp_target_t;
typedef struct { const char *name, *signature; void *packed;
                 const bp_target_t *target; } bp_function_t;
typedef struct { const char *name; } bp_collector_t;
typedef struct { const char *board; const bp_function_t *functions;
                 const bp_collector_t *const *collectors; uint16_t function_count;
                 uint8_t collector_count; uint8_t build_id[8]; } bp_firmware_t;
extern bp_firmware_t bp_firmware;
int bp_arena_alloc(bp_call_t *call);
int bp_arena_read(bp_call_t *call);
int bp_arena_write(bp_call_t *call);
"""
ERR_ARG_COUNT, ERR_ARG_TYPE, ERR_ARG_RANGE = -3, -4, -5


def function(name: str, parameters: Sequence[CType], result: Scalar | None) -> CFunction:
    named = tuple(Parameter(f"p{i}", kind) for i, kind in enumerate(parameters))
    return CFunction(name, named, result, None, None, "x.c", None)


@pytest.mark.parametrize("cc", COMPILERS, ids=lambda cc: cc[0])
def test_the_table_compiles_without_a_warning(tmp_path: Path, cc: list[str]) -> None:
    requires_compiler(cc[0])
    short = cc[0] == "avr-gcc"  # its double has 4 bytes, so no function takes 8
    scalars = [s for s in SCALARS if not (short and s.text == "f64")]
    functions = [function(f"of_{s.text}", [s], s) for s in scalars]
    functions += [function(f"take_{s.text}", [s, s], None) for s in scalars]
    functions += [function("t", [], SCALARS[0]), function("act", [], None)]
    size = 2 if cc[0] == "avr-gcc" else 8 if cc[0] == "gcc" else 4
    for i, element in enumerate(ELEMENTS):
        both = [Pointer(element, const, size) for const in (True, False)]
        functions.append(function(f"point_{i}", [*both, SCALARS[0]], SCALARS[7]))
    with_hooks = CFunction("fir", (), None, "fir_setup", "fir_check", "x.c", None)
    text = table_source("lab-board", [*functions, with_hooks], ["ticks"], bytes(range(8)))
    (tmp_path / "bp_table.c").write_text(text)
    include = f"-I{runtime_dir() / 'include'}"
    command = [*cc, "-std=c11", *WARNINGS, "-Os", include, "-c", "bp_table.c", "-o", "x.o"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)


def test_a_table_does_not_depend_on_those_that_were_made_before() -> None:
    gives_a_pointer = function("f", [], Pointer(None, False, 4))
    takes_a_constant = function("g", [Pointer(SCALARS[0], True, 4)], None)
    for functions in ([gives_a_pointer], [gives_a_pointer, takes_a_constant], [gives_a_pointer]):
        text = table_source("lab-board", functions, [], bytes(8))
        assert "bp_unpoint" in text
        assert ("bp_arena_crc" in text) is (takes_a_constant in functions)


def test_a_table_of_nothing_has_no_empty_arrays(tmp_path: Path) -> None:
    unfit = CFunction("f", (), None, None, None, "x.c", "its result is a pointer")
    text = table_source("lab-board", [unfit], [], bytes(8))
    (tmp_path / "bp_table.c").write_text(text)
    include = f"-I{runtime_dir() / 'include'}"
    command = ["gcc", "-std=c11", *WARNINGS, include, "-c", "bp_table.c", "-o", "x.o"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    assert ".functions = NULL" in text
    assert ".collectors = NULL" in text
    assert ".function_count = 0" in text


class Image:
    """A native image in this process, called through its table as the agent does."""

    def __init__(self, firmware: Firmware) -> None:
        self.ffi: Any = cffi.FFI()
        self.ffi.cdef(BP_H)
        library: Any = self.ffi.dlopen(str(firmware.image))
        self.library = library  # or it is closed
        self.table = library.bp_firmware
        rows = [self.table.functions[i] for i in range(self.table.function_count)]
        self.rows = {self.text(row.name): row for row in rows}

    def text(self, pointer: Any) -> str:
        return str(self.ffi.string(pointer), "ascii")

    def call(self, name: str, *arguments: bytes) -> Any:
        """Call with msgpack'd arguments; return the result, or an error's number."""
        target = self.rows[name].target
        body = self.ffi.new("uint8_t[]", b"".join(arguments) or b"\0")
        reply = self.ffi.new("uint8_t[16]")
        slots = self.ffi.new("uint64_t[9]")
        call = self.ffi.new("bp_call_t *")
        setattr(call, "in", body)  # a keyword of Python
        call.in_end = body + sum(map(len, arguments))
        call.out, call.out_end = reply, reply + len(reply)
        call.argc = len(arguments)
        if target.unpack and target.unpack(call, slots) != 0:
            return f"error {call.err}"
        assert call.argc == 0
        assert call.err == 0
        if target.thunk:
            target.thunk(target.fn, slots)
        else:
            self.ffi.cast("void (*)(void)", target.fn)()
        if not target.pack:
            return None
        target.pack(call, slots)
        return msgpack.unpackb(bytes(reply[0 : call.out - reply]))

    def arena(self, operation: str, *arguments: object) -> Any:
        """Call bp.alloc, bp.read or bp.write; return the result."""
        packed = b"".join(bytes(msgpack.packb(argument)) for argument in arguments)
        body = self.ffi.new("uint8_t[]", packed)
        reply = self.ffi.new("uint8_t[256]")
        call = self.ffi.new("bp_call_t *")
        setattr(call, "in", body)
        call.in_end = body + len(packed)
        call.out, call.out_end = reply, reply + len(reply)
        call.argc = len(arguments)
        assert getattr(self.library, f"bp_arena_{operation}")(call) == 0
        return msgpack.unpackb(bytes(reply[0 : call.out - reply]))

    def block(self, content: bytes) -> int:
        """Return the handle of a new block."""
        handle: int = self.arena("alloc", len(content))
        self.arena("write", handle, 0, content)
        return handle


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    folder = tmp_path_factory.mktemp("user")
    (folder / "user.c").write_text(USER_C)
    return Image(build(board_spec("native"), [folder]))


def packed(value: object) -> bytes:
    return bytes(msgpack.packb(value))


def float32(value: float) -> bytes:
    return bytes(msgpack.packb(value, use_single_float=True))


@pytest.mark.parametrize(
    ("name", "lowest", "highest"),
    [
        ("of_i8", -128, 127),
        ("of_i16", -32768, 32767),
        ("of_i32", -2147483648, 2147483647),
        ("of_i64", -9223372036854775808, 9223372036854775807),
        ("of_u8", 0, 255),
        ("of_u16", 0, 65535),
        ("of_u32", 0, 4294967295),
        ("of_u64", 0, 18446744073709551615),
        ("of_enum", -2147483648, 2147483647),
    ],
)
def test_an_integer_passes_up_to_its_limits_and_not_beyond(
    image: Image, name: str, lowest: int, highest: int
) -> None:
    for value in (lowest, 0, 1, highest):
        assert image.call(name, packed(value)) == value
    for value in (lowest - 1, highest + 1):
        if -(2**63) <= value < 2**64:  # msgpack has no others
            refused = image.call(name, packed(value))
            assert refused in (f"error {ERR_ARG_RANGE}", f"error {ERR_ARG_TYPE}")


def test_floats_and_bools_pass_unchanged(image: Image) -> None:
    assert image.call("of_f32", float32(-1.5)) == -1.5
    assert image.call("of_f64", packed(0.1)) == 0.1
    assert image.call("of_bool", packed(True)) is True
    assert image.call("of_bool", packed(False)) is False


def test_arguments_of_mixed_types_arrive_in_their_places(image: Image) -> None:
    arguments = [packed(x) for x in (200, 0.25, -3000)]
    arguments += [float32(0.5), packed(True)]
    arguments += [packed(x) for x in (-(2**40), 65535, 4000000000)]
    # 200 + 0.25 - 3000 + 0.5 + 1 - 1099511627776 + 65535 + 4000000000
    assert image.call("mixed", *arguments) == -1095511565039.25


def test_a_result_without_arguments_and_arguments_without_a_result(image: Image) -> None:
    assert image.call("answer") == 42
    assert image.call("store", packed(7)) is None
    assert not image.rows["answer"].target.unpack
    assert not image.rows["store"].target.pack


def test_set_up_and_check_are_the_users(image: Image) -> None:
    target = image.rows["act"].target
    assert not target.thunk
    assert image.call("store", packed(0)) is None
    assert image.call("act") is None
    target.setup()
    target.setup()
    assert target.check() == 21


def test_a_missing_argument_and_one_of_a_wrong_type_are_refused(image: Image) -> None:
    assert image.call("of_i32") == f"error {ERR_ARG_COUNT}"
    assert image.call("of_i32", packed("7")) == f"error {ERR_ARG_TYPE}"


def span(handle: int, length: int, offset: int = 0) -> bytes:
    return packed(struct.pack("<3I", handle, offset, length))


def test_pointers_are_to_the_bytes_of_blocks(image: Image) -> None:
    numbers = image.block(struct.pack("<4d", 100, 0.5, 0.25, 8))
    pair = image.block(struct.pack("<h6xd", -3, 1000))
    # -3 + 1000 + 0.5 + 0.25 + 8
    assert image.call("sum", span(numbers, 24, 8), span(pair, 16), packed(3)) == 1005.75


def test_what_a_function_writes_through_a_pointer_is_in_the_block(image: Image) -> None:
    block = image.block(bytes(8))
    assert image.call("fill", span(block, 5), packed(0xAB), packed(5)) is None
    assert image.arena("read", block, 0, 8) == b"\xab\xab\xab\xab\xab\0\0\0"


def test_no_bytes_are_a_null_pointer(image: Image) -> None:
    assert image.call("is_null", packed(b"")) is True
    assert image.call("is_null", span(image.block(b"x"), 0)) is False


def test_a_span_that_cuts_an_element_is_refused(image: Image) -> None:
    block = image.block(bytes(32))
    pair = span(block, 16)
    assert image.call("sum", span(block, 23), pair, packed(2)) == f"error {ERR_ARG_RANGE}"
    assert image.call("sum", span(block, 24), span(block, 17), packed(2)) == "error -5"
    assert image.call("is_null", span(block, 3)) == f"error {ERR_ARG_RANGE}"
    assert image.call("fill", span(block, 3), packed(1), packed(3)) is None


def test_a_pointer_takes_the_room_of_the_boards_pointers() -> None:
    eight = [Pointer(None, False, 8)] * 8
    fits = function("f", eight, SCALARS[3])
    assert fit(fits, {"slot_bytes": 72, "mtu": 1024, "arena": 64}) is fits
    assert fit(fits, {"slot_bytes": 71, "mtu": 1024, "arena": 64}).reason == (
        "its arguments and result take 72 bytes; the board's agent has 71, its "
        "BP_CFG_SLOT_BYTES (`slot_bytes` in [build] config of a board.toml)"
    )
    short = function("f", [Pointer(None, False, 4)] * 8, SCALARS[3])
    assert fit(short, {"slot_bytes": 40, "mtu": 1024, "arena": 64}) is short


def test_without_an_arena_a_function_of_pointers_is_out_of_reach() -> None:
    pointer = function("f", [SCALARS[0], Pointer(STRUCT, True, 4)], None)
    assert fit(pointer, {"slot_bytes": 64, "mtu": 1024, "arena": 0}).reason == (
        "it takes pointers, but the board's agent has no memory for what they point to, no "
        "BP_CFG_ARENA (`arena` in [build] config of a board.toml)"
    )
    plain = function("f", [SCALARS[0]], None)
    assert fit(plain, {"slot_bytes": 64, "mtu": 1024, "arena": 0}) is plain


def test_a_signature_counts_in_bytes_of_the_wire() -> None:
    umlauts = replace(function("f", [], None), parameters=(Parameter("ä" * 30, SCALARS[0]),))
    # "(" + 60 + ": i8) -> void" is 74 bytes and 44 characters.
    assert wire_signature(umlauts, 74) == signature(umlauts)
    assert wire_signature(umlauts, 73) == "(a: i8) -> void"
    # A name and 32 bytes beside the shorter one.
    assert fit(umlauts, {"slot_bytes": 64, "mtu": 48, "arena": 64}) is umlauts
    assert fit(umlauts, {"slot_bytes": 64, "mtu": 47, "arena": 64}).reason is not None


def test_many_arguments_need_slots_and_frames_that_hold_them() -> None:
    pointers = tuple(Parameter(f"p{i}", Pointer(None, False, 4)) for i in range(16))
    many = replace(function("f", [], None), parameters=pointers)
    assert fit(many, {"slot_bytes": 64, "mtu": 512, "arena": 64}) is many
    assert fit(many, {"slot_bytes": 63, "mtu": 512, "arena": 64}).reason == (
        "its arguments and result take 64 bytes; the board's agent has 63, its "
        "BP_CFG_SLOT_BYTES (`slot_bytes` in [build] config of a board.toml)"
    )
    assert fit(many, {"slot_bytes": 64, "mtu": 256, "arena": 64}).reason == (
        "its 16 arguments do not fit into a frame of 256 bytes, the board's BP_CFG_MTU (`mtu` in "
        "[build] config of a board.toml)"
    )


def test_a_signature_that_is_too_long_loses_names_and_then_types() -> None:
    struct = Struct("cmsis_nn_conv_params", 44, (Field("n", 0, SCALARS[0]),))
    kinds = [
        Pointer(struct, True, 4),
        Pointer(CHAR, False, 4),
        SCALARS[0],
        Pointer(FUNCTION, False, 4),
    ]
    names = ["parameters", "name", "count", "handler"]
    long = replace(
        function("f", [], None),
        parameters=tuple(Parameter(n, k) for n, k in zip(names, kinds, strict=True)),
    )
    assert wire_signature(long, 200) == signature(long)
    assert wire_signature(long, 80) == (
        "(a: const cmsis_nn_conv_params{44}*, b: char*, c: i8, d: fn*) -> void"
    )
    assert wire_signature(long, 60) == "(a: void*, b: void*, c: i8, d: fn*) -> void"
    assert wire_signature(long, 20) is None


def test_names_of_the_agents_types_and_of_built_ins_are_no_trouble(image: Image) -> None:
    assert image.call("t") == 1
    assert image.call("abs", packed(-3)) == 3


def test_the_table_tells_board_signatures_and_collectors(image: Image) -> None:
    assert image.text(image.table.board) == "native"
    signatures = {name: image.text(row.signature) for name, row in image.rows.items()}
    assert signatures["of_u8"] == "(x: u8) -> u8"
    assert signatures["of_enum"] == "(x: i32) -> i32"
    assert signatures["act"] == "() -> void"
    assert signatures["sum"] == "(x: const f64*, p: const pair{16}*, n: u8) -> f64"
    assert signatures["fill"] == "(to: void*, value: u8, n: u32) -> void"
    assert signatures["mixed"] == (
        "(a: u8, b: f64, c: i16, d: f32, e: bool, f: i64, g: u16, h: u32) -> f64"
    )
    assert image.table.collector_count == len(board_spec("native").build.collectors)


def test_the_table_has_the_builds_id(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text("void f(void) {}")
    firmware = build(board_spec("native"), [tmp_path])
    assert bytes(Image(firmware).table.build_id) == firmware.build_id
    assert len(firmware.build_id) == 8
