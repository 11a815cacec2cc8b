# SPDX-License-Identifier: Apache-2.0
"""The command ``boardprof``. Thin: it reads options, calls the package, prints.

Only click is imported here, so that ``--version`` and ``--help`` are fast; each command imports
what it needs.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from boardprof._version import __version__
from boardprof.errors import BoardprofError, BuildError, UsageError

if TYPE_CHECKING:
    from boardprof.board_file import BoardSpec

__all__ = ["main"]

_INTERRUPTED = 130


_LONGEST_S = 1_000_000
"""The longest time that an option takes."""


class _Real(click.FloatRange):
    """A number within its limits; click itself lets "nan" pass by them."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, or say what is wrong with it."""
        number = super().convert(value, param, ctx)
        if number != number:
            self.fail(f"{value} is no number.", param, ctx)
        return number


class _Commands(click.Group):
    """A group that proposes the nearest command, and does not mind when nobody reads on."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; that whoever read its output has gone is no failure of it."""
        try:
            result = super().invoke(ctx)
            if sys.stdout is not None:  # it may have been closed before we began
                sys.stdout.flush()  # here a full disk can still be told
        except BrokenPipeError:
            _forget_output()
            return 0
        return result

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which is the nearest."""
        name = args[0] if args else ""
        if name and self.get_command(ctx, name) is None and not name.startswith("-"):
            known = self.list_commands(ctx)
            close = difflib.get_close_matches(name, known, n=1)
            proposal = f" Did you mean {close[0]!r}?" if close else ""
            raise click.UsageError(f"No such command {name!r}.{proposal}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="boardprof", message="%(prog)s %(version)s")
def cli() -> None:
    """Measure what a C function costs on a board that you reach through a wire."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code.

    0 ok, 1 regression, 2 usage or a file that is not one, 3 no, busy or denied board, 4 link,
    protocol or decode, 5 the board does not answer, 6 the function faulted or hung, 7 build or
    missing toolchain, 130 interrupted.
    """
    try:
        code = cli.main(arguments, prog_name="boardprof", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return _INTERRUPTED
    except BoardprofError as error:
        click.echo(f"error: {error}", err=True)
        return error.exit_code
    except OSError as error:
        _forget_output()
        click.echo(f"error: {error}", err=True)
        return UsageError.exit_code
    return code if isinstance(code, int) else 0


def _forget_output() -> None:
    """Let what is still buffered go nowhere, or it would fail again when Python ends."""
    if sys.stdout is None:
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


_Command = Callable[..., Any]


def _key_option(help_text: str) -> Callable[[_Command], _Command]:
    return click.option("--key-file", type=click.Path(), metavar="PATH", help=help_text)


def _port_options(command: _Command) -> _Command:
    for option in (
        _key_option("Key that the agent at a TCP port asks for. [BOARDPROF_KEY, if it is set]"),
        click.option(
            "--takeover", is_flag=True, help="Take the board even if another host has it."
        ),
        click.option(
            "--timeout",
            type=_Real(min=0, min_open=True, max=_LONGEST_S),
            metavar="SECONDS",
            help="Longest time of a call on the board's clock. [10; 30 of silence if unguarded]",
        ),
        click.option("--baud", type=click.IntRange(min=1), help="Bits a second of a serial port."),
        click.option("-p", "--port", help="Device path or socket://HOST:PORT of a running agent."),
    ):
        command = option(command)
    return command


def _board_option(command: _Command) -> _Command:
    return click.option("-b", "--board", help="Board; `boardprof boards` lists them.")(command)


# -- boards -----------------------------------------------------------------------------------


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def boards(as_json: bool) -> None:
    """List the boards, and what is missing for each on this machine."""
    from boardprof.boards import find_boards, load_board

    specs = [load_board(folder) for folder in find_boards().values()]
    rows = [{"name": spec.name, **_board_facts(spec)} for spec in specs]
    if as_json:
        click.echo(json.dumps({"schema_version": 1, "boards": rows}, indent=2))
        return
    width = max(len(spec.name) for spec in specs)
    for row in rows:
        mark = " (default)" if row["default"] else ""
        click.echo(f"{row['name']:{width}}  {row['summary']}{mark}")
        for tool in row["missing"]:
            click.echo(f"{'':{width}}  missing: {tool['tool']} (Debian package {tool['package']})")


def _board_facts(spec: BoardSpec) -> dict[str, Any]:
    import shutil

    needed = {spec.build.cc: spec.build.package}
    if spec.launch.command and "{" not in spec.launch.command[0]:
        needed[spec.launch.command[0]] = spec.launch.package or spec.launch.command[0]
    return {
        "summary": spec.summary,
        "default": spec.default,
        "launch": spec.launch.kind,
        "clock": spec.clock.kind,
        "time_scale": spec.clock.time_scale,
        "faults": spec.guard.facts(),
        "missing": [
            {"tool": tool, "package": package}
            for tool, package in needed.items()
            if shutil.which(tool) is None
        ],
    }


# -- info -------------------------------------------------------------------------------------


@cli.command()
@_board_option
@_port_options
@click.option("--console", is_flag=True, help="Show what the board prints.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def info(board: str | None, as_json: bool, **options: Any) -> None:
    """Connect to a board and show what it is and what it offers."""
    from boardprof.connection import connect
    from boardprof.info import board_info, info_text

    with connect(
        board,
        options["port"],
        baud=options["baud"],
        timeout_s=options["timeout"],
        takeover=options["takeover"],
        key_file=options["key_file"],
        on_console=_echo_console if options["console"] else None,
    ) as connected:
        facts = board_info(connected)
    click.echo(json.dumps(facts, indent=2) if as_json else info_text(facts))


# -- run --------------------------------------------------------------------------------------


@cli.command()
@click.argument("target")
@click.argument("values", nargs=-1, metavar="[NAME=VALUE]...")
@click.option(
    "-b",
    "--board",
    "board_names",
    multiple=True,
    help="Board, or several: -b A,B makes one Report. [the default board]",
)
@_port_options
@click.option("--metrics", help="Metrics to read, comma-separated. [all that the board has]")
@click.option(
    "--warmup",
    default=10,
    show_default=True,
    type=click.IntRange(min=0),
    help="Calls before the first sample.",
)
@click.option(
    "--repeat", default=10, show_default=True, type=click.IntRange(min=1), help="Samples."
)
@click.option(
    "--number",
    default=1,
    show_default=True,
    type=click.IntRange(min=1),
    help="Calls in each sample.",
)
@click.option(
    "-O",
    "optimize",
    default="2",
    show_default=True,
    metavar="LEVEL",
    help="Optimisation of the user's code, as in -Os or -O3.",
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write the Report as JSON.",
)
@click.option("--console", is_flag=True, help="Show what the board prints.")
@click.option(
    "-v", "--verbose", is_flag=True, help="Show each compiler command and what the board prints."
)
def run(target: str, values: tuple[str, ...], board_names: tuple[str, ...], **options: Any) -> int:
    """Measure functions on boards and print the Report.

    TARGET is PATH:FUNCTION or PATH:all, where PATH is a C file or a folder of them; without a PATH,
    it is a function that the board's firmware already has, or all. NAME=VALUE gives an argument.
    """
    from boardprof.report_file import check_report_file, write_report
    from boardprof.runner import Plan, run_plan

    if options["json_file"]:
        check_report_file(options["json_file"])
    names = [name for part in board_names for name in part.split(",") if name]
    metrics = options["metrics"]
    plan = Plan(
        target=target,
        values=values,
        boards=tuple(names),
        port=options["port"],
        baud=options["baud"],
        timeout_s=options["timeout"],
        takeover=options["takeover"],
        key_file=options["key_file"],
        metrics=tuple(m.strip() for m in metrics.split(",") if m.strip()) if metrics else None,
        warmup=options["warmup"],
        repeat=options["repeat"],
        number=options["number"],
        optimize=f"-O{options['optimize']}",
    )
    with _progress_bar() as on_progress:
        outcome = run_plan(
            plan,
            on_command=_echo_command if options["verbose"] else None,
            on_progress=on_progress,
            on_console=_echo_console if options["verbose"] or options["console"] else None,
            on_note=lambda text: click.echo(f"note: {text}", err=True),
        )
    failures = list(outcome.failures)
    if outcome.report is not None:
        # The file first: nobody may be reading what we print.
        if options["json_file"]:
            try:
                write_report(outcome.report, options["json_file"])
                click.echo(f"Report written to {options['json_file']}", err=True)
            except UsageError as error:
                failures.append(error)
        click.echo(outcome.report.table())
    for failure in failures:
        click.echo(f"error: {failure}", err=True)
    return failures[0].exit_code if failures else 0


def _echo_command(command: str) -> None:
    click.echo(command, err=True)


def _echo_console(line: str) -> None:
    shown = "".join(c if c.isprintable() or c == "\t" else f"\\x{ord(c):02x}" for c in line)
    click.echo(f"  | {shown}", err=True)


@contextlib.contextmanager
def _progress_bar() -> Iterator[Callable[[str, int, int], None] | None]:
    """Lend a function that shows where a long run is, or None when nobody looks."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # No thread that draws: it would run beside what an in-process board measures.
    bar = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
    with bar:
        task = bar.add_task("", total=None, visible=False)

        def show(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total, visible=True)
            bar.refresh()

        yield show


# -- show -------------------------------------------------------------------------------------


@cli.command()
@click.argument("file", type=click.Path())
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, one line a sample.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--aggregate/--samples", default=True, help="One row a function, or one a sample.")
def show(file: str, as_csv: bool, as_json: bool, aggregate: bool) -> None:
    """Print the table of a Report that was written by `run --json`."""
    from boardprof.report_file import read_report

    report = read_report(file)
    if as_json:
        click.echo(report.json())
    elif as_csv:
        click.echo(report.csv(), nl=False)
    else:
        click.echo(report.table(aggregate=aggregate))


# -- doctor -----------------------------------------------------------------------------------


@cli.command()
@click.option("--link", is_flag=True, help="Test the line to a board.")
@_board_option
@click.option("-p", "--port", help="Device path or socket://HOST:PORT. [start the board]")
@click.option("--baud", "bauds", metavar="N[,N...]", help="Rates of a serial port to try.")
@click.option(
    "--seconds",
    default=5.0,
    show_default=True,
    type=_Real(min=0.1, max=_LONGEST_S),
    metavar="SECONDS",
    help="How long, at each baud rate.",
)
@click.option(
    "--faults",
    type=_Real(min=0, max=1),
    metavar="RATE",
    help="Damage this fraction of the frames on purpose.",
)
@click.option("--seed", default=0, show_default=True, help="Of the faults and of the test's data.")
@_key_option("Key that the agent at a TCP port asks for. [BOARDPROF_KEY, if it is set]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(link: bool, as_json: bool, **options: Any) -> int:
    """See what is missing on this machine; with --link, test the cable to a board.

    Ends with 7 when tools for the default board are missing; with --link, with 4 when the link
    damages or loses frames, and as the other commands when no board answers.
    """
    if link:
        return _doctor_link(as_json, **options)
    if any(options[name] for name in ("port", "bauds", "board", "faults", "key_file")):
        raise UsageError(
            "A board, a port, a baud rate, a key or faults are for the test of a line.",
            hint="--link",
        )
    from boardprof.boards import find_boards, load_board
    from boardprof.doctor import environment, environment_text

    specs = [load_board(folder) for folder in find_boards().values()]
    facts = environment([{"name": spec.name, **_board_facts(spec)} for spec in specs])
    click.echo(json.dumps(facts, indent=2) if as_json else environment_text(facts))
    lacking = any(board["default"] and board["missing"] for board in facts["boards"])
    return BuildError.exit_code if lacking else 0


def _doctor_link(as_json: bool, **options: Any) -> int:
    from boardprof.boards import board_spec, default_board
    from boardprof.link_report import exit_code, links_facts, links_text
    from boardprof.link_test import diagnose

    spec = board_spec(options["board"]) if options["board"] else default_board()
    tests = diagnose(
        spec,
        options["port"],
        bauds=_bauds(options["bauds"]),
        seconds=options["seconds"],
        rate=options["faults"],
        seed=options["seed"],
        key_file=options["key_file"],
    )
    click.echo(
        json.dumps(links_facts(tests), indent=2) if as_json else links_text(spec.name, tests)
    )
    return exit_code(tests)


def _bauds(text: str | None) -> list[int]:
    parts = [part.strip() for part in (text or "").split(",") if part.strip()]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise UsageError(f"--baud {text}: these are no rates.", hint="--baud 115200,921600")
    return [int(part) for part in parts]


# -- agent ------------------------------------------------------------------------------------


@cli.group(cls=_Commands)
def agent() -> None:
    """Run the agent without a profiler."""


@agent.command()
@_board_option
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--pty", is_flag=True, help="Serve a pseudo-terminal and print its path.")
@click.option(
    "--listen",
    default="127.0.0.1:0",
    show_default=True,
    metavar="HOST:PORT",
    help="Address to serve; beyond loopback only with a key.",
)
@_key_option("Key that hosts must have. [BOARDPROF_KEY, if it is set]")
@click.option(
    "-O",
    "optimize",
    default="2",
    show_default=True,
    metavar="LEVEL",
    help="Optimisation of the user's code.",
)
def serve(
    board: str | None,
    paths: tuple[str, ...],
    pty: bool,
    listen: str,
    key_file: str | None,
    optimize: str,
) -> None:
    """Build the agent with the functions in PATH and serve them until interrupted.

    For boards that are programs of this machine. `run -p` and `info -p` connect to what it prints.
    """
    from boardprof.runner import serve_agent

    if board is None:
        raise UsageError("Which board shall the agent be?", hint="give -b BOARD")
    line = ["--pty"] if pty else ["--listen", listen]
    line += ["--key-file", key_file] if key_file else []
    serve_agent(board, paths, line, f"-O{optimize}")
