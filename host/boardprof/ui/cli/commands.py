# SPDX-License-Identifier: Apache-2.0
"""The commands as one group. They are thin: they read options, call the package and print.

For a fast start, a command is imported when it is asked for, and imports the package in its
functions. So ``--version`` and ``--help`` load click and little else.
"""

from __future__ import annotations

import errno
import importlib
import os
from typing import Final

import click
from click.core import ParameterSource

from boardprof import __version__
from boardprof.base.errors import (
    BoardprofError,
    StorageError,
    UnknownNameError,
    UsageError,
    speaking_of_options,
)
from boardprof.base.files import unwritable
from boardprof.ui.cli.exit_codes import INTERRUPTED, bisects, for_bisect
from boardprof.ui.cli.group import (
    Commands,
    apply_settings,
    check_variables,
    commands_below,
    options_of,
    variables_of,
)
from boardprof.ui.cli.output import echo_data, echo_error, forget_output, take_every_character

_SECTIONS = {  # of the help, in its order
    "Measure": "run check hotspots tune",
    "Look at results": "show compare history trend export decode",
    "Watch running firmware": "trace top dump",
    "Find boards": "boards devices info metrics doctor",
    "Build firmware": "functions build flash agent glue runtime",
    "More": "new fleet worker completion",
}

_NAMES = tuple(" ".join(_SECTIONS.values()).split())

_MODULES = {  # of commands that are not in the module of their name; completion is here
    **dict.fromkeys(("devices", "info", "metrics", "doctor"), "boards"),
    **dict.fromkeys(("build", "flash", "agent", "glue", "runtime", "new"), "firmware"),
    "check": "benchmarks",
    "worker": "fleet",
    "trend": "history",
    **dict.fromkeys(("hotspots", "trace", "top", "dump"), "recording"),
    **dict.fromkeys(("export", "decode"), "show"),
}

_SETTINGS = (
    "Options of a command, except --json, --bisect, --tag, --watch and --help, can also be set by "
    "their long names in boardprof.toml or [tool.boardprof] of pyproject.toml, or in the "
    "environment: BOARDPROF_REPEAT is --repeat."
)


class _AllCommands(Commands):
    """The commands; each is imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names, without importing the commands."""
        return list(_NAMES)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in _SECTIONS.items():
            commands = [(name, self.get_command(ctx, name)) for name in names.split()]
            with formatter.section(title):
                formatter.write_dl(
                    [(f"{name:10}", each.get_short_help_str(66)) for name, each in commands if each]
                )

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _NAMES and cmd_name not in self.commands:
            module = importlib.import_module(f"boardprof.ui.cli.{_MODULES.get(cmd_name, cmd_name)}")
            self.add_command(getattr(module, cmd_name))
        return super().get_command(ctx, cmd_name)


@click.group(
    cls=_AllCommands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=_SETTINGS
)
@click.version_option(
    __version__, "-V", "--version", prog_name="boardprof", message="%(prog)s %(version)s"
)
@click.option(
    "--profile",
    envvar="BOARDPROF_PROFILE",
    metavar="NAME",
    help="Use the settings of [profile.NAME].",
)
@click.option(
    "--config",
    envvar="BOARDPROF_CONFIG",
    type=click.Path(),
    metavar="FILE",
    help="Read settings from FILE. [default: the project's boardprof.toml or pyproject.toml, then "
    "the user's]",
)
@click.pass_context
def cli(ctx: click.Context, profile: str | None, config: str | None) -> None:
    """Measure what a C function costs on a board: instructions, cycles, time and stack.

    \b
    boardprof run fir.c:fir n=256           on this machine
    boardprof run -b BOARD fir.c:all        each function, on a board
    boardprof compare                       the last run with the one before it
    boardprof COMMAND --help                all options
    """  # noqa: D301 (click knows the backspace as: do not wrap)
    if ctx.invoked_subcommand == "runtime":
        return  # a Makefile asks it, whose variables may have the names of settings
    check_variables(os.environ, ctx)
    apply_settings(ctx, config, profile)


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that completes boardprof commands in a shell.

    \b
    bash   eval "$(boardprof completion bash)"         in ~/.bashrc
    zsh    eval "$(boardprof completion zsh)"          in ~/.zshrc, after compinit
    fish   boardprof completion fish | source          in ~/.config/fish/config.fish
    """  # noqa: D301 (click knows the backspace as: do not wrap)
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    script = found(ctx.find_root().command, {}, "boardprof", "_BOARDPROF_COMPLETE")
    template = script.source_template % script.source_vars()  # source() would ask bash's version
    echo_data(template)


def run_command(arguments: list[str] | None = None) -> int:
    """Run the command line as `boardprof.ui.cli.main` does; an interruption may still be raised."""
    take_every_character()
    with speaking_of_options():
        code = _exit_code(arguments)
    return for_bisect(code) if bisects(arguments) else code


def _exit_code(arguments: list[str] | None) -> int:
    try:
        code = cli.main(arguments, prog_name="boardprof", standalone_mode=False)
    except click.ClickException as error:
        echo_error(mistake_text(error))
        return UsageError.exit_code
    except SystemExit as ended:  # so click ends a completion: with 1 if it does not know the shell
        return UsageError.exit_code if ended.code else 0
    except (click.Abort, KeyboardInterrupt):
        echo_error("interrupted")
        return INTERRUPTED
    except BoardprofError as error:
        echo_error(f"error: {error}")
        return error.exit_code
    except MemoryError:
        echo_error("error: There is not enough memory for it.\nTry: a smaller file, or less data")
        return StorageError.exit_code
    except (OSError, RuntimeError) as error:
        if isinstance(error, RuntimeError):  # so pathlib reports links in a circle before 3.13
            if not isinstance(error.__context__, OSError):
                raise
            error = error.__context__
        forget_output()
        # Without a name it is the stream that we print to.
        told = unwritable(error.filename or "Standard output", error)
        if error.filename and not isinstance(told, StorageError):  # it may have been read
            told = UsageError(
                f"{error.filename}: {error.strerror}.", hint="check this file and its permissions"
            )
        elif error.errno == errno.ENOENT:  # no stream: only getcwd has no name to tell
            told = UsageError("The current folder was removed.", hint="cd to another folder")
        echo_error(f"error: {told}")
        return told.exit_code
    return code if isinstance(code, int) else 0


def mistake_text(error: click.ClickException) -> str:
    """Return an error from click in the form of our own errors, or the help that it shows."""
    if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):  # from 8.2 on
        return error.format_message()
    if isinstance(error, click.BadParameter) and error.ctx is not None and error.param is not None:
        source = error.ctx.get_parameter_source(error.param.name or "")
        if source is ParameterSource.ENVIRONMENT:  # name the variable, not the option
            given = [name for name in variables_of(error.param) if name in os.environ]
            error.param_hint = f"{given[0]} in the environment"
    if isinstance(error, click.BadOptionUsage) and error.option_name == "-L":
        error = click.UsageError(f"{_sentence(error)} For example: -L n 16,256", error.ctx)
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return f"error: {_sentence(error)}\nTry: boardprof --help"
    if isinstance(error, click.NoSuchOption):
        place = _place(error.option_name, context)
        if place is not None:
            return place
        known = {name for each in context.command.params for name in each.opts}
        own = _OF_HYPERFINE.get(error.option_name)
        own = own if own is not None and own.split()[0] in known else None
        nearest = own or UnknownNameError.nearest(error.option_name, error.possibilities or ())
        meant = [] if not nearest else [repr(nearest)]
        name = error.option_name.removeprefix("--")
        takes_values = any(each.name == "values" for each in context.command.params)
        is_argument = name.isidentifier() and not own and (len(name) < 6 or not nearest)
        if takes_values and is_argument:
            meant.append(f"the argument {name}=VALUE")
        if "-L" in known and error.option_name in _NOT_FROM_HYPERFINE:
            text = f"No such option {error.option_name!r}. {_NOT_FROM_HYPERFINE[error.option_name]}"
            error = click.UsageError(text, context)
        elif meant:
            text = f"No such option {error.option_name!r}. Did you mean {' or '.join(meant)}?"
            error = click.UsageError(text, context)
    pieces = context.command.collect_usage_pieces(context)
    path = context.command_path
    usage = f"Usage: {' '.join([path, *pieces])}"
    return "\n".join([f"error: {_sentence(error)}", usage, f"Try: {path} --help"])


_OF_HYPERFINE: Final = {  # options that people know from there, and what `run` has
    **dict.fromkeys(("--runs", "-m", "--min-runs", "-M", "--max-runs"), "--repeat"),
    **dict.fromkeys(("-P", "--parameter-scan"), "-L NAME FIRST..LAST"),
    "--show-output": "--console",
    **dict.fromkeys(("-n", "--command-name"), "--save NAME"),
    "--export-json": "--export hyperfine=FILE",
    "--export-csv": "--export medians=FILE",
    "--csv": "--export csv=FILE",
    **dict.fromkeys(("--export-asciidoc", "--export-orgmode"), "--export markdown=FILE"),
    **dict.fromkeys(("--export-markdown", "--markdown"), "--export markdown=FILE"),
}
_SETUP: Final = "A function NAME_setup in the same file runs before each sample of NAME."
_CHECK: Final = "A function NAME_check in the same file runs after each sample of NAME."
_NO_SHELL: Final = "There is no shell between boardprof and the function."
_NOT_FROM_HYPERFINE: Final = {  # what to know instead
    **dict.fromkeys(("--prepare", "--setup", "-s"), _SETUP),
    **dict.fromkeys(("--cleanup", "-c", "--conclude", "-C"), _CHECK),
    "--min-benchmarking-time": "--repeat is the number of samples.",
    "--reference": "The first function is the reference.",
    "--sort": "Rows keep the order in which they were named.",
    "--style": "The variable NO_COLOR turns colours off.",
    "--input": "A function reads no standard input; --help has the forms of arguments.",
    **dict.fromkeys(("-u", "--time-unit"), "Each time has the unit that fits it."),
    **dict.fromkeys(("-N", "-S", "--shell"), _NO_SHELL),
    **dict.fromkeys(("-i", "--ignore-failure"), "If a function fails, the others are measured."),
}


def _sentence(error: click.ClickException) -> str:
    message = " ".join(error.format_message().split())
    message = message.replace("Recognized values: , ", "Recognized values: ")  # "" is false, too
    return message if message.endswith((".", "?", "?)")) else f"{message}."


def _place(option: str, context: click.Context) -> str | None:
    """Return an error if an option is on the wrong side of the command, or None."""
    root = context.find_root()
    if context is not root:
        if option in options_of(root.command):
            after = context.command_path.removeprefix(root.command_path)
            return (
                f"error: {option} must come before the command.\nTry: boardprof {option} ...{after}"
            )
        return None
    assert isinstance(root.command, click.Group)
    if any(option in options_of(each) for _, each in commands_below(root.command, root)):
        return f"error: {option} must come after the command.\nTry: boardprof COMMAND {option}"
    return None
