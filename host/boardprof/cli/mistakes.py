# SPDX-License-Identifier: Apache-2.0
"""What click finds wrong with a command line, told as all our errors are."""

from __future__ import annotations

import click
from click.core import ParameterSource

from boardprof.cli.settings import commands_below

__all__ = ["mistake_text"]


def mistake_text(error: click.ClickException) -> str:
    """Return what click has found wrong, in the form of our own errors; or the help it shows."""
    if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):  # from 8.2 on
        return error.format_message()
    if isinstance(error, click.BadParameter):
        _name_variable(error)
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return f"error: {_sentence(error)}\nTry: boardprof --help"
    if isinstance(error, click.NoSuchOption):
        place = _place(error.option_name, context)
        if place is not None:
            return place
    pieces = context.command.collect_usage_pieces(context)
    path = context.command_path
    usage = f"Usage: {' '.join([path, *pieces])}"
    return "\n".join([f"error: {_sentence(error)}", usage, f"Try: {path} --help"])


def _sentence(error: click.ClickException) -> str:
    message = " ".join(error.format_message().split())
    message = message.replace("Recognized values: , ", "Recognized values: ")  # "" is false, too
    return message if message.endswith((".", "?", "?)")) else f"{message}."


def _place(option: str, context: click.Context) -> str | None:
    """Return where an option stands that is before or behind its place; None: it is none there."""
    root = context.find_root()
    if context is not root:
        if _has(root.command, option):
            after = context.command_path.removeprefix(root.command_path)
            return f"error: {option} stands before the command.\nTry: boardprof {option} ...{after}"
        return None
    assert isinstance(root.command, click.Group)
    if any(_has(command, option) for command in commands_below(root.command, root)):
        return f"error: {option} stands behind the command.\nTry: boardprof COMMAND {option}"
    return None


def _has(command: click.Command, option: str) -> bool:
    return any(option in parameter.opts for parameter in command.params)


def _name_variable(error: click.BadParameter) -> None:
    """Let an error name the environment variable that a value came from, not the option."""
    if error.ctx is not None and error.param is not None:
        source = error.ctx.get_parameter_source(error.param.name or "")
        if source is ParameterSource.ENVIRONMENT:
            error.param_hint = f"{error.param.envvar} in the environment"
