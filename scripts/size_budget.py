# SPDX-License-Identifier: Apache-2.0
"""Budgets of the agent's size: the committed table, and what exceeds it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.size_build import Figures

__all__ = ["Budget", "BudgetError", "exceeded", "load_budgets"]

_SIZES = ("text", "ram")


class BudgetError(Exception):
    """The table of budgets is not as it must be."""


@dataclass(frozen=True)
class Budget:
    """Most bytes that a row may have, by target, and why they are what they are."""

    text: Mapping[str, int]
    ram: Mapping[str, int]
    reason: str


def load_budgets(path: Path, rows: Sequence[str], targets: Sequence[str]) -> dict[str, Budget]:
    """Read the table: one budget for each row, which has a size for each target.

    Args:
        path: TOML; a table for each row, with `text` and `ram` in bytes, each a number for all
            targets or a table with one for each, and a `reason`.
        rows: the rows there are.
        targets: the targets there are.

    Raises:
        BudgetError: the file is not TOML, a row or target has no budget, a budget has no row or
            target, or there is no reason. The message names the place.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BudgetError(f"{path}: {error}") from error
    _same(f"{path}", "row", tables, rows)
    return {row: _budget(f"{path}: [{row}]", tables[row], targets) for row in rows}


def exceeded(figures: Figures, budget: Budget) -> list[str]:
    """Say which sizes of a row are over its budget, by how much; nothing when none is."""
    allowed = {"text": budget.text[figures.target], "ram": budget.ram[figures.target]}
    used = {"text": figures.text, "ram": figures.ram}
    return [
        f"{figures.option} on {figures.target}: {size} is {used[size]} bytes, "
        f"{used[size] - allowed[size]} more than its budget of {allowed[size]}"
        for size in _SIZES
        if used[size] > allowed[size]
    ]


def _budget(place: str, table: Any, targets: Sequence[str]) -> Budget:
    if not isinstance(table, dict):
        raise BudgetError(f"{place} is not a table")
    _same(place, "key", table, [*_SIZES, "reason"])
    reason = table["reason"]
    if not isinstance(reason, str) or not reason.strip():
        raise BudgetError(f"{place} reason: say in a few words why the budget is what it is")
    text, ram = (_by_target(f"{place} {size}", table[size], targets) for size in _SIZES)
    return Budget(text, ram, reason)


def _by_target(place: str, value: Any, targets: Sequence[str]) -> dict[str, int]:
    by_target = value if isinstance(value, dict) else dict.fromkeys(targets, value)
    _same(place, "target", by_target, targets)
    for target, size in by_target.items():
        if type(size) is not int or size < 0:
            raise BudgetError(f"{place}: {size!r} is not a number of bytes (for {target})")
    return by_target


def _same(place: str, kind: str, found: Iterable[str], needed: Iterable[str]) -> None:
    """See that a table has just those keys that are needed."""
    for name in needed:
        if name not in found:
            raise BudgetError(f"{place}: the {kind} {name!r} is missing")
    for name in found:
        if name not in needed:
            raise BudgetError(f"{place}: there is no {kind} {name!r}")
