# SPDX-License-Identifier: Apache-2.0
"""The command line as a manual page, man(7), from the help of its commands and options.

Hatchling has it made when it builds the package.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

__all__ = ["contexts", "manual_page"]


class ManualPage(BuildHookInterface[Any]):
    """Puts the page into the wheel; an editable install leaves it out."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the page into ``build`` and name it among the wheel's files."""
        if self.target_name != "wheel" or version == "editable":
            return
        root = Path(self.root)
        sys.path[:0] = [str(root / "host"), str(root / "protocol")]
        from boardprof.ui.cli import main
        from boardprof.ui.cli.commands import cli

        exit_codes = inspect.cleandoc(main.__doc__ or "").split("\n\n")[1]
        page = root / "build" / "boardprof.1"
        page.parent.mkdir(exist_ok=True)
        page.write_text(manual_page(cli, "boardprof", exit_codes), encoding="utf-8")
        build_data["shared_data"][str(page)] = "share/man/man1/boardprof.1"


def manual_page(group: click.Group, name: str, exit_codes: str) -> str:
    """Return the page.

    Args:
        group: all commands.
        name: that the group is called by.
        exit_codes: what the command ends with, as text.
    """
    ctx = click.Context(group, info_name=name)
    about, *_ = inspect.cleandoc(group.help or "").split("\n\n")
    lines = [
        f'.TH {name.upper()} 1 "" "{name}" "User Commands"',
        *(".SH NAME", f"{name} \\- {_text(about.rstrip('.'))}"),
        *(".SH SYNOPSIS", f".B {name}", "COMMAND [OPTIONS] [ARGUMENTS]"),
        ".SH COMMANDS",
    ]
    for each in contexts(group, ctx):
        if each is not ctx:
            lines += _command(each)
    lines += [".SH EXIT STATUS", *_paragraphs(exit_codes)]
    return "\n".join(lines) + "\n"


def _command(ctx: click.Context) -> Iterator[str]:
    command = ctx.command
    yield f".SS {_text(' '.join([ctx.command_path, *command.collect_usage_pieces(ctx)]))}"
    yield from _paragraphs(command.help or "")
    for option in command.params:
        record = option.get_help_record(ctx) if isinstance(option, click.Option) else None
        if record is not None:
            yield from (".TP", f".B {_text(record[0])}", _text(record[1]))
    if command.epilog:
        yield from (".PP", *_paragraphs(command.epilog))


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a help; one behind a backspace keeps its lines, as click has it."""
    for number, paragraph in enumerate(inspect.cleandoc(text).split("\n\n")):
        literal = paragraph.removeprefix("\b\n")
        yield from [".PP"] * (number > 0)
        if literal != paragraph:
            yield from (".nf", *_lines(literal), ".fi")
        else:
            yield from _lines(paragraph)


def _lines(text: str) -> Iterable[str]:
    return map(_text, text.splitlines())


def _text(text: str) -> str:
    r"""Return text in which roff sees no request and no escape; quotes and minus as typed."""
    shown = text.replace("``", "").replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return f"\\&{shown}" if shown.startswith(".") else shown


def contexts(command: click.Command, ctx: click.Context) -> Iterator[click.Context]:
    """Yield the contexts of a command and of all below it that have something to say."""
    yield ctx
    if isinstance(command, click.Group):
        for name in sorted(command.list_commands(ctx)):
            below = command.get_command(ctx, name)
            assert below is not None
            yield from contexts(below, click.Context(below, info_name=name, parent=ctx))
