# SPDX-License-Identifier: Apache-2.0
"""Groups of commands: their common options, and settings as defaults of all options.

Precedence: flag, ``BOARDPROF_*``, the project's file, the user's file:
click's own order of flag, environment variable and default map.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from boardprof.base.errors import UnknownNameError, UsageError, begin_command
from boardprof.ui.cli.exit_codes import DEBUG, show_tracebacks
from boardprof.ui.cli.options import complete_file
from boardprof.ui.cli.output import echo, echo_warning, forget_output, progress_bar, set_quiet

if TYPE_CHECKING:
    from boardprof.base.settings import Setting


class _MaybeFile(click.types.StringParamType):
    """A text for which a shell completes files; for click's own type it completes nothing."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return complete_file(ctx, param, incomplete)


MOST_USED = "Most used"  # the section of options that ``-h`` shows; ``--help`` shows all
_SHORT = "boardprof.short_help"  # in a context's ``meta`` if its help is the short one


class SectionedCommand(click.Command):
    """A command whose many options are grouped into sections in its help."""

    def __init__(self, *args: Any, sections: dict[str, str], **options: Any) -> None:
        """Create the command."""
        super().__init__(*args, **options)
        self.sections = sections
        if MOST_USED in sections:
            self.context_settings = {"help_option_names": ["--help"]}
            self.params.append(
                click.Option(
                    ["-h"],
                    is_flag=True,
                    is_eager=True,
                    expose_value=False,
                    callback=self._show_short_help,
                    help="Show the most used options and exit.",
                )
            )

    def _show_short_help(self, ctx: click.Context, option: click.Parameter, value: bool) -> None:
        if value and not ctx.resilient_parsing:
            ctx.meta[_SHORT] = True
            echo(ctx.get_help())
            ctx.exit()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections."""
        sections = reversed(self.sections.items())  # the first that has a name counts
        titles = {name: title for title, names in sections for name in names.split()}
        records: dict[str, list[tuple[str, str]]] = {title: [] for title in self.sections}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if record is not None and isinstance(option, click.Option):
                records.setdefault(titles.get(option.name or "", "Help"), []).append(record)
        if _SHORT in ctx.meta:
            rest = sum(len(rows) for title, rows in records.items() if title != MOST_USED)
            records = {
                MOST_USED: records[MOST_USED],
                "Help": [("--help", f"Show the other {rest} options.")],
            }
        for title, rows in records.items():
            with formatter.section(title):
                formatter.write_dl(rows)


def _with_tracebacks(ctx: click.Context, option: click.Parameter, value: bool) -> bool:
    if value:
        show_tracebacks()
    return value


_COMMON_OPTIONS = (  # options of every command: results and errors stay; and see `show_tracebacks`
    click.Option(
        ["-q", "--quiet"],
        is_flag=True,
        expose_value=False,
        # Also if it is not given: this process may have run a quiet command before.
        callback=lambda ctx, option, value: _begin(ctx, quiet=value),
        help="Print no notes, warnings and progress, only the result and errors.",
    ),
    click.Option(
        [DEBUG],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_with_tracebacks,
        help="Show the traceback of an internal error (exit code 70).",
    ),
)


class Commands(click.Group):
    """A group that proposes the nearest command and tolerates a closed output."""

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Add a command, with ``--quiet``, ``--debug``, and a variable for each option."""
        # A shell completes files for its arguments: most can be files.
        if not isinstance(cmd, click.Group) or cmd.invoke_without_command:
            cmd.params += _COMMON_OPTIONS
        for parameter in cmd.params:
            if isinstance(parameter, click.Option):
                parameter.envvar = parameter.envvar or environment_names(parameter)
                if "--verbose" in parameter.opts:
                    parameter.callback = _with_tracebacks
            elif parameter.type is click.STRING and parameter._custom_shell_complete is None:
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
                result = super().invoke(ctx)
            if sys.stdout is not None:  # it may have been closed before we began
                sys.stdout.flush()  # here a full disk can still be reported
        except BrokenPipeError:  # from the flush, or from what click prints, such as help
            forget_output()
        except click.UsageError as error:  # without a context, it is the command's
            name = ctx.invoked_subcommand
            command = None if name is None else self.get_command(ctx, name)
            if error.ctx is None and command is not None:
                error.ctx = click.Context(command, ctx, name)
            raise
        return result

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or suggest the nearest name."""
        if args[:1] == ["help"]:
            args = [*args[1:2], "--help"]
        name = args[0] if args else ""
        if name and self.get_command(ctx, name) is None and not name.startswith("-"):
            known = self.list_commands(ctx)
            is_target = "." in name or ":" in name
            hint = f"{ctx.command_path} {f'run {name}' if is_target else '--help'}"
            raise UnknownNameError("command", name, known, hint=hint)
        return super().resolve_command(ctx, args)


PROJECT_FILES = "boardprof.files"  # key of the settings files in a context's ``meta``
_NOT_A_SETTING = {"help", "version", "json", "bisect", "tag", "watch"}  # only for one command
_BESIDE_OPTIONS = {"project"}  # settings without an option
_PREFIX = "BOARDPROF_"
_OTHER_VARIABLES = frozenset(["HISTORY", "KEY", "PROJECT"])
_OF_BUILDS = frozenset(  # variables of build files, which make puts into the environment
    (
        *("ALSO", "AR", "ARCH", "ARENA", "BUILD", "COLLECTORS", "COMMAND", "CPPFLAGS"),
        *("FREESTANDING", "LIBRARY", "MTU", "OBJECTS", "RUNTIME", "SLOT_BYTES", "STACK"),
    )
)


def apply_settings(ctx: click.Context, config: str | None, profile: str | None) -> None:
    """Set the defaults of all commands below ``ctx`` from the files."""
    from pathlib import Path

    from boardprof.base.settings import (
        all_settings,
        find_settings,
        read_settings,
        set_project_name,
        settings_of,
    )

    if config is None:
        files = find_settings(Path.cwd(), echo_warning)
    else:
        files = [read_settings(Path(config))]
    written = all_settings(files)
    settings = settings_of(files, profile)
    ctx.obj = settings
    ctx.meta[PROJECT_FILES] = files
    set_project_name("")
    if not written:
        return
    assert isinstance(ctx.command, click.Group)
    _check_keys(written, ctx.command, ctx)
    ctx.default_map = _defaults(ctx.command, ctx, settings)
    if "project" in settings:
        set_project_name(settings["project"].value)


def setting_keys(option: click.Option) -> list[str]:
    """Return an option's names in files: its long names without the dashes, the newest first."""
    return [name[2:] for name in option.opts if name.startswith("--")] or [str(option.name)]


def environment_names(option: click.Option) -> list[str] | None:
    """Return the environment variables of an option, or None."""
    keys = [key for key in setting_keys(option) if key not in _NOT_A_SETTING]
    return [f"{_PREFIX}{key.replace('-', '_').upper()}" for key in keys] or None


def variables_of(parameter: click.Parameter) -> Sequence[str]:
    """Return the environment variables that a parameter takes."""
    names = parameter.envvar or ()
    return [names] if isinstance(names, str) else names


def commands_below(
    group: click.Group, ctx: click.Context, *, groups: bool = False, of: str = ""
) -> Iterator[tuple[str, click.Command]]:
    """Yield all commands with the words that name them: ``agent serve``; on request, groups too."""
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if command is not None and (groups or not isinstance(command, click.Group)):
            yield f"{of}{name}", command
        if isinstance(command, click.Group):
            yield from commands_below(command, ctx, groups=groups, of=f"{of}{name} ")


def option_of(context: click.Context, name: str) -> str:
    """Return an option with the command that has it, if the command which runs does not."""
    # A hint comes from code that many commands use. Not all of them have the same options.
    if name in options_of(context.command):
        return name
    root = context.find_root().command
    assert isinstance(root, click.Group)
    paths = (path for path, of in commands_below(root, context) if name in options_of(of))
    path = next(paths, None)
    return name if path is None else f"boardprof {path} {name}"


def _begin(context: click.Context, *, quiet: bool) -> None:
    set_quiet(quiet)
    begin_command(partial(option_of, context))


def options_of(command: click.Command) -> set[str]:
    """Return the options of a command."""
    return {name for each in command.params for name in (*each.opts, *each.secondary_opts)}


def _options(command: click.Command) -> Iterator[click.Option]:
    for parameter in command.params:
        if isinstance(parameter, click.Option) and environment_names(parameter):
            yield parameter


def _check_keys(settings: Iterable[Setting], group: click.Group, ctx: click.Context) -> None:
    """Check that each key is an option, and that options that take only strings got one."""
    known: dict[str, list[click.Option]] = {}
    for _, command in commands_below(group, ctx):
        for option in _options(command):
            for key in setting_keys(option):
                known.setdefault(key, []).append(option)
    for setting in settings:
        if setting.key in _NOT_A_SETTING:
            raise UsageError(
                f"{setting.place}: {setting.key} applies to a single command and cannot be a "
                "setting.",
                hint=f"boardprof COMMAND --{setting.key}",
            )
        if setting.key in _BESIDE_OPTIONS:
            if not isinstance(setting.value, str):
                raise UsageError(f"{setting.place}: {setting.key} must be a string in quotes.")
            continue
        if setting.key not in known:
            nearest = UnknownNameError.nearest(setting.key, sorted({*known, *_BESIDE_OPTIONS}))
            proposal = f" Did you mean {nearest!r}?" if nearest is not None else ""
            raise UsageError(
                f"{setting.place}: {setting.key} is not a setting.{proposal} Known settings: "
                f"{', '.join(sorted({*known, *_BESIDE_OPTIONS}))}."
            )
        parts = setting.value if isinstance(setting.value, list) else [setting.value]
        strange = [part for part in parts if not isinstance(part, str)]
        if strange and all(map(_takes_text, known[setting.key])):
            raise UsageError(
                f"{setting.place}: {setting.key} must be a string in quotes, not {strange[0]!r}."
            )


def _takes_text(option: click.Option) -> bool:
    kind = option.type
    return not option.is_flag and isinstance(kind, (click.types.StringParamType, click.Path))


def _defaults(
    group: click.Group, ctx: click.Context, settings: Mapping[str, Setting]
) -> dict[str, Any]:
    defaults: dict[str, Any] = {}
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if isinstance(command, click.Group):
            defaults[name] = _defaults(command, ctx, settings)
        elif command is not None:
            defaults[name] = {
                option.name: _value(option, ctx, settings[key])
                for option in _options(command)
                for key in [key for key in setting_keys(option) if key in settings][:1]
            }
    return defaults


def _as_text(value: Any) -> Any:
    """Return fractions as text, as a flag has them: click truncates numbers to whole ones."""
    if isinstance(value, list):
        return [_as_text(part) for part in value]
    return repr(value) if isinstance(value, float) else value


def _value(option: click.Option, ctx: click.Context, setting: Setting) -> Any:
    """Return a setting's value as the option takes it; raise UsageError if it is wrong."""
    value = _as_text(setting.value)
    if option.is_flag and not isinstance(value, bool):
        raise UsageError(f"{setting.place}: {setting.key} must be true or false, not {value!r}.")
    if isinstance(value, list) and not option.multiple:
        value = ",".join(map(str, value))  # as --metrics takes several
    if option.multiple and not isinstance(value, list):
        value = [value]
    is_flags = isinstance(value, bool) and option.is_flag
    if not is_flags and (isinstance(value, bool) or not isinstance(value, str | int | list)):
        written = "a table" if isinstance(value, dict) else str(value).lower()
        raise UsageError(f"{setting.place}: {setting.key} cannot be {written}.")
    try:
        option.type_cast_value(ctx, value)
    except click.BadParameter as error:
        raise UsageError(f"{setting.place}: {setting.key}: {error.message}") from None
    return value


def check_variables(environment: Mapping[str, str], ctx: click.Context) -> None:
    """Refuse misspelt variables; names that resemble none of ours may be another program's."""
    ours = {name.removeprefix(_PREFIX) for name in environment if name.startswith(_PREFIX)}
    ours -= _OTHER_VARIABLES | _OF_BUILDS
    if not ours:
        return
    short: dict[str, str] = {}
    known = {*_OTHER_VARIABLES}
    assert isinstance(ctx.command, click.Group)
    every = (each for _, each in commands_below(ctx.command, ctx, groups=True))
    for command in (ctx.command, *every):
        for option in command.params:
            names = [name.removeprefix(_PREFIX) for name in variables_of(option)]
            known.update(names)
            short |= {form[1:]: names[0] for form in option.opts if names and form[1] != "-"}
    for name in sorted(ours - known):
        slips = (each for each in sorted(known) if _is_slip(name, each))
        meant = short.get(name) or short.get(name.lower()) or next(slips, None)
        if meant is not None:
            raise UsageError(
                f"{_PREFIX}{name} in the environment is not a setting; did you mean "
                f"{_PREFIX}{meant}?"
            )


def _is_slip(written: str, meant: str) -> bool:
    """Tell whether one letter is missing, added or wrong, or two are swapped."""
    for _ in range(2):  # cut the common prefix, then the common suffix
        pairs = zip(written, meant, strict=False)
        alike = len([*takewhile(lambda pair: pair[0] == pair[1], pairs)])
        written, meant = written[alike:][::-1], meant[alike:][::-1]
    return max(len(written), len(meant)) == 1 or (len(written) == 2 and written == meant[::-1])
