# SPDX-License-Identifier: Apache-2.0
"""Metrics that are computed from others, by formulas such as ``instructions / cycles``.

::

    sum     = product {(+ | -) product}
    product = factor {(* | /) factor}
    factor  = number | name | ( sum ) | - factor

A name begins with a letter or ``_`` and continues with letters, digits and ``_ . : -``, like the
names of perf and of vendors (``branch-misses``). So a minus sign after a name needs a space before
it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

_Node = Callable[[Mapping[str, float]], float]

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<name>[A-Za-z_][\w.:-]*)|(?P<sign>[-+*/()]))", re.ASCII
)
_OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
_DEEPEST = 50
_MOST_TOKENS = 500


class FormulaError(ValueError):
    """A text is not a valid formula; ``at`` is the index of the first wrong character."""

    def __init__(self, message: str, at: int) -> None:
        """Keep the message and the place."""
        super().__init__(message)
        self.at = at


def marked(text: str, at: int, width: int = 1) -> str:
    """Return two lines: the text, and carets under ``width`` of its characters from ``at`` on."""
    return f"  {text}\n  {' ' * at}{'^' * width}"


@dataclass(frozen=True)
class Formula:
    """A parsed formula."""

    text: str
    names: tuple[str, ...]  # the metrics that it uses, each once, in the order of the text
    _node: _Node = field(compare=False, repr=False)
    places: tuple[int, ...] = field(default=(), compare=False, repr=False)  # where each begins

    def value(self, values: Mapping[str, float]) -> float | None:
        """Compute the value; None if an input is missing or a divisor is 0."""
        if any(name not in values for name in self.names):
            return None
        try:
            return self._node(values)
        except ZeroDivisionError:
            return None

    def renamed(self, new_name: Callable[[str], str]) -> Formula:
        """Return the same formula with other names for its inputs."""
        new = {name: new_name(name) for name in self.names}

        def node(values: Mapping[str, float]) -> float:
            return self._node({old: values[name] for old, name in new.items()})

        return Formula(self.text, tuple(dict.fromkeys(new.values())), node)


def parse_formula(text: str) -> Formula:
    """Read a formula, or raise a `FormulaError` that says what was expected, and where."""
    reader = _Reader(text)
    node = reader.sum(0)
    if reader.token:
        raise reader.wrong("an operator")
    if not reader.places:
        raise FormulaError(f'"{text}" does not name a counter', 0)
    return Formula(text, tuple(reader.places), node, tuple(reader.places.values()))


def names_in(text: str) -> set[str]:
    """Return the names in the text of a formula, which need not be valid."""
    return {each["name"] for each in _TOKEN.finditer(text) if each["name"]}


class _Reader:
    """A parser that reads from left to right, one token ahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = self._next = self._count = 0
        self.places: dict[str, int] = {}
        self.kind: str | None = None
        self.token = ""
        self._take()

    @property
    def _place(self) -> int:
        """Where the token begins, after any blanks."""
        rest = self._text[self._at :]
        return self._at + len(rest) - len(rest.lstrip())

    def wrong(self, needed: str) -> FormulaError:
        found = f'"{self._text[self._at :].strip()}" was found' if self.token else "it ends"
        return FormulaError(f'"{self._text}": {needed} is expected, but {found}', self._place)

    def _take(self) -> str:
        """Return the current token and advance to the next."""
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
                raise FormulaError(
                    f'"{self._text:.60}..." is too long: {_MOST_TOKENS} numbers, names and signs '
                    "are allowed",
                    self._at,
                )
        return taken

    def sum(self, depth: int) -> _Node:
        return self._joined("+-", self._product, depth)

    def _product(self, depth: int) -> _Node:
        return self._joined("*/", self._factor, depth)

    def _joined(self, signs: str, part: Callable[[int], _Node], depth: int) -> _Node:
        node = part(depth)
        while self.token and self.token in signs:
            node = _operation(_OPERATORS[self._take()], node, part(depth))
        return node

    def _factor(self, depth: int) -> _Node:
        if depth > _DEEPEST:
            raise FormulaError(f'"{self._text:.60}" is nested too deeply', self._place)
        if self.kind == "number":
            number = float(self._take())
            return lambda _: number
        if self.kind == "name":
            place = self._place
            self.places.setdefault(name := self._take(), place)
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


def _operation(join: Callable[[float, float], float], left: _Node, right: _Node) -> _Node:
    return lambda values: join(left(values), right(values))
