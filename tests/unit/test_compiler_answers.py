# SPDX-License-Identifier: Apache-2.0
"""What a compiler says of itself is asked once, and again whenever it may say something else."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from boardprof.target.descriptions.board import board_spec
from boardprof.target.toolchain import tools
from boardprof.target.toolchain.cache import Cache
from boardprof.target.toolchain.compiler import Compiler
from tests.unit.building import FIR, build, folder_of

SOURCE = r"""
#include <stdio.h>
#include <string.h>
int main(int count, char **words) {
  FILE *asked = fopen(HOME "/asked", "a");
  fprintf(asked, "%s\n", words[1]);
  fclose(asked);
  if (strcmp(words[1], "--version") == 0) puts("mycc (mine) " VERSION);
  else if (strcmp(words[1], "-print-search-dirs") == 0) puts("programs: =" HOME "/libexec");
  else if (strcmp(words[1], "-print-prog-name=cc1") == 0) puts(HOME "/libexec/cc1");
  else puts(strchr(words[1], '=') + 1);
  return 0;
}
"""
OF_PROGRAMS = [f"-print-prog-name={name}" for name in ("cc1", "cc1plus", "as", "ld")]
ALL_QUESTIONS = ["--version", "-print-search-dirs", *OF_PROGRAMS]
OF_A_WRAPPER = ["--version", *OF_PROGRAMS]


class Lab:
    """A compiler of our own, and a cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cc = folder / "mycc"
        (folder / "libexec").mkdir()
        (folder / "libexec" / "cc1").write_text("#!/bin/sh\n")
        (folder / "libexec" / "cc1").chmod(0o755)
        (folder / "main.c").write_text(SOURCE)
        self.install("1.0")

    def install(self, version: str, name: str = "mycc") -> None:
        defines = [f'-DHOME="{self.folder}"', f'-DVERSION="{version}"']
        command = ["cc", *defines, "main.c", "-o", name]
        subprocess.run(command, cwd=self.folder, check=True, timeout=60)

    def wrap(self) -> None:
        """Put a script in front of it."""
        self.cc.rename(self.folder / "behind")
        self.cc.write_text(f'#!/bin/sh\nexec {self.folder}/behind "$@"\n')
        self.cc.chmod(0o755)

    def driver(self) -> Compiler:
        return Compiler(str(self.cc), "mycc", Cache(self.folder / "cache"))

    def asked(self) -> list[str]:
        """Return what it was asked since the last time."""
        file = self.folder / "asked"
        words = file.read_text().split() if file.exists() else []
        file.unlink(missing_ok=True)
        return words

    def identity(self) -> str:
        return self.driver()._identity


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_a_compiler_is_asked_once(lab: Lab) -> None:
    first = lab.driver()
    assert first.version == "mycc (mine) 1.0\n"
    assert lab.asked() == ALL_QUESTIONS
    second = lab.driver()
    assert lab.asked() == []
    assert (second.version, second._identity) == (first.version, first._identity)


def test_another_compiler_in_its_place_is_asked_again(lab: Lab) -> None:
    before = lab.identity()
    lab.install("2.0")
    assert lab.driver().version == "mycc (mine) 2.0\n"
    assert lab.identity() != before


def test_a_link_that_leads_to_another_compiler_is_followed(lab: Lab) -> None:
    lab.install("2.0", "newer")
    lab.cc.rename(lab.folder / "older")
    lab.cc.symlink_to("older")
    assert lab.driver().version == "mycc (mine) 1.0\n"
    lab.cc.unlink()
    lab.cc.symlink_to("newer")
    assert lab.driver().version == "mycc (mine) 2.0\n"


def test_a_changed_cc1_is_another_compiler_though_nobody_is_asked(lab: Lab) -> None:
    before = lab.identity()
    lab.asked()
    (lab.folder / "libexec" / "cc1").write_text("#!/bin/sh\nexit 1\n")
    assert lab.identity() != before
    assert lab.asked() == []


def test_an_assembler_that_was_installed_since_is_asked_for(lab: Lab) -> None:
    lab.driver()
    lab.asked()
    (lab.folder / "libexec" / "as").write_text("#!/bin/sh\n")
    lab.driver()
    assert lab.asked() == ALL_QUESTIONS


@pytest.mark.parametrize("name", ["COMPILER_PATH", "GCC_EXEC_PREFIX"])
def test_another_environment_is_asked_for(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    lab.driver()
    lab.asked()
    monkeypatch.setenv(name, "/elsewhere/")
    lab.driver()
    assert lab.asked() == ALL_QUESTIONS


def test_a_wrapper_is_asked_each_time_for_what_it_runs_may_change(lab: Lab) -> None:
    lab.wrap()
    assert lab.driver().version == "mycc (mine) 1.0\n"
    lab.install("2.0", "behind")
    lab.asked()
    assert lab.driver().version == "mycc (mine) 2.0\n"
    assert lab.asked() == OF_A_WRAPPER


def test_a_program_that_has_its_version_from_elsewhere_is_asked_each_time(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ccache, which is a binary and prints what the compiler behind it prints."""
    launcher = "int execv(const char *, char **);int main(int n, char **w) {return execv(CC, w);}"
    (lab.folder / "launcher.c").write_text(launcher)
    lab.cc.rename(lab.folder / "behind")
    define = f'-DCC="{lab.folder}/behind"'
    command = ["cc", define, "launcher.c", "-o", "mycc"]
    subprocess.run(command, cwd=lab.folder, check=True, timeout=60)
    lab.driver()
    lab.asked()
    lab.driver()
    assert lab.asked() == OF_A_WRAPPER


@pytest.mark.parametrize(
    "damage",
    [lambda b: b"", lambda b: b[:-9], lambda b: b[:-1] + bytes([b[-1] ^ 1])],
    ids=["empty", "cut off", "another byte"],
)
def test_a_damaged_entry_is_made_again(lab: Lab, damage: Callable[[bytes], bytes]) -> None:
    identity = lab.identity()
    [entry] = (lab.folder / "cache" / "compilers").iterdir()
    content = entry.read_bytes()
    entry.write_bytes(damage(content))
    lab.asked()
    assert lab.identity() == identity
    assert lab.asked() == ALL_QUESTIONS
    assert entry.read_bytes() == content


@pytest.mark.slow
@pytest.mark.usefixtures("shared_cache")
@pytest.mark.parametrize("board", ["native", "qemu-rv32", "qemu-cortex-m3"])
def test_a_second_build_starts_no_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, board: str
) -> None:
    sources = [folder_of(tmp_path, {"fir.c": FIR})]
    first = build(board_spec(board), sources)

    def refuse(command: list[str], *_: object) -> None:
        raise AssertionError(os.fspath(command[0]))

    monkeypatch.setattr(tools, "ended", refuse)
    assert build(board_spec(board), sources).image == first.image
