# SPDX-License-Identifier: Apache-2.0
"""A compiler that does not end takes no child with it into the background, and speaks English."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import boardprof
from boardprof.base.errors import BuildError, MissingToolError
from boardprof.target.descriptions.board import board_spec
from boardprof.target.toolchain import tools
from boardprof.target.toolchain.tools import ToolFailure, Tools, check_compiler, ended
from tests.cli.command import ended as has_ended
from tests.cli.command import wait_until
from tests.support import requires_tool
from tests.unit.building import build, folder_of

# As gcc waits for cc1, which would go on without it.
_DRIVER = "sleep 300 & echo $! > child; wait"


def _child(folder: Path) -> int:
    file = folder / "child"
    wait_until(lambda: file.is_file() and file.read_text().endswith("\n"), "the child runs")
    return int(file.read_text())


def test_a_compiler_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    for limit_s in (1.0, 30.0):  # on a machine that stood still it may not have begun in time
        with pytest.raises(subprocess.TimeoutExpired):
            ended(["sh", "-c", _DRIVER], tmp_path, os.environ, limit_s)
        if (tmp_path / "child").is_file():
            break
    child = _child(tmp_path)
    wait_until(lambda: has_ended(child), "the child has ended")


def test_a_compiler_that_waits_for_a_pipe_is_ended_before_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "_IDLE_S", 2.0)
    os.mkfifo(tmp_path / "pipe.h")
    (tmp_path / "f.c").write_text('#include "pipe.h"\n')
    with pytest.raises(BuildError) as caught:
        Tools(None).run("gcc", ["-c", "f.c"], tmp_path, "f.c does not compile")
    assert caught.value.message == (
        "f.c does not compile: it waited for 2 s without computing anything."
    )


def test_a_compiler_that_computes_has_all_its_time(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        ended(["sh", "-c", "while :; do :; done"], tmp_path, os.environ, 4.0, idle_s=2.5)
    assert caught.value.timeout == 4.0


def test_a_compiler_does_not_take_all_memory(tmp_path: Path) -> None:
    script = "import time; time.sleep(3); bytearray(8 << 30)"
    done = ended([sys.executable, "-c", script], tmp_path, os.environ, 60.0, idle_s=30.0)
    assert done.stderr.endswith("MemoryError\n")


def test_a_compiler_that_is_interrupted_is_ended_with_its_children(tmp_path: Path) -> None:
    code = f"""
import os
from pathlib import Path
from boardprof.target.toolchain.tools import ended
ended(['sh', '-c', {_DRIVER!r}], Path({str(tmp_path)!r}), os.environ, 100.0)
"""
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) as process:
        child = _child(tmp_path)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert b"KeyboardInterrupt" in said
    wait_until(lambda: has_ended(child), "the child has ended")


def test_a_failure_has_the_program_s_words_and_its_command_apart(tmp_path: Path) -> None:
    with pytest.raises(ToolFailure) as caught:
        Tools(None).run("sh", ["-c", "echo wrong >&2; exit 3"], tmp_path, "it does not compile")
    assert str(caught.value) == "it does not compile:\nwrong"
    assert caught.value.command == f"cd {tmp_path} && sh -c 'echo wrong >&2; exit 3'"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("#!/bin/sh\nkill -SEGV $$", ":\n{cc} ended by SIGSEGV, without a message"),
        ("#!/bin/sh\nexit 3", ":\n{cc} ended with code 3, without a message"),
        ("#!/no/such/shell", ": the program in its first line is missing."),
    ],
)
def test_a_compiler_that_says_nothing_has_its_end_as_the_cause(
    tmp_path: Path, script: str, said: str
) -> None:
    cc = tmp_path / "cc"
    cc.write_text(script + "\n")
    cc.chmod(0o755)
    with pytest.raises(BuildError) as caught:
        Tools(None).run(str(cc), [], tmp_path, "f.c does not compile")
    assert str(caught.value).startswith("f.c does not compile" + said.format(cc=cc))


def test_a_compiler_that_writes_no_object_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gcc").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "gcc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "f.c").write_text("int f(void) { return 1; }\n")
    with pytest.raises(BuildError, match="gcc ended with code 0, but wrote no object"):
        boardprof.build(tmp_path / "f.c", board="native")


def test_what_a_compiler_says_is_english_under_any_language(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it says is read: which header is missing, and which symbol."""
    # In place of a translated gcc: one that tells which language it was asked for.
    real = requires_tool("gcc", "gcc")
    wrapper = tmp_path / "bin" / "gcc"
    text = (
        f'#!/bin/sh\necho "$LC_ALL,$LC_MESSAGES,$LANGUAGE" >> {tmp_path}/asked\nexec {real} "$@"\n'
    )
    folder_of(tmp_path, {"bin/gcc": text, "src/f.c": "int f(void) { return 1; }"})
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("LC_ALL", "LC_MESSAGES", "LANGUAGE", "LANG"):
        monkeypatch.setenv(name, "de_DE.UTF-8")
    build(board_spec("native"), [tmp_path / "src"])
    asked = (tmp_path / "asked").read_text().split()
    assert ",C,C" in asked  # a compilation: the rest of the locale stays, for names of files
    assert any(line.startswith("C,") for line in asked)  # the link


def test_an_interrupt_while_a_program_is_started_leaves_none_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C may come when the program runs, and before `Popen` has returned."""
    started: list[subprocess.Popen[str]] = []

    class Interrupted(subprocess.Popen[str]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        ended(["sh", "-c", "sleep 1000"], tmp_path, dict(os.environ), 60.0)
    (process,) = started
    assert process.returncode == -signal.SIGTERM
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_without_a_compiler_all_packages_that_the_board_lacks_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}")
    with pytest.raises(MissingToolError) as caught:
        check_compiler(board_spec("qemu-rv32"))
    assert caught.value.hint == "sudo apt-get install gcc-riscv64-unknown-elf qemu-system-misc"
