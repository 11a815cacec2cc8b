# SPDX-License-Identifier: Apache-2.0
"""What a board counts beyond its collectors' counters: ``[events]`` and ``[derived]``.

And ``[doctor]``: work for which the board's own counters have a known result.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from boardprof.base.formula import Formula, FormulaError, marked, parse_formula
from boardprof.base.toml_table import TomlTable

_EVENT = r"[A-Za-z_][A-Za-z0-9_.:-]*"
_CODE_BITS = 64
_RESERVED = frozenset(
    {
        *("Name", "Duration (us)", "Percent", "Device", "Count", "Argument Shapes", "Flags"),
        *("Hash", "Stack (bytes)", "Perturbation (%)", "duration", "time", "stack", "all"),
    }
)
"""Columns of every Report, and names with another meaning in ``metrics=``."""

_FUNCTION = r"(?a)[A-Za-z_]\w*"


@dataclass(frozen=True)
class DerivedSpec:
    """A metric that is computed from others: an entry of ``[derived]``.

    Attributes:
        formula: over counters and events; a Percent's gives 100 for the whole.
    """

    kind: str
    formula: Formula


def read_events(table: TomlTable, collectors: Sequence[str]) -> dict[str, dict[str, int]]:
    """Read ``[events]``: collector -> event -> its code."""
    found = {}
    for name in table.keys:
        events = table.table(name)
        if name not in collectors:
            known = ", ".join(collectors) or "none"
            raise table.error(
                name, f"the board does not have this collector; build.collectors: {known}"
            )
        codes = events.mapping(int)
        for event, code in codes.items():
            if not re.fullmatch(_EVENT, event):
                raise events.error(event, "must be a name of letters, digits and any of _.:-")
            if not 0 <= code < 1 << _CODE_BITS:
                raise events.error(
                    event, f"must be a code of 0 or more that fits in 64 bits, not {code}"
                )
        found[name] = codes
    table.end()
    return found


def read_derived(table: TomlTable, events: Container[str] = ()) -> dict[str, DerivedSpec]:
    """Read ``[derived]``: metric -> how it is computed."""
    for name in table.keys:
        if name in _RESERVED:
            raise table.error(name, "boardprof already uses this name")
        if name in events:
            raise table.error(name, "an event in [events] already has this name")
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


def counted_names(
    folder: Path, collectors: Sequence[str], events: Mapping[str, Mapping[str, int]]
) -> tuple[str, ...] | None:
    """Return the names of all counters and events of a board.

    Returns:
        None if they are only known once the board runs: a collector belongs to another package, or
        has its events by name.
    """
    # Here, because construct takes a while to import.
    from boardprof.wire.decode.schemas import board_layouts
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
    """Refuse keys of a table that are not among ``known``.

    A name may begin with its collector's, as in ``riscv_hpm.instructions``.
    """
    for name in table.keys:
        if not _is_known(name, known):
            raise table.error(name, f"is not a count{_proposal(name, known)}")


def check_formula(table: TomlTable, formula: Formula, known: Sequence[str]) -> None:
    """Refuse a formula, the key ``formula`` of a table, with names that are not among ``known``."""
    for name, at in zip(formula.names, formula.places, strict=True):
        if not _is_known(name, known):
            error = table.error("formula", f'"{name}" is not a count{_proposal(name, known)}')
            error.message += f"\n{marked(formula.text, at, len(name))}"
            raise error


def _is_known(name: str, known: Sequence[str]) -> bool:
    return name in known or name.partition(".")[2] in known


def _proposal(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    proposal = f"did you mean {close[0]!r}? " if close else ""
    return f" of this board; {proposal}Known here: {', '.join(known)}"


@dataclass(frozen=True)
class KnownWork:
    """A function with a known count: an entry of ``[doctor.work]``.

    Attributes:
        function: takes its number of rounds, a ``uint32_t``, and returns nothing.
    """

    function: str
    per_round: int


@dataclass(frozen=True)
class DoctorSpec:
    """Work for a board's own counters: ``[doctor]``.

    Attributes:
        work: counter or event -> the function with a known count of it.
    """

    sources: tuple[str, ...] = ()
    work: Mapping[str, KnownWork] = field(default_factory=dict, hash=False)


def read_doctor(table: TomlTable) -> DoctorSpec:
    """Read ``[doctor]``."""
    sources = table.texts("sources")
    work = table.table("work", required=False)
    table.end()
    for path in sources:
        if not (table.file.parent / path).is_file():
            raise table.error("sources", f"there is no file {path!r} in the board's folder")
    return DoctorSpec(sources, {name: _work(work.table(name)) for name in work.keys})


def _work(table: TomlTable) -> KnownWork:
    work = KnownWork(table.take("function", str), table.take("per_round", int))
    table.end()
    if not re.fullmatch(_FUNCTION, work.function):
        raise table.error("function", f"must be the name of a C function, not {work.function!r}")
    if work.per_round < 1:
        raise table.error("per_round", f"must be a count of 1 or more, not {work.per_round}")
    return work
