# SPDX-License-Identifier: Apache-2.0
"""A hint names options that the command has, or the command that has them."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import click

import boardprof
from boardprof.ui.cli.commands import cli
from boardprof.ui.cli.group import commands_below, option_of, options_of
from tests.cli.command import boardprof as run
from tests.support import requires_tool

ROOT = click.Context(cli, info_name="boardprof")
COMMANDS = dict(commands_below(cli, ROOT))
OPTION = r"(?<![\w-])--[a-z][a-z-]*[a-z]"
OF_OTHER_PROGRAMS = {"--prefix", "--oneline", "--unshallow", "--decompress-debug-sections"}
OF_OTHER_PROGRAMS |= {"--stdio", "--help"}  # click adds --help to each command


@cache
def pieces_of_hints() -> set[str]:
    """Return the constant texts of all hints in the package; pytest has options of its own."""
    found: set[str] = set()
    files = Path(boardprof.__file__).parent.rglob("*.py")
    for file in (each for each in files if "pytest_plugin" not in each.parts):
        for node in ast.walk(ast.parse(file.read_text())):
            named = isinstance(node, ast.keyword) and node.arg == "hint"
            assigned = isinstance(node, ast.Assign | ast.AugAssign) and "hint" in ast.unparse(
                node.targets[0] if isinstance(node, ast.Assign) else node.target
            )
            asked = isinstance(node, ast.Call) and ast.unparse(node.func) == "option"
            if named or assigned or asked:
                texts = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))
                found |= {text for text in texts if isinstance(text, str) and "--" in text}
    return found


def test_every_option_in_a_hint_is_one_of_some_command() -> None:
    pieces = pieces_of_hints()
    assert len(pieces) > 60
    known = set().union(*map(options_of, COMMANDS.values())) | OF_OTHER_PROGRAMS
    wrong = {text for text in pieces if not set(re.findall(OPTION, text)) <= known}
    assert not wrong


def test_an_option_that_the_command_lacks_has_the_name_of_one_that_has_it() -> None:
    devices = click.Context(COMMANDS["devices"], parent=ROOT)
    assert option_of(devices, "--timeout") == "boardprof run --timeout"
    assert option_of(click.Context(COMMANDS["run"], parent=ROOT), "--timeout") == "--timeout"


def test_doctor_has_the_limit_that_its_findings_advise() -> None:
    requires_tool("gcc", "gcc")
    done = run("doctor", "-b", "native", "--timeout", "0.001")
    assert done.code == 6
    assert "did not end within 0.001 s" in done.out
    assert "give --timeout 1" in done.out
