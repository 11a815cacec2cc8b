# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share, and their completion."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from boardprof.base.connection import Connection, with_lines
from boardprof.base.errors import BoardprofError, UsageError
from boardprof.ui.cli.output import set_width

if TYPE_CHECKING:
    from boardprof.jobs.run.plan import Plan
    from boardprof.target.build.build_options import BuildOptions
    from boardprof.target.cfunction import CFunction


LONGEST_S = 1_000_000  # largest value of an option for a time


class Real(click.FloatRange):
    """A finite number within its limits; click itself lets "nan" pass by them."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, or say what is wrong with it."""
        number = super().convert(value, param, ctx)
        if number != number:
            self.fail(f"{value} is not a number.", param, ctx)
        if math.isinf(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class Whole(click.IntRange):
    """A whole number within its limits; click itself speaks of a "valid integer range"."""

    name = "integer"


class Seconds(Real):
    """A time: a number of seconds, or one with a unit, such as ``500ms`` or ``2min``."""

    name = "time"

    def __init__(self) -> None:
        """Accept values above 0."""
        super().__init__(min=0, min_open=True, max=LONGEST_S)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the seconds, or say what is wrong with it."""
        found = _TIME.fullmatch(value) if isinstance(value, str) else None
        if found is not None:
            return super().convert(float(found["number"]) * _UNITS_S[found["unit"]], param, ctx)
        try:
            float(value)
        except ValueError:
            self.fail(f"{value} is not a time: 2s, 500ms, 1.5.", param, ctx)
        return super().convert(value, param, ctx)


_UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_TIME = re.compile(rf"(?P<number>[0-9]*\.?[0-9]+) ?(?P<unit>{'|'.join(_UNITS_S)})")

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]


def together(*options: Decorator) -> Decorator:
    """Return one decorator for several options."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def number_option(
    names: str, help_text: str, *, least: int = 1, default: int | None = None
) -> Decorator:
    """Return the decorator that adds an option for a whole number, ``least`` or more.

    ``names``: such as ``-w --warmup``.
    """
    return click.option(
        *names.split(),
        metavar="N",
        type=Whole(min=least),
        default=default,
        show_default=default is not None,
        help=help_text,
    )


def complete_board(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete board names, also after a comma; complete folders for a path."""
    from boardprof.target.descriptions.board import find_boards

    if "/" in incomplete:
        return [CompletionItem(incomplete, type="dir")]
    before, comma, start = incomplete.rpartition(",")
    names = [name for name in find_boards() if name.startswith(start)]
    return [CompletionItem(f"{before}{comma}{name}") for name in names]


def complete_metrics(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the metrics of the boards that are named, also after a comma."""
    from boardprof.target.descriptions.board import board_spec, default_board, metric_names

    chosen = ctx.params.get("board_names") or ()
    names = ["all"]
    with contextlib.suppress(BoardprofError):
        boards = [name for each in chosen for name in each.split(",")]
        for spec in map(board_spec, boards) if boards else [default_board()]:
            names += metric_names(spec) or ()
    before, comma, start = incomplete.rpartition(",")
    fitting = [name for name in dict.fromkeys(names) if name.startswith(start)]
    return [CompletionItem(f"{before}{comma}{name}") for name in fitting]


def complete_file(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Let a shell complete files in its default way."""
    return [CompletionItem(incomplete, type="file")]


def complete_run(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str] | list[CompletionItem]:
    """Complete the names of saved runs; if none matches, files."""
    from boardprof.results.history.report_lookup import user_history
    from boardprof.results.history.run import HistoryError

    names = ["last"]
    with contextlib.suppress(HistoryError):
        names += [run.name for run in user_history().own_runs() if run.name]
    fitting = [name for name in dict.fromkeys(names) if name.startswith(incomplete)]
    return fitting or complete_file(ctx, parameter, incomplete)


def complete_target(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str] | list[CompletionItem]:
    """Complete FILE.c:FUNCTION after the colon; before it benchmarks of the project, or files."""
    names = [] if ":" in incomplete else _benchmark_names(incomplete)
    if names:
        return names
    file, start = "", incomplete
    if ":" in incomplete:
        from boardprof.jobs.run.plan import split_target

        file, start = split_target(incomplete)
    if not file:
        return complete_file(ctx, parameter, incomplete)
    return [f"{file}:{name}" for name in _function_names(file, start)]


def complete_value(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str] | list[CompletionItem]:
    """Complete parameters; functions after ``FILE.c:``, which bash splits into three words."""
    words = [ctx.params.get("target") or "", *(ctx.params.get("values") or ())]
    if incomplete == ":" and len(words) == 1:
        words, incomplete = [*words, ":"], ""
    if words[1:] == [":"]:
        return _function_names(words[0], incomplete)
    if words[1:2] == [":"]:
        words = ["".join(words[:3]), *words[3:]]
    file, _, name = words[0].rpartition(":")
    if "=" in incomplete or not file:
        return complete_file(ctx, parameter, incomplete)
    given = {word.partition("=")[0] for word in words[1:]}
    function = next((each for each in _functions(file) if each.name == name), None)
    left = (each.name for each in (function.parameters if function else ()))
    fitting = [name for name in left if name not in given and name.startswith(incomplete)]
    return [f"{name}=" for name in fitting] or complete_file(ctx, parameter, incomplete)


def _benchmark_names(start: str) -> list[str]:
    """Return the benchmarks of the project with this prefix; none if its file is wrong."""
    from pathlib import Path

    from boardprof.base.settings import BENCHMARK, find_settings

    with contextlib.suppress(BoardprofError):
        for file in find_settings(Path.cwd(), lambda text: None):
            tables = file.content.get(BENCHMARK)
            if isinstance(tables, list):
                names = [each.get("name") for each in tables if isinstance(each, dict)]
                return [name for name in names if isinstance(name, str) and name.startswith(start)]
    return []


def _function_names(file: str, start: str) -> list[str]:
    names = [*(fn.name for fn in _functions(file)), "all"]
    return [name for name in names if name.startswith(start)]


def _functions(file: str) -> Sequence[CFunction]:
    """Return the functions of a source; none if it does not compile."""
    from boardprof.target.build.build_options import BuildOptions
    from boardprof.target.build.builder import Build
    from boardprof.target.descriptions.board import default_board

    try:
        return Build(default_board(), [file], BuildOptions(), None).functions()[0]
    except (BoardprofError, OSError):
        return ()


def time_option(name: str, help_text: str, *, default: str | None = None) -> Decorator:
    """Return the decorator that adds an option for a time; the command gets ``NAME_s``."""
    return click.option(
        name,
        f"{name.strip('-').replace('-', '_')}_s",
        type=Seconds(),
        metavar="TIME",
        default=default,
        show_default=default is not None,
        help=help_text,
    )


def allow_option(help_text: str) -> Decorator:
    """Return the decorator that adds ``--allow``."""
    kinds = click.Choice(["clock", "board", "compiler", "inputs", "outputs"])
    return click.option("--allow", multiple=True, type=kinds, help=help_text)


def expect_options(expect: str, tolerance: str) -> Decorator:
    """Return the decorator that adds ``--expect`` and ``--tolerance``, with their help."""
    return together(
        click.option("--expect", multiple=True, metavar="[NAME=]@FILE.npy|NUMBER", help=expect),
        click.option("--tolerance", default=0.0, type=Real(min=0), metavar="REL", help=tolerance),
    )


STDOUT = "-"  # the name that means standard output instead of a file

verbose_option = click.option("-v", "--verbose", is_flag=True, help="Show each compiler command.")
console_option = click.option("--console", is_flag=True, help="Show what the board prints.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
flash_option = click.option(
    "--flash", is_flag=True, help="Write the firmware to the board at the port first."
)
csv_option = click.option("--csv", "as_csv", is_flag=True, help="Print CSV, one line per sample.")
table_option = click.option(
    "--table", is_flag=True, help="Print the table of all metrics, with sums and configuration."
)
warnings_option = click.option(
    "--warnings/--no-warnings",
    default=True,
    help="Warn about unreliable samples and suggest what to do. [default: on]",
)
save_option = click.option(
    "--save", metavar="NAME", help="Name the run in the history. [default: stored without a name]"
)
board_option = click.option(
    "-b",
    "--board",
    metavar="BOARD",
    shell_complete=complete_board,
    help="Board as listed by `boardprof boards`, or the path of its folder.",
)
board_filter_option = click.option(
    "-b", "--board", metavar="BOARD", help="Only runs on this board."
)
image_option = click.option(
    "--image",
    type=click.Path(exists=True, dir_okay=False),
    metavar="ELF",
    help="ELF file to start. With -p: the ELF file that is already on the board.",
)
probe_option = click.option(
    "--debug-probe",
    "--probe",
    "probe",
    metavar="HOST:PORT",
    help="With --sampled: a debug probe takes the samples, without interrupts on the board. "
    "HOST:PORT is the Tcl server of an OpenOCD, such as localhost:6666.",
)
baud_option = number_option("--baud", "Baud rate of a serial port.")


def key_option(help_text: str) -> Decorator:
    """Return the decorator that adds ``--key-file``."""
    return click.option("--key-file", type=click.Path(), metavar="PATH", help=help_text)


agent_key_option = key_option(
    "File with the key of the agent at a TCP port. [default: the key in BOARDPROF_KEY]"
)

limit_options = together(  # whether to wait for another host, and how long a call may take
    click.option(
        "--takeover", is_flag=True, help="Take the board even if another host is using it."
    ),
    time_option(
        "--timeout",
        "Longest time of a call on the board's clock, such as 2s or 500ms. [default: "
        "10s; where the board cannot end a call, 30s without an answer]",
    ),
    time_option(
        "--wall-timeout",
        "Longest wall time of a call. [default: 30s on emulated boards, or more if "
        "--timeout is above 10s; none on others]",
    ),
)

port_options = together(  # how to reach a board, and how long a call may take
    click.option(
        "--reset-pulse",
        type=click.Choice(["dtr", "rts"]),
        help="Reset the board with a pulse on this line of the serial port.",
    ),
    click.option(
        "--rts", type=click.Choice(["on", "off"]), help="State of a serial port's RTS line."
    ),
    click.option(
        "--dtr", type=click.Choice(["on", "off"]), help="State of a serial port's DTR line."
    ),
    click.option(
        "-p",
        "--port",
        metavar="PORT",
        shell_complete=complete_file,
        help="Port of the agent: device path, HOST:PORT, URL (ssh://, rfc2217:// ...) or auto.",
    ),
    baud_option,
    click.option(
        "--clock",
        type=click.Choice(["measured", "declared", "simulated"]),
        help="Override the kind of the board's clock. [default: from the board's file, or from "
        "the emulator at its port]",
    ),
    agent_key_option,
    limit_options,
)

BOARD_SECTION = (  # names of `port_options` and of the others about a board, for the help
    "board board_names port dtr rts reset_pulse baud clock key_file takeover image flash timeout_s "
    "wall_timeout_s"
)


def parse_connection(options: Mapping[str, Any]) -> Connection:
    """Return what was given by `port_options`."""
    port = options["port"]
    lines = {"dtr": options["dtr"], "rts": options["rts"], "reset": options["reset_pulse"]}
    if any(lines.values()):
        if port is None:
            raise UsageError("--dtr, --rts and --reset-pulse need a serial port.", hint="-p PORT")
        port = with_lines(port, **lines)
    names = ("baud", "timeout_s", "wall_timeout_s", "takeover", "clock", "key_file")
    return Connection(port, **{name: options[name] for name in names})


compile_options = together(  # how sources are compiled
    click.option(
        "-O",
        "--optimize",
        default="2",
        show_default=True,
        metavar="LEVEL",
        help="Optimisation of the user's code, as in -Os or -O3.",
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
        "-D",
        "--define",
        "defines",
        multiple=True,
        metavar="NAME[=VALUE]",
        help="Define a macro for the sources.",
    ),
    click.option(
        "--cflags", metavar="FLAGS", default="", help="More compiler flags for the sources."
    ),
    click.option(
        "--compile-commands",
        metavar="FILE",
        default="",
        help="The compile_commands.json of the project's own build, whose macros, dialect and "
        "include folders each source gets; none uses none. [default: the nearest one, also in "
        "folders such as build]",
    ),
    click.option(
        "--no-inline",
        "--keep",
        "keep",
        multiple=True,
        metavar="[FILE:]NAME",
        help="Make a static or inlined function callable by compiling it out of line.",
    ),
)

build_options = together(  # how a build is made
    compile_options,
    click.option(
        "--source",
        "sources",
        multiple=True,
        type=click.Path(),
        metavar="PATH",
        help="Another C, C++ or assembler file, folder, object (.o) or library (.a).",
    ),
    click.option(
        "--ldflags", metavar="FLAGS", default="", help='Flags for the linker, e.g. "-L lib -lfoo".'
    ),
    click.option(
        "--libc",
        type=click.Choice(["board", "none"]),
        default="board",
        show_default=True,
        help="Use the board's C library if the code needs it, or never. With none, memcpy and "
        "the like come from the agent.",
    ),
)

BUILD_SECTION = "optimize sources includes defines cflags compile_commands ldflags keep libc"


def parse_plan(
    target: str, values: tuple[str, ...], boards: Sequence[str], options: Mapping[str, Any]
) -> Plan:
    """Return the plan of a command; what an option and an attribute of the plan share is given."""
    from boardprof.jobs.run.plan import Plan

    names = {each.name for each in fields(Plan)}
    given = {name: each for name, each in options.items() if name in names and each is not None}
    if metrics := given.pop("metrics", ""):
        given["metrics"] = tuple(name.strip() for name in metrics.split(",") if name.strip())
    if "optimize" in options:
        given["code"] = parse_build_options(options)
    connection = parse_connection(options)
    return Plan(target=target, values=values, boards=tuple(boards), connection=connection, **given)


def parse_build_options(options: Mapping[str, Any]) -> BuildOptions:
    """Return what was given by `build_options` or `compile_options`."""
    from boardprof.target.build.build_options import BuildOptions

    given = {each.name: options[each.name] for each in fields(BuildOptions) if each.name in options}
    return BuildOptions(**{**given, "optimize": f"-O{options['optimize']}"})


def listed_boards(given: Sequence[str]) -> list[str]:
    """Return the names in the values of ``-b A,B``."""
    names = [name for part in given for name in part.split(",") if name]
    if given and not names:
        raise UsageError("-b needs the name of a board.", hint="`boardprof boards` lists them")
    return names


def explicit_options() -> set[str]:
    """Return the attributes of a plan that flags or variables set, not files or defaults."""
    context = click.get_current_context()
    own = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
    names = {name for name in context.params if context.get_parameter_source(name) in own}
    return {"boards" if name in ("board", "board_names") else name for name in names}


def file_option(form: str, what: str) -> Decorator:
    """Return the decorator that adds ``--FORM FILE``; the command gets ``FORM_file``."""
    # Whether the file can be written is checked before anything is done.
    return click.option(
        f"--{form}",
        f"{form}_file",
        type=click.Path(dir_okay=False, allow_dash=True),
        metavar="FILE",
        callback=writable,
        help=f"Write {what}; - prints it in place of the table.",
    )


def writable(ctx: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Check that the file of an option can be written, before anything is done."""
    if value is not None and value != STDOUT:
        from boardprof.results.report.report_file import check_report_file

        check_report_file(value)
    return value


def _writable_baseline(
    ctx: click.Context, option: click.Parameter, value: str | None
) -> str | None:
    if value == STDOUT:
        raise UsageError(
            "A baseline is a file to commit.", hint="--baseline FILE; --export baseline=- prints it"
        )
    if value is not None:
        from boardprof.jobs.run.saving import check_baseline_file

        check_baseline_file(value)
    return value


baseline_option = click.option(
    "--baseline",
    "baseline_file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    callback=_writable_baseline,
    help="Write a baseline file to commit, or update its rows for what was measured. Other "
    "rows and unchanged results keep their lines.",
)

width_option = click.option(
    "--width",
    type=Whole(min=20),
    metavar="COLUMNS",
    expose_value=False,
    callback=lambda ctx, option, value: set_width(value),
    help="Maximum width. [default: terminal width; unlimited when redirected]",
)


def output_option(
    help_text: str, *, prints: bool = False, folder: bool = False, hint: str = "-o FILE"
) -> Decorator:
    """Return the decorator that adds ``--output``; ``-`` stands for standard output."""

    def parse(ctx: click.Context, option: click.Parameter, value: str | None) -> str | None:
        if value == STDOUT and not prints:
            raise UsageError("This cannot be printed: -o needs a file.", hint=hint)
        if value == STDOUT:
            return None
        return value if folder else writable(ctx, option, value)

    return click.option(
        "-o",
        "--output",
        type=click.Path(dir_okay=folder, allow_dash=True),
        metavar="FILE",
        callback=parse,
        help=help_text,
    )
