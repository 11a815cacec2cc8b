# SPDX-License-Identifier: Apache-2.0
"""What a board counts, as far as its files tell: the names that other tables may speak of."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path

from boardprof.formula import Formula, marked
from boardprof.toml_table import TomlTable

__all__ = ["check_formula", "check_names", "counted_names"]


def counted_names(
    folder: Path, collectors: Sequence[str], events: Mapping[str, Mapping[str, int]]
) -> tuple[str, ...] | None:
    """Return the names of all counters and events of a board.

    Args:
        folder: the board's.
        collectors: ``build.collectors``.
        events: from ``[events]``.

    Returns:
        None where they cannot be known before the board runs: a collector is another package's, or
        knows its events by name.

    Raises:
        UsageError: the board's schema.py cannot be used.
    """
    # Here, because construct takes a while to import.
    from boardprof.decode.schemas import board_layouts
    from boardprof_protocol.collectors import collector_layouts

    layouts = {each.name: each for each in (*collector_layouts(), *board_layouts(folder))}
    names: list[str] = []
    for collector in collectors:
        layout = layouts.get(collector)
        if layout is None or (layout.programmable and collector not in events):
            return None
        counters = [counter.name for counter in layout.counters]
        names += events[collector] if layout.programmable else counters
    return tuple(dict.fromkeys(names))


def check_names(table: TomlTable, known: Sequence[str]) -> None:
    """Refuse keys of a table that are no names of ``known``.

    A name may have its collector's in front, as in ``riscv_hpm.instructions``.

    Raises:
        UsageError: there is one; it is named with its line and what may have been meant.
    """
    for name in table.keys:
        if not _is_known(name, known):
            raise table.error(name, f"there is no such count{_proposal(name, known)}")


def check_formula(table: TomlTable, formula: Formula, known: Sequence[str]) -> None:
    """Refuse a formula, the key ``formula`` of a table, of what is not among ``known``.

    Raises:
        UsageError: as `check_names`, with a mark below the name.
    """
    for name, at in zip(formula.names, formula.places, strict=True):
        if not _is_known(name, known):
            error = table.error("formula", f'"{name}" is no count{_proposal(name, known)}')
            error.message += f"\n{marked(formula.text, at, len(name))}"
            raise error


def _is_known(name: str, known: Sequence[str]) -> bool:
    return name in known or name.partition(".")[2] in known


def _proposal(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    proposal = f"did you mean {close[0]!r}? " if close else ""
    return f" of this board; {proposal}Known here: {', '.join(known)}"
