# SPDX-License-Identifier: Apache-2.0
"""Firmware is built by real compilers; what was built once is not built again."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from boardprof.boards import BoardSpec, board_spec, find_boards
from boardprof.build import Firmware, build
from boardprof.compile_unit import parse_depfile
from boardprof.elf import signature
from boardprof.errors import BuildError, MissingToolError, UnknownNameError, UsageError

FIR = "int fir(int n) { return 3 * n; }\n"
LONG_AGO_S = 1_000_000_000


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all tests, so that the agent is compiled once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _use_shared_cache(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared_cache))


@pytest.fixture
def native() -> BoardSpec:
    return board_spec("native")


def folder_of(folder: Path, files: Mapping[str, str]) -> Path:
    """Write files as if long ago: what is as new as the build itself is not remembered."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (LONG_AGO_S, LONG_AGO_S))
    return folder


def runs(firmware: Firmware, source: str | None = None) -> int:
    """Return how often a compiler was run, for one source or at all."""
    return sum(source is None or source in command for command in firmware.commands)


def shown(firmware: Firmware) -> dict[str, str]:
    return {fn.name: fn.reason or signature(fn) for fn in firmware.functions}


def sizes(firmware: Firmware) -> dict[str, int]:
    """Return the image's symbols with their sizes in bytes."""
    with firmware.image.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        return {symbol.name: symbol["st_size"] for symbol in table.iter_symbols()}


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
        ("nowhere.c", "There is no file or folder {}."),
        ("empty", "The folder {} has no .c files."),
        ("code.cpp", "{} is not a C source: its name must end in .c."),
    ],
)
def test_a_source_that_is_none_is_named(
    tmp_path: Path, native: BoardSpec, name: str, message: str
) -> None:
    folder_of(tmp_path, {"empty/notes.txt": "", "code.cpp": ""})
    with pytest.raises(UsageError) as caught:
        build(native, [tmp_path / name])
    assert message.format(tmp_path / name) in str(caught.value)


def test_a_source_sees_headers_of_its_own_folder_and_none_of_the_agents(
    tmp_path: Path, native: BoardSpec
) -> None:
    text = '#include "a.h"\nint a(T n) { return n; }'
    folder_of(tmp_path / "own", {"a.c": text, "a.h": "typedef int T;"})
    assert shown(build(native, [tmp_path / "own"])) == {"a": "(n: i32) -> i32"}
    folder_of(tmp_path / "agent", {"a.c": '#include "boardprof/bp.h"\n'})
    with pytest.raises(BuildError, match=r"boardprof/bp\.h: No such file or directory"):
        build(native, [tmp_path / "agent"])


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
    with pytest.raises(UsageError, match="is not a macro: write NAME or NAME=VALUE"):
        build(native, defines=[define])


@pytest.mark.parametrize("name", sorted(find_boards()))
def test_every_board_in_the_tree_is_built(tmp_path: Path, name: str) -> None:
    text = """\
    #include <stdint.h>
    uint32_t sum;
    uint32_t add(uint16_t n, float gain) { return sum += (uint32_t)(n * gain); }
    void add_setup(void) { sum = 0; }
    """
    folder_of(tmp_path, {"add.c": text})
    firmware = build(board_spec(name), [tmp_path])
    assert shown(firmware) == {"add": "(n: u16, gain: f32) -> u32"}
    assert firmware.functions[0].setup == "add_setup"
    assert {"add", "bp_firmware", "bp_poll"} <= sizes(firmware).keys()


def test_without_a_libc_the_compiler_still_knows_memcpy(tmp_path: Path) -> None:
    text = """\
    void *memcpy(void *to, const void *from, __SIZE_TYPE__ length);
    int bits(float x) { int n; memcpy(&n, &x, 4); return n; }
    """
    folder_of(tmp_path, {"bits.c": text})
    firmware = build(board_spec("qemu-rv32"), [tmp_path])
    assert sizes(firmware)["bits"] <= 4  # bytes: a move and a return, no call and no frame


# Errors


def test_a_compilers_error_is_shown_unchanged_with_its_command(
    tmp_path: Path, native: BoardSpec
) -> None:
    folder_of(tmp_path, {"bad.c": "int f(void) { return nowhere; }\n"})
    with pytest.raises(BuildError) as caught:
        build(native, [tmp_path])
    head, _, rest = str(caught.value).partition("\n")
    text, _, command = rest.partition("\nThe command was:\n")
    assert head == f"{tmp_path}/bad.c does not compile:"
    assert re.search(r"bad\.c:1:22: error: .nowhere. undeclared", text)
    command = re.sub(r"\S*/(depfile|bad\.o)", rf"{tmp_path}/\1", command)
    again = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    assert again.stderr.rstrip() == text


def test_of_several_errors_the_first_file_s_is_shown(tmp_path: Path, native: BoardSpec) -> None:
    folder_of(tmp_path, {"a.c": "#error first\n", "b.c": "#error second\n"})
    with pytest.raises(BuildError, match="first"):
        build(native, [tmp_path])


def test_a_function_that_is_nowhere_is_a_linkers_error(tmp_path: Path, native: BoardSpec) -> None:
    folder_of(tmp_path, {"f.c": "int nowhere(void); int f(void) { return nowhere(); }"})
    with pytest.raises(BuildError) as caught:
        build(native, [tmp_path])
    assert "native.so does not link:\n" in str(caught.value)
    assert "undefined reference to `nowhere'" in str(caught.value)


def test_a_function_in_two_files_is_said_in_plain_words(tmp_path: Path, native: BoardSpec) -> None:
    folder_of(tmp_path, {"a.c": FIR, "b.c": FIR})
    with pytest.raises(BuildError, match=r"fir is defined twice: in a\.c and in b\.c\."):
        build(native, [tmp_path])


def changed(spec: BoardSpec, **build_keys: object) -> BoardSpec:
    return dataclasses.replace(spec, build=dataclasses.replace(spec.build, **build_keys))  # type: ignore[arg-type]


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


# What does not fit the board's agent


def test_a_function_with_more_than_the_agent_can_call_is_listed_with_the_reason(
    tmp_path: Path, native: BoardSpec
) -> None:
    nine = ", ".join(f"char a{i}" for i in range(9))
    eight = ", ".join(f"double a{i}" for i in range(8))
    text = f"void few(int n) {{}} void nine({nine}) {{}} double eight({eight}) {{ return 0; }}"
    folder_of(tmp_path, {"f.c": text})
    assert shown(build(native, [tmp_path])) == {
        "few": "(n: i32) -> void",
        "nine": "it has 9 parameters, a measured call carries 8 at most",
        "eight": "its arguments and result take 72 bytes, the board's agent has 64 "
        "(option slot_bytes)",
    }
    roomy = changed(native, config={**native.build.config, "slot_bytes": 72})
    assert shown(build(roomy, [tmp_path]))["eight"].endswith("a7: f64) -> f64")


def test_a_signature_longer_than_a_frame_is_a_reason(tmp_path: Path, native: BoardSpec) -> None:
    folder_of(tmp_path, {"f.c": f"void f(int {'n' * 40}) {{}}"})
    small = changed(native, config={"mtu": 64})
    assert shown(build(small, [tmp_path])) == {
        "f": "its signature is too long for the board's frames (option mtu)"
    }
    assert shown(build(native, [tmp_path])) == {"f": f"({'n' * 40}: i32) -> void"}


# The cache


def test_a_second_build_runs_no_compiler(
    tmp_path: Path, native: BoardSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder_of(tmp_path / "src", {"fir.c": FIR})
    told: list[str] = []
    first = build(native, [tmp_path / "src"], verbose=told.append)
    assert runs(first, "fir.c") == 1
    assert runs(first) == len(told) - 1  # --version was asked, too
    again: list[str] = []
    second = build(native, [tmp_path / "src"], verbose=again.append)
    assert second.commands == ()
    assert again == []
    assert (second.image, second.build_id, second.functions) == (
        first.image,
        first.build_id,
        first.functions,
    )


def test_a_changed_source_compiles_itself_and_the_table_alone(
    tmp_path: Path, native: BoardSpec
) -> None:
    folder_of(tmp_path, {"fir.c": FIR, "iir.c": "int iir(int n) { return n; }"})
    before = build(native, [tmp_path])
    folder_of(tmp_path, {"fir.c": FIR.replace("3", "4")})
    after = build(native, [tmp_path])
    assert runs(after, "fir.c") == 1
    assert runs(after, "bp_table.c") == 1
    assert runs(after) == 3  # and the link
    assert after.build_id != before.build_id
    assert after.image != before.image


def test_a_changed_header_is_noticed_and_the_old_one_remembered(
    tmp_path: Path, native: BoardSpec
) -> None:
    text = '#include "inc/size.h"\nint f(T n) { return n; }\n'
    folder_of(tmp_path, {"f.c": text, "inc/size.h": "typedef int T;\n"})
    before = build(native, [tmp_path])
    folder_of(tmp_path, {"inc/size.h": "typedef short T;\n"})
    after = build(native, [tmp_path])
    assert shown(before) == {"f": "(n: i32) -> i32"}
    assert shown(after) == {"f": "(n: i16) -> i32"}
    folder_of(tmp_path, {"inc/size.h": "typedef int T;\n"})
    back = build(native, [tmp_path])
    assert back.commands == ()
    assert back.image == before.image


def test_a_header_of_the_same_place_in_another_project_is_not_mistaken(
    tmp_path: Path, native: BoardSpec
) -> None:
    text = '#include "../common/size.h"\nint f(T n) { return n; }\n'
    folder_of(tmp_path / "one", {"src/f.c": text, "common/size.h": "typedef int T;\n"})
    folder_of(tmp_path / "two", {"src/f.c": text, "common/size.h": "typedef short T;\n"})
    assert shown(build(native, [tmp_path / "one" / "src"])) == {"f": "(n: i32) -> i32"}
    assert shown(build(native, [tmp_path / "two" / "src"])) == {"f": "(n: i16) -> i32"}


def test_a_new_header_that_hides_a_systems_is_noticed(tmp_path: Path, native: BoardSpec) -> None:
    text = '#include "stdint.h"\nint f(int32_t n) { return 0; }\n'
    folder_of(tmp_path, {"f.c": text})
    assert shown(build(native, [tmp_path])) == {"f": "(n: i32) -> i32"}
    folder_of(tmp_path, {"stdint.h": "typedef short int32_t;\n"})
    assert shown(build(native, [tmp_path])) == {"f": "(n: i16) -> i32"}


def test_a_file_that_is_read_past_the_compilers_own_list_is_noticed(
    tmp_path: Path, native: BoardSpec
) -> None:
    text = """\
    __asm__(".section .rodata\\n.globl data\\ndata: .incbin \\"data.bin\\"\\n.text");
    extern const char data[];
    int f(void) { return data[0]; }
    """
    folder_of(tmp_path, {"f.c": text, "data.bin": "1"})
    before = build(native, [tmp_path])
    folder_of(tmp_path, {"data.bin": "2"})
    after = build(native, [tmp_path])
    assert after.build_id != before.build_id
    assert after.image.read_bytes() != before.image.read_bytes()


def test_a_header_that_is_asked_for_and_comes_later_is_noticed(
    tmp_path: Path, native: BoardSpec
) -> None:
    text = """\
    #if __has_include("fast.h")
    int f(short n) { return n; }
    #else
    int f(int n) { return n; }
    #endif
    """
    folder_of(tmp_path, {"f.c": text})
    assert shown(build(native, [tmp_path])) == {"f": "(n: i32) -> i32"}
    folder_of(tmp_path, {"fast.h": ""})
    assert shown(build(native, [tmp_path])) == {"f": "(n: i16) -> i32"}


def test_a_damaged_object_is_made_again(
    tmp_path: Path, native: BoardSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    folder_of(tmp_path / "src", {"fir.c": FIR})
    build(native, [tmp_path / "src"])
    [damaged] = cache.glob("boardprof/objects/*/fir.o")
    damaged.write_bytes(b"")
    [record] = cache.glob("boardprof/images/*/native.so")
    record.unlink()
    again = build(native, [tmp_path / "src"])
    assert runs(again, "fir.c") == 1
    assert runs(again) == 2  # and the link


def test_other_flags_make_another_image(tmp_path: Path, native: BoardSpec) -> None:
    folder_of(tmp_path, {"fir.c": FIR})
    made = [
        build(native, [tmp_path]),
        build(native, [tmp_path], optimize="-O0"),
        build(native, [tmp_path], defines=["N"]),
        build(changed(native, config={**native.build.config, "handles": 9}), [tmp_path]),
    ]
    assert len({firmware.build_id for firmware in made}) == 4
    assert len({firmware.image for firmware in made}) == 4


def test_the_same_sources_in_another_folder_make_the_same_bytes(
    tmp_path: Path, native: BoardSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "f.c": '#include "inc/x.h"\nconst char *where = __FILE__; int f(T n) { return n; }',
        "g.c": '#include "inc/x.h"\nconst char *when = __DATE__ __TIME__; int g(T n) { return n; }',
        "inc/x.h": "typedef int T;",
    }
    made = []
    for name in ("one", "another/place"):
        folder = folder_of(tmp_path / name, files)
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        made.append(build(native, [folder]))
    assert made[0].build_id == made[1].build_id
    assert made[0].image.read_bytes() == made[1].image.read_bytes()
    assert str(tmp_path).encode() not in made[0].image.read_bytes()


BUILD_IN_A_CHILD = """
import sys
from pathlib import Path
from boardprof.boards import board_spec
from boardprof.build import build
print(build(board_spec("native"), [Path(sys.argv[1])]).image)
"""


def test_builds_at_the_same_time_share_an_empty_cache_unharmed(
    tmp_path: Path, native: BoardSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder_of(tmp_path / "src", {"fir.c": FIR})
    command = [sys.executable, "-c", BUILD_IN_A_CHILD, str(tmp_path / "src")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    children = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE) for _ in range(3)]
    printed = {child.communicate(timeout=120)[0].decode().strip() for child in children}
    assert [child.returncode for child in children] == [0, 0, 0]
    after = build(native, [tmp_path / "src"])
    assert printed == {str(after.image)}
    assert after.commands == ()
    assert list((tmp_path / "cache" / "boardprof" / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("x.o: a.c b.h\n", ["a.c", "b.h"]),
        ("x.o: a.c \\\n /usr/include/b.h \\\n c.h\n", ["a.c", "/usr/include/b.h", "c.h"]),
        (r"x.o: my\ code.c cash$$.h no\#1.h", ["my code.c", "cash$.h", "no#1.h"]),
    ],
)
def test_depfiles_are_read_as_make_reads_them(text: str, files: list[str]) -> None:
    assert parse_depfile(text) == files


def test_functions_are_found_with_link_time_optimization(tmp_path: Path, native: BoardSpec) -> None:
    folder_of(tmp_path, {"fir.c": FIR})
    assert shown(build(native, [tmp_path], optimize="-O2 -flto")) == {"fir": "(n: i32) -> i32"}


def test_names_with_spaces_and_signs_are_built_and_remembered(
    tmp_path: Path, native: BoardSpec
) -> None:
    text = '#include "my head$er #1.h"\nint f(T n) { return n; }\n'
    folder = folder_of(tmp_path / "a b=c", {"my fir.c": text, "my head$er #1.h": "typedef int T;"})
    build(native, [folder])
    assert build(native, [folder]).commands == ()
    folder_of(folder, {"my head$er #1.h": "typedef short T;"})
    assert shown(build(native, [folder])) == {"f": "(n: i16) -> i32"}
