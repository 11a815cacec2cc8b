# SPDX-License-Identifier: Apache-2.0
"""What people write for a run: ``#42``, ``last``, ``last~1``, a name, a branch, a commit."""

from __future__ import annotations

import re
from dataclasses import dataclass

from boardprof.errors import UsageError
from boardprof.metrics import digits

__all__ = ["LAST", "Reference", "check_name", "parse_reference", "storable"]

LAST = "last"

_LONGEST_NAME = 200
_LARGEST = (1 << 63) - 1
"""That SQLite can hold; no run has that number."""

_FORMS = "#NUMBER, last, last~1, a name, a branch or a commit"
_KINDS = ("name", "branch", "commit")
_BACK = re.compile(r"(.*?)~(\d*)", re.DOTALL)
_COMMIT = re.compile(r"[0-9a-f]{4,64}", re.IGNORECASE)


@dataclass(frozen=True)
class Reference:
    """One reference, taken apart.

    Attributes:
        text: as it was written.
        word: without ``#``, ``KIND:`` and ``~N``, as a file holds it.
        back: how many before the newest that fits, >= 0.
        number: of the run, where the word is one; None otherwise. Like ``back``, what is larger
            than a file can hold is the largest that it can.
        must_be_number: it was written with ``#``.
        kind: what it must be, ``name``, ``branch`` or ``commit``; "" where that is open.
    """

    text: str
    word: str
    back: int
    number: int | None
    must_be_number: bool
    kind: str = ""

    @property
    def commit(self) -> str | None:
        """The beginning of a commit's id, where the word may be one; None otherwise."""
        return self.word.lower() if _COMMIT.fullmatch(self.word) else None


def parse_reference(ref: str | int) -> Reference:
    """Take a reference apart.

    Raises:
        UsageError: it is empty, ``#`` has no number, or it is neither text nor a number.
    """
    text = f"#{digits(ref)}" if type(ref) is int else ref
    if not isinstance(text, str):
        raise UsageError(f"{ref!r:.60} names no run.", hint=_FORMS)
    found = _BACK.fullmatch(text)
    word, back = (found[1], _bounded(found[2] or "1")) if found else (text, 0)
    has_sign = word.startswith("#")
    kind, colon, rest = word.partition(":")
    kind, word = (kind, rest) if colon and kind in _KINDS else ("", word)
    word = storable(word.removeprefix("#").strip())
    is_number = not kind and word.isascii() and word.isdigit()
    if not word or (has_sign and not is_number):
        raise UsageError(f"{text!r} names no run.", hint=_FORMS)
    number = _bounded(word) if is_number and back == 0 else None
    return Reference(text, word, back, number, has_sign, kind)


def _bounded(text: str) -> int:
    """Return a number, or the largest that a file can hold."""
    significant = text.lstrip("0") or "0"
    return int(significant) if len(significant) < len(str(_LARGEST)) else _LARGEST


def storable(text: str) -> str:
    """Return text that SQLite can keep: a file name that is no UTF-8 comes as lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8")


def check_name(name: str) -> None:
    """See that a run can be found again by the name that it is given.

    Raises:
        UsageError: the name is empty, too long, or means something else.
    """
    why = ""
    if not isinstance(name, str):
        why = "it is no text"
    elif not name or name != name.strip():
        why = "it is empty" if not name.strip() else "it begins or ends with a blank"
    elif len(name) > _LONGEST_NAME:
        why = f"it is longer than {_LONGEST_NAME} characters"
    elif not name.isprintable():
        why = "it has characters that cannot be shown"
    elif name == LAST or name.isdigit() or name.startswith(("#", "-")) or "~" in name:
        why = "it means something else: last, -OPTION, #NUMBER and NAME~1 do"
    elif name.partition(":")[0] in _KINDS and ":" in name:
        why = "it means something else: name:NAME, branch:BRANCH and commit:COMMIT do"
    elif name.endswith(".json"):
        why = "it looks like a file's"
    if why:
        raise UsageError(f"{name!r} cannot be the name of a run: {why}.", hint="e.g. --save pr-118")
