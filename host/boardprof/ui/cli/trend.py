# SPDX-License-Identifier: Apache-2.0
"""``boardprof trend``: a function over the last runs, and the commits that changed it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from boardprof.base.errors import UsageError
from boardprof.ui.cli.options import Whole, json_option, width_option
from boardprof.ui.cli.output import echo_json, echo_note, echo_page

if TYPE_CHECKING:
    from boardprof.results.history.run import Run
    from boardprof.show.trend_table import RunName


@click.command(short_help="Show a function over the last runs, and which commits changed it.")
@click.argument("function")
@click.option("-b", "--board", metavar="BOARD", help="Only runs on this board.")
@click.option(
    "--branch",
    metavar="NAME",
    help="Only clean runs of this branch. [default: the current branch]",
)
@click.option(
    "--all",
    "takes_all",
    is_flag=True,
    help="All runs of the project that did not fail, of all branches, clean or not.",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    help="Show this metric. [default: the one that a comparison shows first]",
)
@click.option(
    "--limit",
    default=50,
    show_default=True,
    type=Whole(min=1),
    metavar="N",
    help="Read at most N runs.",
)
@click.option(
    "--allow",
    multiple=True,
    type=click.Choice(["clock", "board", "compiler", "inputs"]),
    help="Include runs that differ in this from the newest one.",
)
@json_option
@width_option
def trend(
    function: str,
    board: str | None,
    branch: str | None,
    takes_all: bool,
    metrics: tuple[str, ...],
    limit: int,
    allow: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show the medians of FUNCTION over the last runs in the history, the oldest first.

    FUNCTION is a name or FILE:NAME. Functions of one name in several files are shown one by one.

    Any difference of exact counts is a change. For other values a rank test finds changes. In at
    most 1 % of series without a change, it finds one by chance. The median and the spread are those
    of the runs since the last change. The spread is 1.48 times the median distance from the median.
    """
    from boardprof.jobs.run.plan import split_target
    from boardprof.results.history.trends import function_trends, usual_branch
    from boardprof.show.trend_table import chosen_trends, trend_page

    if takes_all and branch is not None:
        raise UsageError("--all excludes --branch.", hint="one of them")
    file, name = split_target(function)
    if branch is None and not takes_all:
        branch = usual_branch(name, board)
    found = function_trends(name, file=file, branch=branch, board=board, limit=limit, allow=allow)
    if as_json:
        echo_json(found.json())
        return
    trends = found.for_people()
    runs = {id(each.trend): each.runs for each in trends}
    chosen = chosen_trends([each.trend for each in trends], metrics)
    echo_page(trend_page([(each, [*map(_name, runs[id(each)])]) for each in chosen]))
    for why, left_out in found.left_out.items():
        names = ", ".join(f"#{run.id}" for run in left_out)
        echo_note(f"left out: {names}. {why}")


def _name(run: Run) -> RunName:
    from boardprof.show.trend_table import RunName

    saved = f"saved as {run.name}" if run.name else ""
    source = "; ".join(filter(None, [saved, run.git.text if run.git else ""]))
    commit = run.git.commit if run.git and not run.git.is_dirty else ""
    return RunName(f"#{run.id}", source, run.time[:10], commit, run.build_ids)
