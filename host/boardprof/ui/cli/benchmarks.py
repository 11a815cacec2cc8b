# SPDX-License-Identifier: Apache-2.0
"""The project's benchmarks as targets of commands, ``boardprof check``, and a first file."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from boardprof.base.connection import Connection
from boardprof.base.errors import UsageError
from boardprof.base.settings import BENCHMARK, BENCHMARKS, PROJECT_FILE, SettingsFile, user_file
from boardprof.ui.cli.group import PROJECT_FILES
from boardprof.ui.cli.options import (
    board_option,
    compile_options,
    explicit_options,
    listed_boards,
    parse_build_options,
    parse_plan,
    verbose_option,
)
from boardprof.ui.cli.output import echo, echo_command, echo_note

if TYPE_CHECKING:
    from boardprof.jobs.fleet.job import Job
    from boardprof.jobs.run.benchmarks import Benchmark, Benchmarks
    from boardprof.jobs.run.plan import Plan


@dataclass(frozen=True)
class Chosen:
    """Benchmarks that a command names, and the file that they are in."""

    of: Benchmarks
    benchmarks: Sequence[Benchmark]


def _project_file() -> SettingsFile | None:
    """Return the project's settings file if it has benchmarks, if perhaps under the wrong name."""
    for each in _project_files():
        if BENCHMARK in each.content or isinstance(each.content.get(BENCHMARKS), list):
            return each
    return None


def _project_files() -> Sequence[SettingsFile]:
    files: Sequence[SettingsFile] = click.get_current_context().meta.get(PROJECT_FILES, ())
    return [each for each in files if each.file != user_file()]


def _no_benchmarks(other: str = "") -> UsageError:
    return UsageError(
        f"There is no {PROJECT_FILE} with benchmarks here.",
        hint=f"{other}`boardprof new benchmarks SOURCE` writes a first file",
    )


def chosen_benchmarks(
    words: Sequence[str], tags: Sequence[str], options: Mapping[str, Any]
) -> Chosen | None:
    """Return the benchmarks that words and tags choose; None if the words are another target."""
    from boardprof.jobs.run.benchmarks import read_benchmarks
    from boardprof.jobs.run.plan import split_target

    file = _project_file()
    is_target = any("=" in word or split_target(word)[0] for word in words)
    is_target = is_target or options.get("image") is not None
    if file is None or is_target:
        if words and not tags:
            return None
        if is_target and tags:
            raise UsageError("--tag chooses benchmarks, not other targets.", hint="leave it out")
        if is_target:
            raise UsageError("Which function of the image?", hint="add FUNCTION, or all")
        raise _no_benchmarks("PATH:FUNCTION; or ")
    found = read_benchmarks(file)
    if words and options.get("port") is not None and not tags:
        # The firmware at the port may have a function of that name.
        names = [each.name for each in found.all]
        if not any(fnmatchcase(name, word) for name in names for word in words):
            return None
    return Chosen(found, found.chosen(words, tags))


def benchmark_called(name: str) -> Benchmark | None:
    """Return the benchmark of the project with this name, or None."""
    from boardprof.jobs.run.benchmarks import read_benchmarks

    file = _project_file()
    found = () if file is None else read_benchmarks(file).all
    return next((each for each in found if each.name == name), None)


def one_plan(name: str, base: Plan) -> Plan | None:
    """Return the plan of one benchmark with the options of a command; None if there is none."""
    benchmark = benchmark_called(name)
    if benchmark is None:
        return None
    plan = benchmark.plan(base, explicit_options(), base.boards)
    if plan is None or len(plan.boards) > 1:
        raise UsageError(
            f"{name} is for {', '.join(benchmark.boards or base.boards)}.",
            hint="name one of these boards: -b BOARD",
        )
    file = _project_file()
    assert file is not None
    _check_folder(file, name)
    return plan


def _check_folder(file: SettingsFile, what: str) -> None:
    """Check that paths, which begin at the file's folder, begin at the current one."""
    if file.file.parent.resolve() != Path.cwd().resolve():
        raise UsageError(
            f"The paths of {what} begin at {file.file.parent}.", hint="run the command there"
        )


def all_jobs() -> list[Job]:
    """Return the project's benchmarks as jobs of a fleet."""
    from boardprof.jobs.fleet.job import benchmark_jobs
    from boardprof.jobs.run.benchmarks import read_benchmarks

    file = _project_file()
    if file is None:
        raise _no_benchmarks()
    _check_folder(file, "the benchmarks")
    return benchmark_jobs(read_benchmarks(file), _plan_of_settings(None))


@click.command(short_help="Check the project's benchmarks without running them.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only those with this tag.")
@board_option
@verbose_option
def check(names: tuple[str, ...], tags: tuple[str, ...], board: str | None, verbose: bool) -> int:
    """Check the benchmarks of boardprof.toml without running them, and print all mistakes.

    The file must be valid, its boards and data files must exist, its sources must compile for each
    board, and the functions must have the named parameters. No board is started, so a metric is
    checked only if the board's description lists all that it counts. The exit code is 2 if
    something is wrong.
    """
    from boardprof.jobs.run.benchmarks import check_benchmarks, read_benchmarks
    from boardprof.show.cells import plural

    file = _project_file()
    if file is None:
        raise _no_benchmarks()
    mistakes: list[UsageError] = []
    found = read_benchmarks(file, mistakes.append)
    # Without the port of the settings: no board is asked.
    base = replace(_plan_of_settings(board), connection=Connection(), flash=False)
    given = {"boards"} if board else set()
    chosen = found.chosen(names, tags)
    plans = found.planned(base, given, chosen, echo_note)
    pairs = [(each, plan) for each, plan in plans if plan is not None and each in chosen]
    with contextlib.chdir(found.folder):
        mistakes += check_benchmarks(pairs, echo_command if verbose else None)
    for mistake in mistakes:
        echo(f"{mistake}", err=True)
    boards = dict.fromkeys(name for _, plan in pairs for name in plan.boards)
    where = f" on {', '.join(boards)}" if boards else ""
    result = f"{len(mistakes)} wrong" if mistakes else "nothing is wrong"
    echo(f"{plural(len(pairs), 'benchmark')}{where}: {result}")
    return UsageError.exit_code if mistakes else 0


def _plan_of_settings(board: str | None) -> Plan:
    """Return the plan of `run` without flags: the settings, and a board."""
    parent = click.get_current_context().find_root()
    assert isinstance(parent.command, click.Group)
    command = parent.command.get_command(parent, "run")
    assert command is not None
    flags = ["-b", board] if board else []
    with command.make_context("run", flags, parent=parent) as context:
        options = {**context.params}
    del options["target"], options["values"]
    return parse_plan("", (), listed_boards(options.pop("board_names")), options)


@click.command("benchmarks", short_help="Write a first file of benchmarks.")
@click.argument("files", nargs=-1, required=True, metavar="SOURCE...", type=click.Path())
@board_option
@compile_options
def new_benchmarks(files: tuple[str, ...], board: str | None, **options: Any) -> None:
    """Add a benchmark to ./boardprof.toml for each function in SOURCEs.

    SOURCE is a C or C++ file, or a folder of them. Each argument gets an example that fits its
    type. A comment with CHANGE marks those to replace by real data. The options become keys of
    [benchmarks].
    """
    from boardprof.jobs.run.new_benchmarks import COMMON, MARK, first_benchmarks
    from boardprof.show.cells import plural

    path, known = Path(PROJECT_FILE), _project_file()
    if known is not None and known.file.parent.resolve() == Path.cwd().resolve():
        raise UsageError(
            f"{known.file.name} already has benchmarks.", hint="add further ones by hand"
        )
    made = first_benchmarks(files, board, parse_build_options(options), explicit_options())
    own = (each for each in _project_files() if each.file.resolve() == path.resolve())
    if made.text.startswith(COMMON) and any(BENCHMARKS in each.content for each in own):
        raise UsageError(f"{path} already has {COMMON}.", hint="write the options there, as keys")
    for name, why in made.left_out.items():
        echo_note(f"{name} is left out: {why}")
    with path.open("a", encoding="utf-8") as file:
        file.write(made.text if not file.tell() else f"\n{made.text}")
    changes = plural(made.text.count(MARK), "value")
    echo(f"{path}: {plural(made.count, 'benchmark')}, {changes} to change")
    echo(f"See them: grep -n {MARK} {path}")
    echo("Then: boardprof check, and boardprof run")
