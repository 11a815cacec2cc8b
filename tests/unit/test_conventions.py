# SPDX-License-Identifier: Apache-2.0
"""Functions that an attribute or a flag gives another calling convention."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest

from boardprof.base.errors import BuildError, UsageError
from boardprof.target.build.build_options import BuildOptions, user_flags
from boardprof.target.build.versions import VersionBuilder
from boardprof.target.descriptions.board import board_spec
from boardprof.target.elf.functions import functions
from tests.support import requires_tool
from tests.unit.building import build
from tests.unit.objects import reason

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("shared_cache")]

PLACES = ": it takes its arguments in other places than the agent puts them"
MS_ABI = "its calling convention is ms_abi" + PLACES

only_on_x86 = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="ms_abi is an attribute of x86-64"
)


def reasons(
    folder: Path, text: str, board: str = "native", name: str = "code.c", cflags: str = ""
) -> dict[str, str | None]:
    (folder / name).write_text(text, encoding="ascii")
    spec = board_spec(board)
    requires_tool(spec.build.cc, spec.build.package)
    made = build(spec, [folder / name], cflags=cflags)
    return {fn.name: fn.reason for fn in made.functions}


@only_on_x86
@pytest.mark.parametrize(
    "text",
    [
        "__attribute__((ms_abi)) int f(int a) { return a; }",
        "__attribute__((__ms_abi__)) double f(double a, int b) { return a + b; }",
        "#define EFIAPI __attribute__((ms_abi))\nlong EFIAPI f(long a) { return a; }",
        "struct p { int x, y; };\n__attribute__((ms_abi)) struct p f(struct p a) { return a; }",
        '#include "inner.h"\nCALL int f(int a) { return a; }',
    ],
)
def test_only_a_function_of_the_other_convention_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "inner.h").write_text("#define CALL __attribute__((ms_abi))\n")
    found = reasons(tmp_path, f"{text}\nint usual(int a) {{ return a; }}\n")
    assert found == {"f": MS_ABI, "usual": None}


@only_on_x86
@pytest.mark.parametrize(
    ("attribute", "why"),
    [
        ("ms_abi", "its calling convention is ms_abi, which the agent does not use"),
        ("preserve_most", None),
        ("sysv_abi", None),
    ],
)
def test_clang_writes_the_convention_into_an_object(
    tmp_path: Path, attribute: str, why: str | None
) -> None:
    text = f"__attribute__(({attribute})) int f(int a) {{ return a; }}"
    assert reason(tmp_path, text, ["clang"]) == why


@only_on_x86
def test_a_convention_in_a_flag_or_in_a_namespace_is_found(tmp_path: Path) -> None:
    text = "namespace k { CONV int f(int a) { return a; } int usual(int a) { return a; } }\n"
    flag = "'-DCONV=__attribute__((ms_abi))' -O0"
    assert reasons(tmp_path, text, name="code.cc", cflags=flag) == {
        "k::f": MS_ABI,
        "k::usual": None,
    }


@only_on_x86
def test_the_wrapper_of_a_refused_function_is_called_and_right(tmp_path: Path) -> None:
    text = "__attribute__((ms_abi)) long f(long a, long b) { return 10 * a + b; }\n"
    (tmp_path / "code.c").write_text(text)
    [fn] = build(board_spec("native"), [tmp_path / "code.c"]).functions
    assert fn.wrapper == (
        "#include <stdint.h>\nint64_t f_wrapper(int64_t a, int64_t b) { return f(a, b); }"
    )
    (tmp_path / "code.c").write_text(text + fn.wrapper)
    with build(board_spec("native"), [tmp_path / "code.c"]).open() as board:
        assert board.functions.f_wrapper(1, 2) == 12


@only_on_x86
def test_a_version_that_is_tuned_is_refused_too(tmp_path: Path) -> None:
    (tmp_path / "code.c").write_text("__attribute__((ms_abi)) int f(int a) { return a; }\n")
    builder = VersionBuilder(board_spec("native"), "f", BuildOptions())
    with pytest.raises(BuildError) as refused:
        builder.compile([tmp_path / "code.c"], BuildOptions())
    assert str(refused.value) == f"f cannot be called: {MS_ABI}."


def test_a_word_in_a_comment_refuses_nothing(tmp_path: Path) -> None:
    text = "/* no ms_abi, regparm or interrupt here */\nint f(int a) { return a; }\n"
    assert reasons(tmp_path, text) == {"f": None}


@pytest.mark.parametrize(
    ("board", "why"),
    [
        ("qemu-cortex-m4", f'its calling convention is pcs("aapcs"){PLACES}'),
        ("qemu-cortex-m3", None),
    ],
)
def test_floats_in_integer_registers_are_refused_where_the_board_has_others(
    tmp_path: Path, board: str, why: str | None
) -> None:
    soft = '__attribute__((pcs("aapcs")))'
    text = (
        f"{soft} float f(float a) {{ return a; }}\n{soft} int of_integers(int a) {{ return a; }}\n"
    )
    assert reasons(tmp_path, text, board) == {"f": why, "of_integers": None}


def test_an_interrupt_handler_is_refused_where_it_does_not_return_as_others(tmp_path: Path) -> None:
    text = "__attribute__((interrupt)) void isr(void) {}\nvoid f(void) {}\n"
    assert reasons(tmp_path, text, "qemu-rv32") == {
        "f": None,
        "isr": "it ends with mret: it is an interrupt handler",
    }
    command = [
        requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf"),
        "-march=rv32imac",
    ]
    command += ["-mabi=ilp32", "-g", "-c", "-o", "made.o", "made.c"]
    handler = text.replace("interrupt", 'interrupt("supervisor")')
    (tmp_path / "made.c").write_text(handler)
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    found = {each.name: each.reason for each in functions([tmp_path / "made.o"])}
    assert found == {"f": None, "isr": "it ends with sret: it is an interrupt handler"}


@pytest.mark.parametrize("flag", ["-mabi=ms", "-fpcc-struct-return", "-fcall-used-rbx"])
def test_a_flag_that_changes_all_calls_is_refused(flag: str) -> None:
    with pytest.raises(UsageError) as refused:
        user_flags(BuildOptions(cflags=f"-Wall {flag}"))
    assert str(refused.value) == (
        f"{flag} changes how functions are called; the agent calls them as without it.\n"
        "Try: leave it out"
    )
