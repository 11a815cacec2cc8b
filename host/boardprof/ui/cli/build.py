# SPDX-License-Identifier: Apache-2.0
"""``boardprof build`` and ``boardprof flash``; the options of all commands that build."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from boardprof.base.errors import UsageError
from boardprof.ui.cli.options import (
    board_option,
    json_option,
    output_option,
    parse_connection,
    port_options,
)
from boardprof.ui.cli.output import echo, echo_command, echo_json

if TYPE_CHECKING:
    from boardprof.target.build.build_options import BuildOptions
    from boardprof.target.cfunction import CFunction
    from boardprof.target.descriptions.board_file import BoardSpec


Command = Callable[..., Any]


def compile_options(command: Command) -> Command:
    """Add the options with which sources are compiled."""
    for option in (
        click.option(
            "--keep",
            multiple=True,
            metavar="[FILE:]NAME",
            help="Make a static or inlined function callable by compiling it out of line.",
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


def build_options(command: Command) -> Command:
    """Add the options of a build, those of `compile_options` included."""
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
            "--ldflags",
            metavar="FLAGS",
            default="",
            help='Flags for the linker, e.g. "-L lib -lfoo".',
        ),
        click.option(
            "--source",
            "sources",
            multiple=True,
            type=click.Path(),
            metavar="PATH",
            help="Another C, C++ or assembler file, folder, object (.o) or library (.a).",
        ),
    ):
        command = option(command)
    return compile_options(command)


def taken_build_options(options: Mapping[str, Any]) -> BuildOptions:
    """Return what was given by `build_options` or `compile_options`."""
    from boardprof.target.build.build_options import BuildOptions

    names = ("sources", "includes", "defines", "cflags", "ldflags", "keep", "libc", "heap")
    given = {name: options[name] for name in names if name in options}
    return BuildOptions(optimize=f"-O{options['optimize']}", **given)


@click.command(short_help="Build firmware with the functions of C files.")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@board_option
@output_option("Output file. [default: BOARD.elf in the current folder]")
@build_options
@json_option
@click.option("-v", "--verbose", is_flag=True, help="Show each compiler command.")
def build(
    paths: tuple[str, ...],
    board: str | None,
    output: str | None,
    as_json: bool,
    verbose: bool,
    **options: Any,
) -> None:
    """Build firmware with the functions in PATH and write it to a file.

    PATH is a C, C++ or assembler file, a folder of them, an object (.o) or a library (.a); without
    it, the firmware contains the agent only. Prints the sizes and the functions.
    """
    from boardprof.target.build.builder import build as build_firmware
    from boardprof.target.build.firmware import image_sizes, write_image
    from boardprof.target.cfunction import signature
    from boardprof.target.descriptions.board_lookup import board_spec, default_board

    spec = default_board() if board is None else board_spec(board)
    code, on_command = taken_build_options(options), echo_command if verbose else None
    firmware = build_firmware(spec, paths, code, verbose=on_command)
    target = write_image(firmware, output)
    sizes = image_sizes(firmware)
    if as_json:
        facts = {
            "schema_version": 1,
            "file": str(target),
            "board": spec.name,
            "build_id": firmware.build_id.hex(),
            "bytes": sizes,
            "functions": [
                {"name": fn.name, "signature": signature(fn), "reason": fn.reason}
                for fn in firmware.functions
            ],
        }
        echo_json(facts)
        return
    echo(f"{target}: firmware for {spec.name}, build {firmware.build_id.hex()}")
    if sizes is not None:
        echo("  " + ", ".join(f"{name} {size:,} bytes" for name, size in sizes.items()))
    for fn in firmware.functions:
        echo(f"  {_line(fn)}")
    if not firmware.functions:
        echo("  no functions: the agent alone")


def _line(fn: CFunction) -> str:
    from boardprof.target.cfunction import signature

    return f"{fn.name}: {fn.reason}" if fn.reason else f"{fn.name}{signature(fn)}"


_STDERR = 2


@click.command(short_help="Write firmware to a board and check that it runs.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@board_option
@port_options
@build_options
@json_option
@click.option("-v", "--verbose", is_flag=True, help="Show each command.")
def flash(
    paths: tuple[str, ...], board: str | None, as_json: bool, verbose: bool, **options: Any
) -> None:
    """Write firmware to a board with the board's own tool, reset it, and check that it runs.

    PATH is a linked ELF file, or sources to build: C, C++ and assembler files, folders of them,
    objects (.o) and libraries (.a). The tool's output goes to stderr. With -p, the port is used to
    check that the board runs the new build.
    """
    from boardprof.target.build.flash import check_flashable
    from boardprof.target.build.flash import flash as write
    from boardprof.target.descriptions.board_lookup import board_spec

    if board is None:
        raise UsageError("Which board should be flashed?", hint="give -b BOARD")
    spec = board_spec(board)
    port = options["port"]
    check_flashable(spec, port)  # before anything is built
    on_command = echo_command if verbose else None
    image, build_id = _image(spec, paths, options, verbose)
    write(spec, image, port, output=_STDERR, on_command=on_command)
    runs = None if port is None else _checked(spec, image, options)
    if as_json:
        facts = {
            "schema_version": 1,
            "board": spec.name,
            "image": str(image),
            "port": port,
            "build_id": None if build_id is None else build_id.hex(),
            "runs": None if runs is None else runs.hex(),
        }
        echo_json(facts)
    elif runs is None:
        echo(f"{spec.name} was flashed. Without a port, boardprof could not check what it runs.")
    else:
        unknown = f"; {image} does not contain its own build id" if build_id is None else ""
        echo(f"{spec.name} at {port} runs build {runs.hex()}{unknown}")


def _image(
    spec: BoardSpec, paths: tuple[str, ...], options: Mapping[str, Any], verbose: bool
) -> tuple[Path, bytes | None]:
    """Return the image and its build id. None if the file does not contain one."""
    from boardprof.target.build.builder import build
    from boardprof.target.elf.identity import build_id_of, is_program

    first = Path(paths[0])
    if len(paths) == 1 and is_program(first):
        return first, build_id_of(first)
    code, on_command = taken_build_options(options), echo_command if verbose else None
    firmware = build(spec, paths, code, verbose=on_command)
    return firmware.image, firmware.build_id


def _checked(spec: BoardSpec, image: Path, options: Mapping[str, Any]) -> bytes:
    """Return the build that the board runs; raise if it is not the one that was flashed."""
    from boardprof.measure.connect import connect_by
    from boardprof.target.build.flash import after_flash

    with after_flash(), connect_by(parse_connection(options), spec, image) as connected:
        return connected.welcome.build_id
