# SPDX-License-Identifier: Apache-2.0
"""The commands, as one group. Thin: they read options, call the package, print.

Only click is imported at once, so that ``--version`` and ``--help`` are fast; each command imports
what it needs.
"""

from __future__ import annotations

import os

import click

from boardprof._version import __version__
from boardprof.cli import INTERRUPTED
from boardprof.cli.agent import agent
from boardprof.cli.boards import boards
from boardprof.cli.build import build
from boardprof.cli.compare import compare
from boardprof.cli.completion import completion
from boardprof.cli.decode import decode
from boardprof.cli.devices import devices
from boardprof.cli.doctor import doctor
from boardprof.cli.environment import check_variables
from boardprof.cli.export import export
from boardprof.cli.flash import flash
from boardprof.cli.functions import functions
from boardprof.cli.glue import glue
from boardprof.cli.group import Commands
from boardprof.cli.history import history
from boardprof.cli.info import info
from boardprof.cli.metrics import metrics
from boardprof.cli.new import new
from boardprof.cli.output import forget_output
from boardprof.cli.run import run
from boardprof.cli.runtime import runtime
from boardprof.cli.settings import apply_settings
from boardprof.cli.show import show
from boardprof.errors import BoardprofError, StorageError
from boardprof.writing import unwritable

__all__ = ["run_command"]


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
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

    Each option can stand in boardprof.toml or in [tool.boardprof] of pyproject.toml, by its long
    name, or in the environment: BOARDPROF_REPEAT is --repeat.
    """
    check_variables(os.environ, cli, ctx)
    apply_settings(ctx, config, profile)


# As the help lists them: measuring, boards, firmware, the rest.
for _command in (
    run,
    show,
    compare,
    history,
    export,
    decode,
    boards,
    devices,
    info,
    metrics,
    doctor,
    functions,
    build,
    flash,
    agent,
    glue,
    runtime,
    new,
    completion,
):
    cli.add_command(_command)


def run_command(arguments: list[str] | None = None) -> int:
    """Run the command line as `boardprof.cli.main` does; an interruption may still be raised."""
    try:
        code = cli.main(arguments, prog_name="boardprof", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except BoardprofError as error:
        click.echo(f"error: {error}", err=True)
        return error.exit_code
    except OSError as error:
        forget_output()
        # What has a name was opened by it; what else is written to is what we print to.
        told = unwritable(error.filename or "Standard output", error)
        click.echo(f"error: {told if isinstance(told, StorageError) else error}", err=True)
        return told.exit_code
    return code if isinstance(code, int) else 0
