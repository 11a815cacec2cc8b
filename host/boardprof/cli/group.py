# SPDX-License-Identifier: Apache-2.0
"""The kind of group that all commands stand in."""

from __future__ import annotations

import difflib
import sys
from typing import Any

import click

from boardprof.cli.output import forget_output

__all__ = ["Commands"]


class Commands(click.Group):
    """A group that proposes the nearest command, and does not mind when nobody reads on."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; that whoever read its output has gone is no failure of it."""
        try:
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
            known = self.list_commands(ctx)
            close = difflib.get_close_matches(name, known, n=1)
            proposal = f" Did you mean {close[0]!r}?" if close else ""
            raise click.UsageError(f"No such command {name!r}.{proposal}", ctx)
        return super().resolve_command(ctx, args)
