# SPDX-License-Identifier: Apache-2.0
"""Metrics that are computed of others, by formulas such as ``instructions / cycles``.

::

    sum     = product {(+ | -) product}
    product = factor {(* | /) factor}
    factor  = number | name | ( sum ) | - factor

A name begins with a letter or ``_`` and goes on with letters, digits and ``_ . : -``, as perf's and
the vendors' do (``branch-misses``): a minus sign behind a name needs a space in front of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

__all__ = ["Formula", "parse_formula"]

_Node = Callable[[Mapping[str, float]], float]

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<name>[A-Za-z_][\w.:-]*)|(?P<sign>[-+*/()]))", re.ASCII
)
_DEEPEST = 50
_MOST_TOKENS = 500


@dataclass(frozen=True)
class Formula:
    """A formula that was read.

    Attributes:
        text: as it was written.
        names: what it is computed of, in the order of the text, each once.
    """

    text: str
    names: tuple[str, ...]
    _node: _Node = field(compare=False, repr=False)

    def value(self, values: Mapping[str, float]) -> float | None:
        """Compute it; None where a value is missing or a divisor is 0."""
        if any(name not in values for name in self.names):
            return None
        try:
            return self._node(values)
        except ZeroDivisionError:
            return None


def parse_formula(text: str) -> Formula:
    """Read a formula.

    Raises:
        ValueError: it is none; the message says what is needed where.
    """
    reader = _Reader(text)
    node = reader.sum(0)
    if reader.token:
        raise reader.wrong("an operator")
    if not reader.names:
        raise ValueError(f'"{text}" names nothing that is counted')
    return Formula(text, tuple(dict.fromkeys(reader.names)), node)


class _Reader:
    """Reads from left to right, one token ahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = self._next = self._count = 0
        self.names: list[str] = []
        self.kind: str | None = None
        self.token = ""
        self._take()

    def wrong(self, needed: str) -> ValueError:
        found = f'"{self._text[self._at :].strip()}" stands' if self.token else "it ends"
        return ValueError(f'"{self._text}": {needed} is needed where {found}')

    def _take(self) -> str:
        """Return the token, and go on to the next."""
        taken, self._at = self.token, self._next
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            self.kind, self.token = None, self._text[self._at :].strip()
            self._next = len(self._text)
        else:
            self.kind, self.token = match.lastgroup, match[match.lastgroup or 0]
            self._next = match.end()
            self._count += 1
            if self._count > _MOST_TOKENS:
                raise ValueError(
                    f'"{self._text:.60}..." is too long: {_MOST_TOKENS} numbers, names and signs '
                    "are the most"
                )
        return taken

    def sum(self, depth: int) -> _Node:
        node = self._product(depth)
        while self.token in ("+", "-"):
            node = _joined(self._take(), node, self._product(depth))
        return node

    def _product(self, depth: int) -> _Node:
        node = self._factor(depth)
        while self.token in ("*", "/"):
            node = _joined(self._take(), node, self._factor(depth))
        return node

    def _factor(self, depth: int) -> _Node:
        if depth > _DEEPEST:
            raise ValueError(f'"{self._text:.60}" is nested too deeply')
        if self.kind == "number":
            number = float(self._take())
            return lambda _: number
        if self.kind == "name":
            self.names.append(name := self._take())
            return lambda values: values[name]
        if self.token == "-":
            self._take()
            negated = self._factor(depth + 1)
            return lambda values: -negated(values)
        if self.token != "(":
            raise self.wrong("a number, a name or a bracket")
        self._take()
        node = self.sum(depth + 1)
        if self.token != ")":
            raise self.wrong('")"')
        self._take()
        return node


def _joined(sign: str, left: _Node, right: _Node) -> _Node:
    if sign == "+":
        return lambda values: left(values) + right(values)
    if sign == "-":
        return lambda values: left(values) - right(values)
    if sign == "*":
        return lambda values: left(values) * right(values)
    return lambda values: left(values) / right(values)
