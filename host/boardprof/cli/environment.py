# SPDX-License-Identifier: Apache-2.0
"""Environment variables that look like ours and are none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import click

from boardprof.errors import UnknownNameError

__all__ = ["PREFIX", "misspelt_variables"]

PREFIX = "BOARDPROF_"
_BESIDE_OPTIONS = frozenset(["HISTORY", "KEY"])
_OF_BUILDS = frozenset(
    (
        *("ALSO", "AR", "ARCH", "ARENA", "BUILD", "COLLECTORS", "COMMAND", "CPPFLAGS"),
        *("FREESTANDING", "LIBRARY", "MTU", "OBJECTS", "RUNTIME", "SLOT_BYTES", "STACK"),
    )
)
"""What boardprof.mk and the other build files of the runtime know, and make puts there."""


def misspelt_variables(
    environment: Mapping[str, str], group: click.Group, ctx: click.Context
) -> Iterator[tuple[str, str]]:
    """Yield each variable that is probably a misspelt one of ours, and that one.

    What is near to none may be anybody's own, and is left alone.
    """
    ours = {name.removeprefix(PREFIX) for name in environment if name.startswith(PREFIX)}
    ours -= _BESIDE_OPTIONS | _OF_BUILDS
    if not ours:
        return
    known = _BESIDE_OPTIONS | {name.removeprefix(PREFIX) for name in _variables(group, ctx)}
    for name in sorted(ours - known):
        nearest = UnknownNameError.nearest(name, sorted(known))
        if nearest is not None:
            yield f"{PREFIX}{name}", f"{PREFIX}{nearest}"


def _variables(command: click.Command, ctx: click.Context) -> Iterator[str]:
    """Yield the variables of a command's options, and those of all commands below it."""
    for parameter in command.params:
        if isinstance(parameter.envvar, str):
            yield parameter.envvar
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            below = command.get_command(ctx, name)
            if below is not None:
                yield from _variables(below, ctx)
