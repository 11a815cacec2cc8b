# SPDX-License-Identifier: Apache-2.0
"""Which faults of a called function end the call and not the board: ``[guard]`` of board.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from boardprof.toml_table import TomlTable
from boardprof_protocol.codes import FaultCause

__all__ = ["CAUSES", "GuardSpec", "cause_name", "read_guard"]


def cause_name(cause: FaultCause) -> str:
    """Return the cause as board.toml spells it: ``bad-address``."""
    return cause.name.lower().replace("_", "-")


CAUSES = tuple(cause_name(c) for c in FaultCause if c not in (FaultCause.NONE, FaultCause.UNKNOWN))
"""All that a board either catches or does not, in the order of their numbers."""

_UNGUARDED = "its agent does not guard calls"


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
        """Return each cause and why it is not caught, None where it is; for JSON."""
        return [{"cause": cause, "not_caught": self.missing.get(cause)} for cause in CAUSES]


def read_guard(table: TomlTable | None, config: Mapping[str, int], build: TomlTable) -> GuardSpec:
    """Read ``[guard]``; None if there is none.

    Args:
        table: the table, if there is one.
        config: the agent's options: a board that guards has ``guard = 1`` there.
        build: the table ``[build]``, for messages.

    Raises:
        UsageError: an unknown cause, one that is told twice or not at all, or the table and the
            option do not go together.
    """
    if table is None:
        if config.get("guard"):
            raise build.error("config", "guard = 1 needs a table [guard] that says what it catches")
        return GuardSpec()
    if not config.get("guard"):
        raise table.error("catches", "nothing is caught without guard = 1 in build.config")
    catches = table.texts("catches", None)
    for cause in catches:
        if cause not in CAUSES:
            raise table.error("catches", f'"{cause}" is no cause; known: {", ".join(CAUSES)}')
    missing = table.table("not", required=False).mapping(str, dict.fromkeys(CAUSES))
    table.end()
    for cause in CAUSES:
        told = catches.count(cause) + (cause in missing)
        if told != 1:
            problem = f'"{cause}" must stand once, here or with a reason in [guard.not]; it stands'
            raise table.error("catches", f"{problem} {'twice' if told else 'nowhere'}")
    return GuardSpec(tuple(c for c in CAUSES if c in catches), missing)
