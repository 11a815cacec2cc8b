# SPDX-License-Identifier: Apache-2.0
"""One small change of the code that a test should notice, and the choice of some of many."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

__all__ = ["Edit", "Mutant", "Scope", "chosen", "named", "quotas"]


@dataclass(frozen=True)
class Scope:
    """The function around a change, or the module.

    Attributes:
        name: qualified name, ``<module>`` outside of functions and classes.
        first: its first line, from 1.
        last: its last line.
    """

    name: str
    first: int
    last: int


@dataclass(frozen=True)
class Edit:
    """A replacement in a source file, before it has an identity.

    Attributes:
        kind: the operator that makes it, such as ``compare``.
        begin: offset of the text to replace, bytes.
        end: offset after it, bytes.
        new: the text to put there.
        scope: the function around it.
        lines: first and last line of the statement, without the body of a compound statement.
    """

    kind: str
    begin: int
    end: int
    new: str
    scope: Scope
    lines: tuple[int, int]


@dataclass(frozen=True)
class Mutant:
    """An edit with an identity that stays when lines move.

    Attributes:
        identity: ``module:function:kind:ordinal``.
        room: what it is counted with: a package of the host, or ``agent``.
        path: the file, relative to the checkout, with slashes.
        edit: the replacement.
    """

    identity: str
    room: str
    path: str
    edit: Edit

    def applied(self, source: bytes) -> bytes:
        """Return the file's content with the replacement."""
        return source[: self.edit.begin] + self.edit.new.encode() + source[self.edit.end :]

    def line(self, source: bytes) -> int:
        """Return the line of the replaced text, from 1."""
        return source.count(b"\n", 0, self.edit.begin) + 1

    def change(self, source: bytes) -> str:
        """Return both versions of the text for people, in one line."""
        begin = source.rfind(b"\n", 0, self.edit.begin) + 1
        end = source.find(b"\n", self.edit.end)
        stop = len(source) if end < 0 else end
        mutated = source[begin : self.edit.begin] + self.edit.new.encode()
        mutated += source[self.edit.end : stop]
        return f"{_one_line(source[begin:stop])}  =>  {_one_line(mutated)}"


def _one_line(text: bytes) -> str:
    return " ".join(text.decode().split())


def named(edits: Iterable[Edit], module: str, room: str, path: str) -> Iterator[Mutant]:
    """Number the edits of a file within function and kind, so that lines may move.

    Args:
        edits: in the order of the file.
        module: first part of the identities.
        room: what they are counted with.
        path: the file, relative to the checkout.
    """
    seen: Counter[str] = Counter()
    for edit in edits:
        group = f"{module}:{edit.scope.name}:{edit.kind}"
        yield Mutant(f"{group}:{seen[group]}", room, path, edit)
        seen[group] += 1


def chosen(
    mutants: Iterable[Mutant], count: int, is_valid: Callable[[Mutant], bool]
) -> list[Mutant]:
    """Choose the valid mutants whose identities have the lowest SHA-256.

    This spreads the choice evenly, and a change of one function does not move the others' mutants.
    """
    ranked = sorted(mutants, key=lambda mutant: hashlib.sha256(mutant.identity.encode()).digest())
    found: list[Mutant] = []
    for mutant in ranked:
        if len(found) == count:
            break
        if is_valid(mutant):
            found.append(mutant)
    return sorted(found, key=lambda mutant: (mutant.path, mutant.edit.begin, mutant.identity))


def quotas(sizes: Mapping[str, int], total: int, least: int) -> dict[str, int]:
    """Share ``total`` among rooms in proportion to their sizes, with at least ``least`` each."""
    every = max(1, sum(sizes.values()))
    return {room: max(least, -(-total * size // every)) for room, size in sizes.items()}
