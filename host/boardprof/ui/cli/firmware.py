# SPDX-License-Identifier: Apache-2.0
"""Commands about firmware: ``build``, ``flash``, ``agent``, ``runtime``, ``glue`` and ``new``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.base.files import runtime_dir
from boardprof.ui.cli.benchmarks import new_benchmarks
from boardprof.ui.cli.group import Commands
from boardprof.ui.cli.options import (
    Decorator,
    board_option,
    build_options,
    complete_board,
    json_option,
    key_option,
    output_option,
    parse_build_options,
    parse_connection,
    port_options,
    verbose_option,
)
from boardprof.ui.cli.output import (
    STDERR,
    echo,
    echo_command,
    echo_data,
    echo_json,
    echo_lines,
    echo_note,
)


@click.command(short_help="Build firmware with the functions of C files.")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@board_option
@output_option("Output file. [default: BOARD.elf in the current folder]")
@build_options
@json_option
@verbose_option
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
    from boardprof.target.descriptions.board import board_spec, default_board

    spec = default_board() if board is None else board_spec(board)
    code, on_command = parse_build_options(options), echo_command if verbose else None
    firmware = build_firmware(spec, paths, code, verbose=on_command)
    target = write_image(firmware, output)
    sizes = image_sizes(firmware)
    for note in firmware.notes:
        echo_note(note)
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
        echo(f"  {fn.name}: {fn.reason}" if fn.reason else f"  {fn.name}{signature(fn)}")
    if not firmware.functions:
        echo("  no functions: the agent alone")


@click.command(short_help="Write firmware to a board and check that it runs.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@board_option
@port_options
@build_options
@click.option(
    "--probe-serial",
    "probe",
    metavar="NUMBER",
    help="Serial number of the debug probe, if several are plugged in.",
)
@click.option("--dry-run", is_flag=True, help="Build, and show the commands; run none of them.")
@json_option
@click.option("-v", "--verbose", is_flag=True, help="Show each command.")
def flash(
    paths: tuple[str, ...],
    board: str | None,
    probe: str | None,
    dry_run: bool,
    as_json: bool,
    verbose: bool,
    **options: Any,
) -> None:
    """Write firmware to a board with the board's own tool, reset it, and check that it runs.

    PATH is a linked ELF file, or sources to build: C, C++ and assembler files, folders of them,
    objects (.o) and libraries (.a). The tool's output goes to stderr. With -p, the port is used to
    check that the board runs the new build.
    """
    from boardprof.measure.connect import connect_by
    from boardprof.target.build.builder import build
    from boardprof.target.build.firmware import after_flash, check_flashable
    from boardprof.target.build.firmware import flash as write
    from boardprof.target.descriptions.board import board_spec
    from boardprof.target.elf.object_file import build_id_of, is_program

    if board is None:
        raise UsageError("Which board should be flashed?", hint="give -b BOARD")
    spec = board_spec(board)
    port = options["port"]
    check_flashable(spec, port)  # before anything is built
    on_command = echo_command if verbose else None
    image = Path(paths[0])
    if len(paths) == 1 and is_program(image):
        build_id = build_id_of(image)
    else:
        firmware = build(spec, paths, parse_build_options(options), verbose=on_command)
        image, build_id = firmware.image, firmware.build_id
    if dry_run:
        commands: list[str] = []
        write(spec, image, port, probe=probe, dry_run=True, on_command=commands.append)
        if as_json:
            echo_json({"schema_version": 1, "board": spec.name, "commands": commands})
        else:
            echo_lines("\n".join(commands))
        return
    write(spec, image, port, probe=probe, output=STDERR, on_command=on_command)
    runs = None
    if port is not None:  # it raises if the board does not run what was flashed
        with after_flash(), connect_by(parse_connection(options), spec, image) as connected:
            runs = connected.welcome.build_id
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
        build_text = f"build {runs.hex()}{unknown}" if any(runs) else "an image without a build id"
        echo(f"{spec.name} at {port} runs {build_text}")


@click.group(cls=Commands)
def agent() -> None:
    """Run the agent on this computer."""


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
    from boardprof.target.descriptions.board import board_spec

    if board is None:
        raise UsageError("Which board should the agent serve?", hint="give -b BOARD")
    code = parse_build_options(options)
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
    folder = str(runtime_dir())
    if as_json:
        echo_json({"schema_version": 1, "path": folder})
    else:
        echo_data(folder)


def _define_option(help_text: str) -> Decorator:
    return click.option(
        "-D", "--define", "defines", multiple=True, metavar="BP_CFG_X=N", help=help_text
    )


@runtime.command(short_help="Write the agent as a library of the Arduino IDE.")
@click.argument("folder", type=click.Path())
@_define_option("Option of the agent. The defaults suit an Uno.")
def arduino(folder: str, defines: tuple[str, ...]) -> None:
    """Write the agent as a library of the Arduino IDE, for boards with an AVR.

    FOLDER is the library's own, such as ~/Arduino/libraries/boardprof. The library has an example,
    Measure. The options that `glue` needs are printed.
    """
    from boardprof.target.build.project import agent_config, write_arduino_library

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
@_define_option("Option that the agent is compiled with.")
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


_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.group(cls=Commands)
def new() -> None:
    """Create a new board or collector, or a first file of benchmarks."""


new.add_command(new_benchmarks)


@new.command(short_help="Copy the folder of a board as a new board.")
@click.argument("name")
@click.option("--like", metavar="BOARD", shell_complete=complete_board, help="Board to copy from.")
@click.option("--arch", metavar="ARCH", help="Or the architecture, for a board that is like none.")
@click.argument("folder", metavar="[DIR]", default=".", type=_FOLDER)
@json_option
def board(name: str, like: str | None, arch: str | None, folder: Path, as_json: bool) -> None:
    """Create DIR/NAME, the folder of a board, as a copy of another board. It builds at once.

    A comment with CHANGE marks each place that still describes the other board. What the other
    board shares with its family becomes a part of the copy.
    """
    from boardprof.target.scaffold import MARK, models, new_board

    known = models()
    if (like is None) == (arch is None):
        raise UsageError(
            "A new board needs a model: either --like or --arch.",
            hint=f"--like BOARD, or --arch {' or '.join(known)}",
        )
    if arch is not None and arch not in known:
        raise UnknownNameError("architecture", arch, known)
    target = new_board(name, like or known[arch or ""], folder)
    files = sorted(path for path in target.rglob("*") if path.is_file())
    if as_json:
        echo_json(_facts(files, [f"boardprof build -b {_as_folder(target)}"]))
        return
    for path in files:
        marks = path.read_text(errors="replace").count(MARK)
        echo(f"{path}: {marks} to change" if marks else path)
    echo(f"See them: grep -rn {MARK} {target}")
    echo(f"Build it: boardprof build -b {_as_folder(target)}")


@new.command(short_help="Create the files of a collector.")
@click.argument("name")
@click.argument("folder", metavar="[DIR]", default=".", type=_FOLDER)
@json_option
def collector(name: str, folder: Path, as_json: bool) -> None:
    """Create the files of a collector: bp_NAME.c, its layout and its vectors.

    DIR is the folder of a board, a checkout of boardprof, or the folder of your own Python package.
    A comment with CHANGE marks each place to fill in. Until then the collector counts ticks.
    """
    from boardprof.target.scaffold import new_collector

    made = new_collector(name, folder)
    if as_json:
        echo_json(_facts(made.files, made.steps))
        return
    for path in made.files:
        echo(path)
    echo("Then:")
    for step in made.steps:
        echo(f"  {step}")


def _facts(files: Sequence[Path], steps: Sequence[str]) -> dict[str, Any]:
    return {"schema_version": 1, "files": [str(file) for file in files], "steps": list(steps)}


def _as_folder(path: Path) -> str:
    """Return a path that cannot be taken for a board's name."""
    return str(path) if path.is_absolute() or len(path.parts) > 1 else f"./{path}"
