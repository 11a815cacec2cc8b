# SPDX-License-Identifier: Apache-2.0
"""Mutants of the agent's C sources, in checks of lengths, sequence numbers, sessions and credit.

There is no C parser here: tokens are replaced in code lines of functions. clang-format holds the
layout on which this depends: a function ends at the first ``}`` in column 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from scripts.mutants_python import Edit, Mutant, named

__all__ = ["ROOM", "c_edits", "c_mutants"]

ROOM = "agent"
_REPLACED_BY_TESTS = {"bp_main.c", "bp_mem.c"}  # no test would compile them
_SUBJECTS = re.compile(
    r"len|size|seq|session|credit|offset|end|capacity|count|index|mtu|crc|window|wrap|left|ahead"
    r"|head|tail|most|used|free|room|waiting|taken|checked|bytes|argc|pos",
    re.IGNORECASE,
)
_TOKENS = (  # kind, pattern, new text
    ("lt", r"(?<![<])<(?![<=])", "<="), ("le", r"(?<![<])<=", "<"),
    ("gt", r"(?<![->])>(?![>=])", ">="), ("ge", r"(?<![->])>=", ">"),
    ("eq", r"==", "!="), ("ne", r"!=", "=="),
    ("and", r"&&", "||"), ("or", r"\|\|", "&&"),
    ("plus_one", r"(?<=[\w)\]]) \+ 1u?\b", ""), ("minus_one", r"(?<=[\w)\]]) - 1u?\b", ""),
    ("plus", r"(?<=[\w)\]] )\+(?= (?!1u?\b))", "-"),
    ("minus", r"(?<=[\w)\]] )-(?= (?!1u?\b))", "+"),
    ("plus_assign", r"\+=", "-="), ("minus_assign", r"-=", "+="),
    ("return_false", r"(?<=\breturn )false\b", "true"),
    ("return_true", r"(?<=\breturn )true\b", "false"),
)  # fmt: skip

_HIDDEN = re.compile(
    r"/\*.*?\*/|//[^\n]*"  # comments
    r'|"(?:\\.|[^"\\\n])*"' + r"|'(?:\\.|[^'\\\n])*'"  # strings and characters
    r"|^[ \t]*\#(?:\\\n|[^\n])*",  # preprocessor lines
    re.DOTALL | re.MULTILINE,
)
_FUNCTION = re.compile(r"^(?!struct|enum|union|typedef)\w[^;{}=]*?\b(\w+)\([^;{}]*\) \{$", re.M)


def c_mutants(tree: Path) -> list[Mutant]:
    """Return all mutants of the agent's sources in a checkout."""
    found: list[Mutant] = []
    for file in sorted((tree / "device_runtime_c" / "src").glob("*.c")):
        if file.name not in _REPLACED_BY_TESTS:
            path = file.relative_to(tree).as_posix()
            found += named(c_edits(file.read_bytes()), file.name, ROOM, path)
    return found


def c_edits(source: bytes) -> list[Edit]:
    """Return all edits of a C file, in the order of its text."""
    code = _HIDDEN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), source.decode("ascii"))
    edits = [edit for function in _FUNCTION.finditer(code) for edit in _in(code, function)]
    return sorted(edits, key=lambda edit: (edit.begin, edit.kind))


def _in(code: str, function: re.Match[str]) -> Iterator[Edit]:
    """Yield the edits of a function in a text in which only code is left."""
    end = code.find("\n}", function.end())
    for kind, pattern, new in _TOKENS:
        for match in re.compile(pattern).finditer(code, function.end(), end):
            begin = code.rfind("\n", 0, match.start())
            if kind.startswith("return"):  # the condition above it says what it is about
                begin = code.rfind("\n", 0, begin)
            if _SUBJECTS.search(code, begin + 1, code.find("\n", match.start())):
                yield Edit(*match.span(), kind, new, function[1])
