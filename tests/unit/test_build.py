# SPDX-License-Identifier: Apache-2.0
"""Firmware is built by real compilers, and their errors are shown as they are."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from boardprof.base.errors import BuildError, MissingToolError, UnknownNameError, UsageError
from boardprof.target.descriptions.board import BoardSpec, board_spec
from boardprof.target.toolchain.tools import ToolFailure
from tests.support import requires_compiler
from tests.unit.building import FIR, build, changed, folder_of, shown, sizes

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("shared_cache")]


@pytest.fixture
def native() -> BoardSpec:
    return board_spec("native")


# Sources


def test_a_folder_stands_for_its_c_files(tmp_path: Path, native: BoardSpec) -> None:
    files = {"a.c": "void a(void) {}", "b.c": "void b(void) {}", "x.h": "", "n.txt": ""}
    folder_of(tmp_path, files)
    assert shown(build(native, [tmp_path])) == {"a": "() -> void", "b": "() -> void"}


def test_a_file_named_twice_is_taken_once(tmp_path: Path, native: BoardSpec) -> None:
    folder_of(tmp_path, {"fir.c": FIR})
    assert shown(build(native, [tmp_path / "fir.c", tmp_path])) == {"fir": "(n: i32) -> i32"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere.c", "The file or folder {} does not exist."),
        ("empty", "The folder {} has no C, C++ or assembler files."),
        ("code.py", "{} is neither a source nor an object."),
    ],
)
def test_a_source_that_is_none_is_named(
    tmp_path: Path, native: BoardSpec, name: str, message: str
) -> None:
    folder_of(tmp_path, {"empty/notes.txt": "", "code.py": ""})
    with pytest.raises(UsageError) as caught:
        build(native, [tmp_path / name])
    assert message.format(tmp_path / name) in str(caught.value)


def test_a_file_with_almost_the_name_is_proposed(tmp_path: Path, native: BoardSpec) -> None:
    folder_of(tmp_path, {"hash.c": "", "fir.c": FIR})
    with pytest.raises(UsageError) as caught:
        build(native, [tmp_path / "hahs.c"])
    assert caught.value.hint == f"{tmp_path / 'hash.c'} exists"


def test_a_source_sees_headers_of_its_own_folder_first_and_the_agents_last(
    tmp_path: Path, native: BoardSpec
) -> None:
    text = '#include "a.h"\nint a(T n) { return n; }'
    folder_of(tmp_path / "own", {"a.c": text, "a.h": "typedef int T;"})
    assert shown(build(native, [tmp_path / "own"])) == {"a": "(n: i32) -> i32"}
    text = '#include "boardprof/bp.h"\nint slots(void) { return BP_CFG_SLOT_BYTES; }'
    folder_of(tmp_path / "agent", {"a.c": text})
    assert shown(build(native, [tmp_path / "agent"])) == {"slots": "() -> i32"}
    folder_of(tmp_path / "hide", {"h.c": text, "boardprof/bp.h": "#define BP_CFG_SLOT_BYTES 1\n"})
    assert shown(build(native, [tmp_path / "hide"])) == {"slots": "() -> i32"}


def test_programs_with_a_main_each_may_be_built_together(tmp_path: Path, native: BoardSpec) -> None:
    text = "int {}(void) {{ return 1; }} int main(void) {{ return {}(); }}"
    folder_of(tmp_path, {"a.c": text.format("a", "a"), "b.c": text.format("b", "b")})
    assert shown(build(native, [tmp_path])) == {"a": "() -> i32", "b": "() -> i32"}


def test_defines_and_optimization_reach_the_users_files(tmp_path: Path, native: BoardSpec) -> None:
    text = "#if !defined __OPTIMIZE_SIZE__ || N != 4\n#error wrong\n#endif\nvoid f(M) {}"
    folder_of(tmp_path, {"f.c": text})
    made = build(native, [tmp_path], optimize="-Os", defines=["N=4", "M=short n, char c"])
    assert shown(made) == {"f": "(n: i16, c: i8) -> void"}


@pytest.mark.parametrize("define", ["-DN", "N 4", "", "4=N"])
def test_a_define_that_is_none_is_refused(native: BoardSpec, define: str) -> None:
    with pytest.raises(UsageError, match="is not a macro"):
        build(native, defines=[define])


def test_without_a_libc_the_compiler_still_knows_memcpy(tmp_path: Path) -> None:
    text = """\
    void *memcpy(void *to, const void *from, __SIZE_TYPE__ length);
    int bits(float x) { int n; memcpy(&n, &x, 4); return n; }
    """
    folder_of(tmp_path, {"bits.c": text})
    requires_compiler(board_spec("qemu-rv32").build.cc)
    firmware = build(board_spec("qemu-rv32"), [tmp_path])
    assert sizes(firmware)["bits"] <= 4  # bytes: a move and a return, no call and no frame


# Errors


def test_a_compilers_error_is_shown_unchanged_and_its_command_to_who_asks(
    tmp_path: Path, native: BoardSpec
) -> None:
    folder_of(tmp_path, {"bad.c": "int f(void) { return nowhere; }\n"})
    told: list[str] = []
    with pytest.raises(BuildError) as caught:
        build(native, [tmp_path], verbose=told.append)
    head, _, text = str(caught.value).partition("\n")
    [command] = [each for each in told if " -c bad.c" in each]
    assert isinstance(caught.value, ToolFailure)
    assert caught.value.command == command
    assert head == f"{tmp_path}/bad.c does not compile:"
    assert re.search(r"bad\.c:1:22: error: .nowhere. undeclared", text)
    command = re.sub(r"\S*/(depfile|bad\.o)", rf"{tmp_path}/\1", command)
    again = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    assert again.stderr.rstrip() == text


def test_of_several_errors_the_first_file_s_is_shown(tmp_path: Path, native: BoardSpec) -> None:
    folder_of(tmp_path, {"a.c": "#error first\n", "b.c": "#error second\n"})
    with pytest.raises(BuildError, match="first"):
        build(native, [tmp_path])


def test_a_function_that_is_nowhere_is_named_with_its_user(
    tmp_path: Path, native: BoardSpec
) -> None:
    folder_of(tmp_path, {"f.c": "int nowhere(void); int f(void) { return nowhere(); }"})
    with pytest.raises(BuildError) as caught:
        build(native, [tmp_path])
    first, *_ = str(caught.value).splitlines()
    assert first == "f needs nowhere (f.c:1), which is not defined."


def test_a_function_in_two_files_is_said_in_plain_words(tmp_path: Path, native: BoardSpec) -> None:
    folder_of(tmp_path, {"a.c": FIR, "b.c": FIR})
    with pytest.raises(BuildError, match=r"fir is defined twice: in a\.c and in b\.c\."):
        build(native, [tmp_path])


def test_a_missing_compiler_is_named_with_its_package(native: BoardSpec) -> None:
    with pytest.raises(MissingToolError) as caught:
        build(changed(native, cc="no-such-gcc", package="gcc-no-such"))
    assert caught.value.tool == "no-such-gcc"
    assert "sudo apt-get install gcc-no-such" in str(caught.value)


def test_an_unknown_collector_or_architecture_is_answered_with_what_there_is(
    native: BoardSpec,
) -> None:
    with pytest.raises(UnknownNameError, match="no collector 'tick'; did you mean 'ticks'"):
        build(changed(native, collectors=("tick",)))
    with pytest.raises(UnknownNameError, match="no architecture 'riscy'; did you mean 'riscv'"):
        build(changed(native, arch="riscy"))


def test_a_cache_that_cannot_be_written_is_said_so(
    tmp_path: Path, native: BoardSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_of(tmp_path, {"file": ""})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(UsageError, match="set XDG_CACHE_HOME to a folder that can be written"):
        build(native)


def test_functions_are_found_with_link_time_optimization(tmp_path: Path, native: BoardSpec) -> None:
    folder_of(tmp_path, {"fir.c": FIR})
    assert shown(build(native, [tmp_path], optimize="-O2 -flto")) == {"fir": "(n: i32) -> i32"}


# What does not fit the board's agent


def test_a_function_with_more_than_the_agent_can_call_is_listed_with_the_reason(
    tmp_path: Path, native: BoardSpec
) -> None:
    many = ", ".join(f"char a{i}" for i in range(33))
    eight = ", ".join(f"double a{i}" for i in range(8))
    gaps = ", ".join(f"char c{i}, double d{i}" for i in range(4))
    text = f"""\
    void few(int n) {{}}
    void many({many}) {{}}
    double eight({eight}) {{ return 0; }}
    void gaps({gaps}) {{}}
    char more({gaps}) {{ return 0; }}
    """
    folder_of(tmp_path, {"f.c": text})
    tight = changed(native, config={**native.build.config, "slot_bytes": 64})
    assert shown(build(tight, [tmp_path])) == {
        "few": "(n: i32) -> void",
        "many": "it has 33 parameters; a call takes at most 32",
        "eight": "its arguments and result take 72 bytes; the board's agent has 64, its "
        "BP_CFG_SLOT_BYTES (`slot_bytes` in [build] config of a board.toml)",
        "gaps": "(c0: i8, d0: f64, c1: i8, d1: f64, c2: i8, d2: f64, c3: i8, d3: f64) -> void",
        "more": "its arguments and result take 72 bytes; the board's agent has 64, its "
        "BP_CFG_SLOT_BYTES (`slot_bytes` in [build] config of a board.toml)",
    }
    assert native.build.config["slot_bytes"] == 160
    assert shown(build(native, [tmp_path]))["eight"].endswith("a7: f64) -> f64")


def test_a_signature_longer_than_a_frame_is_a_reason(tmp_path: Path, native: BoardSpec) -> None:
    folder_of(tmp_path, {"f.c": f"void f(int {'n' * 40}) {{}}"})
    many = ", ".join("int" for _ in range(5))
    folder_of(tmp_path, {"f.c": f"void f(int {'n' * 40}) {{}} void g({many}) {{}}"})
    small = changed(native, config={"mtu": 64})
    built = build(small, [tmp_path])
    assert shown(built)["g"] == (
        "its signature is too long for the board's frames, its BP_CFG_MTU (`mtu` in [build] "
        "config of a board.toml)"
    )
    with built.open() as board:
        assert [fn.signature for fn in board.dictionary.user_functions] == ["(a: i32) -> void"]
        assert board.functions.f.signature.text == f"({'n' * 40}: i32) -> void"
    assert shown(build(native, [tmp_path]))["f"] == f"({'n' * 40}: i32) -> void"
