# SPDX-License-Identifier: Apache-2.0
"""What a run does not do that has been done before: counted, since times depend on the machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT, git, requires_tool

SOURCE = "int twice(int x) { return 2 * x; }\n"

OBSERVED = """
import gc, json, os, sys
programs, searches = [], []
def note(event, given):
    if event == "subprocess.Popen":
        programs.append([os.path.basename(given[1][0]), *given[1][1:]])
sys.addaudithook(note)
from boardprof.ui.cli import main
gc.collect()
gc.callbacks.append(lambda phase, _: searches.append(phase))
place = sys.argv.pop(1)
found = {"code": main(), "programs": programs, "searches": len(searches)}
found["modules"] = sorted(sys.modules)
with open(place, "w") as file:
    json.dump(found, file)
"""

NEEDLESS = {"cffi", "pycparser"}
"""The parser of C's declarations."""
NEEDLESS |= {"importlib.metadata", "email"}
"""Entry points, of which no package has one of ours."""
NEEDLESS |= {"concurrent.futures", "logging"}
"""What compiles on all processors."""
NEEDLESS |= {"elftools.elf.elffile", "numpy", "pandas", "rich", "serial"}


def second_run(folder: Path, board: str) -> dict[str, Any]:
    """Measure twice in a repository of its own; return what the second run did."""
    project = folder / "project"
    project.mkdir()
    (project / "f.c").write_text(SOURCE)
    git(project, "init", "-q", "-b", "main")
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "first")
    place = folder / "found.json"
    command = [sys.executable, "-c", OBSERVED, str(place), "run", "-q", "-b", board, "f.c:twice"]
    path = os.pathsep.join(str(ROOT / part) for part in ("host", "protocol"))
    settings = {"PYTHONPATH": path, "BOARDPROF_HISTORY": str(folder / "history.sqlite")}
    for _ in range(2):
        subprocess.run(
            [*command, "x=1"],
            cwd=project,
            env={**os.environ, **settings},
            stdout=subprocess.DEVNULL,
            check=True,
            timeout=90,
        )
    found: dict[str, Any] = json.loads(place.read_text())
    assert found["code"] == 0
    return found


GIT = ["git status", "git ls-files", "git rev-parse", "git config", "git rev-list"]
"""The commit and what differs from it, whether sources are tracked, and whose project it is."""


@pytest.mark.slow
def test_a_second_run_asks_git_five_times_and_no_compiler(tmp_path: Path) -> None:
    found = second_run(tmp_path, "native")
    assert [" ".join(command[:2]) for command in found["programs"]] == GIT
    assert set(found["modules"]) & NEEDLESS == set()
    assert found["searches"] == 0


@pytest.mark.slow
def test_a_second_run_on_an_emulator_starts_that_besides(tmp_path: Path) -> None:
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    found = second_run(tmp_path, "qemu-rv32")
    [emulator, *others] = found["programs"]
    assert any(word.endswith("qemu-system-riscv32") for word in emulator)
    assert [" ".join(command[:2]) for command in others] == GIT
    assert set(found["modules"]) & NEEDLESS == set()
    assert found["searches"] == 0
