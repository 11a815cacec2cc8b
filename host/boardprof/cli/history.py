# SPDX-License-Identifier: Apache-2.0
"""``boardprof history``: the runs that were kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from boardprof.cli.group import Commands
from boardprof.cli.options import Whole
from boardprof.cli.output import (
    echo,
    echo_data,
    echo_note,
    echo_odd_rows,
    echo_table,
    echo_written,
)
from boardprof.cli.output_options import json_option, output_option, width_option
from boardprof.errors import UsageError

if TYPE_CHECKING:
    from boardprof.history.record import Record

__all__ = ["history"]


@click.group(cls=Commands, invoke_without_command=True)
@click.option("-b", "--board", metavar="BOARD", help="Only runs on this board.")
@click.option("--function", metavar="NAME", help="Only runs of this function.")
@click.option(
    "--limit",
    default=20,
    show_default=True,
    type=Whole(min=0),
    metavar="N",
    help="So many at most; 0: all.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one run a line.")
@width_option
@click.pass_context
def history(
    ctx: click.Context, board: str | None, function: str | None, limit: int, as_json: bool
) -> None:
    """List the runs that were kept, the newest first, of all projects.

    Each `boardprof run` is kept in one SQLite file: $BOARDPROF_HISTORY, or
    boardprof/history.sqlite in $XDG_DATA_HOME or ~/.local/share. BOARDPROF_HISTORY=off, or
    empty, keeps none.
    """
    if ctx.invoked_subcommand is not None:
        return
    from boardprof.history.finding import user_history
    from boardprof.run.run_list import run_table

    runs = user_history().runs(board=board, function=function)
    shown = runs[: limit or None]
    if as_json:
        for run in shown:
            echo_data(json.dumps(run.json()))
    elif runs:
        echo_table(run_table(shown))
        if len(shown) < len(runs):
            echo(f"{len(shown)} of {len(runs)} runs; --limit N shows more, --limit 0 all")
    else:
        echo_note("no run was kept that fits; `boardprof run` keeps each")


@history.command(short_help="Print the Report of a run.")
@click.argument("ref", metavar="RUN")
@json_option
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, one line a sample.")
@width_option
def show(ref: str, as_json: bool, as_csv: bool) -> None:
    """Print the Report of a run: #42, last~1, a name, a branch or a commit.

    A word that is a name and a branch, of different runs, is refused: name:main and branch:main
    say which is meant. In a project, last, names, branches and commits are those of its own runs.
    """
    from boardprof.history.finding import find_run
    from boardprof.run.run_list import run_facts

    found = find_run(ref)
    if as_json:
        echo_data(found.report.json())
    elif as_csv:
        echo_data(found.report.csv(), nl=False)
    else:
        echo_odd_rows(found.report)
        if found.run is not None:
            echo(run_facts(found.run), nl=False)
        echo_table(found.report.table(by_board=found.report.has_several) + "\n")


@history.command()
@click.argument("refs", metavar="RUN...", nargs=-1, required=True)
def remove(refs: Sequence[str]) -> None:
    """Remove runs for good."""
    from boardprof.history.finding import user_history

    kept = user_history()
    runs = [kept.run(ref) for ref in refs]  # all are looked up before any is gone: last moves
    for run in {run.id: run for run in runs}.values():
        kept.remove(f"#{run.id}")
        echo_note(f"run {run.label} was removed")


@history.command()
@click.argument("ref", metavar="RUN")
@click.argument("name")
def rename(ref: str, name: str) -> None:
    """Give a run the name NAME, in place of the one that it may have."""
    from boardprof.history.finding import user_history
    from boardprof.run.saving import check_save_name

    check_save_name(name)
    run = user_history().rename(ref, name)
    echo_note(f"run {run.label} is now saved as {name}")


@history.command()
@click.argument("refs", metavar="RUN...", nargs=-1, required=True)
def unname(refs: Sequence[str]) -> None:
    """Take their names away from runs, which stay."""
    from boardprof.history.finding import user_history

    kept = user_history()
    runs = [kept.run(ref) for ref in refs]  # all are looked up before any name is gone
    for run in {run.id: run for run in runs}.values():
        kept.rename(f"#{run.id}", None)
        echo_note(f"run {run.label} has no name any more")


@history.command("export", short_help="Write runs to a file, to be imported elsewhere.")
@click.argument("refs", metavar="[RUN]...", nargs=-1)
@click.option("--all", "of_all", is_flag=True, help="The runs of all projects.")
@output_option("File to write. [standard output]")
def export_runs(refs: Sequence[str], of_all: bool, output: str | None) -> None:
    """Write runs to a file, which `boardprof history import` reads on another machine.

    Without RUN, these are all runs of this project.
    """
    from boardprof.history.finding import user_history
    from boardprof.history.record import written
    from boardprof.report.report_file import write_text

    if of_all and refs:
        raise UsageError("--all and RUN do not go together.", hint="give one of them")
    kept = user_history()
    runs = {run.id: run for run in (map(kept.run, refs) if refs else kept.own_runs())}
    records = kept.records(None if of_all else runs.values())
    if output is None:
        for line in written(records):
            echo_data(line, nl=False)
        return
    write_text("".join(written(records)), output)
    echo_written(f"{len(records)} run{'s' * (len(records) != 1)}", output)


@history.command("import")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
def import_runs(files: Sequence[str]) -> None:
    """Add the runs of files that `boardprof history export` wrote.

    Runs that are there already are left out. A run is as old as it is: `last` does not become an
    imported one that is older.
    """
    from boardprof.history.record import read_file

    _add(files, read_file)


@history.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
def merge(files: Sequence[str]) -> None:
    """Add the runs of other histories, which are SQLite files, as `import` does."""
    from boardprof.history.store import History

    def read(file: str) -> list[Record]:
        if not Path(file).exists():
            raise UsageError(f"There is no file {file}.", hint="`boardprof history path`")
        return History(file).records()

    _add(files, read)


def _add(files: Sequence[str], read: Callable[[str], list[Record]]) -> None:
    """Add the runs of files, of which all must be readable."""
    from boardprof.history.finding import user_history

    kept = user_history()
    found = {file: read(file) for file in files}
    for file, records in found.items():
        added = kept.add(records)
        rest = len(records) - added
        echo_note(f"{file}: added {added} of {len(records)} runs; {rest} already there")


@history.command()
@json_option
def path(as_json: bool) -> None:
    """Print where the history is; the file need not exist."""
    from boardprof.history.finding import user_history

    file = str(user_history().path)
    echo_data(json.dumps({"schema_version": 1, "path": file}, indent=2) if as_json else file)
