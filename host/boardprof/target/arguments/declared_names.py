# SPDX-License-Identifier: Apache-2.0
"""The names that a header gives to a function's parameters; its definition may have others."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
# A type and a blank, or a star: a name after it is declared, not called.
_BEFORE = r"(?:(?<!\w)(?!(?:return|else|do|case|goto)\b)\w+\s+|\*\s*)"
# Attributes, perhaps in macros, and the end.
_AFTER = re.compile(r"\s*+(?:\w++\s*+(?:\([^;{}]*\)\s*+)?+)*+;")
_FUNCTION_POINTER = re.compile(r"\(\s*\*\s*(?:const\s+)?(\w+)\s*(?:\[[^\]]*\]\s*)?\)\s*[\[(]")
_NAME = re.compile(r"[\w*\s]*[\s*](\w+)\s*(?:\[[^\]]*\]\s*)*")
_TYPES = {
    *("char", "int", "long", "short", "unsigned", "signed", "float", "double", "void"),
    *("const", "restrict", "volatile"),
}


def names_of_definition(
    function: str, own: Sequence[str], given: Collection[str], files: Iterable[Path]
) -> tuple[Mapping[str, str], Path] | None:
    """Return the definition's name of each ``given`` one, and the file whose names these are.

    ``own``: the names in the definition, in order. None if no declaration in the files has the
    other names, or if two declarations contradict each other.
    """
    found: dict[tuple[str, ...], tuple[Mapping[str, str], Path]] = {}
    given = sorted(given)
    for path in files:
        for names in _declared(path, function):
            if len(names) != len(own) or not {*given} <= {*names, *own}:
                continue
            as_own = dict(zip(names, own, strict=True))
            if not {*given} <= {*names}:  # some are the definition's: those in both must agree
                if any(as_own.get(name, name) != name for name in own):
                    continue
                as_own |= {name: name for name in own}
            chosen: dict[str, str] = {name: as_own[name] for name in given}
            if len({*chosen.values()}) == len(chosen):
                found.setdefault(tuple(chosen.values()), (chosen, path))
    return next(iter(found.values())) if len(found) == 1 else None


def _declared(path: Path, function: str) -> Iterator[list[str]]:
    """Yield the names of each declaration of a function in a file, if all parameters have one."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if function not in text:
        return
    text = _COMMENT.sub(" ", text)
    for match in re.finditer(rf"{_BEFORE}\(?{re.escape(function)}\)?\s*\(", text):
        parts, end = _parameters(text, match.end())
        names = [_name(part) for part in parts]
        if _AFTER.match(text, end) and None not in names:
            yield [name for name in names if name is not None]


def _parameters(text: str, begin: int) -> tuple[list[str], int]:
    """Return the parameters after an opening parenthesis, and where the closing one ends."""
    parts, depth, start = [], 0, begin
    for at in range(begin, len(text)):
        letter = text[at]
        if letter in ",)" and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
            if letter == ")":
                return parts, at + 1
        depth += (letter in "([") - (letter in ")]")
    return [], len(text)


def _name(parameter: str) -> str | None:
    pointer = _FUNCTION_POINTER.search(parameter)
    match = pointer or _NAME.fullmatch(parameter)
    return None if match is None or match[1] in _TYPES else match[1]
