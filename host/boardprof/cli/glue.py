# SPDX-License-Identifier: Apache-2.0
"""``boardprof glue``: the table of a firmware project, as a step of the project's own build."""

from __future__ import annotations

from pathlib import Path

import click

from boardprof.cli.output import echo


@click.command(short_help="Write the function table for firmware that is built elsewhere.")
@click.argument("objects", nargs=-1, required=True, metavar="OBJECT...", type=click.Path())
@click.option("-b", "--board", required=True, help="Board name that the firmware reports.")
@click.option(
    "--collectors",
    default="",
    metavar="A,B",
    help="Collectors that the firmware links. [default: none]",
)
@click.option(
    "-D",
    "--define",
    "defines",
    multiple=True,
    metavar="BP_CFG_X=N",
    help="Option that the agent is compiled with.",
)
@click.option(
    "--also",
    multiple=True,
    metavar="FILE",
    type=click.Path(),
    help="Object or library of the firmware. A change in it changes the build id.",
)
@click.option("-o", "--output", required=True, type=click.Path(), help="C file to write.")
def glue(
    objects: tuple[str, ...],
    board: str,
    collectors: str,
    defines: tuple[str, ...],
    also: tuple[str, ...],
    output: str,
) -> None:
    """Write the table of the functions that BP_FUNCTION registers in OBJECTs.

    The objects belong to a firmware project and are compiled with -g. Compile the written file with
    them and link it with the agent. The functions are printed. device_runtime_c has rules for
    CMake, make, PlatformIO and Zephyr that call this command.
    """
    from boardprof.cfunction import signature
    from boardprof.firmware.project import agent_config, project_table, registered
    from boardprof.report.report_file import write_text

    paths = [Path(name) for name in objects]
    config = agent_config(defines)
    names = [name for name in collectors.split(",") if name]
    found = registered(paths, config)
    text = project_table(board, paths, found, names, config, [Path(name) for name in also])
    write_text(text, output)
    for fn in found:
        echo(f"{fn.name}{signature(fn)}")
