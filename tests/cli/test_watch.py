# SPDX-License-Identifier: Apache-2.0
"""``boardprof run --watch``: a number after each save, and errors that the next save corrects."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.command import BOARDPROF, boardprof
from tests.support import requires_tool

SOURCE = '#include "step.h"\nint f(int n) { int s = 0; while (n--) s += STEP * n; return s; }\n'
DEADLINE_S = 120.0


@contextmanager
def watching(
    folder: Path, *arguments: str, ignores: bool = False
) -> Iterator[subprocess.Popen[str]]:
    """Start the command; it is killed at the end or at the deadline."""
    environment = {**os.environ, "BOARDPROF_HISTORY": "off"}
    listening = ["env", f"--{'ignore' if ignores else 'default'}-signal=INT"]
    process = subprocess.Popen(
        [*listening, *BOARDPROF, "run", "--watch", *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    alarm = threading.Timer(DEADLINE_S, process.kill)
    alarm.start()
    try:
        yield process
    finally:
        alarm.cancel()
        process.kill()
        process.communicate()


def shown(process: subprocess.Popen[str]) -> str:
    """Return what is printed until it waits for the next save."""
    assert process.stdout is not None
    text = ""
    while not re.search(r"^note: watching \d+ files?; .* ends( it)?$", text, re.MULTILINE):
        line = process.stdout.readline()
        assert line, text
        text += line
    return text


def save(path: Path, text: str) -> None:
    """Replace a file at once, as editors do."""
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").rename(path)


def test_each_save_gives_the_change_and_an_error_is_waited_over(tmp_path: Path) -> None:
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    (tmp_path / "f.c").write_text(SOURCE)
    (tmp_path / "step.h").write_text("#define STEP 1\n")
    with watching(tmp_path, "-b", "qemu-rv32", "f.c:f", "n=100", "--hotspots") as process:
        first = shown(process)
        assert "instructions per call, exact" in first
        assert "since the last save" not in first
        assert "note: watching 2 files; Ctrl-C ends" in first
        save(tmp_path / "step.h", "#define STEP 1 +\n")
        error = shown(process)
        assert "note: step.h was saved\n" in error
        assert "does not compile" in error
        save(tmp_path / "step.h", "#define STEP (n / 3u)\n")
        second = shown(process)
        assert "since the last save" in second
        assert (
            "OUTPUT CHANGED since the last save: f(n=100) on qemu-rv32: output return: 4950"
            in second
        )
        assert "Where instructions of f on qemu-rv32 changed:" in second
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        assert process.stdout.read().rstrip().endswith("interrupted")
        assert process.wait() == 130


def test_the_broken_one_of_two_files_is_waited_for(tmp_path: Path) -> None:
    right = "int g(int n) { return n + 2; }\n"
    (tmp_path / "f.c").write_text("int f(int n) { return n + 1; }\n")
    (tmp_path / "g.c").write_text(right)
    (tmp_path / "boardprof.toml").write_text(
        "".join(
            f'[[benchmark]]\nname = "{name}"\ntarget = "{name}.c:{name}"\narguments.n = 1\n'
            for name in "fg"
        )
    )
    with watching(tmp_path, "-b", "native") as process:
        assert "note: watching 2 files; Ctrl-C ends" in shown(process)
        save(tmp_path / "g.c", "int g(int n) { return n + ; }\n")
        assert "does not compile" in shown(process)
        save(tmp_path / "g.c", right)
        assert "does not compile" not in shown(process)


def test_a_background_job_that_ignores_ctrl_c_says_what_ends_it(tmp_path: Path) -> None:
    requires_tool("gcc", "gcc")
    (tmp_path / "f.c").write_text("int f(int n) { return n; }\n")
    with watching(tmp_path, "-b", "native", "f.c:f", "n=1", ignores=True) as process:
        assert shown(process).endswith(f"note: watching 1 file; kill {process.pid} ends it\n")
        process.send_signal(signal.SIGINT)
        process.terminate()
        assert process.wait(30) == -signal.SIGTERM


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ("f.c:f", "n=1", "--json", "-"),
            "--watch only prints: it writes, keeps and gates nothing.",
        ),
        (("-p", "/dev/null", "f"), "--watch compiles the functions, so it needs a PATH."),
        (("no/f.c:f", "n=1"), "There is no source to watch: no/f.c."),
    ],
)
def test_it_only_prints_and_needs_sources(
    tmp_path: Path, arguments: tuple[str, ...], text: str
) -> None:
    (tmp_path / "f.c").write_text(SOURCE)
    done = boardprof("run", "--watch", *arguments, folder=tmp_path)
    assert (done.code, text in done.err) == (2, True), done.err
