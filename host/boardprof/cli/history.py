# SPDX-License-Identifier: Apache-2.0
"""``boardprof history``: the runs that were kept."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from boardprof.cli.group import Commands
from boardprof.cli.options import Whole
from boardprof.cli.output import echo, echo_data, echo_note, echo_odd_rows, echo_table
from boardprof.cli.output_options import json_option, width_option

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
    """List the runs that were kept, the newest first, of all repositories.

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

    RUN is what it is first in this order. In a git repository, last, names, branches and commits
    are those of its own runs.
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
@json_option
def path(as_json: bool) -> None:
    """Print where the history is; the file need not exist."""
    from boardprof.history.finding import user_history

    file = str(user_history().path)
    echo_data(json.dumps({"schema_version": 1, "path": file}, indent=2) if as_json else file)
