# SPDX-License-Identifier: Apache-2.0
"""The options of all commands that build: run, build, flash and agent serve."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from boardprof.firmware.build_options import BuildOptions


Command = Callable[..., Any]


def build_options(command: Command) -> Command:
    """Add the options; `taken_build_options` returns their values."""
    for option in (
        click.option(
            "--libc",
            type=click.Choice(["board", "none"]),
            default="board",
            show_default=True,
            help="Use the board's C library if the code needs it, or never. With none, memcpy and "
            "the like come from the agent.",
        ),
        click.option(
            "--keep",
            multiple=True,
            metavar="[FILE:]NAME",
            help="Make a static or inlined function callable by compiling it out of line.",
        ),
        click.option(
            "--ldflags",
            metavar="FLAGS",
            default="",
            help='Flags for the linker, e.g. "-L lib -lfoo".',
        ),
        click.option(
            "--cflags", metavar="FLAGS", default="", help="More compiler flags for the sources."
        ),
        click.option(
            "-D",
            "--define",
            "defines",
            multiple=True,
            metavar="NAME[=VALUE]",
            help="Define a macro for the sources.",
        ),
        click.option(
            "-I",
            "--include",
            "includes",
            multiple=True,
            type=click.Path(),
            metavar="DIR",
            help="Folder for #include.",
        ),
        click.option(
            "--source",
            "further",
            multiple=True,
            type=click.Path(),
            metavar="PATH",
            help="Another C, C++ or assembler file, folder, object (.o) or library (.a).",
        ),
        click.option(
            "-O",
            "--optimize",
            default="2",
            show_default=True,
            metavar="LEVEL",
            help="Optimisation of the user's code, as in -Os or -O3.",
        ),
    ):
        command = option(command)
    return command


def taken_build_options(options: Mapping[str, Any]) -> BuildOptions:
    """Return what was given."""
    from boardprof.firmware.build_options import BuildOptions

    return BuildOptions(
        optimize=f"-O{options['optimize']}",
        sources=options["further"],
        includes=options["includes"],
        defines=options["defines"],
        cflags=options["cflags"],
        ldflags=options["ldflags"],
        keep=options["keep"],
        libc=options["libc"],
    )
