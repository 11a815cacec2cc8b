# SPDX-License-Identifier: Apache-2.0
"""What people write for a run: ``#42``, ``last``, ``last~1``, a name, a branch, a commit."""

from __future__ import annotations

import re
from dataclasses import dataclass

from boardprof.errors import UsageError

__all__ = ["LAST", "Reference", "check_name", "parse_reference"]

LAST = "last"

_LONGEST_NAME = 200
_BACK = re.compile(r"(.*?)~(\d*)", re.DOTALL)
_COMMIT = re.compile(r"[0-9a-f]{4,64}", re.IGNORECASE)


@dataclass(frozen=True)
class Reference:
    """One reference, taken apart.

    Attributes:
        text: as it was written.
        word: without ``#`` and ``~N``.
        back: how many before the newest that fits, >= 0.
        number: of the run, where the word is one; None otherwise.
        must_be_number: it was written with ``#``.
    """

    text: str
    word: str
    back: int
    number: int | None
    must_be_number: bool

    @property
    def commit(self) -> str | None:
        """The beginning of a commit's id, where the word may be one; None otherwise."""
        return self.word.lower() if _COMMIT.fullmatch(self.word) else None


def parse_reference(text: str) -> Reference:
    """Take a reference apart.

    Raises:
        UsageError: it is empty, or ``#`` has no number.
    """
    found = _BACK.fullmatch(text)
    word, back = (found[1], int(found[2] or 1)) if found else (text, 0)
    has_sign = word.startswith("#")
    word = word.removeprefix("#").strip()
    is_number = word.isascii() and word.isdigit()
    if not word or (has_sign and not is_number):
        raise UsageError(
            f"{text!r} names no run.", hint="#NUMBER, last, last~1, a name, a branch or a commit"
        )
    number = int(word) if is_number and back == 0 else None
    return Reference(text, word, back, number, has_sign)


def check_name(name: str) -> None:
    """See that a run can be found again by the name that it is given.

    Raises:
        UsageError: the name is empty, too long, or means something else.
    """
    why = ""
    if not name or name != name.strip():
        why = "it is empty" if not name.strip() else "it begins or ends with a blank"
    elif len(name) > _LONGEST_NAME:
        why = f"it is longer than {_LONGEST_NAME} characters"
    elif not name.isprintable():
        why = "it has characters that cannot be shown"
    elif name == LAST or name.isdigit() or name.startswith(("#", "-")) or "~" in name:
        why = "it means something else: last, -OPTION, #NUMBER and NAME~1 do"
    elif name.endswith(".json"):
        why = "it looks like a file's"
    if why:
        raise UsageError(f"{name!r} cannot be the name of a run: {why}.", hint="e.g. --save pr-118")
