# SPDX-License-Identifier: Apache-2.0
"""A firmware project is built by its own build system; its functions are measured in the image."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path

from boardprof.base.metrics import Count
from boardprof.measure.connect import connect
from boardprof.target.descriptions.board import BoardSpec, board_spec
from tests.support import ROOT, requires_tool
from tests.tools.insn_count import build_plugin, plugin_argument, read_counts, symbol_range

__all__ = ["EXAMPLE", "command", "counts_of", "executed", "requires_board", "shell"]

EXAMPLE = ROOT / "examples" / "firmware_cmake"


def command(folder: Path) -> Path:
    """Return a program ``boardprof`` that is the one under test, made in ``folder``."""
    program = folder / "bin" / "boardprof"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m boardprof "$@"\n')
    program.chmod(0o755)
    return program


def shell(arguments: list[str | Path], folder: Path, timeout_s: float = 100.0) -> str:
    """Run a program in ``folder`` that must succeed; return what it printed, both streams."""
    done = subprocess.run(
        list(map(str, arguments)),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        env={key: text for key, text in os.environ.items() if key != "MAKEFLAGS"},
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def requires_board(name: str) -> BoardSpec:
    """Return a board whose compiler and emulator are here; else as `requires_tool`."""
    spec = board_spec(name)
    requires_tool(spec.build.cc, spec.build.package)
    program = spec.launch.command[0]
    if shutil.which(program) is None:
        requires_tool(program, spec.launch.package or program)
    return spec


def counts_of(image: Path, board: str, counter: str, function: str, *arguments: int) -> list[int]:
    """Return what a Report has of a counter in three samples of a function in an image."""
    with connect(board, image=image) as connected:
        report = connected.profile(function, *arguments, warmup=1, repeat=3)
    return [v.value for row in report.calls if isinstance(v := row[counter], Count)]


def executed(image: Path, spec: BoardSpec, folder: Path, function: str, *arguments: int) -> int:
    """Return the instructions of a call in an image, as QEMU's own plugin counts them."""
    folder.mkdir(exist_ok=True)
    entry, _ = symbol_range(image, function)
    stops = [symbol_range(image, f"bp_thunk_of_{function}")]
    plugin = plugin_argument(build_plugin(), [entry], stops, folder / "counts.txt")
    launch = dataclasses.replace(spec.launch, command=(*spec.launch.command, *plugin))
    with connect(dataclasses.replace(spec, launch=launch), image=image) as connected:
        connected.functions[function](*arguments)
    return read_counts(folder / "counts.txt")[entry][-1]
