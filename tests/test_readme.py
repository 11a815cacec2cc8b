# SPDX-License-Identifier: Apache-2.0
"""What the README shows is what happens."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT, requires_tool

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)


def block(language: str) -> str:
    (text,) = [body for name, body in BLOCKS if name == language]
    return text


def shown(command: str) -> list[str]:
    """Return the lines that the README shows below a command."""
    lines = block("console").split(f"$ {command}")[1].splitlines()[1:]
    end = next((i for i, line in enumerate(lines) if line.startswith("$ ")), len(lines))
    return [line for line in lines[:end] if line]


def run(*arguments: str, cwd: Path = ROOT) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "boardprof", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


@pytest.fixture(scope="module")
def _toolchain() -> None:
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    requires_tool("qemu-system-riscv32", "qemu-system-misc")


def test_the_list_of_boards_is_the_one_shown() -> None:
    actual = [line for line in run("boards").splitlines() if "missing:" not in line]
    assert actual == shown("boardprof boards")


@pytest.mark.usefixtures("_toolchain")
def test_the_first_run_prints_the_table_shown(tmp_path: Path) -> None:
    target = "examples/workloads/quicksort.c:quicksort"
    lines = shown(f"boardprof run -b qemu-rv32 {target} --json quicksort.json")
    actual = run("run", "-b", "qemu-rv32", target, "--json", str(tmp_path / "q.json")).splitlines()
    assert actual[0] == lines[0]
    # Another compiler makes other counts; the rest is the same.
    digits = re.compile(r"[\d,.]+")
    for line in lines[1 : lines.index("...")]:
        assert digits.sub("", line).split() in [digits.sub("", a).split() for a in actual]


@pytest.mark.usefixtures("_toolchain")
def test_the_c_file_is_measured_on_three_boards_by_the_command_shown(tmp_path: Path) -> None:
    requires_tool("arm-none-eabi-gcc", "gcc-arm-none-eabi")
    requires_tool("qemu-system-arm", "qemu-system-arm")
    (tmp_path / "fir.c").write_text(block("c"))
    (command,) = [body for name, body in BLOCKS if name == "sh" and "fir.c:fir" in body]
    words = shlex.split(command.replace("\\\n", " "))
    lines = run(*words[1:], cwd=tmp_path).splitlines()
    boards = [word for word in lines[0].split() if word.strip("-")]
    assert boards == ["qemu-rv32", "qemu-cortex-m3", "native"]
    assert lines[2].startswith("fir ")
    assert "Arguments: x=int16[256], h=int16[64], y=int32[256], n=256" in lines


@pytest.mark.usefixtures("_toolchain")
def test_the_python_examples_run(tmp_path: Path) -> None:
    (tmp_path / "fir.c").write_text(block("c"))
    measured, linked = (output(text, tmp_path) for name, text in BLOCKS if name == "python")
    assert "Count(value=" in measured
    assert "'instructions': Count(value=" in measured
    assert 0 < float(linked) < 1


def output(program: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout
