# SPDX-License-Identifier: Apache-2.0
"""What a board counts beyond its collectors' counters: ``[events]`` and ``[derived]``."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass

from boardprof.formula import Formula, FormulaError, marked, parse_formula
from boardprof.toml_table import TomlTable

__all__ = ["DerivedSpec", "read_derived", "read_events"]

_EVENT = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]*")
_CODE_BITS = 64
_RESERVED = frozenset(
    {
        *("Name", "Duration (us)", "Percent", "Device", "Count", "Argument Shapes", "Flags"),
        *("Hash", "Stack (bytes)", "Perturbation (%)", "duration", "all"),
    }
)
"""Columns that a Report has anyway, and names that mean something else in ``metrics=``."""


@dataclass(frozen=True)
class DerivedSpec:
    """A metric that is computed of others: an entry of ``[derived]``.

    Attributes:
        kind: "Count", "Percent" or "Ratio".
        formula: of counters and events; a Percent's gives 100 for the whole.
    """

    kind: str
    formula: Formula


def read_events(table: TomlTable, collectors: Sequence[str]) -> dict[str, dict[str, int]]:
    """Read ``[events]``: collector -> event -> its code.

    Args:
        table: it.
        collectors: the board's; each key is one of them.

    Raises:
        UsageError: there is no such collector; a name is none, or a code is out of range.
    """
    found = {}
    for name in table.keys:
        events = table.table(name)
        if name not in collectors:
            known = ", ".join(collectors) or "none"
            raise table.error(name, f"the board has no such collector; build.collectors: {known}")
        codes = events.mapping(int)
        for event, code in codes.items():
            if not _EVENT.fullmatch(event):
                raise events.error(event, "an event's name is of letters, digits and any of _.:-")
            if not 0 <= code < 1 << _CODE_BITS:
                raise events.error(event, f"a code is 0 or more, in 64 bits, not {code}")
        found[name] = codes
    table.end()
    return found


def read_derived(table: TomlTable, events: Container[str] = ()) -> dict[str, DerivedSpec]:
    """Read ``[derived]``: metric -> how it is computed.

    Args:
        table: it.
        events: the board's; no metric may hide one.

    Raises:
        UsageError: an unknown key, a missing one, a name that is taken, or a formula is none.
    """
    for name in table.keys:
        if name in _RESERVED:
            raise table.error(name, "a Report has a column, or boardprof a meaning, of that name")
        if name in events:
            raise table.error(name, "an event of [events] has that name")
    return {name: _derived(table.table(name)) for name in table.keys}


def _derived(table: TomlTable) -> DerivedSpec:
    kind = table.choice("kind", ("Count", "Percent", "Ratio"))
    text = table.take("formula", str)
    table.end()
    try:
        return DerivedSpec(kind, parse_formula(text))
    except FormulaError as error:
        wrong = table.error("formula", str(error))
        wrong.message += f"\n{marked(text, error.at)}"
        raise wrong from error
