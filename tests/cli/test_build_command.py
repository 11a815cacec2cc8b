# SPDX-License-Identifier: Apache-2.0
"""`boardprof build`, and the options that all commands share that build."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import agent, boardprof, rows
from tests.support import requires_tool
from tests.unit.building import folder_of

TWICE = '#include "bias.h"\nint helper(int n); static inline int add(int n) { return n + BIAS; }\n'
TWICE += "int twice(int n) { return 2 * helper(add(n)) * FACTOR; }\nint main(void) { return 1; }\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with code that needs every option."""
    files = {
        "twice.c": TWICE,
        "lib/helper.c": "int helper(int n) { return n - 1 + EXTRA; }\n",
        "include/bias.h": "#define BIAS 5\n",
    }
    folder_of(tmp_path, files)
    monkeypatch.chdir(tmp_path)
    return tmp_path


OPTIONS = ("--source", "lib", "-I", "include", "-D", "FACTOR=10", "--cflags", "-DEXTRA=1")


def test_build_writes_the_image_and_prints_sizes_and_functions(project: Path) -> None:
    done = boardprof("build", "-b", "native", "twice.c", *OPTIONS, "-o", "out.so")
    assert (done.code, done.err) == (0, "")
    first, sizes, *functions = done.out.splitlines()
    assert first.startswith("out.so: firmware for native, build ")
    assert sizes.startswith("  text ")
    assert sizes.endswith(" bytes")
    assert functions == ["  helper(n: i32) -> i32", "  twice(n: i32) -> i32"]
    assert (project / "out.so").read_bytes().startswith(b"\x7fELF")


def test_build_without_an_output_takes_the_board_s_name(project: Path) -> None:
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    done = boardprof("build", "-b", "qemu-rv32")
    assert done.out.startswith("qemu-rv32.elf: firmware for qemu-rv32, build ")
    assert done.out.endswith("  no functions: the agent alone\n")
    assert (project / "qemu-rv32.elf").is_file()


def test_build_that_cannot_write_says_so(project: Path) -> None:
    done = boardprof("build", "-b", "native", "-o", "nowhere/out.so")
    assert done.code == 2
    assert "nowhere/out.so cannot be written: there is no folder " in done.err


def test_a_device_in_place_of_the_output_is_written_to_and_not_replaced(project: Path) -> None:
    pipe = project / "pipe"  # stands for /dev/null, which root could replace
    os.mkfifo(pipe)
    with (
        (project / "read").open("wb") as file,
        subprocess.Popen(["cat", "pipe"], stdout=file) as reader,
    ):
        try:
            done = boardprof("build", "lib/helper.c", "-D", "EXTRA=1", "-o", "pipe", "-q")
            assert reader.wait(30) == 0
        finally:
            reader.kill()
    assert (done.code, done.err) == (0, "")
    assert pipe.is_fifo()
    assert (project / "read").read_bytes().startswith(b"\x7fELF")


def test_run_takes_the_same_options_and_keeps_static_functions(project: Path) -> None:
    done = boardprof("run", "twice.c:twice", "n=3", *OPTIONS, "--repeat", "2")
    assert done.code == 0, done.err
    assert rows(done.out) == ["twice"]
    assert "\nnative returned: 160\n" in done.out
    kept = boardprof("run", "twice.c:add", "n=3", *OPTIONS, "--no-inline", "add", "--repeat", "2")
    assert kept.code == 0, kept.err
    assert rows(kept.out) == ["add"]
    assert "\nnative returned: 8\n" in kept.out


def test_agent_serve_takes_the_same_options(project: Path) -> None:
    with agent("-b", "linux", "twice.c", *OPTIONS) as port:
        done = boardprof("run", "-b", "linux", "-p", port, "twice", "n=3", "--repeat", "2")
    assert rows(done.out) == ["twice"]


def test_an_undefined_symbol_ends_with_7_and_says_who_needs_it(project: Path) -> None:
    (project / "lib" / "helper.c").unlink()
    done = boardprof("run", "twice.c:twice", "n=3", *OPTIONS[2:])
    assert done.code == 7
    assert "error: twice needs helper (twice.c:3), which is not defined." in done.err


def test_a_function_of_cpp_is_named_as_in_the_source_with_what_it_lacks(tmp_path: Path) -> None:
    text = "struct Foo { int x; Foo(int n); };\nFoo::Foo(int n) : x(n) {}\n"
    text += 'extern "C" int bar(int x) { return x; }\n'
    source = folder_of(tmp_path, {"m.cpp": text}) / "m.cpp"
    done = boardprof("run", f"{source}:Foo", "x=1")
    assert done.code == 2
    assert "its name is not a C name: call it from a function of your own" in done.err
    done = boardprof("run", f"{source}:ba", "x=1")
    assert done.code == 2
    assert f"There is no function 'ba' in {source}; did you mean 'bar'? Known: bar\n" in done.err
