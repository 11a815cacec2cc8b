# SPDX-License-Identifier: Apache-2.0
"""The group that contains all commands: common options, suggestions, a closed output."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from boardprof.base.errors import UnknownNameError
from boardprof.ui.cli.exit_codes import DEBUG, show_tracebacks
from boardprof.ui.cli.option_defaults import environment_names
from boardprof.ui.cli.options import complete_file
from boardprof.ui.cli.output import forget_output, progress_bar, set_quiet

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class _MaybeFile(click.types.StringParamType):
    """A text for which a shell completes files; for click's own type it completes nothing."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Leave it to the shell."""
        return complete_file(ctx, param, incomplete)


class SectionedCommand(click.Command):
    """A command whose many options are grouped into sections in its help."""

    def __init__(self, *args: Any, sections: Mapping[str, str], **options: Any) -> None:
        """Create the command."""
        super().__init__(*args, **options)
        self.sections = sections

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections."""
        titles = {name: title for title, names in self.sections.items() for name in names.split()}
        records: dict[str, list[tuple[str, str]]] = {title: [] for title in self.sections}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if record is not None and isinstance(option, click.Option):
                records.setdefault(titles.get(option.name or "", "Help"), []).append(record)
        for title, rows in records.items():
            with formatter.section(title):
                formatter.write_dl(rows)


class Commands(click.Group):
    """A group that proposes the nearest command and tolerates a closed output.

    Commands get their common options when they are added.
    """

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Add a command, with ``--quiet``, ``--debug``, and a variable for each option.

        A shell completes files for its arguments: most can be files.
        """
        if not isinstance(cmd, click.Group) or cmd.invoke_without_command:
            cmd.params += [_quiet_option(), _debug_option()]
        for parameter in cmd.params:
            if isinstance(parameter, click.Option) and parameter.envvar is None:
                parameter.envvar = environment_names(parameter)
                if "--verbose" in parameter.opts:
                    parameter.callback = _with_tracebacks
            elif _completes_nothing(parameter):
                parameter.type = _MaybeFile()
        super().add_command(cmd, name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which they were added."""
        return list(self.commands)

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Read the options; some of them print. A closed output is not a failure."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except BrokenPipeError:
            forget_output()
            raise click.exceptions.Exit(0) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Its exit code counts even if its output is not read to the end."""
        result: Any = 0
        try:
            with progress_bar():
                result = self._invoked(ctx)
            if sys.stdout is not None:  # it may have been closed before we began
                sys.stdout.flush()  # here a full disk can still be reported
        except BrokenPipeError:  # from the flush, or from what click prints, such as help
            forget_output()
        return result

    def _invoked(self, ctx: click.Context) -> Any:
        """Run the command; attribute a usage error without a context to this command."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            name = ctx.invoked_subcommand
            command = None if name is None else self.get_command(ctx, name)
            if error.ctx is None and command is not None:
                error.ctx = click.Context(command, ctx, name)
            raise

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or suggest the nearest name."""
        name = args[0] if args else ""
        if name and self.get_command(ctx, name) is None and not name.startswith("-"):
            known = self.list_commands(ctx)
            hint = f"{ctx.command_path} --help"
            raise UnknownNameError("command", name, known, hint=hint)
        return super().resolve_command(ctx, args)


def _completes_nothing(parameter: click.Parameter) -> bool:
    is_text = isinstance(parameter, click.Argument) and parameter.type is click.STRING
    return is_text and parameter._custom_shell_complete is None


def _quiet_option() -> click.Option:
    """Return the option that silences notes and progress; results and errors stay."""

    def taken(ctx: click.Context, option: click.Parameter, value: bool) -> None:
        set_quiet(value)  # also if not given: this process may have run a quiet command before

    return click.Option(
        ["-q", "--quiet"],
        is_flag=True,
        expose_value=False,
        callback=taken,
        help="Print only errors to stderr.",
    )


def _debug_option() -> click.Option:
    """Return the option that shows the traceback of an error in boardprof itself."""
    return click.Option(
        [DEBUG],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_with_tracebacks,
        help="Show the traceback of an internal error (exit code 70).",
    )


def _with_tracebacks(ctx: click.Context, option: click.Parameter, value: bool) -> bool:
    if value:
        show_tracebacks()
    return value
