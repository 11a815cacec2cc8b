# SPDX-License-Identifier: Apache-2.0
"""The macros on which a function in a source depends, without running the preprocessor."""

from __future__ import annotations

import re
from pathlib import Path

from boardprof.target.build.sources import is_header

_COMMENT = re.compile(rb"/\*.*?\*/|//[^\n]*", re.DOTALL)
_LINE = re.compile(rb"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b(.*)$")
_IMPLEMENTATION = re.compile(rb"(?m)^[ \t]*#[ \t]*if(?:def\b|\b.*?\bdefined\b)\W*(\w*_IMPL\w*)")
_NEEDED = re.compile(rb"(?<![!\w])defined\s*\(?\s*([A-Za-z_]\w*)|^\s*([A-Za-z_]\w*)\s*$")


def macros_around(source: Path, function: str) -> list[str]:
    """Return the macros that must be defined so that a file defines a function, outermost first.

    Empty if a definition is in the file without such a condition, or if there is none.
    """
    content = re.sub(rb"\\\r?\n", b"  ", source.read_bytes())
    content = _COMMENT.sub(lambda match: b"\n" * match[0].count(b"\n") or b" ", content)
    body = re.compile(rb"\b%s\s*\([^;{}]*\)[\s\w()]*\{" % re.escape(function.encode()))
    defined = [content.count(b"\n", 0, match.start()) for match in body.finditer(content)]
    found: list[list[str]] = []
    around: list[str | None] = []  # the macro of each condition that is open
    for number, line in enumerate(content.split(b"\n")):
        if (match := _LINE.match(line)) is not None:
            word, rest = match[1], match[2]
            if word.startswith(b"if"):
                around.append(_needed(word, rest))
            elif word == b"endif" and around:
                around.pop()
            elif around:
                around[-1] = _needed(b"if", rest) if word == b"elif" else None
        if number in defined:
            found.append([macro for macro in around if macro is not None])
    return min(found, key=len, default=[])


def implementation_macros(source: Path) -> list[str]:
    """Return the macros with which a header has its functions, such as ``STB_SUM_IMPLEMENTATION``.

    Empty if a source is not a header.
    """
    if not is_header(source) or not source.is_file():
        return []
    content = _COMMENT.sub(b" ", source.read_bytes())
    return [each.decode() for each in dict.fromkeys(_IMPLEMENTATION.findall(content))]


def _needed(word: bytes, rest: bytes) -> str | None:
    """Return the macro that a condition asks for; None if it asks for something else."""
    if word == b"ifndef":
        return None
    match = re.match(rb"\s*([A-Za-z_]\w*)", rest) if word == b"ifdef" else _NEEDED.search(rest)
    return next(each for each in match.groups() if each).decode() if match else None
