# SPDX-License-Identifier: Apache-2.0
"""``boardprof run``: measure and print."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from boardprof.base.errors import BoardprofError, UsageError
from boardprof.ui.cli.compare import (
    Against,
    against_options,
    check_comment,
    comment_option,
    comparison_text,
    parse_against,
    printed_export,
    write_comment,
    write_comparison,
)
from boardprof.ui.cli.exit_codes import INTERRUPTED
from boardprof.ui.cli.group import MOST_USED, SectionedCommand
from boardprof.ui.cli.options import (
    BOARD_SECTION,
    BUILD_SECTION,
    STDOUT,
    baseline_option,
    build_options,
    complete_board,
    complete_metrics,
    complete_target,
    complete_value,
    console_option,
    expect_options,
    explicit_options,
    file_option,
    flash_option,
    image_option,
    listed_boards,
    number_option,
    parse_plan,
    port_options,
    probe_option,
    save_option,
    table_option,
    warnings_option,
    width_option,
)
from boardprof.ui.cli.output import (
    echo,
    echo_answer,
    echo_configuration,
    echo_data,
    echo_error,
    echo_note,
    echo_page,
    echo_report,
    echo_warning,
    echo_warnings,
    echo_written,
    is_quiet,
    progress_bar,
    run_listener,
    shows_console,
    stdout_of_boards,
)

if TYPE_CHECKING:
    from pathlib import Path

    from boardprof.jobs.run.benchmarks import Benchmark
    from boardprof.jobs.run.outcome import Outcome
    from boardprof.jobs.run.plan import Plan
    from boardprof.results.comparison.comparison import Comparison
    from boardprof.results.comparison.rule import Rule
    from boardprof.results.history.run import Run, RunId
    from boardprof.results.report.report import Report
    from boardprof.results.stats.groups import GroupSummary
    from boardprof.show.exporters import Export


_SECTIONS = {
    MOST_USED: "board_names port metrics warmup repeat number cold lists optimize sweep ab_rev "
    "json_file exports table stats",
    "What to measure": "tags watch metrics warmup repeat number lists cold mask_interrupts "
    "hotspots sampled probe energy sweep",
    "The board": BOARD_SECTION,
    "The build": BUILD_SECTION,
    "The output of the function": "save_output expect tolerance",
    "What is printed": "table stats warnings width console verbose quiet debug",
    "What is kept": "json_file exports save baseline_file",
    "What it is compared with": "against against_if_present ab ab_rev rules alpha allow "
    "fail_if_missing spread_runs bisect comment",
}

_ARGUMENTS = """
\b
NAME=VALUE sets an argument:
  n=256  gain=-1.5  on=true      numbers
  x=@x.npy  x=@x.bin             an array from a file
  x=int16[64]:random(7)          or :zeros, :ones, :random
  x=[64]:ones                    with x's own type
  y=int32[16,16]:out             output only
  s=@s.npy:keep                  not restored between calls
  s=zeros  s=[3]:zeros           structs
  s='{gain=2.5, taps=[1, 2]}'    a struct's members, by pointer or by value
  s='{taps=&h, next=NULL}'       a pointer in it; h=[8]:ones is one more array
  s='{n=8, data=[8]:zeros}'      an array in it, or one that it points to
  s=hello  s='"{"a": 1}"'       text for char*
  mode=FAST  f=square            an enum's name, a function of the image
  p=NULL                         no array

\b
The table has a row for each function, board and setting:
  Spread     half the distance between the quartiles, or the overhead's
             uncertainty if it is more; exact: the same in each run
  Stack      bytes of stack that a call overwrites
  Relative   the median as a multiple of the first one's; best: by a rank test
  Since #7   the change since that run, if a rank test finds one;
             same build: the code is the same, so it is the machine's
"""


@click.command(cls=SectionedCommand, sections=_SECTIONS, epilog=_ARGUMENTS)
@click.argument("target", required=False, shell_complete=complete_target)
@click.argument("values", nargs=-1, metavar="[NAME=VALUE]...", shell_complete=complete_value)
@click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="TAG",
    help="Only the project's benchmarks with this tag.",
)
@click.option(
    "--watch",
    is_flag=True,
    help="Measure again whenever a source or header was saved, and show the change, until Ctrl-C. "
    "The runs are not kept.",
)
@click.option(
    "-b",
    "--board",
    "board_names",
    multiple=True,
    metavar="BOARD[,BOARD...]",
    shell_complete=complete_board,
    help="One board, or several for one Report: -b A,B. [default: the default board; with -p, the "
    "board at the port]",
)
@port_options
@image_option
@click.option(
    "--metrics",
    metavar="NAME[,NAME...]",
    shell_complete=complete_metrics,
    help="Metrics to read, comma-separated; all includes programmable events. [default: all fixed "
    "counters]",
)
@number_option(
    "-w --warmup",
    "Warm-up calls before the first sample. [default: 10; 1 if a call takes over 0.5 s]",
    least=0,
)
@number_option(
    "-r --repeat",
    "Samples to take. [default: 10; if a call takes over 0.5 s, 2 on emulated boards and 5 "
    "on others]",
)
@number_option(
    "--number",
    "Calls per sample. [default: 1; more if one call is too short for an operating system's clock "
    "and changes no array that it was given]",
)
@click.option(
    "-L",
    "--parameter-list",
    "lists",
    nargs=2,
    multiple=True,
    metavar="NAME VALUE[,VALUE...]",
    help="Measure with each value of an argument: one row each. {NAME} in other arguments and in "
    "-D, -O and --cflags stands for the value: -L n 16,64 'x=[{n}]:ones', -L N 1,2 -D 'N={N}'. "
    "Ranges: 1..8, 0..100:25, 16..1024*2.",
)
@click.option("--cold", is_flag=True, help="Also measure the very first call, separately.")
@click.option("--mask-interrupts", is_flag=True, help="Mask interrupts while a call is measured.")
@click.option(
    "--hotspots",
    is_flag=True,
    help="Also record one call on a second emulator. The Report then shows where it spends its "
    "cost, and compare shows why it changed.",
)
@click.option(
    "--sampled", is_flag=True, help="With --hotspots: sample more calls on the board itself."
)
@probe_option
@click.option(
    "--energy",
    metavar="METER",
    help="Also measure the energy per call with a power analyser, which sees the agent's marker "
    "pin: ppk2, ppk2:PORT, ppk2?mv=3300&pin=2.",
)
@build_options
@click.option(
    "--sweep",
    metavar='"FLAGS|FLAGS"',
    help='Measure with each setting of compiler flags, e.g. "-O2|-O3|-Os": one row per setting.',
)
@flash_option
@click.option(
    "--save-output",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Write return.npy and one NAME.npy for each array that the function wrote.",
)
@expect_options(
    "Fail if the output differs: an array of FILE, or a number. NAME may be `return`. In FILE, "
    "{board} stands for the board's name.",
    "Relative tolerance for floats in --expect and in outputs that are compared. [default: 0]",
)
@file_option("json", "the Report as JSON")
@click.option(
    "--export",
    "exports",
    multiple=True,
    metavar="NAME=FILE",
    help="Also write the Report with an exporter: medians (CSV, per call), csv (the sums of each "
    "sample), html, markdown, ... or one of another package; github, gitlab, junit and summary "
    "write the comparison. NAME=- prints it in place of the table.",
)
@save_option
@baseline_option
@against_options
@comment_option
@table_option
@click.option("--stats", is_flag=True, help="Also print statistics of the samples.")
@warnings_option
@width_option
@console_option
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Show each compiler command, what the board prints, and the configuration.",
)
def run(
    target: str | None, values: tuple[str, ...], board_names: tuple[str, ...], **options: Any
) -> int:
    """Measure functions on boards and print the Report.

    \b
    boardprof run fir.c:fir n=256                      on this machine
    boardprof run -b BOARD fir.c:all                   each function, on a board
    boardprof run fir.c:fir,iir -L n 64,256            which one, for which n?
    boardprof run old.c:fir new.c:fir n=64             from which file?
    boardprof run -b BOARD fir.c:fir --sweep "-O2|-Os" with which flags?
    boardprof run -p /dev/ttyACM0 fir 'x=[64]:random'  firmware on a board
    boardprof run -b BOARD fir.c:fir --against main --fail-if '*>0'
    boardprof run                                      all of boardprof.toml
    boardprof run 'fir-*' --tag fast                   some of them

    TARGET is PATH:FUNCTION, PATH:FUNCTION,FUNCTION or PATH:all. PATH is a C file, a folder, or
    anything that --source takes. Without PATH, TARGET is a function that the board's firmware or
    --image already has, or all. Functions of further TARGETs are compared with it. NAME=VALUE is
    explained below the options.
    """  # noqa: D301 (click knows the backspace as: do not wrap)
    from boardprof.jobs.run.saving import check_save_name
    from boardprof.show.exporters import read_exports

    check_save_name(options["save"])
    check_comment(options["comment"])
    request = _request(target, values, board_names, options)
    against = parse_against(options, request.target, request.rules)
    has_outputs = options["expect"] or against.is_wanted or request.benchmarks
    if options["tolerance"] and "tolerance" in explicit_options() and not has_outputs:
        raise UsageError("--tolerance needs --expect or --against.", hint="--expect @y.npy")
    if options["watch"]:
        return _watch(request, against, options)
    exports = read_exports(options["exports"], comparisons=None)
    against.check_files(exports, options["comment"])
    json_file = options["json_file"]
    printed = printed_export(exports, json_file)
    no_table = printed is not None or json_file == STDOUT
    sources: list[Path] = []
    outcome = _measured(request, against, options, sources)
    failures = list(outcome.failures)
    over: list[str] = []
    if outcome.report is not None:
        report, over, wrong_limits = request.judged(outcome.report)
        if not outcome.interrupted:
            failures += against.compare(report)
        failures += wrong_limits
        why = "was interrupted" if outcome.interrupted else "failed" if failures else ""
        why = why or ("is above a limit" if over else "" if against.keeps_clean else "failed")
        # The files first: the reader of our output may have gone.
        files = [each for each in exports if each is not printed]
        failures += _write(report, against.comparison, files, options, why, request.is_whole)
        since = None if no_table else _since(report, request, options)
        kept, errors = _keep(report, options["save"], request.files, sources, why)
        failures += errors
        if printed is not None:
            failures += _print(report, against.comparison, printed)
        elif no_table:
            echo_data(report.json())
        else:
            _echo_report(report, request, options, since, kept)
        if options["warnings"]:
            echo_warnings(report)
        if not no_table:
            against.echo()
        is_told = not no_table and (not options["table"] or against.comparison is not None)
        for text in () if is_told else over:
            echo(f"ABOVE ITS LIMIT: {text}", err=no_table)
        if options["comment"] and against.comparison is not None:
            failures += write_comment(against.comparison, options["comment"])
    for failure in failures:
        echo_error(f"error: {request.place_of(failure)}{failure}")
    if outcome.interrupted:
        echo("interrupted", err=True)
        return INTERRUPTED
    return against.exit_code(failures, is_over=bool(over))


@dataclass(frozen=True)
class _Request:
    """The plans of a run: one, or those of the project's benchmarks."""

    plans: Sequence[Plan]
    target: str  # as `parse_against` takes it
    benchmarks: Sequence[Benchmark] = ()  # the chosen ones
    folder: Path | None = None  # of the benchmarks' file, which their paths begin at
    is_whole: bool = False  # all benchmarks of the file on all their boards

    @property
    def files(self) -> list[str | Path]:
        """The files and folders that are measured."""
        chosen = [plan for plan in self.plans if self.is_chosen(plan)]
        found = dict.fromkeys(file for plan in chosen for file in plan.files)
        return [file if self.folder is None else self.folder / file for file in found]

    def place_of(self, failure: BoardprofError) -> str:
        """Return file and line of the benchmark with the mistake; "" if it is in no benchmark."""
        if not isinstance(failure, UsageError):
            return ""
        names = failure.message.split(": ")[:2]  # the first one may be the board's
        return next((f"{each.place}: " for each in self.benchmarks if each.name in names), "")

    @property
    def rules(self) -> list[Rule]:
        """The rules of the benchmarks, each for its own rows."""
        texts = [(each.name, text) for each in self.benchmarks for text in each.rules]
        if not texts:
            return []
        from boardprof.results.comparison.rule import parse_rule

        return [replace(parse_rule(text), benchmark=name) for name, text in texts]

    def judged(self, report: Report) -> tuple[Report, list[str], list[UsageError]]:
        """Return a Report that says what is above a limit, these texts, and mistakes in limits."""
        over: list[tuple[GroupSummary, str]] = []
        wrong: list[UsageError] = []
        limited = [each for each in self.benchmarks if each.limits]
        if not limited:
            return report, [], wrong
        from boardprof.results.stats.groups import summaries, with_limits

        groups = summaries(report)
        for each in limited:
            try:
                over += each.over(groups)
            except UsageError as error:
                wrong.append(error)
        unchecked = sorted({board for each in limited for board in each.unchecked(groups)})
        return with_limits(report, over, unchecked), [text for _, text in over], wrong

    def is_chosen(self, plan: Plan) -> bool:
        """Tell whether a plan is measured; others are only in the firmware."""
        names = {each.name for each in self.benchmarks}
        return not names or plan.benchmark in names


def _request(
    target: str | None,
    values: tuple[str, ...],
    board_names: Sequence[str],
    options: Mapping[str, Any],
) -> _Request:
    from boardprof.jobs.run.plan import cases_of
    from boardprof.ui.cli.benchmarks import chosen_benchmarks

    for name, text in options["lists"]:
        if not name.isidentifier():
            raise UsageError(
                f"-L {name} {text} does not name an argument and its values.",
                hint="-L NAME VALUE,VALUE, such as -L n 16,64,256",
            )
    words = () if target is None else (target, *values)
    chosen = chosen_benchmarks(words, options["tags"], options)
    if chosen is None:
        assert target is not None
        plan = _plan(target, values, board_names, options)
        return _Request(cases_of(plan, options["lists"]), target)
    if options["lists"]:
        raise UsageError(
            "-L lists values of arguments, and the project's benchmarks have their own.",
            hint="name a target: PATH:FUNCTION",
        )
    given = explicit_options()
    base = _plan("", (), board_names, {**options, **_absolute(options)})
    port = base.connection.port
    pairs = chosen.of.planned(base, given, chosen.benchmarks, echo_note)
    plans = [plan for _, plan in pairs if plan is not None]
    found = [each for each, plan in pairs if plan is not None and each in chosen.benchmarks]
    if not found:
        raise UsageError("No benchmark has both this name and this tag.", hint="leave out --tag")
    is_whole = len(found) == len(chosen.of.all) and port is None and "boards" not in given
    name = chosen.of.file.name
    target = f"{name}:all" if is_whole else name
    return _Request(plans, target, found, chosen.of.folder, is_whole)


_NOT_WATCHED = (
    *("against", "ab", "ab_rev", "baseline_file"),
    *("comment", "exports", "json_file", "save"),
)


def _watch(request: _Request, against: Against, options: Mapping[str, Any]) -> int:
    """Measure after each save until Ctrl-C."""
    from boardprof.ui.cli.watch import echo_reasons, watch

    if any(options[name] for name in _NOT_WATCHED):
        raise UsageError(
            "--watch only prints: it writes, keeps and gates nothing.",
            hint="leave out --against, --ab, --baseline, --comment, --export, --json and --save",
        )
    if not request.files:
        raise UsageError("--watch compiles the functions, so it needs a PATH.")

    def show(report: Report, since: Comparison | None) -> None:
        report, over, wrong_limits = request.judged(report)
        _echo_report(report, request, options, since, None)
        echo_reasons(since)
        for text in over if options["table"] else ():
            echo(f"ABOVE ITS LIMIT: {text}")
        for error in wrong_limits:
            echo_error(f"error: {error}")

    watch(lambda sources: _measured(request, against, options, sources), show, request.files)
    return 0


def _absolute(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the paths among options, which begin at the current folder."""
    lists = {name: tuple(map(os.path.abspath, options[name])) for name in ("includes", "sources")}
    given = {name: options[name] for name in ("save_output", "key_file", "compile_commands")}
    paths = {name: os.path.abspath(path) for name, path in given.items() if path not in _NO_PATHS}
    return {**lists, **paths}


_NO_PATHS = (None, "", "none")


def _plan(
    target: str, values: tuple[str, ...], board_names: Sequence[str], options: Mapping[str, Any]
) -> Plan:
    names = listed_boards(board_names)
    if options["sampled"] and not options["hotspots"]:
        raise UsageError("--sampled needs --hotspots.", hint="add --hotspots")
    if options["probe"] is not None and not options["sampled"]:
        raise UsageError(
            "--debug-probe works only with --hotspots --sampled.", hint="add --hotspots --sampled"
        )
    return parse_plan(target, values, names, options)


def _measured(
    request: _Request, against: Against, options: Mapping[str, Any], sources: list[Path]
) -> Outcome:
    """Measure; ``sources`` gets the files that were compiled."""
    from boardprof.jobs.run.outcome import run_plans

    if against.has_turns:
        from boardprof.jobs.run.alternating import run_in_turns, two_sides
    shown = shows_console(options)
    with progress_bar(measures=True), stdout_of_boards(shown=shown):
        listener = run_listener(options, on_sources=sources.extend)
        with contextlib.chdir(request.folder or "."):
            if not against.has_turns:
                return run_plans(request.plans, listener, request.is_chosen)
            sides = two_sides(request.plans, flags=against.flags, revision=against.revision)
            with sides as (before, after):
                found = run_in_turns(before, after, listener, request.is_chosen)
    against.take_turns(found)
    return found.outcome()


def _write(
    report: Report,
    comparison: Comparison | None,
    exports: Sequence[Export],
    options: Mapping[str, Any],
    why: str,
    is_whole: bool,
) -> Iterator[BoardprofError]:
    """Write the requested files; yield an error for each that cannot be written."""
    from boardprof.results.report.report_file import write_report
    from boardprof.show.exporters import write_export

    json_file, baseline_file = options["json_file"], options["baseline_file"]
    writers: list[tuple[Callable[[], None], object]] = []
    if json_file is not None and json_file != STDOUT:
        writers.append((partial(write_report, report, json_file), json_file))
    own = [each for each in exports if not each.is_comparison]
    writers += [(partial(write_export, report, each), each.file) for each in own]
    if comparison is not None:
        others = [each for each in exports if each.is_comparison]
        writers += [(partial(write_comparison, comparison, each), None) for each in others]
    if baseline_file is not None:
        writers.append((partial(_write_baseline, report, baseline_file, why, is_whole), None))
    for write, file in writers:
        try:
            write()
            if file is not None:
                echo_written("Report", file)
        except BoardprofError as error:
            yield error


def _write_baseline(report: Report, file: str, why: str, is_whole: bool) -> None:
    """Write the baseline, unless the run was interrupted or failed."""
    from boardprof.jobs.run.saving import write_baseline
    from boardprof.results.comparison.comparison import first_of

    if why:
        echo_warning(f"{file} was not written: the run {why}")
    else:
        made = write_baseline(report, file)
        echo_written("Baseline", f"{file}: {made}")
        if is_whole and made.kept_rows:
            echo_warning(
                f"{file} has rows that no benchmark measures: {first_of(made.kept_rows)}. Remove "
                "them from the file if their benchmarks are gone"
            )


def _print(
    report: Report, comparison: Comparison | None, export: Export
) -> Iterator[BoardprofError]:
    """Print an export in place of the table; yield why it could not be made."""
    from boardprof.show.exporters import exported

    try:
        if not export.is_comparison:
            content = exported(report, export.name, export.exporter)
            assert isinstance(content, bytes), "exporters of Reports make one file"
            echo_data(content, nl=False)
        elif comparison is not None:
            echo_data(comparison_text(comparison, export), nl=False)
    except BoardprofError as error:
        yield error


def _keep(
    report: Report,
    name: str | None,
    measured: Sequence[str | Path],
    sources: Sequence[Path],
    why: str,
) -> tuple[RunId | None, list[BoardprofError]]:
    """Keep a run in the history; return its number, and an error if it should have got a name."""
    # An incomplete run gets no name and does not count for its branch, so it is never a baseline.
    from boardprof.jobs.run.saving import keep_run

    try:
        kept = keep_run(
            report,
            name=name,
            measured=measured,
            sources=sources,
            has_failed=bool(why),
            on_note=echo_note,
        )
    except UsageError as error:
        if name is not None:
            return None, [error]
        echo_warning(str(error))
        return None, []
    if why and name is not None:
        echo_warning(f"kept as #{kept}, not as {name}: the run {why}")
    return kept, []


def _since(report: Report, request: _Request, options: Mapping[str, Any]) -> Comparison | None:
    """Compare with the newest comparable run, except for scripts, which compare on purpose."""
    # A run with the same inputs goes before newer ones with others. Another file may have an
    # unrelated function of the same name, so the run has the target's file.
    shows_other = any(options[name] for name in ("table", "against", "ab", "ab_rev"))
    if shows_other or is_quiet() or os.environ.get("CI"):
        return None
    from boardprof.results.comparison.compare import compare
    from boardprof.results.comparison.comparison import ComparisonError
    from boardprof.results.history.report_lookup import like_runs

    newest = None
    with contextlib.suppress(BoardprofError):  # keeping this run reports errors of the history
        for found in like_runs(report):
            if found.run is None or not (
                request.benchmarks or _is_of_same_file(found.run, request)
            ):
                continue
            if not _have_same_number(found.report, report):  # later calls of a sample may cost less
                continue
            with contextlib.suppress(ComparisonError):  # such as another compiler
                compared = compare(found.report, report, before_name=found.label)
                if all(row.verdict != "other inputs" for row in compared.rows):
                    return compared
                newest = newest or compared
    return newest


def _have_same_number(before: Report, after: Report) -> bool:
    """Tell whether samples of the same functions have the same number of calls, as warm ones.

    The first calls take longer: on a CPU, also those of a session.
    """
    old, new = _numbers(before), _numbers(after)
    return all(old[place] == new[place] for place in old.keys() & new.keys())


def _numbers(report: Report) -> dict[tuple[str, str], tuple[int | None, int | None]]:
    """Return the calls in a sample and the fewest before the first one, where they matter."""
    found: dict[tuple[str, str], tuple[int | None, int | None]] = {}
    for each in report.record.measurements if report.record is not None else ():
        device = report.record.devices.get(each.device) if report.record is not None else None
        has_cpu = device is not None and bool(device.cpu)
        warmup = each.warmup if has_cpu else None
        found.setdefault((each.device, each.label or each.name), (each.number, warmup))
    return found


def _is_of_same_file(run: Run, request: _Request) -> bool:
    """Whether a run measured the target's file; for runs of other machines, one of that name."""
    from boardprof.jobs.run.plan import split_target
    from boardprof.jobs.run.saving import files_in_project

    if run.files and request.files:
        return files_in_project(request.files[:1])[0] in run.files
    target = request.target
    try:
        words = shlex.split(run.command)
    except ValueError:  # its end is missing
        return False
    path, _ = split_target(target)
    if not path:
        return target in words  # a function of the firmware
    names = (os.path.basename(split_target(word)[0]) for word in words)
    return os.path.basename(path) in names


def _echo_report(
    report: Report,
    request: _Request,
    options: Mapping[str, Any],
    since: Comparison | None,
    kept: RunId | None,
) -> None:
    if options["table"]:
        echo_report(report)
    else:
        name = f"#{kept}" if kept is not None else ""
        if options["ab"]:
            echo(f"With {options['ab'].partition('|')[2].strip() or 'no flags'}:")
        echo_answer(
            report,
            since,
            name=name,
            shows_others=options["metrics"] is not None,
        )
        if options["verbose"]:
            echo_configuration(report)
    if options["hotspots"]:
        from boardprof.ui.cli.recording import echo_profiles

        echo("")
        echo_profiles(report)
    if options["stats"]:
        from boardprof.show.table import statistics_page

        echo_page(statistics_page(report))
