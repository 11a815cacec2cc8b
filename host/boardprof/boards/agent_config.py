# SPDX-License-Identifier: Apache-2.0
"""The agent's sizes and options, and what each may be: by ``bp_config.h``, which has them all."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Mapping

from boardprof.resources import runtime_dir
from boardprof.toml_table import TomlTable

__all__ = ["agent_options", "check_config"]

_OPTION = re.compile(r"^#define BP_CFG_([A-Z0-9_]+) (\d+)$", re.MULTILINE)
_RULE = re.compile(r'^#if (.+)\n#error "(.+)"$', re.MULTILINE)
_RANGE = re.compile(r"BP_CFG_\w+ is out of range \((.+)\)")
_NAME = re.compile(r"BP_CFG_([A-Z0-9_]+)")

_COMPARE: dict[type[ast.AST], Callable[[int, int], bool]] = {
    ast.Lt: int.__lt__,
    ast.Gt: int.__gt__,
    ast.Eq: int.__eq__,
    ast.NotEq: int.__ne__,
}


@functools.cache
def agent_options() -> Mapping[str, int]:
    """Return the options of ``bp_config.h``: name in lower case -> default."""
    return {name.lower(): int(value) for name, value in _OPTION.findall(_header())}


def check_config(table: TomlTable, config: Mapping[str, int]) -> None:
    """Hold ``build.config`` against the ``#error`` lines of ``bp_config.h``.

    Args:
        table: it.
        config: its content; what is not in it has its default.

    Raises:
        UsageError: a value is out of range, or does not go with another one.
    """
    values = {**agent_options(), **config}
    for condition, message in _rules():
        if _value(condition, values):
            named = [name.lower() for name in _NAME.findall(message)]
            key = next((name for name in named if name in config), named[0])
            found = _RANGE.fullmatch(message)
            text = f"{found[1]} is needed, not {values[key]}" if found else message
            raise table.error(key, _NAME.sub(lambda name: name[1].lower(), text))


@functools.cache
def _header() -> str:
    return (runtime_dir() / "include" / "boardprof" / "bp_config.h").read_text(encoding="utf-8")


@functools.cache
def _rules() -> tuple[tuple[ast.expr, str], ...]:
    """Return each condition that must not hold, with the text of its error."""
    return tuple((_parsed(condition), text) for condition, text in _RULE.findall(_header()))


def _parsed(condition: str) -> ast.expr:
    """Read a condition of the preprocessor's, whose operators Python has by other names."""
    python = _NAME.sub(lambda name: name[1].lower(), condition)
    python = python.replace("&&", " and ").replace("||", " or ")
    return ast.parse(python, mode="eval").body


def _value(node: ast.expr, values: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return values[name]
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_value(part, values) for part in parts)
        case ast.BoolOp(op=ast.Or(), values=parts):
            return any(_value(part, values) for part in parts)
        case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
            return _value(left, values) & _value(right, values)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _value(left, values) - _value(right, values)
        case ast.Compare(left=left, ops=[sign], comparators=[right]):
            return _COMPARE[type(sign)](_value(left, values), _value(right, values))
    raise ValueError(f"bp_config.h has a condition that is not understood: {ast.unparse(node)}")
