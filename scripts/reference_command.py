# SPDX-License-Identifier: Apache-2.0
"""The command line as Markdown, from the help of its commands and options."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

__all__ = ["command_page", "contexts"]

_HEAD = """\
# The command reference

<!-- This page is generated from the commands' help: make gen -->
<!-- fmt: off -->

`boardprof COMMAND --help` prints the same. [Measuring](measuring.md) and [gates](gates.md) show the
commands at work, [settings](gates.md#settings) has files and variables for the options, and
[exit codes](measuring.md#exit-codes) has what the commands end with.
"""

_FENCE = "<!-- not run: the command's own help -->\n```text\n{}\n```"


def command_page(group: click.Group, name: str) -> str:
    """Return the page.

    Args:
        group: all commands.
        name: that the group is called by.
    """
    ctx = click.Context(group, info_name=name)
    commands = [*contexts(group, ctx)]
    links = ", ".join(f"[{_name(each)}](#{_anchor(each)})" for each in commands[1:])
    return "".join([_HEAD, f"\nCommands: {links}.\n", *map(_section, commands)])


def contexts(command: click.Command, ctx: click.Context) -> Iterator[click.Context]:
    """Yield the contexts of a command and of all below it that have something to say."""
    yield ctx
    if isinstance(command, click.Group):
        for name in sorted(command.list_commands(ctx)):
            below = command.get_command(ctx, name)
            assert below is not None
            yield from contexts(below, click.Context(below, info_name=name, parent=ctx))


def _name(ctx: click.Context) -> str:
    """Return what comes after the group's own name."""
    return ctx.command_path.partition(" ")[2]


def _anchor(ctx: click.Context) -> str:
    return ctx.command_path.replace(" ", "-")


def _section(ctx: click.Context) -> str:
    command = ctx.command
    usage = " ".join([ctx.command_path, *command.collect_usage_pieces(ctx)])
    parts = [f"## {ctx.command_path}", _FENCE.format(usage), *_paragraphs(command.help or "")]
    options = [each for each in command.params if isinstance(each, click.Option)]
    records = [record for each in options if (record := each.get_help_record(ctx))]
    rows = [f"| `{_cell(words)}` | {_cell(text)} |" for words, text in records]
    if rows:
        parts.append("\n".join(["| option | |", "|---|---|", *rows]))
    return "\n" + "\n\n".join(parts) + "\n"


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a help; one behind a backspace keeps its lines, as click has it."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        literal = paragraph.removeprefix("\b\n")
        yield _FENCE.format(literal) if literal != paragraph else _safe(paragraph)


def _cell(text: str) -> str:
    return _safe(text).replace("|", "\\|")


def _safe(text: str) -> str:
    """Return text in which Markdown sees no HTML and no emphasis outside of code."""
    pieces = text.split("`")
    pieces[::2] = [piece.replace("<", "&lt;").replace("*", "\\*") for piece in pieces[::2]]
    return "`".join(pieces)
