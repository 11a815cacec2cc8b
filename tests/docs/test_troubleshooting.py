# SPDX-License-Identifier: Apache-2.0
"""The messages on the page about errors are those that the code has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from boardprof.base.errors import UnknownNameError
from tests.support import ROOT

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
QUOTED = re.findall(r"^### `(.*)`$", PAGE, re.MULTILINE)
HOLE = "..."


@cache
def messages() -> list[str]:
    """Return the texts of the package, with ``...`` for what is put in at run time."""
    paths = sorted((ROOT / "host" / "boardprof").rglob("*.py"))
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in paths]
    texts = {text for tree in trees for node in ast.walk(tree) for text in texts_of(node)}
    return [text for text in texts if " " in text]


def texts_of(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(v.value if isinstance(v, ast.Constant) else HOLE for v in node.values)
    elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "UnknownNameError":
        kind = node.args[0] if node.args else None
        if isinstance(kind, ast.Constant):
            yield str(UnknownNameError(kind.value, HOLE, []))
            yield str(UnknownNameError(kind.value, HOLE, [], owner=HOLE))


def is_printed(quoted: str) -> bool:
    """Tell whether a message begins with what is quoted, where dots stand for any text."""
    pattern = re.compile(".+?".join(map(re.escape, quoted.split(HOLE))))
    return any(map(pattern.match, messages()))


def test_the_page_has_the_most_likely_errors() -> None:
    assert len(QUOTED) == len(set(QUOTED)) >= 25


@pytest.mark.parametrize("quoted", QUOTED)
def test_each_quoted_message_is_in_the_code(quoted: str) -> None:
    assert len(quoted.replace(HOLE, "").strip()) >= 10, "too little to find a message by"
    assert is_printed(quoted)


def test_a_message_that_nothing_prints_would_be_noticed() -> None:
    assert is_printed("Port ... does not exist.")
    assert not is_printed("The moon at ... did not answer HELLO")
    assert not is_printed("ort ... does not exist.")
