# SPDX-License-Identifier: Apache-2.0
"""The command starts fast: what only some commands need is not imported by the others."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from boardprof import __version__
from boardprof.ui.cli import main
from tests.cli.command import BOARDPROF, boardprof

HEAVY = {"_cffi_backend", "cffi", "construct", "elftools", "msgpack", "numpy", "rich", "serial"}


def imported(*arguments: str) -> set[str]:
    """Return the top-level names of all modules that a run of the command imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *BOARDPROF[1:], *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    lines = re.findall(r"^import time: .*\| +(\S+)$", done.stderr, re.MULTILINE)
    assert "click" in lines
    return {name.partition(".")[0] for name in lines}


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["run", "--help"], ["boards"]])
def test_help_and_lists_import_nothing_heavy(arguments: list[str]) -> None:
    assert imported(*arguments) & HEAVY == set()


def test_the_version_needs_no_files() -> None:
    assert imported("--version") & {"pathlib", "shutil", "json", "subprocess"} == set()


def test_showing_a_file_imports_neither_numpy_nor_serial(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_text('{"calls": []}')
    assert imported("show", str(file)) & HEAVY == set()


def test_version_is_one_line_with_the_name() -> None:
    done = boardprof("--version")
    assert (done.code, done.out, done.err) == (0, f"boardprof {__version__}\n", "")


def test_help_lists_the_commands() -> None:
    done = boardprof("--help")
    assert (done.code, done.err) == (0, "")
    for command in ("agent", "boards", "info", "run", "show"):
        assert re.search(rf"^  {command} +\S", done.out, re.MULTILINE)


def test_short_help_of_run_is_the_most_used_options_and_the_long_one_has_all() -> None:
    short, long = boardprof("run", "-h"), boardprof("run", "--help")
    assert (short.code, short.err, long.code, long.err) == (0, "", 0, "")
    assert ", --repeat N " in short.out
    assert "NAME=VALUE sets an argument" in short.out
    assert "--fail-if RULE" not in short.out
    assert "  --fail-if RULE " in long.out


def test_the_long_help_is_whole_after_the_short_one_in_a_process(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert [main(["run", "-h"]), main(["run", "--help"])] == [0, 0]
    assert capsys.readouterr().out.count("--fail-if RULE") == 1


@pytest.mark.parametrize("arguments", [["--version"], ["boards"], ["run", "--help"], ["rn"], []])
def test_the_module_is_the_same_as_the_script(arguments: list[str]) -> None:
    script = Path(sys.executable).parent / "boardprof"
    done = subprocess.run(
        [script, *arguments], capture_output=True, text=True, timeout=30, check=False
    )
    module = boardprof(*arguments)
    assert (module.code, module.out, module.err) == (done.returncode, done.stdout, done.stderr)
