# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of a project: ``[[benchmark]]`` in its settings file.

Each is a function with its arguments, the boards that it runs on, its flags, the outputs that it
must have and the limits that it must keep::

    [[benchmark]]
    name = "fir-256"
    target = "src/fir.c:fir"
    arguments = {x = "int16[256]:random(7)", h = "[64]:ones", y = "int32[256]:out", n = 256}
    boards = ["qemu-rv32", "qemu-cortex-m4"]
    limit = {instructions = 120_000}
    tags = ["dsp"]

``[benchmarks]`` has keys that all of them have, unless their own table has another value. Paths
are relative to the file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from boardprof.base.errors import BoardprofError, UnknownNameError, UsageError, option
from boardprof.base.settings import BENCHMARK, BENCHMARKS, SettingsFile
from boardprof.base.toml_table import TomlTable
from boardprof.jobs.run.function_choice import check_arguments
from boardprof.jobs.run.plan import (
    ALL,
    Plan,
    PlanData,
    boards_of,
    split_target,
    with_each_setting,
)
from boardprof.results.report.report import Report
from boardprof.results.stats.groups import GroupSummary, over_limits, summaries
from boardprof.target.arguments.binding import RETURN
from boardprof.target.arguments.signature import scalar_packer
from boardprof.target.build.build_options import BuildOptions
from boardprof.target.cfunction import CFunction, Pointer, Scalar, signature
from boardprof.target.descriptions.board import BoardSpec, find_boards

NOT_IN_NAMES: Final = re.compile(r"[\s:=*?\[\],]+")
"""What the names of benchmarks do not have: targets, patterns and labels do."""

_TEXTS_OF_CODE: Final = {
    "cflags": "cflags",
    "compile-commands": "compile_commands",
    "ldflags": "ldflags",
    "libc": "libc",
}
_LISTS_OF_CODE: Final = {
    "source": "sources",
    "include": "includes",
    "define": "defines",
    "no-inline": "keep",
}
_WHOLE: Final = {"warmup": 0, "repeat": 1, "number": 1}
"""The least value of each key for a number of calls."""

_EXPECT: Final = 'expect = {return = 4, y = "@y.npy"}'

_FLAGS: Final = {"cold": "cold", "mask-interrupts": "mask_interrupts"}

_KEYS_OF_HOW: Final = ("optimize", "tolerance", *_TEXTS_OF_CODE, *_WHOLE, *_FLAGS)


@dataclass(frozen=True)
class Benchmark:
    """One benchmark, as the file has it.

    Attributes:
        name: unique in the file.
        target: ``PATH:FUNCTION``; the path is relative to the file.
        values: the arguments, ``NAME=VALUE``.
        boards: names. Empty for those of the command or the settings.
        settings: further attributes of the plan.
        code: attributes of the plan's `BuildOptions`.
        limits: the largest allowed medians per call by metric, for each board; "" for every board.
        tags: for ``--tag``.
    """

    name: str
    target: str
    values: tuple[str, ...] = ()
    boards: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    code: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    table: TomlTable | None = field(default=None, compare=False, repr=False)

    @property
    def place(self) -> str:
        """File and line, for errors."""
        return self.place_of("name")

    def place_of(self, key: str) -> str:
        """File and line of one of its keys."""
        return "" if self.table is None else self.table.place(key)

    @property
    def plan_alone(self) -> Plan:
        """The plan without the command's options: its function and its label."""
        return Plan(self.target, benchmark=self.name)

    def plan(self, base: Plan, given: Collection[str] = ()) -> Plan | None:
        """Return the plan; None if the command's boards are not among the benchmark's.

        Args:
            base: the plan of the command's options, which are the defaults.
            given: names of those that were given explicitly and override the benchmark's.
        """
        boards = self.boards or base.boards
        if self.boards and "boards" in given:
            boards = tuple(name for name in self.boards if name in base.boards)
            if not boards:
                return None
        code = {name: value for name, value in self.code.items() if name not in given}
        settings = {name: value for name, value in self.settings.items() if name not in given}
        return replace(
            base,
            target=self.target,
            values=self.values,
            boards=boards,
            code=replace(base.code, **code),
            benchmark=self.name,
            **settings,
        )

    def over(self, report: Report) -> list[tuple[GroupSummary, str]]:
        """Return the benchmark's rows in a Report that are above a limit, with a text for each."""
        own = [each for each in summaries(report) if self._has(each)] if self.limits else []
        boards = dict.fromkeys(each.board for each in own)
        found: list[tuple[GroupSummary, str]] = []
        for board in boards:
            groups = [each for each in own if each.board == board]
            limits = {**self.limits.get("", {}), **self.limits.get(board, {})}
            try:
                found += over_limits(groups, limits, self.name)
            except UnknownNameError as error:
                error.message = f"{self.place}: limit of {self.name} on {board}: {error.message}"
                raise
        return found

    def _has(self, group: GroupSummary) -> bool:
        plan = self.plan_alone
        is_named = plan.function in (ALL, group.key.name)
        return is_named and group.key.label == plan.label


@dataclass(frozen=True)
class Benchmarks:
    """The benchmarks of a file, in its order."""

    file: Path
    all: tuple[Benchmark, ...]

    @property
    def folder(self) -> Path:
        """The folder that paths begin at."""
        return self.file.parent

    def planned(self, base: Plan, given: Collection[str]) -> list[tuple[Benchmark, Plan | None]]:
        """Return all with their plans, see `Benchmark.plan`; an agent at a port names its board."""
        if base.connection.port is not None and self.all and not base.boards:
            [spec] = boards_of(replace(base, target=self.all[0].target, flash=False))
            base, given = replace(base, boards=(spec.name,)), {*given, "boards"}
        return [(each, each.plan(base, given)) for each in self.all]

    def chosen(self, names: Sequence[str] = (), tags: Sequence[str] = ()) -> list[Benchmark]:
        """Return those that a name or a pattern fits, and that have one of the tags."""
        known = [each.name for each in self.all]
        for name in names:
            if not any(fnmatchcase(each, name) for each in known):
                raise UnknownNameError("benchmark", name, known, where=f"in {self.file.name}")
        every = dict.fromkeys(tag for each in self.all for tag in each.tags)
        for tag in tags:
            if tag not in every:
                raise UnknownNameError("tag", tag, [*every], where=f"in {self.file.name}")
        return [
            each
            for each in self.all
            if (not names or any(fnmatchcase(each.name, name) for name in names))
            and (not tags or {*tags} & {*each.tags})
        ]


def read_benchmarks(
    file: SettingsFile, on_error: Callable[[UsageError], None] | None = None
) -> Benchmarks:
    """Return the benchmarks of a settings file; ``on_error`` gets all mistakes, not the first."""
    known: dict[str, Benchmark] = {}
    common: Mapping[str, Any] = {}
    try:
        common = _common(file)
    except UsageError as error:
        if on_error is None:
            raise
        on_error(error)
    for number, content in enumerate(_tables(file)):
        table = TomlTable({**common, **content}, file.file, *file.path, BENCHMARK, number)
        try:
            benchmark = _benchmark(table)
            if benchmark.name in known:
                first = known[benchmark.name].place
                raise table.error("name", f'"{benchmark.name}" is already at {first}')
        except UsageError as error:
            if on_error is None:
                raise
            on_error(error)
            continue
        known[benchmark.name] = benchmark
    return Benchmarks(file.file.absolute(), tuple(known.values()))


def _tables(file: SettingsFile) -> Iterable[Mapping[str, Any]]:
    tables = file.content.get(BENCHMARK, [])
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        raise UsageError(
            f"{file.file}: {BENCHMARK} is not an array of tables.", hint="[[benchmark]]"
        )
    return tables


def _common(file: SettingsFile) -> Mapping[str, Any]:
    """Return the keys that all benchmarks have."""
    content = file.content.get(BENCHMARKS, {})
    if not isinstance(content, dict):
        raise UsageError(f"{file.file}: {BENCHMARKS} is not a table.", hint="[benchmarks]")
    table = TomlTable(content, file.file, *file.path, BENCHMARKS)
    _how(table)
    for key in ("boards", "tags"):
        table.texts(key)
    table.end()
    return content


def _benchmark(table: TomlTable) -> Benchmark:
    name = table.take("name", str)
    if not name or NOT_IN_NAMES.search(name):
        raise table.error("name", f"{name!r} has a blank or one of : = , * ? [ ]")
    if name == ALL:
        raise table.error("name", f"{name!r} means each function; choose another name")
    target = table.take("target", str)
    path, function = split_target(target)
    if not path or not function:
        raise table.error("target", f"{target!r} is not PATH:FUNCTION or PATH:all")
    settings, code = _how(table)
    expected = table.table("expect", required=False)
    settings["expect"] = tuple(f"{key}={_text(expected, key)}" for key in expected.keys)
    arguments = table.table("arguments", required=False)
    values = tuple(f"{key}={_text(arguments, key)}" for key in arguments.keys)
    boards = table.texts("boards")
    benchmark = Benchmark(
        name,
        target,
        values,
        boards,
        settings,
        code,
        _limits(table.table("limit", required=False), boards),
        table.texts("tags"),
        table,
    )
    table.end()
    return benchmark


def _how(table: TomlTable) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return how a benchmark is measured and compiled: attributes of its plan and its code."""
    code = {
        **_present(table, _TEXTS_OF_CODE, lambda key: table.take(key, str)),
        **_present(table, _LISTS_OF_CODE, table.texts),
    }
    if table.has("optimize"):
        code["optimize"] = f"-O{_text(table, 'optimize')}"
    if code.get("libc", "board") not in ("board", "none"):
        raise table.error("libc", 'must be one of "board", "none"')
    settings = {
        **_present(table, {key: key for key in _WHOLE}, lambda key: _whole(table, key)),
        **_present(table, _FLAGS, lambda key: table.take(key, bool)),
    }
    if table.has("metrics"):
        settings["metrics"] = table.texts("metrics", None)
    if table.has("tolerance"):
        settings["tolerance"] = tolerance = float(_limit(table, "tolerance"))
        if tolerance < 0:
            raise table.error("tolerance", f"must be 0 or more, not {tolerance}")
    return settings, code


def plan_of_settings(file: Path, settings: Mapping[str, Any], boards: Sequence[str]) -> Plan:
    """Return the plan of ``boardprof run`` without flags, from a project's settings by key."""
    lists = (*_LISTS_OF_CODE, "metrics")
    content = {key: settings[key] for key in (*_KEYS_OF_HOW, *lists) if key in settings}
    for key in lists:
        if isinstance(content.get(key), str):
            content[key] = content[key].split(",") if key == "metrics" else [content[key]]
    found, code = _how(TomlTable(content, file))
    return Plan("", boards=tuple(boards), code=BuildOptions(**code), **found)


def _present(
    table: TomlTable, keys: Mapping[str, str], take: Callable[[str], Any]
) -> dict[str, Any]:
    """Return the values of those keys that the table has, by their names in the plan."""
    return {name: take(key) for key, name in keys.items() if table.has(key)}


def _whole(table: TomlTable, key: str) -> int:
    number: int = table.take(key, int)
    if number < _WHOLE[key]:
        raise table.error(key, f"must be {_WHOLE[key]} or more, not {number}")
    return number


def _text(table: TomlTable, key: str) -> str:
    """Return a value as the command line has it: a string, a number, true or false."""
    value = table.value(key)
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        raise table.error(key, f"must be a string, a number, true or false, not {value!r}")
    return f"{value}"


def _limits(table: TomlTable, boards: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return limits by board and metric; "" for every board."""
    found: dict[str, dict[str, float]] = {}
    for key in table.keys:
        if isinstance(table.value(key), dict):
            known = [Path(name).name for name in boards] or [*find_boards()]
            is_own = not boards and UnknownNameError.nearest(key, known) is None  # a folder of -b
            if key not in known and not is_own:
                raise table.error(key, UnknownNameError("board", key, known, where="here").message)
            own = table.table(key)
            found[key] = {metric: _limit(own, metric) for metric in own.keys}
        else:
            found.setdefault("", {})[key] = _limit(table, key)
    return found


def _limit(table: TomlTable, key: str) -> float:
    value = table.value(key)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value):
        raise table.error(key, f"must be a number, not {value!r}")
    return float(value) if isinstance(value, float) else value


# -- checking without a board ------------------------------------------------------------------


def check_benchmarks(
    pairs: Iterable[tuple[Benchmark, Plan]], on_command: Callable[[str], None] | None = None
) -> Iterator[UsageError]:
    """Compile what benchmarks measure, run nothing, and yield what is wrong, with file and line.

    Metrics are not checked: only a running board tells which ones it counts.
    """
    compiled: dict[tuple[object, ...], dict[str, CFunction] | str] = {}
    for benchmark, plan in pairs:
        specs, key = [], "boards"
        try:
            specs = boards_of(plan)
            key = "arguments"
            data = plan.read_data([spec.name for spec in specs])
            with_each_setting(plan)
        except BoardprofError as error:
            key = "expect" if error.message.startswith(option("--expect")) else key
            yield _at(benchmark, key, error)
            continue
        told: set[str] = set()
        for spec in specs:
            # The function is part of it, since it may be a static one of a header.
            place = (spec.folder, plan.path, plan.code, plan.function)
            if place not in compiled:
                compiled[place] = _functions(spec, plan, on_command)
            for key, text in _mistakes(plan, compiled[place], data):
                if text not in told:
                    told.add(text)
                    yield _at(benchmark, key, UsageError(text))


def _at(benchmark: Benchmark, key: str, error: BoardprofError) -> UsageError:
    text = f"{benchmark.place_of(key)}: {benchmark.name}: {error.message}"
    of_command = "--expect" in (error.hint or "")
    return UsageError(text, hint=_EXPECT if of_command else error.hint)


def _functions(
    spec: BoardSpec, plan: Plan, on_command: Callable[[str], None] | None
) -> dict[str, CFunction] | str:
    """Return the functions of a plan's files by name, or why they do not compile."""
    from boardprof.target.build.builder import Build  # later: it knows all compilers
    from boardprof.target.build.sources import with_static_of_header

    assert plan.path is not None, "the target has been checked"
    try:
        wanted = None if plan.function == ALL else plan.function
        code = with_static_of_header(spec, plan.path, wanted, plan.code)
        found, _ = Build(spec, [plan.path], code, on_command).functions()
    except BoardprofError as error:
        return f"{error}"
    return {fn.name: fn for fn in found}


def _mistakes(
    plan: Plan, found: dict[str, CFunction] | str, data: PlanData
) -> Iterator[tuple[str, str]]:
    """Yield the key and a text for each thing that is wrong with a benchmark on one board."""
    if isinstance(found, str):
        yield "target", found
        return
    if plan.function == ALL:
        return
    function = found.get(plan.function)
    if function is None:
        where = f"in {plan.path}"
        error: UsageError = UnknownNameError("function", plan.function, [*found], where=where)
        yield "target", f"{error}"
        return
    if function.reason is not None:
        yield "target", f"{plan.function} cannot be called over the wire: {function.reason}."
        return
    text = signature(function)
    try:
        check_arguments(plan.function, text, plan.arguments)
        for parameter in function.parameters:
            if parameter.name in data.arguments:
                name, kind = parameter.name, parameter.type
                pointer = kind if isinstance(kind, Pointer) else None
                value = data.arguments[name].value(pointer)
                if isinstance(kind, Scalar):
                    scalar_packer(name, kind.text, kind.names)(plan.function, value)
    except UsageError as error:
        yield "arguments", f"{error}"
    returned = [RETURN] if function.result is not None else []
    numbers = {p.name for p in function.parameters if isinstance(p.type, Scalar)}
    outputs = [*returned, *(name for name in data.arguments if name not in numbers)]
    for each in data.expectations:
        if each.name is not None and each.name not in outputs:
            where = f"of {plan.function}"
            yield "expect", UnknownNameError("output", each.name, outputs, where=where).message
