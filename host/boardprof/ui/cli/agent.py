# SPDX-License-Identifier: Apache-2.0
"""The commands about the agent: ``agent``, ``runtime`` (its C sources) and ``glue``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from boardprof.base.errors import UsageError
from boardprof.ui.cli.build import build_options, taken_build_options
from boardprof.ui.cli.group import Commands
from boardprof.ui.cli.options import board_option, json_option, key_option
from boardprof.ui.cli.output import echo, echo_data, echo_json


@click.group(cls=Commands)
def agent() -> None:
    """Run the agent without a profiler."""


@agent.command(short_help="Build the agent with the functions in PATH and serve them.")
@board_option
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--pty", is_flag=True, help="Serve a pseudo-terminal and print its path.")
@click.option(
    "--listen",
    default="127.0.0.1:0",
    show_default=True,
    metavar="HOST:PORT",
    help="Address to serve. Beyond loopback a key is required.",
)
@key_option("File with the key that hosts must have. [default: the key in BOARDPROF_KEY]")
@build_options
def serve(
    board: str | None,
    paths: tuple[str, ...],
    pty: bool,
    listen: str,
    key_file: str | None,
    **options: Any,
) -> None:
    """Build the agent with the functions in PATH and serve them until interrupted.

    This works for boards that are programs on this machine. `run -p` and `info -p` connect to the
    address that it prints.
    """
    from boardprof.target.build.builder import serve_agent
    from boardprof.target.descriptions.board_lookup import board_spec

    if board is None:
        raise UsageError("Which board should the agent serve?", hint="give -b BOARD")
    code = taken_build_options(options)
    address = None if pty else listen
    serve_agent(board_spec(board), paths, code, listen=address, key_file=key_file)


@click.group(cls=Commands)
def runtime() -> None:
    """Print the folder of the agent's C sources, or copy them."""


@runtime.command()
@json_option
def path(as_json: bool) -> None:
    """Print the folder with the agent's C sources.

    The folder has a CMakeLists.txt for add_subdirectory, a boardprof.mk for make, a library.json
    for PlatformIO, a module for Zephyr and a component for ESP-IDF.
    """
    from boardprof.base.resources import runtime_dir

    folder = str(runtime_dir())
    if as_json:
        echo_json({"schema_version": 1, "path": folder})
    else:
        echo_data(folder)


@runtime.command(short_help="Write the agent as a library of the Arduino IDE.")
@click.argument("folder", type=click.Path())
@click.option(
    "-D",
    "--define",
    "defines",
    multiple=True,
    metavar="BP_CFG_X=N",
    help="Option of the agent. The defaults suit an Uno.",
)
def arduino(folder: str, defines: tuple[str, ...]) -> None:
    """Write the agent as a library of the Arduino IDE, for boards with an AVR.

    FOLDER is the library's own, such as ~/Arduino/libraries/boardprof. The library has an example,
    Measure. The options that `glue` needs are printed.
    """
    from boardprof.target.build.arduino_library import write_arduino_library
    from boardprof.target.build.project import agent_config

    options = write_arduino_library(Path(folder), agent_config(defines))
    words = " ".join(f"-D BP_CFG_{name.upper()}={value}" for name, value in options.items())
    echo(f"Library written to {folder}. The table of a sketch's functions needs its options:")
    echo(f"boardprof glue --board BOARD --collectors timer16 {words} -o bp_table.c OBJECT...")


@click.command(short_help="Write the function table for firmware that is built elsewhere.")
@click.argument("objects", nargs=-1, required=True, metavar="OBJECT...", type=click.Path())
@click.option("-b", "--board", required=True, help="Board name that the firmware reports.")
@click.option(
    "--collectors",
    default="",
    metavar="A,B",
    help="Collectors that the firmware links. [default: no collectors]",
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
    CMake, make, PlatformIO, Zephyr and ESP-IDF that call this command.
    """
    from boardprof.results.report.report_file import write_text
    from boardprof.target.build.project import agent_config, project_table, registered
    from boardprof.target.cfunction import signature

    paths = [Path(name) for name in objects]
    config = agent_config(defines)
    names = [name for name in collectors.split(",") if name]
    found = registered(paths, config)
    text = project_table(board, paths, found, names, config, [Path(name) for name in also])
    write_text(text, output)
    for fn in found:
        echo(f"{fn.name}{signature(fn)}")
