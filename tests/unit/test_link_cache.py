# SPDX-License-Identifier: Apache-2.0
"""An image is linked again when anything that its linker read is another, and only then."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from boardprof.target.descriptions.board import BoardSpec, board_spec
from boardprof.target.toolchain.cache import Cache
from boardprof.target.toolchain.compiler import Compiler
from tests.unit.building import build, changed, folder_of

pytestmark = pytest.mark.slow

USER = {"code/u.c": "int helper(int); int f(int n) { return 10 * helper(n); }"}


@pytest.fixture
def native() -> BoardSpec:
    return board_spec("native")


def helper(folder: Path, factor: int, *, thin: bool = False) -> None:
    (folder / "h.c").write_text(f"int helper(int n) {{ return n * {factor}; }}")
    (folder / "lib").mkdir(exist_ok=True)
    run = {"cwd": folder, "check": True, "timeout": 60}
    subprocess.run(["gcc", "-fPIC", "-O2", "-c", "h.c", "-o", "h.o"], **run)  # type: ignore[call-overload]
    if not thin or not (folder / "lib/libh.a").exists():
        (folder / "lib/libh.a").unlink(missing_ok=True)
        kind = ["-rcs", "--thin"] if thin else ["-rcs"]
        subprocess.run(["ar", *kind, "lib/libh.a", "h.o"], **run)  # type: ignore[call-overload]
    for file in (folder / "h.o", folder / "lib/libh.a"):
        os.utime(file, (1_000_000_000 + factor, 1_000_000_000 + factor))


@pytest.mark.parametrize(
    "flags",
    [
        "-Llib -lh",
        "-L lib -l h",
        "-Wl,-Llib,-lh",
        "-Wl,--whole-archive,lib/libh.a,--no-whole-archive",
        "-Xlinker lib/libh.a",
        "-lh",
    ],
)
@pytest.mark.parametrize("thin", [False, True], ids=["whole", "thin"])
def test_a_library_of_the_linker_s_flags_is_watched(
    tmp_path: Path, native: BoardSpec, monkeypatch: pytest.MonkeyPatch, flags: str, thin: bool
) -> None:
    folder_of(tmp_path, USER)
    monkeypatch.chdir(tmp_path)
    if flags == "-lh":
        monkeypatch.setenv("LIBRARY_PATH", str(tmp_path / "lib"))
    helper(tmp_path, 2, thin=thin)
    with build(native, [tmp_path / "code"], ldflags=flags).open() as board:
        assert board.functions.f(1) == 20
    assert build(native, [tmp_path / "code"], ldflags=flags).commands == ()
    helper(tmp_path, 3, thin=thin)
    with build(native, [tmp_path / "code"], ldflags=flags).open() as board:
        assert board.functions.f(1) == 30


@pytest.mark.parametrize("script", ["INPUT(h.o)", "GROUP ( AS_NEEDED ( h.o ) )", 'INPUT("h.o")'])
def test_what_a_link_script_or_a_thin_archive_names_is_in_the_build_id(
    tmp_path: Path, native: BoardSpec, script: str
) -> None:
    folder_of(
        tmp_path, {**USER, "libs.a": f"/* what there is */\n{script}", "libi.a": "INCLUDE libs.a"}
    )
    ids: dict[str, list[bytes]] = {"-ls": [], "-li": [], "-Llib -lh": []}
    for factor in (2, 3, 2):
        helper(tmp_path, factor, thin=True)
        for library, found in ids.items():
            flags = f"-L{tmp_path} {library}".replace("-Llib", f"-L{tmp_path}/lib")
            made = build(native, [tmp_path / "code"], ldflags=flags)
            found.append(made.build_id)
            with made.open() as board:
                assert board.functions.f(1) == 10 * factor
    for first, second, third in ids.values():
        assert first != second
        assert first == third


def test_a_map_is_written_to_the_current_folder_and_not_to_the_board_s(
    tmp_path: Path, native: BoardSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_of(tmp_path, {"code/u.c": "int f(int n) { return n; }", "here/no": ""})
    monkeypatch.chdir(tmp_path / "here")
    build(native, [tmp_path / "code"], ldflags="-Wl,-Map=fir.map")
    assert (tmp_path / "here/fir.map").is_file()
    assert not (native.folder / "fir.map").exists()


def test_another_compiler_behind_the_same_wrapper_is_noticed(
    tmp_path: Path, native: BoardSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shutil.which("gcc")
    wrapper = tmp_path / "bin/wrapped-gcc"
    lines = f'if [ "$1" = --version ]; then cat {tmp_path}/version; else exec {real} "$@"; fi\n'
    folder_of(tmp_path, {"bin/wrapped-gcc": f"#!/bin/sh\n{lines}", "version": "1.0\n"})
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{wrapper.parent}{os.pathsep}{os.environ['PATH']}")
    assert Compiler("wrapped-gcc", "gcc", Cache()).version == "1.0\n"
    folder_of(tmp_path, {"version": "2.0\n"})
    assert Compiler("wrapped-gcc", "gcc", Cache()).version == "2.0\n"
    assert changed(native, cc="wrapped-gcc").build.cc == "wrapped-gcc"
