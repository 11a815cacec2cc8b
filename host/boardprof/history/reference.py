# SPDX-License-Identifier: Apache-2.0
"""References to a run: ``#42``, ``last``, ``last~1``, a name, a branch, a commit."""

from __future__ import annotations

import re
from dataclasses import dataclass

from boardprof.errors import UsageError
from boardprof.metrics import digits

LAST = "last"

_LONGEST_NAME = 200
_LARGEST = (1 << 63) - 1
"""Largest number in SQLite; no run has it."""

_FORMS = "#NUMBER, last, last~1, a name, a branch or a commit"
_KINDS = ("name", "branch", "commit")
_BACK = r"(?s)(.*?)~(\d*)"
_COMMIT = r"(?i)[0-9a-f]{4,64}"


@dataclass(frozen=True)
class Reference:
    """A parsed reference.

    Attributes:
        text: as it was written.
        word: without ``#``, ``KIND:`` and ``~N``, in the form that the file stores.
        back: number of runs to go back from the newest match, >= 0.
        number: of the run, if the word is a number; else None. Like ``back``, it is limited to the
            largest number that the file can store.
        must_be_number: it was written with ``#``.
        kind: required kind, ``name``, ``branch`` or ``commit``; "" if any.
    """

    text: str
    word: str
    back: int
    number: int | None
    must_be_number: bool
    kind: str = ""

    @property
    def commit(self) -> str | None:
        """The beginning of a commit's id, if the word may be one; else None."""
        return self.word.lower() if re.fullmatch(_COMMIT, self.word) else None


def parse_reference(ref: str | int) -> Reference:
    """Parse a reference.

    Raises:
        UsageError: it is empty, ``#`` has no number, or it is neither a string nor a number.
    """
    text = f"#{digits(ref)}" if type(ref) is int else ref
    if not isinstance(text, str):
        raise UsageError(f"{ref!r:.60} does not name a run.", hint=_FORMS)
    found = re.fullmatch(_BACK, text)
    word, back = (found[1], _bounded(found[2] or "1")) if found else (text, 0)
    has_sign = word.startswith("#")
    kind, colon, rest = word.partition(":")
    kind, word = (kind, rest) if colon and kind in _KINDS else ("", word)
    word = storable(word.removeprefix("#").strip())
    is_number = not kind and word.isascii() and word.isdigit()
    if not word or (has_sign and not is_number):
        raise UsageError(f"{text!r} does not name a run.", hint=_FORMS)
    number = _bounded(word) if is_number and back == 0 else None
    return Reference(text, word, back, number, has_sign, kind)


def _bounded(text: str) -> int:
    """Return a number, limited to the largest that a file can store."""
    significant = text.lstrip("0") or "0"
    return int(significant) if len(significant) < len(str(_LARGEST)) else _LARGEST


def storable(text: str) -> str:
    """Return text that SQLite can store: file names that are not UTF-8 have lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8")


def check_name(name: str) -> None:
    """Check that a run can be found again by its name.

    Raises:
        UsageError: the name is empty, too long, or means something else.
    """
    why = ""
    if not isinstance(name, str):
        why = "it is not a string"
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
        why = "it looks like a file name"
    if why:
        raise UsageError(f"{name!r} cannot be the name of a run: {why}.", hint="e.g. --save pr-118")
