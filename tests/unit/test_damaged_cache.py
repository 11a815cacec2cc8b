# SPDX-License-Identifier: Apache-2.0
"""A damaged file of the cache is made again, whichever it is and however it is damaged."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from boardprof.measure.connect import Firmware
from boardprof.target.descriptions.board import board_spec
from boardprof.target.toolchain.cache import Cache
from boardprof.target.toolchain.cobs_in_c import _found, load_codec
from tests.unit.building import build, folder_of, requires_library, shown

# A name that the agent of a process also uses, one that needs what nobody defines, and one that
# needs the C library.
SOURCE = """\
#include <string.h>
int poll(int n) { return 3 * n; }
int lost(int n) { int nowhere(int); return nowhere(n); }
unsigned long length(const char *text) { return strlen(text); }
"""
SHOWN = {
    "poll": "(n: i32) -> i32",
    "lost": "it needs nowhere, which is not defined",
    "length": "(text: const char*) -> u64",
}
OF_NATIVE = ["compilers", "edited", "functions", "images", "linkers", "links", "names", "objects"]
OF_NATIVE += ["checked", "start", "tables", "undefined", "units"]
OF_RV32 = ["headers", "libc", "libraries"]

DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "half": lambda content: content[: len(content) // 2],
    "another byte": lambda content: content[:-1] + bytes([content[-1] ^ 1]),
    "no text": lambda content: b"\xff\x00" + content,
    "other JSON": lambda content: b'{"functions": 5}',
}


def damage(folder: Path, how: Callable[[bytes], bytes]) -> int:
    files = [file for file in folder.rglob("*") if file.is_file()]
    for file in files:
        file.write_bytes(how(file.read_bytes()) if file.stat().st_size else b"\xff")
    return len(files)


def built(board: str, folder: Path) -> Firmware:
    return build(board_spec(board), [folder_of(folder, {"poll.c": SOURCE})])


@pytest.mark.parametrize("how", DAMAGES)
def test_a_text_counts_as_absent_until_it_is_written_again(tmp_path: Path, how: str) -> None:
    cache = Cache(tmp_path)
    file = cache.write('["fir"]', "functions", "1.json")
    assert cache.read("functions", "1.json") == '["fir"]'
    file.write_bytes(DAMAGES[how](file.read_bytes()))
    assert cache.read("functions", "1.json") is None
    assert cache.write('["fir"]', "functions", "1.json") == file
    assert cache.read("functions", "1.json") == '["fir"]'


@pytest.mark.parametrize("how", DAMAGES)
def test_a_file_counts_as_absent_until_it_is_stored_again(tmp_path: Path, how: str) -> None:
    cache = Cache(tmp_path)
    (tmp_path / "x.o").write_bytes(b"\x7fELF")
    file = cache.store(tmp_path / "x.o", "edited", "1")
    assert cache.find("x.o", "edited", "1") == file
    file.write_bytes(DAMAGES[how](file.read_bytes()))
    assert cache.find("x.o", "edited", "1") is None
    (tmp_path / "x.o").write_bytes(b"\x7fELF")
    assert cache.store(tmp_path / "x.o", "edited", "1") == file
    assert cache.find("x.o", "edited", "1") == file


@pytest.mark.slow
@pytest.mark.parametrize("part", OF_NATIVE)
def test_a_build_for_a_process_makes_it_again(
    tmp_path: Path, shared_cache: Path, part: str
) -> None:
    first = built("native", tmp_path)
    image = first.image.read_bytes()
    assert damage(shared_cache / "boardprof" / part, DAMAGES["half"]) > 0
    again = built("native", tmp_path)
    assert shown(again) == shown(first) == SHOWN
    assert (again.image, again.image.read_bytes()) == (first.image, image)
    with again.open() as board:
        assert board.functions.poll(5) == 15
    assert built("native", tmp_path).commands == ()


@pytest.mark.slow
@pytest.mark.parametrize("part", OF_RV32)
def test_a_build_for_a_board_without_a_system_makes_it_again(
    tmp_path: Path, shared_cache: Path, part: str
) -> None:
    requires_library(board_spec("qemu-rv32"))
    first = built("qemu-rv32", tmp_path)
    image = first.image.read_bytes()
    assert damage(shared_cache / "boardprof" / part, DAMAGES["half"]) > 0
    assert built("qemu-rv32", tmp_path).image.read_bytes() == image


@pytest.mark.slow
def test_every_folder_that_a_build_writes_is_among_these(
    tmp_path: Path, shared_cache: Path
) -> None:
    requires_library(board_spec("qemu-rv32"))
    for board in ("native", "qemu-rv32"):
        built(board, tmp_path)
    folders = {path.name for path in (shared_cache / "boardprof").iterdir() if path.is_dir()}
    # A process that has read the libraries before writes nothing on their constructors.
    assert folders - {"tmp", "dictionaries", "constructors"} == {*OF_NATIVE, *OF_RV32}


@pytest.mark.slow
def test_the_codec_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    _found.cache_clear()
    first = load_codec()[1]
    [library] = tmp_path.rglob("*.so")
    library.unlink()  # this process still runs the old one
    library.write_bytes(b"\x7fELF")
    _found.cache_clear()
    assert load_codec()[1] == first
    assert library.stat().st_size > 1000
    _found.cache_clear()


@pytest.mark.slow
def test_what_cannot_be_opened_counts_as_absent(tmp_path: Path, shared_cache: Path) -> None:
    first = built("native", tmp_path)
    for file in (shared_cache / "boardprof" / "functions").rglob("*.json"):
        file.unlink()
        os.symlink(file.name, file)  # to itself
    assert shown(built("native", tmp_path)) == shown(first)
