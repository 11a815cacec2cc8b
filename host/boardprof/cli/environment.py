# SPDX-License-Identifier: Apache-2.0
"""Environment variables that look like ours and are none: a mistake, as in a file of settings.

Such is a misspelt name, and that of an option's short form: ``BOARDPROF_O`` is not ``-O``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import takewhile

import click

from boardprof.errors import UsageError

__all__ = ["PREFIX", "check_variables"]

PREFIX = "BOARDPROF_"
_BESIDE_OPTIONS = frozenset(["HISTORY", "KEY", "PROJECT"])
_OF_BUILDS = frozenset(
    (
        *("ALSO", "AR", "ARCH", "ARENA", "BUILD", "COLLECTORS", "COMMAND", "CPPFLAGS"),
        *("FREESTANDING", "LIBRARY", "MTU", "OBJECTS", "RUNTIME", "SLOT_BYTES", "STACK"),
    )
)
"""What boardprof.mk and the other build files of the runtime know, and make puts there."""


def check_variables(environment: Mapping[str, str], group: click.Group, ctx: click.Context) -> None:
    """See that no variable is a misspelt one of ours; what is near to none may be anybody's own.

    Raises:
        UsageError: one is.
    """
    ours = {name.removeprefix(PREFIX) for name in environment if name.startswith(PREFIX)}
    ours -= _BESIDE_OPTIONS | _OF_BUILDS
    if not ours:
        return
    short: dict[str, str] = {}
    known = {*_BESIDE_OPTIONS}
    for option, variable in _variables(group, ctx):
        own = variable.removeprefix(PREFIX)
        known.add(own)
        short |= {form[1:]: own for form in option.opts if not form.startswith("--")}
    for name in sorted(ours - known):
        slips = (each for each in sorted(known) if _is_slip(name, each))
        meant = short.get(name) or short.get(name.lower()) or next(slips, None)
        if meant is not None:
            raise UsageError(
                f"{PREFIX}{name} in the environment is no setting; did you mean {PREFIX}{meant}?"
            )


def _is_slip(written: str, meant: str) -> bool:
    """Tell whether a letter is missing, too many or another one, or two are swapped."""
    for _ in range(2):  # cut off what they begin with alike, then what they end with
        pairs = zip(written, meant, strict=False)
        alike = len([*takewhile(lambda pair: pair[0] == pair[1], pairs)])
        written, meant = written[alike:][::-1], meant[alike:][::-1]
    return max(len(written), len(meant)) == 1 or (len(written) == 2 and written == meant[::-1])


def _variables(command: click.Command, ctx: click.Context) -> Iterator[tuple[click.Parameter, str]]:
    """Yield a command's options and their variables, and those of all commands below it."""
    for parameter in command.params:
        if isinstance(parameter.envvar, str):
            yield parameter, parameter.envvar
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            below = command.get_command(ctx, name)
            if below is not None:
                yield from _variables(below, ctx)
