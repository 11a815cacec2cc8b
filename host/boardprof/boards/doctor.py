# SPDX-License-Identifier: Apache-2.0
"""Work of which a board's own counters count a known amount: ``[doctor]`` of board.toml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from boardprof.toml_table import TomlTable

__all__ = ["DoctorSpec", "KnownWork", "read_doctor"]

_FUNCTION = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True)
class KnownWork:
    """What a counter counts of a function: an entry of ``[doctor.work]``.

    Attributes:
        function: takes how many rounds it shall do, a ``uint32_t``, and returns nothing.
        per_round: what is counted in each, 1 or more.
    """

    function: str
    per_round: int


@dataclass(frozen=True)
class DoctorSpec:
    """Work for a board's own counters: ``[doctor]``.

    Attributes:
        sources: the board's C files with such functions, relative to its folder.
        work: counter or event -> what it counts of which function.
    """

    sources: tuple[str, ...] = ()
    work: Mapping[str, KnownWork] = field(default_factory=dict, hash=False)


def read_doctor(table: TomlTable) -> DoctorSpec:
    """Read ``[doctor]``.

    Raises:
        UsageError: an unknown key, a missing one or a wrong value.
    """
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
    if not _FUNCTION.fullmatch(work.function):
        raise table.error("function", f"the name of a C function is needed, not {work.function!r}")
    if work.per_round < 1:
        raise table.error("per_round", f"a count of 1 or more is needed, not {work.per_round}")
    return work
