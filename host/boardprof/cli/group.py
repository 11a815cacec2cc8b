# SPDX-License-Identifier: Apache-2.0
"""The kind of group that all commands stand in."""

from __future__ import annotations

import sys
from typing import Any

import click

from boardprof.cli.output import forget_output, progress_bar, quieten
from boardprof.cli.settings import environment_name

__all__ = ["Commands"]


class Commands(click.Group):
    """A group that proposes the nearest command, and does not mind when nobody reads on.

    What all commands have in common, they get when they are added.
    """

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Add a command, with ``--quiet``, and with an environment variable for each option."""
        if not isinstance(cmd, click.Group) or cmd.invoke_without_command:
            cmd.params.append(_quiet_option())
        for parameter in cmd.params:
            if isinstance(parameter, click.Option) and parameter.envvar is None:
                parameter.envvar = environment_name(parameter)
        super().add_command(cmd, name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which they were added."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; that whoever read its output has gone is no failure of it."""
        try:
            with progress_bar():
                result = super().invoke(ctx)
            if sys.stdout is not None:  # it may have been closed before we began
                sys.stdout.flush()  # here a full disk can still be told
        except BrokenPipeError:
            forget_output()
            return 0
        return result

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which is the nearest."""
        name = args[0] if args else ""
        if name and self.get_command(ctx, name) is None and not name.startswith("-"):
            import difflib

            known = self.list_commands(ctx)
            close = difflib.get_close_matches(name, known, n=1)
            proposal = f" Did you mean {close[0]!r}?" if close else ""
            raise click.UsageError(f"No such command {name!r}.{proposal}", ctx)
        return super().resolve_command(ctx, args)


def _quiet_option() -> click.Option:
    """Return the option that silences notes and progress; results and errors stay."""

    def taken(ctx: click.Context, option: click.Parameter, value: bool) -> None:
        if value:
            quieten()

    return click.Option(
        ["-q", "--quiet"],
        is_flag=True,
        expose_value=False,
        callback=taken,
        help="No notes, warnings and progress on stderr; errors are told.",
    )
