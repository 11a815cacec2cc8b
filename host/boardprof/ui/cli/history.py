# SPDX-License-Identifier: Apache-2.0
"""``boardprof history``: list, print, exchange and delete the runs that were kept."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from boardprof.base.errors import UsageError
from boardprof.ui.cli.benchmarks import benchmark_called
from boardprof.ui.cli.group import Commands
from boardprof.ui.cli.options import (
    allow_option,
    board_filter_option,
    complete_run,
    csv_option,
    json_option,
    number_option,
    output_option,
    width_option,
)
from boardprof.ui.cli.output import (
    echo,
    echo_data,
    echo_incomplete_rows,
    echo_json,
    echo_note,
    echo_page,
    echo_report,
    echo_written,
)

if TYPE_CHECKING:
    from boardprof.results.history.run import Run, StoredRun
    from boardprof.results.history.store import History
    from boardprof.show.layout import Page


@click.group(cls=Commands, invoke_without_command=True)
@board_filter_option
@click.option("--function", metavar="NAME", help="Only runs of this function.")
@number_option("--limit", "Show at most N runs (0 shows all).", least=0, default=20)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one run per line.")
@width_option
@click.pass_context
def history(
    ctx: click.Context, board: str | None, function: str | None, limit: int, as_json: bool
) -> None:
    """List the stored runs of all projects, newest first.

    Every `boardprof run` is stored in one SQLite file: $BOARDPROF_HISTORY, or
    boardprof/history.sqlite in $XDG_DATA_HOME or ~/.local/share. With
    BOARDPROF_HISTORY=postgresql://USER@HOST/DATABASE, it is stored in a database that a team
    shares. With BOARDPROF_HISTORY=off, or empty, nothing is stored.
    """
    if ctx.invoked_subcommand is not None:
        return
    kept = _history()
    shown = kept.runs(board=board, function=function, limit=limit or None)
    if as_json:
        for run in shown:
            echo_data(json.dumps(run.json()))
    elif shown:
        echo_page(_run_page(shown))
        every = kept.count(board=board, function=function) if len(shown) == limit else len(shown)
        if len(shown) < every:
            echo(f"{len(shown)} of {every} runs; --limit N shows more, --limit 0 all")
    else:
        echo_note("no stored run matches; `boardprof run` stores every run")


@history.command(short_help="Print the Report of a run.")
@click.argument("ref", metavar="RUN", shell_complete=complete_run)
@json_option
@csv_option
@width_option
def show(ref: str, as_json: bool, as_csv: bool) -> None:
    """Print the Report of a run: 42 for #42, last~1, a name, a branch or a commit.

    If a word is both a name and a branch, of different runs, write name:main or branch:main. In a
    project, last, names, branches and commits refer to its own runs.
    """
    from boardprof.results.history.report_lookup import find_run

    found = find_run(ref)
    if as_json:
        echo_data(found.report.json())
    elif as_csv:
        echo_data(found.report.csv(), nl=False)
    else:
        echo_incomplete_rows(found.report)
        if found.run is not None:
            echo_page([*_run_facts(found.run), ""])
        echo_report(found.report)


@history.command()
@click.argument("refs", metavar="RUN...", nargs=-1, required=True, shell_complete=complete_run)
def remove(refs: Sequence[str]) -> None:
    """Delete runs permanently."""
    kept, runs = _found(refs)
    for run in runs:
        kept.remove(f"#{run.id}")
        echo_note(f"run {run.label} was removed")


def _history() -> History:
    from boardprof.results.history.report_lookup import user_history

    return user_history()


def _found(refs: Sequence[str]) -> tuple[History, list[Run]]:
    """Return the user's history and runs of it, each once, before one changes: `last` moves."""
    kept = _history()
    return kept, [*{run.id: run for run in map(kept.run, refs)}.values()]


@history.command()
@click.argument("ref", metavar="RUN", shell_complete=complete_run)
@click.argument("name")
def rename(ref: str, name: str) -> None:
    """Name a run NAME, replacing any name that it has."""
    from boardprof.jobs.run.saving import check_save_name

    check_save_name(name)
    run = _history().rename(ref, name)
    echo_note(f"run {run.label} is now saved as {name}")


@history.command()
@click.argument("refs", metavar="RUN...", nargs=-1, required=True, shell_complete=complete_run)
def unname(refs: Sequence[str]) -> None:
    """Remove the names of runs; the runs stay."""
    kept, runs = _found(refs)
    for run in runs:
        kept.rename(f"#{run.id}", None)
        echo_note(f"run {run.label} no longer has a name")


@history.command("export", short_help="Write runs to a file that can be imported elsewhere.")
@click.argument("refs", metavar="[RUN]...", nargs=-1)
@click.option("--all", "of_all", is_flag=True, help="Export the runs of all projects.")
@output_option("Output file. [default: standard output]", prints=True)
def export_runs(refs: Sequence[str], of_all: bool, output: str | None) -> None:
    """Write runs to a file that `boardprof history import` reads on another machine.

    Without RUN, all runs of this project are written.
    """
    from boardprof.results.history.run import written
    from boardprof.results.report.report_file import write_text

    kept = _history()
    runs = _wanted(kept, refs, of_all)
    records = [*kept.records(None if of_all else runs)]
    if output is None:
        for line in written(records):
            echo_data(line, nl=False)
        return
    write_text("".join(written(records)), output)
    echo_written(f"{len(records)} run{'s' * (len(records) != 1)}", output)


@history.command("import")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
def import_runs(files: Sequence[str]) -> None:
    """Add the runs in files from `boardprof history export`.

    Runs that are already there are skipped. Imported runs keep their dates, so an older one does
    not become `last`.
    """
    from boardprof.results.history.run import read_file

    _add(files, read_file)


@history.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
def merge(files: Sequence[str]) -> None:
    """Add the runs of other history files (SQLite), as `import` does."""
    from boardprof.results.history.sqlite import may_exist
    from boardprof.results.history.store import History

    def read(file: str) -> list[StoredRun]:
        if not may_exist(Path(file)):
            raise UsageError(f"The file {file} does not exist.", hint="`boardprof history path`")
        return [*History(Path(file)).records()]

    _add(files, read)


def _add(files: Sequence[str], read: Callable[[str], list[StoredRun]]) -> None:
    """Add the runs of files; every file must be readable."""
    kept = _history()
    found = {file: read(file) for file in files}
    for file, records in found.items():
        added = kept.add(records)
        rest = len(records) - added
        echo_note(f"{file}: added {added} of {len(records)} runs; {rest} already there")


_shared_option = click.option(
    "--shared-history",
    metavar="URL",
    help="The team's history: postgresql://USER@HOST/DATABASE. [default: BOARDPROF_HISTORY, if it "
    "is a URL]",
)
_all_option = click.option("--all", "of_all", is_flag=True, help="Copy the runs of all projects.")


@history.command(short_help="Copy runs of this machine to the team's history.")
@click.argument("refs", metavar="[RUN]...", nargs=-1, shell_complete=complete_run)
@_all_option
@_shared_option
@click.pass_context
def push(ctx: click.Context, refs: Sequence[str], of_all: bool, shared_history: str | None) -> None:
    """Copy runs from this machine's file to the team's history.

    Without RUN, all runs of this project are copied. Runs that are already there are skipped.
    """
    here, shared = _both(ctx, shared_history)
    _copy(here, shared, refs, of_all)


@history.command(short_help="Copy runs of the team's history to this machine.")
@click.argument("refs", metavar="[RUN]...", nargs=-1, shell_complete=complete_run)
@_all_option
@_shared_option
@click.pass_context
def pull(ctx: click.Context, refs: Sequence[str], of_all: bool, shared_history: str | None) -> None:
    """Copy runs from the team's history to this machine's file.

    Without RUN, all runs of this project are copied. Runs that are already there are skipped.
    """
    here, shared = _both(ctx, shared_history)
    _copy(shared, here, refs, of_all)


def _both(ctx: click.Context, url: str | None) -> tuple[History, History]:
    """Return this machine's history and the team's."""
    from boardprof.results.history.databases import has_password
    from boardprof.results.history.report_lookup import local_history, shared_history

    source = ctx.get_parameter_source("shared_history")
    readers = {
        ParameterSource.COMMANDLINE: (
            "--shared-history has a password, which other users of this machine can see."
        ),
        ParameterSource.DEFAULT_MAP: (
            "The setting shared-history has a password, which all readers of the file can see."
        ),
    }
    if url is not None and source in readers and has_password(url):
        raise UsageError(
            readers[source], hint="put it into ~/.pgpass or PGPASSWORD, and leave it out of the URL"
        )
    return local_history(), shared_history(url)


def _wanted(kept: History, refs: Sequence[str], of_all: bool) -> Sequence[Run]:
    """Return the named runs, each once; all; or those of this project."""
    if of_all and refs:
        raise UsageError("--all and RUN cannot be combined.", hint="give one of them")
    found = map(kept.run, refs) if refs else kept.runs() if of_all else kept.own_runs()
    return [*{run.id: run for run in found}.values()]


def _copy(source: History, target: History, refs: Sequence[str], of_all: bool) -> None:
    added, read = source.copy(_wanted(source, refs, of_all), target)
    echo_note(f"{target.name}: added {added} of {read} runs; {read - added} already there")


@history.command(short_help="Create or convert the tables of a team's history.")
def upgrade() -> None:
    """Create or convert the tables of a team's history for this version of boardprof.

    Only the owner of the database may do that. Older versions of boardprof cannot use converted
    tables.
    """
    kept = _history()
    done = kept.upgrade()
    echo_note(f"{kept.name}: {done}")


@history.command(short_help="Print the path or URL of the history.")
@json_option
def path(as_json: bool) -> None:
    """Print the path of the history file, which may not exist yet, or its URL."""
    name = _history().name
    if as_json:
        echo_json({"schema_version": 1, "path": name})
    else:
        echo_data(name)


@click.command(short_help="Show a function over the last runs, and what changed it.")
@click.argument("function")
@board_filter_option
@click.option(
    "--branch", metavar="NAME", help="Only clean runs of this branch. [default: the current branch]"
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
@number_option("--limit", "Read at most N runs.", default=50)
@allow_option("Include runs that differ in this from the newest one.")
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

    FUNCTION is a name, FILE:NAME, or a benchmark of the project. Functions of one name in several
    files are shown one by one.

    Any difference of exact counts is a change. For other values a rank test finds changes. In at
    most 1 % of series without a change, it finds one by chance. The median and the spread are those
    of the runs since the last change. The spread is 1.48 times the median distance from the median.
    """
    from boardprof.jobs.run.plan import split_target
    from boardprof.results.history.run_comparison import function_trends, usual_branch
    from boardprof.show.trend_table import chosen_trends, trend_page

    if takes_all and branch is not None:
        raise UsageError("--all excludes --branch.", hint="one of them")
    file, name = split_target(function)
    benchmark = None if file else benchmark_called(name)
    name = name if benchmark is None else benchmark.plan_alone.function
    if branch is None and not takes_all:
        branch = usual_branch(name, board)
    found = function_trends(name, file=file, branch=branch, board=board, limit=limit, allow=allow)
    if benchmark is not None:
        label = benchmark.plan_alone.label
        own = tuple(each for each in found.trends if each.trend.row.label == label)
        if not own:
            raise UsageError(
                f"There is no run of the benchmark {benchmark.name}.",
                hint=f"boardprof run {benchmark.name}",
            )
        found = replace(found, trends=own)
    if as_json:
        echo_json(found.json())
        return
    echo_page(trend_page(chosen_trends(found.for_people(), metrics)))
    for why, left_out in found.left_out.items():
        names = ", ".join(f"#{run.id}" for run in left_out)
        echo_note(f"left out: {names}. {why}")
    if found.branch is not None and all(len(each.runs) == 1 for each in found.trends):
        echo_note(f"only runs of the branch {found.branch} without changes; --all shows all runs")


_HEADERS = (
    *("Run", "Time (UTC)", "Name", "Result", "Project"),
    *("Git", "Boards", "Functions", "Flags"),
)
_LONGEST = 40


def _run_page(runs: Sequence[Run]) -> Page:
    """Return a table with a line for each run, in the order given; it names several projects."""
    from boardprof.show.layout import text_table

    projects = {run.project for run in runs if run.project}
    folders = {run.project: run.folder for run in runs if run.folder}
    rows = [
        (
            f"#{run.id}",
            run.time.removesuffix("Z").replace("T", " "),
            _cut(run.name or ""),
            "failed" if run.has_failed else "",
            _cut(_project_text(run, folders.get(run.project, ""))) if len(projects) > 1 else "",
            _cut(_git_text(run)),
            _some_of(run.boards),
            _some_of(run.functions),
            _cut(" | ".join(run.flags)),
        )
        for run in runs
    ]
    return [text_table(_HEADERS, rows)]


def _run_facts(run: Run) -> Page:
    """Return the facts about a run, one in a line."""
    facts = {
        "Run": run.label,
        "Time (UTC)": run.time.removesuffix("Z").replace("T", " "),
        "Result": "failed" if run.has_failed else "",
        "Git": _git_text(run, whole=True),
        "Project": f"{run.folder} ({run.place})" if run.folder not in run.place else run.place,
        "Builds": ", ".join(run.build_ids),
        "Command": run.command,
    }
    return [f"{name}: {value}" for name, value in facts.items() if value]


def _project_text(run: Run, folder: str) -> str:
    """Return a project's last name, or its folder's if only a first commit identifies it."""
    from boardprof.results.history.run import COMMIT

    is_commit = re.fullmatch(COMMIT, run.project) is not None
    return (folder or run.project[:8]) if is_commit else Path(run.place).name


def _git_text(run: Run, *, whole: bool = False) -> str:
    """Return branch and commit; a ``+`` after it means changes, see `GitState`."""
    if run.git is None:
        return ""
    commit = run.git.commit if whole else run.git.commit[:8]
    return " ".join(filter(None, [run.git.branch, commit])) + ("+" if run.git.is_dirty else "")


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _some_of(names: Sequence[str]) -> str:
    """Return names separated by commas, shortened to the first ones and a count."""
    text = ", ".join(names)
    shown = len(names)
    while len(text) > _LONGEST and shown > 1:
        shown -= 1
        text = f"{', '.join(names[:shown])} and {len(names) - shown} more"
    return _cut(text)
