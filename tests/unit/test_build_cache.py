# SPDX-License-Identifier: Apache-2.0
"""What was built once is not built again, and what is another thing is never mistaken for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from boardprof.base import files as resources
from boardprof.target.descriptions.board import BoardSpec, board_spec
from boardprof.target.toolchain.tools import parse_depfile
from tests.unit.building import FIR, build, changed, folder_of, runs, shown

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("shared_cache")]

BUILD_IN_A_CHILD = """
import sys
from pathlib import Path
from boardprof.target.descriptions.board import board_spec
from boardprof.target.build.builder import build
firmware = build(board_spec("native"), [Path(sys.argv[1])])
print(firmware.build_id.hex())
print(firmware.image)
"""


@pytest.fixture
def native() -> BoardSpec:
    return board_spec("native")


def test_all_that_a_build_takes_from_the_cache_is_used_by_it(
    tmp_path: Path, native: BoardSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is used is not forgotten when the cache is full."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder_of(tmp_path / "src", {"fir.c": FIR})
    build(native, [tmp_path / "src"])
    kept = [
        file
        for part in ("units", "objects")
        for file in (tmp_path / "cache" / "boardprof" / part).rglob("*")
        if file.is_file()
    ]
    assert len(kept) > 20
    for file in kept:
        os.utime(file, (0, 0))
    assert build(native, [tmp_path / "src"]).commands == ()
    assert [file for file in kept if file.stat().st_mtime == 0] == []


def test_a_second_build_runs_no_compiler(tmp_path: Path, native: BoardSpec) -> None:
    folder_of(tmp_path / "src", {"fir.c": FIR.replace("3", "5")})
    told: list[str] = []
    first = build(native, [tmp_path / "src"], verbose=told.append)
    assert runs(first, "fir.c") == 1
    assert runs(first) == len(told)
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


def test_a_header_whose_name_is_no_utf8_is_read_and_remembered(
    tmp_path: Path, native: BoardSpec
) -> None:
    folder_of(tmp_path, {"h\udcff.h": "typedef int T;\n"})
    (tmp_path / "f.c").write_bytes(b'#include "h\xff.h"\nint f(T n) { return n; }\n')
    os.utime(tmp_path / "f.c", (1_000_000_000, 1_000_000_000))
    first = build(native, [tmp_path])
    assert shown(first) == {"f": "(n: i32) -> i32"}
    assert first.sources == (tmp_path / "f.c", tmp_path / "h\udcff.h")
    assert build(native, [tmp_path]).commands == ()
    folder_of(tmp_path, {"h\udcff.h": "typedef short T;\n"})
    assert shown(build(native, [tmp_path])) == {"f": "(n: i16) -> i32"}


def test_headers_of_a_compiler_in_the_users_folder_are_not_the_users(
    tmp_path: Path, native: BoardSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is given by its path, and lies below no folder that is named, is."""
    program = tmp_path / "tools" / "bin" / native.build.cc
    text = "#include <stddef.h>\n#include <tool.h>\nint f(T n) { return n; }\n"
    own = tmp_path.resolve() / "made" / "own.h"
    files = {"src/f.c": text, "tools/include/tool.h": "typedef int T;\n", "made/own.h": ""}
    folder_of(tmp_path, {**files, f"tools/bin/{native.build.cc}": ""})
    call = f'{shutil.which(native.build.cc)} -isystem "{tmp_path}/tools/include"'
    program.write_text(f'#!/bin/sh\nexec {call} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    for _ in range(2):  # the second time from the cache
        made = build(native, [tmp_path / "src"], cflags=f"-include {own}")
        assert set(made.sources) >= {tmp_path / "src" / "f.c", own}
        assert [path.name for path in made.sources if path.name == "tool.h"] == []


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
    tmp_path: Path, native: BoardSpec, cache_of_agents: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Path(shutil.copytree(cache_of_agents, tmp_path / "cache"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    folder_of(tmp_path / "src", {"damaged.c": FIR})
    build(native, [tmp_path / "src"])
    [damaged] = cache.glob("boardprof/objects/*/damaged.o")
    damaged.write_bytes(b"")
    for image in cache.glob("boardprof/images/*/native.so"):
        image.unlink()
    again = build(native, [tmp_path / "src"])
    assert runs(again, "damaged.c") == 1
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
    tmp_path: Path, native: BoardSpec, cache_of_agents: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "f.c": '#include "inc/x.h"\nconst char *where = __FILE__; int f(T n) { return n; }',
        "g.c": '#include "inc/x.h"\nconst char *when = __DATE__ __TIME__; int g(T n) { return n; }',
        "inc/x.h": "typedef int T;",
    }
    made = []
    for name in ("one", "another/place"):
        folder = folder_of(tmp_path / name, files)
        cache = shutil.copytree(cache_of_agents, folder / "cache")
        monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
        made.append(build(native, [folder]))
        assert runs(made[-1], "f.c") == 1
    assert made[0].build_id == made[1].build_id
    assert made[0].image.read_bytes() == made[1].image.read_bytes()
    assert str(tmp_path).encode() not in made[0].image.read_bytes()


def installed(site: Path) -> Path:
    """Lay the package out as a wheel does, with boards and agent inside; return its data."""
    ignore = shutil.ignore_patterns("__pycache__")
    package = Path(resources.__file__).parents[1]
    data = site / "boardprof" / "data"
    shutil.copytree(package, site / "boardprof", ignore=ignore)
    shutil.copytree(resources.boards_dir(), data / "boards", ignore=ignore)
    shutil.copytree(resources.runtime_dir(), data / "device_runtime_c", ignore=ignore)
    return data


def built_by(site: Path | None, source: Path, cache: Path) -> tuple[str, bytes]:
    """Build in a process of its own, as installed or from here; return build id and image."""
    paths = [*([str(site)] if site is not None else []), *sys.path]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "XDG_CACHE_HOME": str(cache)}
    command = [sys.executable, "-c", BUILD_IN_A_CHILD, str(source)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=True)
    build_id, image = done.stdout.splitlines()
    return build_id, Path(image).read_bytes()


def test_an_installed_copy_builds_the_same_bytes_and_notices_its_own_changes(
    tmp_path: Path,
) -> None:
    source = folder_of(tmp_path / "src", {"fir.c": FIR})
    data = installed(tmp_path / "site")
    here = built_by(None, source, tmp_path / "cache")
    assert built_by(tmp_path / "site", source, tmp_path / "cache of the copy") == here
    header = data / "device_runtime_c" / "include" / "boardprof" / "bp.h"
    header.write_text(header.read_text().replace('BP_AGENT_VERSION "', 'BP_AGENT_VERSION "9'))
    os.utime(header, (0, 0))
    assert built_by(tmp_path / "site", source, tmp_path / "cache")[0] != here[0]
    assert built_by(None, source, tmp_path / "cache") == here


def test_builds_at_the_same_time_share_an_empty_cache_unharmed(
    tmp_path: Path, native: BoardSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder_of(tmp_path / "src", {"fir.c": FIR})
    command = [sys.executable, "-c", BUILD_IN_A_CHILD, str(tmp_path / "src")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    children = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE) for _ in range(3)]
    printed = {child.communicate(timeout=120)[0].decode().splitlines()[1] for child in children}
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
        ("x.o: a\\\tb.c c\td.h e\u00a0f.h g\rh.h", ["a\tb.c", "c\td.h", "e\u00a0f.h", "g\rh.h"]),
    ],
)
def test_depfiles_are_read_as_make_reads_them(text: str, files: list[str]) -> None:
    assert parse_depfile(text) == files


def test_names_with_spaces_and_signs_are_built_and_remembered(
    tmp_path: Path, native: BoardSpec
) -> None:
    text = '#include "my head$er #1.h"\nint f(T n) { return n; }\n'
    folder = folder_of(tmp_path / "a b=c", {"my fir.c": text, "my head$er #1.h": "typedef int T;"})
    build(native, [folder])
    assert build(native, [folder]).commands == ()
    folder_of(folder, {"my head$er #1.h": "typedef short T;"})
    assert shown(build(native, [folder])) == {"f": "(n: i16) -> i32"}
