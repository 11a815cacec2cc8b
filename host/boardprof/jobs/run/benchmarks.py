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
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from boardprof.base.connection import LONGEST_S
from boardprof.base.errors import BoardprofError, UnknownNameError, UsageError
from boardprof.base.metrics import metric_called
from boardprof.base.settings import BENCHMARK, BENCHMARKS, SettingsFile
from boardprof.base.toml_table import TomlTable
from boardprof.jobs.run.function_choice import (
    check_arguments,
    parameters_given,
    with_own_names,
)
from boardprof.jobs.run.plan import (
    ALL,
    Plan,
    PlanData,
    boards_of,
    split_target,
)
from boardprof.results.report.calls import DURATION, ENERGY, PERTURBATION, SHARE, STACK
from boardprof.results.report.profile import MODELLED
from boardprof.results.stats.groups import GroupSummary, over_limits
from boardprof.target.arguments.binding import RETURN
from boardprof.target.arguments.signature import scalar_packer
from boardprof.target.build.build_options import BuildOptions
from boardprof.target.cfunction import CFunction, Pointer, Scalar, signature
from boardprof.target.descriptions.board import BoardSpec, find_boards, metric_names

if TYPE_CHECKING:
    from boardprof.jobs.run.plan_build import Compiled

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
KEYS_OF_CODE: Final = {"optimize": "optimize", **_TEXTS_OF_CODE, **_LISTS_OF_CODE}
"""Keys of the file, and what the options of a build call them."""

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
        rules: what a comparison must not break, as ``--fail-if`` takes it.
        timeout_s: longest time of a call on the board's clock; None for the command's.
        tags: for ``--tag``.
    """

    name: str
    target: str
    values: tuple[str, ...] = ()
    boards: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    code: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    rules: tuple[str, ...] = ()
    timeout_s: float | None = None
    tags: tuple[str, ...] = ()
    table: TomlTable | None = field(default=None, compare=False, repr=False)

    @property
    def place(self) -> str:
        """File and line, for errors."""
        return self.place_of("name")

    def place_of(self, *keys: str) -> str:
        """File and line of one of its keys, or of a key in the table with that name."""
        return "" if self.table is None else self.table.place(*filter(None, keys))

    @property
    def plan_alone(self) -> Plan:
        """The plan without the command's options: its function and its label."""
        return Plan(self.target, benchmark=self.name)

    def plan(
        self, base: Plan, given: Collection[str] = (), others: Sequence[str] = ()
    ) -> Plan | None:
        """Return the plan; None if the command's boards are not among the benchmark's.

        Args:
            base: the plan of the command's options, which are the defaults.
            given: names of those that were given explicitly and override the benchmark's.
            others: boards of the command on which it runs although it does not name them.
        """
        boards = self.boards or base.boards
        if self.boards and "boards" in given:
            own = (name for name in base.boards if _name_of(name) in map(_name_of, self.boards))
            boards = tuple(dict.fromkeys((*own, *others)))
            if not boards:
                return None
        connection = base.connection
        if self.timeout_s is not None and "timeout_s" not in given:
            connection = replace(connection, timeout_s=self.timeout_s)
        code = {name: value for name, value in self.code.items() if name not in given}
        settings = {name: value for name, value in self.settings.items() if name not in given}
        return replace(
            base,
            target=self.target,
            values=self.values,
            boards=boards,
            connection=connection,
            code=replace(base.code, **code),
            benchmark=self.name,
            **settings,
        )

    def limits_on(self, board: str) -> dict[str, float]:
        """Return the limits on a board; none on one that the file does not name."""
        if self.boards and board not in map(_name_of, self.boards):
            return {}
        return {**self.limits.get("", {}), **self.limits.get(board, {})}

    def over(self, groups: Iterable[GroupSummary]) -> list[tuple[GroupSummary, str]]:
        """Return the benchmark's rows among a Report's that are above a limit, with a text each."""
        own = [each for each in groups if self._has(each)] if self.limits else []
        boards = dict.fromkeys(each.board for each in own)
        found: list[tuple[GroupSummary, str]] = []
        for board in boards:
            groups = [each for each in own if each.board == board]
            try:
                found += over_limits(groups, self.limits_on(board), self.name)
            except UnknownNameError as error:
                error.message = f"{self.place}: limit of {self.name} on {board}: {error.message}"
                raise
        return found

    def unchecked(self, groups: Iterable[GroupSummary]) -> set[str]:
        """Return the boards among a Report's groups on which its limits do not hold."""
        boards = {each.board for each in groups if self._has(each)} if self.limits else set()
        return {each for each in boards if not self.limits_on(each)}

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

    def planned(
        self,
        base: Plan,
        given: Collection[str],
        chosen: Sequence[Benchmark] | None = None,
        on_note: Callable[[str], None] = lambda text: None,
    ) -> list[tuple[Benchmark, Plan | None]]:
        """Return all with their plans, see `Benchmark.plan`; an agent at a port names its board.

        A board of the command that none of the ``chosen`` is for measures all of them.
        """
        if base.connection.port is not None and self.all and not base.boards:
            [spec] = boards_of(replace(base, target=self.all[0].target, flash=False))
            base, given = replace(base, boards=(spec.name,)), {*given, "boards"}
        chosen = self.all if chosen is None else chosen
        known = {_name_of(name) for each in chosen for name in each.boards}
        is_free = "boards" not in given or not all(each.boards for each in chosen)
        others = [] if is_free else [name for name in base.boards if _name_of(name) not in known]
        if others and chosen:
            on_note(
                f"the benchmarks do not name {', '.join(others)} in `boards`: they are measured "
                "there without their limits"
            )
        return [(each, each.plan(base, given, others)) for each in self.all]

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


def _raised(error: UsageError) -> None:
    raise error


OnError: TypeAlias = Callable[[UsageError], None]


def read_benchmarks(file: SettingsFile, on_error: OnError = _raised) -> Benchmarks:
    """Return the benchmarks of a settings file; ``on_error`` gets all mistakes, not the first."""
    known: dict[str, Benchmark] = {}
    shared = _common(file, on_error)
    common = TomlTable(shared, file.file, *file.path, BENCHMARKS)
    for number, content in enumerate(_tables(file)):
        every = {**shared, **content}
        table = TomlTable(every, file.file, *file.path, BENCHMARK, number, common=common)
        benchmark = _benchmark(table, on_error)
        if benchmark is None:
            continue
        if benchmark.name in known:
            first = known[benchmark.name].place
            on_error(table.error("name", f'"{benchmark.name}" is already at {first}'))
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


def _common(file: SettingsFile, on_error: OnError) -> Mapping[str, Any]:
    """Return the keys that all benchmarks have, without wrong ones."""
    content = file.content.get(BENCHMARKS, {})
    if not isinstance(content, dict):
        raise UsageError(
            f"{file.file}: {BENCHMARKS} is not a table.",
            hint="[benchmarks] for what all have in common; each benchmark is a [[benchmark]]",
        )
    right: dict[str, Any] = {}
    for key, value in content.items():
        wrong: list[UsageError] = []
        table = TomlTable({key: value}, file.file, *file.path, BENCHMARKS)
        _how(table, wrong.append)
        _present(table, _REST, _texts_of(table), wrong.append)
        wrong += table.unknown()
        for error in wrong:
            on_error(error)
        right |= {} if wrong else {key: value}
    return right


def _benchmark(table: TomlTable, on_error: OnError) -> Benchmark | None:
    """Return a benchmark without wrong keys; None if it cannot be compiled or called."""
    found: dict[str, Any] = {}
    wrong: list[UsageError] = []
    for key, read in (
        ("name", _name),
        ("target", _target),
        ("arguments", partial(_assigned, on_error=wrong.append)),
    ):
        with _telling(wrong.append):
            found[key] = read(table, key)
    is_whole = not wrong
    settings, code = _how(table, wrong.append)
    timeout_s = settings.pop("timeout_s", None)
    with _telling(wrong.append):
        settings["expect"] = _assigned(table, "expect", wrong.append)
    found |= _present(table, _REST, _texts_of(table), wrong.append)
    boards = found.get("boards", ())
    limits: dict[str, dict[str, float]] = {}
    with _telling(wrong.append):
        limits = _limits(table.table("limit", required=False), boards, wrong.append)
    wrong += table.unknown()
    for error in wrong:
        on_error(error)
    if not is_whole:
        return None
    return Benchmark(
        found["name"],
        found["target"],
        found["arguments"],
        boards,
        settings,
        code,
        limits,
        found.get("rules", ()),
        timeout_s,
        found.get("tags", ()),
        table,
    )


@contextmanager
def _telling(on_error: OnError) -> Iterator[None]:
    """Tell a mistake, and go on."""
    try:
        yield
    except UsageError as error:
        on_error(error)


def _name(table: TomlTable, key: str) -> str:
    name: str = table.take(key, str)
    if not name or NOT_IN_NAMES.search(name):
        raise table.error(key, f"{name!r} has a blank or one of : = , * ? [ ]")
    if name == ALL:
        raise table.error(key, f"{name!r} means each function; choose another name")
    return name


def _target(table: TomlTable, key: str) -> str:
    target: str = table.take(key, str)
    if not all(split_target(target)):
        raise table.error(key, f"{target!r} is not PATH:FUNCTION or PATH:all")
    return target


def _assigned(table: TomlTable, key: str, on_error: OnError) -> tuple[str, ...]:
    """Return the values of a table as the command line has them: ``NAME=VALUE``."""
    own = table.table(key, required=False)
    values = _present(own, {name: name for name in own.keys}, partial(_text, own), on_error)
    return tuple(f"{name}={value}" for name, value in values.items())


_REST: Final = {"boards": "boards", "tags": "tags", "fail-if": "rules"}


def _texts_of(table: TomlTable) -> Callable[[str], tuple[str, ...]]:
    def read(key: str) -> tuple[str, ...]:
        texts = table.texts(key)
        if key == "fail-if":
            from boardprof.results.comparison.rule import parse_rule  # later: few files have any

            for text in texts:
                try:
                    parse_rule(text)
                except UsageError as error:
                    why = error.message.partition("\n")[0].rstrip(".")
                    raise table.error(key, f"{text!r}: {why}") from error
        return texts

    return read


def _how(table: TomlTable, on_error: OnError = _raised) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return how a benchmark is measured and compiled: attributes of its plan and its code."""

    def level(key: str) -> str:
        return f"-O{_text(table, key)}"

    def tolerance(key: str) -> float:
        found = float(_limit(table, key))
        if found < 0:
            raise table.error(key, f"must be 0 or more, not {found}")
        return found

    def timeout(key: str) -> float:
        found = table.positive(key, LONGEST_S)
        if found > LONGEST_S:
            raise table.error(key, f"must be at most {LONGEST_S:,.0f} seconds, not {found:g}")
        return found

    read = partial(_present, table, on_error=on_error)
    code = {
        **read(_TEXTS_OF_CODE, lambda key: table.take(key, str)),
        **read(_LISTS_OF_CODE, table.texts),
        **read({"optimize": "optimize"}, level),
    }
    if code.get("libc", "board") not in ("board", "none"):
        on_error(table.error("libc", 'must be one of "board", "none"'))
    settings = {
        **read({key: key for key in _WHOLE}, lambda key: _whole(table, key)),
        **read(_FLAGS, lambda key: table.take(key, bool)),
        **read({"metrics": "metrics"}, lambda key: table.texts(key, None)),
        **read({"tolerance": "tolerance"}, tolerance),
        **read({"timeout_s": "timeout_s"}, timeout),
    }
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
    table: TomlTable, keys: Mapping[str, str], take: Callable[[str], Any], on_error: OnError
) -> dict[str, Any]:
    """Return the values of those keys that the table has, by their names in the plan."""
    found: dict[str, Any] = {}
    for key, name in keys.items():
        with _telling(on_error):
            if table.has(key):
                found[name] = take(key)
    return found


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


def _limits(
    table: TomlTable, boards: Sequence[str], on_error: OnError
) -> dict[str, dict[str, float]]:
    """Return limits by board and metric; "" for every board."""
    found: dict[str, dict[str, float]] = {}
    for key in table.keys:
        with _telling(on_error):
            if isinstance(table.value(key), dict):
                known = [*map(_name_of, boards)] or [*find_boards()]
                is_own = not boards and UnknownNameError.nearest(key, known) is None  # one of -b
                if key not in known and not is_own:
                    error = UnknownNameError("board", key, known, where="here")
                    raise table.error(key, error.message.rstrip("."))
                own = table.table(key)
                found[key] = _present(
                    own, {name: name for name in own.keys}, partial(_limit, own), on_error
                )
            else:
                found.setdefault("", {})[key] = _limit(table, key)
    return found


def _name_of(board: str) -> str:
    """Return the name of a board that may be given by its folder."""
    return Path(board).name


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

    Metrics are checked as far as a board's description tells what it counts.
    """
    compiled: dict[tuple[object, ...], Compiled | str] = {}
    seen: set[tuple[str, str]] = set()  # mistakes that all benchmarks have in common
    for benchmark, plan in pairs:
        try:
            specs = boards_of(plan)
        except BoardprofError as error:
            yield _at(benchmark, error, "boards")
            continue
        for keys, wrong in _wrong_metrics(benchmark, plan, specs):
            where = (benchmark.place_of(*keys), wrong.message)
            if where not in seen:
                seen.add(where)
                yield _at(benchmark, wrong, *keys)
        names = [spec.name for spec in specs]
        data = PlanData()
        for key, part in _parts(plan):
            try:
                read = part.read_data(names)
            except BoardprofError as error:
                yield _at(benchmark, error, key, *part.arguments)
            else:
                arguments = {**data.arguments, **read.arguments}
                data = PlanData(arguments, [*data.expectations, *read.expectations])
        told: set[str] = set()
        for spec in specs:
            # The function is part of it, since it may be a static one of a header.
            place = (spec.folder, plan.path, plan.code, plan.function)
            if place not in compiled:
                compiled[place] = _compiled(spec, plan, on_command)
            for key, name, text in _mistakes(plan, compiled[place], data):
                if text not in told:
                    told.add(text)
                    yield _at(benchmark, UsageError(text), key, name)


_BESIDE: Final = (STACK, SHARE, PERTURBATION, ENERGY, *MODELLED)
"""Metrics that a board need not count; whether it has them, the run tells."""


def _wrong_metrics(
    benchmark: Benchmark, plan: Plan, specs: Sequence[BoardSpec]
) -> Iterator[tuple[tuple[str, ...], UsageError]]:
    """Yield keys and error for each limit, rule and metric that names what no board counts."""
    known: dict[str, list[str]] = {}
    for spec in specs:
        counted = metric_names(spec)
        if counted is None:
            continue
        time = [] if spec.clock.kind == "simulated" else [DURATION]
        known[spec.name] = [*counted, *time, *_BESIDE]
        for name in benchmark.limits_on(spec.name):
            if metric_called(name.rpartition(".")[2], known[spec.name]) is None:
                of_board = (spec.name,) if name in benchmark.limits.get(spec.name, {}) else ()
                yield ("limit", *of_board, name), _lacking(spec, name, [*counted, *time, STACK])
    if len(known) < len(specs):  # the other boards may have it
        return
    every = list(dict.fromkeys(name for names in known.values() for name in names))
    listed = [name for name in every if name not in _BESIDE]
    parts = [f"{board}.{name}" for board, names in known.items() for name in names]
    where = f"on {', '.join(known)}"
    from boardprof.results.comparison.rule import parse_rule  # later: few files have any

    for rule in map(parse_rule, benchmark.rules):
        if not rule.chosen([*every, *parts]):
            yield ("fail-if",), UnknownNameError("metric", rule.metric, listed, where=where)
    for name in plan.metrics or ():
        if name != ALL and metric_called(name.rpartition(".")[2], every) is None:
            yield ("metrics",), UnknownNameError("metric", name, listed, where=where)


def _lacking(spec: BoardSpec, name: str, known: Sequence[str]) -> UsageError:
    """Return the error of a metric that a board does not have."""
    why = spec.unsupported.get(name)
    if why is None:
        return UnknownNameError("metric", name, known, owner=spec.name)
    return UsageError(f"{spec.name} does not support {name}: {why}.")


def _parts(plan: Plan) -> Iterator[tuple[str, Plan]]:
    """Yield each argument and expectation of a plan alone, with the key that it is under."""
    for value in plan.values:
        yield "arguments", replace(plan, values=(value,), expect=())
    for value in plan.expect:
        yield "expect", replace(plan, values=(), expect=(value,))


def _at(benchmark: Benchmark, error: BoardprofError, *keys: str) -> UsageError:
    text = f"{benchmark.place_of(*keys)}: {benchmark.name}: {error.message}"
    of_command = "--expect" in (error.hint or "")
    return UsageError(text, hint=_EXPECT if of_command else error.hint)


def _compiled(
    spec: BoardSpec, plan: Plan, on_command: Callable[[str], None] | None
) -> Compiled | str:
    """Return a plan's files compiled, or why they do not compile."""
    from boardprof.jobs.run.plan_build import compiled  # later: it knows all compilers

    try:
        return compiled(spec, plan, on_command)
    except BoardprofError as error:
        return f"{error}"


def _mistakes(
    plan: Plan, compiled: Compiled | str, data: PlanData
) -> Iterator[tuple[str, str, str]]:
    """Yield key, name and a text for each thing that is wrong with a benchmark on one board."""
    if isinstance(compiled, str):
        yield "target", "", compiled
        return
    own, _ = with_own_names(replace(plan, data=data), compiled.functions, compiled.read)
    given = dict(zip(own.arguments, plan.arguments, strict=True))
    found = {fn.name: fn for fn in compiled.functions}
    for key, name, text in _mistakes_of_call(own, found, own.data):
        yield key, given.get(name, name), text


def _mistakes_of_call(
    plan: Plan, found: dict[str, CFunction], data: PlanData
) -> Iterator[tuple[str, str, str]]:
    """Yield the same, if the files compile and the names are the definition's."""
    if plan.function == ALL:
        return
    function = found.get(plan.function)
    if function is None:
        where = f"in {plan.path}"
        error: UsageError = UnknownNameError("function", plan.function, [*found], where=where)
        yield "target", "", f"{error}"
        return
    if function.reason is not None:
        text = f"{plan.function} cannot be called over the wire: {function.reason}."
        yield "target", "", text
        return
    known = [parameter.name for parameter in function.parameters]
    unknown = parameters_given(known, plan.arguments) - {*known}
    for name in (each for each in plan.arguments if each in unknown) if unknown else ("",):
        given = {
            each: text for each, text in plan.arguments.items() if each not in unknown - {name}
        }
        try:
            check_arguments(plan.function, signature(function), given)
        except UsageError as error:
            yield "arguments", name, f"{error}"
    for parameter in function.parameters:
        if parameter.name in data.arguments:
            name, kind = parameter.name, parameter.type
            pointer = kind if isinstance(kind, Pointer) else None
            try:
                value = data.arguments[name].value(pointer)
                if isinstance(kind, Scalar):
                    scalar_packer(name, kind.text, kind.names)(plan.function, value)
            except UsageError as error:
                yield "arguments", name, f"{error}"
    returned = [RETURN] if function.result is not None else []
    numbers = {p.name for p in function.parameters if isinstance(p.type, Scalar)}
    outputs = [*returned, *(name for name in plan.arguments if name not in numbers)]
    for each in data.expectations:
        if each.name is not None and each.name not in outputs:
            where = f"of {plan.function}"
            text = UnknownNameError("output", each.name, outputs, where=where).message
            yield "expect", each.name, text
