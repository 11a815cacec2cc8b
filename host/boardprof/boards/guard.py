# SPDX-License-Identifier: Apache-2.0
"""Which faults of a called function end the call and not the board: ``[guard]`` of board.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from boardprof.toml_table import TomlTable
from boardprof_protocol.codes import FaultCause


def cause_name(cause: FaultCause) -> str:
    """Return the cause as board.toml spells it: ``bad-address``."""
    return cause.name.lower().replace("_", "-")


CAUSES = tuple(cause_name(c) for c in FaultCause if c not in (FaultCause.NONE, FaultCause.UNKNOWN))
"""The causes that a board may catch, in the order of their numbers."""

_UNGUARDED = "its agent has no guard"


@dataclass(frozen=True)
class GuardSpec:
    """What a board's guard can do: ``[guard]``.

    Attributes:
        catches: causes that end the call and not the board.
        missing: every other cause -> why the board cannot catch it.
    """

    catches: tuple[str, ...] = ()
    missing: Mapping[str, str] = field(
        default_factory=lambda: dict.fromkeys(CAUSES, _UNGUARDED), hash=False
    )

    def facts(self) -> list[dict[str, str | None]]:
        """Return each cause with the reason why it is not caught, or None; for JSON."""
        return [{"cause": cause, "not_caught": self.missing.get(cause)} for cause in CAUSES]


def read_guard(table: TomlTable | None, config: Mapping[str, int], build: TomlTable) -> GuardSpec:
    """Read ``[guard]``.

    Args:
        table: the table, None if absent.
        config: the agent's options; ``guard = 1`` turns the guard on.
        build: the table ``[build]``, for messages.

    Raises:
        UsageError: a cause is unknown, given twice or missing, or the table and the option
            contradict each other.
    """
    if table is None:
        if config.get("guard"):
            raise build.error(
                "config", "guard = 1 needs a table [guard] that lists what it catches"
            )
        return GuardSpec()
    if not config.get("guard"):
        raise table.error("catches", "nothing is caught without guard = 1 in build.config")
    catches = table.texts("catches", None)
    for cause in catches:
        if cause not in CAUSES:
            raise table.error("catches", f'"{cause}" is not a cause; known: {", ".join(CAUSES)}')
    missing = table.table("not", required=False).mapping(str, dict.fromkeys(CAUSES))
    table.end()
    for cause in CAUSES:
        told = catches.count(cause) + (cause in missing)
        if told != 1:
            what = f'"{cause}" is {"given twice" if told else "missing"}'
            raise table.error("catches", f"{what}: give it here, or with a reason in [guard.not]")
    return GuardSpec(tuple(c for c in CAUSES if c in catches), missing)
