# SPDX-License-Identifier: Apache-2.0
"""What users are told if the stack of a call is unknown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.command import Outcome, boardprof

SOURCE = """\
#ifndef LENGTH
#define LENGTH n
#endif
int sum(int n) {
    volatile unsigned char values[LENGTH];
    for (int i = 0; i < n; i++) values[i] = i;
    return values[0];
}
"""
REASON = "sum may reserve a variable number of bytes (at least "


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sum.c").write_text(SOURCE)
    return tmp_path


def command(folder: Path, *words: str) -> Outcome:
    environment = {"BOARDPROF_HISTORY": str(folder / "h.sqlite"), "BOARDPROF_TABLE": ""}
    return boardprof(*words, environment=environment, folder=folder)


def run(folder: Path, *words: str) -> Outcome:
    return command(folder, "run", "-q", "sum.c:sum", "n=9", "--number", "1000", *words)


def test_the_answer_says_that_the_stack_is_unknown_and_why(folder: Path) -> None:
    ran = run(folder)
    answer, *lines = ran.out.splitlines()
    assert re.search(r" per call(, too short to time alone)?; stack unknown$", answer)
    assert any(line.startswith(f"native stack unknown: {REASON}") for line in lines)
    shown = command(folder, "show", "last")
    assert shown.out.splitlines()[0] == answer
    assert f"native stack unknown: {REASON}" in shown.out


def test_a_table_of_several_has_unknown_where_others_have_bytes(folder: Path) -> None:
    ran = run(folder, "--sweep=-DLENGTH=16|-DLENGTH=n")
    header, fixed, variable = ran.out.splitlines()[:3]
    place = header.index("  Stack")
    assert fixed[place : place + 9].strip().isdigit()
    assert "unknown" in variable


def test_a_rule_on_a_stack_that_became_unknown_gives_the_reason(folder: Path) -> None:
    run(folder, "-DLENGTH=16")
    run(folder)
    words = ("compare", "last~1", "last", "--allow", "compiler")
    refused = command(folder, *words, "--fail-if", "stack>0")
    assert refused.code == 2
    assert refused.err.startswith(
        "error: The rule stack>0 cannot be judged: the stack of a call is unknown.\n"
        f"sum on native: {REASON}"
    )
    assert refused.err.endswith("Try: leave the rule out\n")
    compared = command(folder, *words, "--fail-if", "*>1000000000", "--fail-if-missing")
    assert f"Note: Stack (bytes) of sum is unknown now: {REASON}" in compared.out
    assert f"Stack (bytes) of sum(n=9) on native; it is unknown: {REASON}" in compared.out


def test_a_rule_on_a_stack_that_neither_run_knows_gives_the_reason(folder: Path) -> None:
    run(folder)
    run(folder)
    refused = command(folder, "compare", "last~1", "last", "--fail-if", "stack>0")
    assert refused.code == 2
    assert f"sum on native: {REASON}" in refused.err
