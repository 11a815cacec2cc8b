# SPDX-License-Identifier: Apache-2.0
"""The commands, as one group. Thin: they read options, call the package, print.

Only click is imported at once, and a command when it is asked for, so that ``--version`` and each
command are fast; each imports what it needs.
"""

from __future__ import annotations

import importlib
import os

import click

from boardprof._version import __version__
from boardprof.cli import INTERRUPTED
from boardprof.cli.bisect import bisects, for_bisect
from boardprof.cli.environment import check_variables
from boardprof.cli.group import Commands
from boardprof.cli.mistakes import mistake_text
from boardprof.cli.output import echo_error, forget_output, take_every_character
from boardprof.cli.settings import apply_settings
from boardprof.errors import BoardprofError, StorageError, UsageError
from boardprof.writing import unwritable

__all__ = ["run_command"]

_NAMES = (
    *("run", "show", "compare", "history", "export", "decode"),  # measuring
    *("boards", "devices", "info", "metrics", "doctor"),
    *("functions", "build", "flash", "agent", "glue", "runtime"),  # firmware
    *("new", "completion"),
)
"""As the help lists them. Each has a module of its name, and a command of that name in it."""


class _AllCommands(Commands):
    """The commands, each imported when somebody asks for it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names; none is imported for that."""
        return list(_NAMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; None: there is none of that name."""
        if cmd_name in _NAMES and cmd_name not in self.commands:
            module = importlib.import_module(f"boardprof.cli.{cmd_name}")
            self.add_command(getattr(module, cmd_name))
        return super().get_command(ctx, cmd_name)


@click.group(cls=_AllCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="boardprof", message="%(prog)s %(version)s")
@click.option(
    "--profile",
    envvar="BOARDPROF_PROFILE",
    metavar="NAME",
    help="Take the settings of [profile.NAME].",
)
@click.option(
    "--config",
    envvar="BOARDPROF_CONFIG",
    type=click.Path(),
    metavar="FILE",
    help="Settings to read. [the project's boardprof.toml or pyproject.toml, then the user's]",
)
@click.pass_context
def cli(ctx: click.Context, profile: str | None, config: str | None) -> None:
    """Measure what a C function costs on a board that you reach through a wire.

    Each option behind a command but --json and --help can stand in boardprof.toml or in
    [tool.boardprof] of pyproject.toml, by its long name, or in the environment: BOARDPROF_REPEAT
    is --repeat. --profile and --config, which stand before it, can be in the environment alone.
    """
    check_variables(os.environ, cli, ctx)
    apply_settings(ctx, config, profile)


def run_command(arguments: list[str] | None = None) -> int:
    """Run the command line as `boardprof.cli.main` does; an interruption may still be raised."""
    take_every_character()
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
    except OSError as error:
        forget_output()
        # What has a name was opened by it; what else is written to is what we print to.
        told = unwritable(error.filename or "Standard output", error)
        echo_error(f"error: {told if isinstance(told, StorageError) else error}")
        return told.exit_code
    return code if isinstance(code, int) else 0
