# SPDX-License-Identifier: Apache-2.0
"""Mistakes that are seen before anything is started, and errors that say what works instead."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.command import boardprof
from tests.support import requires_compiler

ADD = "int add(int a, int b) { return a + b; }\n"


def test_an_image_without_the_agent_is_known_before_it_is_started(tmp_path: Path) -> None:
    requires_compiler("gcc")
    (tmp_path / "f.c").write_text(ADD)
    command = ["gcc", "-shared", "-fPIC", "f.c", "-o", "f.so"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    for asked in (("run", "add", "a=1"), ("info",), ("doctor",)):
        done = boardprof(*asked, "-b", "native", "--image", tmp_path / "f.so")
        assert (done.code, done.err) == (
            2,
            f"error: {tmp_path}/f.so does not contain boardprof's agent: it has no bp_firmware.\n"
            "Try: add the agent to its build (docs/firmware.md), or measure sources: "
            "boardprof run -b native FILE.c:FUNCTION\n",
        )


def test_a_stripped_image_is_started_only_if_it_has_the_agent(tmp_path: Path) -> None:
    requires_compiler("gcc")
    main = 'int main(void) { return fclose(fopen("ran", "w")); }\n'
    (tmp_path / "f.c").write_text(f"#include <stdio.h>\n{ADD}{main}")
    command = ["gcc", "-s", "f.c", "-o", "f"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    done = boardprof("run", "add", "a=1", "b=2", "-b", "linux", "--image", "f", folder=tmp_path)
    assert done.code == 2
    assert done.err.startswith(
        "error: f does not contain boardprof's agent: it has no bp.describe.\n"
    )
    assert not (tmp_path / "ran").exists()

    built = boardprof("build", "-b", "linux", "f.c", "-o", "agent", folder=tmp_path)
    assert built.code == 0, built.err
    subprocess.run(["strip", "agent"], cwd=tmp_path, check=True, timeout=60)
    done = boardprof("run", "add", "a=1", "b=2", "-b", "linux", "--image", "agent", folder=tmp_path)
    assert done.code == 0, done.err


def test_doctor_checks_an_image_of_ones_own_or_says_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text(ADD)
    image = tmp_path / "f.so"
    assert boardprof("build", "-b", "native", tmp_path / "f.c", "-o", image).code == 0
    done = boardprof("doctor", "--image", image)
    assert done.code == 2
    assert "lacks functions with known work: proof_depth, proof_rounds.\nTry: compile " in done.err
    assert boardprof("doctor", "--link", "--image", image).err.endswith(
        "Try: leave out --image, or --link\n"
    )


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("board = qemu-rv32", 'board = "qemu-rv32", in quotes'),
        (
            "number = 3\nmetrics = instructions, ticks  # both",
            'metrics = "instructions, ticks", in',
        ),
        ("port=/dev/ttyACM0", 'port = "/dev/ttyACM0", in quotes'),
    ],
)
def test_a_text_without_quotes_in_settings_is_shown_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, hint: str
) -> None:
    (tmp_path / "boardprof.toml").write_text(f"{line}\n")
    monkeypatch.chdir(tmp_path)
    done = boardprof("run", "f.c:f")
    assert done.code == 2
    assert f"\nTry: {hint}" in done.err


def test_a_port_that_does_not_exist_is_named_before_a_tool_is_started(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text(ADD)
    for asked in (("run", f"{tmp_path}/f.c:add", "--flash"), ("flash", f"{tmp_path}/f.c")):
        done = boardprof(*asked, "-b", "nucleo-f446re", "-p", "/dev/boardprof-none")
        assert (done.code, done.err) == (
            3,
            "error: Port /dev/boardprof-none does not exist.\n"
            "Try: plug in the board, and look under /dev/serial/by-id\n",
        )
