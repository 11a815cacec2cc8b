# SPDX-License-Identifier: Apache-2.0
"""Flags as users write them: paths from the current folder, folders for headers, response files."""

from __future__ import annotations

from pathlib import Path

import pytest

from boardprof.base.errors import UsageError
from boardprof.target.build.build_options import BuildOptions, user_flags
from boardprof.target.descriptions.board import board_spec
from tests.unit.building import build, folder_of, runs

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder_of(tmp_path, {"c": "", "x.ld": "", "inc/a.h": "", "O3": ""}))
    return tmp_path


@pytest.mark.parametrize(
    "text",
    [
        "-x c",
        "-D c",
        "-u c",
        "-z c",
        "--param c",
        "-Ttext=0",
        "-Ttext-segment=0x1000",
        "-Xassembler c",
        "-Wl,-z,c",
        "-Wl,--gc-sections,-u,c",
        "-L=lib",
    ],
)
def test_what_is_no_path_stays(text: str) -> None:
    assert list(user_flags(BuildOptions(ldflags=text)).linker) == text.split()


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("-Tx.ld", "-T{}/x.ld"),
        ("-T x.ld", "-T {}/x.ld"),
        ("-Wl,-T,x.ld", "-Wl,-T,{}/x.ld"),
        ("-Wl,-Tx.ld", "-Wl,-T{}/x.ld"),
        ("-Wl,-Map=new.map", "-Wl,-Map={}/new.map"),
        ("-Xlinker -Map -Xlinker new.map", "-Xlinker -Map -Xlinker {}/new.map"),
        ("-Wl,--whole-archive,c,-Linc", "-Wl,--whole-archive,{}/c,-L{}/inc"),
        ("-Linc", "-L{}/inc"),
    ],
)
def test_relative_paths_begin_at_the_current_folder(folder: Path, text: str, made: str) -> None:
    assert " ".join(user_flags(BuildOptions(ldflags=text)).linker) == made.replace(
        "{}", str(folder)
    )


def test_folders_for_headers_are_taken_out_of_the_flags_with_their_kind(folder: Path) -> None:
    text = "-Iinc -isystem sys -iquote q -idirafter last -I=root -D -Ic -O1"
    flags = user_flags(BuildOptions(optimize="", cflags=text))
    assert flags.compiler == ("-I=root", "-D", "-Ic", "-O1")
    assert flags.folders == (
        ("-I", folder / "inc"),
        ("-isystem", folder / "sys"),
        ("-iquote", folder / "q"),
        ("-idirafter", folder / "last"),
    )


def test_response_files_are_read(folder: Path) -> None:
    folder_of(folder, {"more": "-DA=1 @rest", "rest": "-DB='2 3'", "round": "@round"})
    assert user_flags(BuildOptions(optimize="", cflags="-g @more")).compiler == (
        "-g",
        "-DA=1",
        "-DB=2 3",
    )
    with pytest.raises(UsageError, match="round includes itself"):
        user_flags(BuildOptions(cflags="@round"))


@pytest.mark.parametrize("option", ["-I", "-isystem", "-iquote", "-idirafter"])
def test_a_header_that_comes_later_is_noticed_in_every_kind_of_folder(
    folder: Path, option: str
) -> None:
    text = '#include "one/two/three/four.h"\nint f(void) { return N; }'
    deep = "one/two/three/four.h"
    folder_of(folder, {"code/u.c": text, f"late/{deep}": "#define N 1", "early/no": ""})
    flags = f"{option}early {option}late"
    native = board_spec("native")
    before = build(native, [folder / "code"], cflags=flags)
    folder_of(folder, {f"early/{deep}": "#define N 2"})
    after = build(native, [folder / "code"], cflags=flags)
    assert runs(after, "u.c") == 1
    assert before.build_id != after.build_id
    folder_of(folder, {f"early/{deep}": "#define N 3"})
    assert runs(build(native, [folder / "code"], cflags=flags), "u.c") == 1


def test_what_a_flag_reads_behind_the_compiler_s_list_is_compiled_again(folder: Path) -> None:
    folder_of(folder, {"code/u.c": "int f(void) { return 1; }"})
    flags = f"-B{folder}"
    for _ in range(2):
        made = build(board_spec("native"), [folder / "code"], cflags=flags)
        assert runs(made, "u.c") == 1
