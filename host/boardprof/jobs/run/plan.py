# SPDX-License-Identifier: Apache-2.0
"""The request of a run, checked before anything is built: functions, boards, settings, metrics."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path

from boardprof.base.connection import Connection
from boardprof.base.errors import (
    BoardprofError,
    UnknownNameError,
    UsageError,
    WrongOutputError,
)
from boardprof.jobs.run.expectation import (
    Expectation,
    check_folder,
    check_outputs,
    read_expectations,
    save_outputs,
)
from boardprof.measure.board.board import Board
from boardprof.measure.board.functions import RemoteFunction
from boardprof.measure.sampling.available_metrics import ALL as ALL_METRICS
from boardprof.measure.sampling.available_metrics import lack_text
from boardprof.results.report.measurement import Measurement
from boardprof.target.arguments.argument_text import ArgumentText, read_argument
from boardprof.target.build.build_options import BuildOptions, settings_of
from boardprof.target.build.sources import find_sources
from boardprof.target.descriptions.board import (
    BoardSpec,
    board_spec,
    default_board,
    find_boards,
    unnamed_board,
)

ALL = "all"
"""In place of a function's name: each that the arguments fit."""

_TARGET = "PATH:FUNCTION or PATH:all"

_LAST_COLON = re.compile(r"(?<!:):(?!:)(?=(?:[^:]|::)*$)")
"""The last colon that is not one of the two in a C++ name."""


def split_target(text: str) -> tuple[str, str]:
    """Return path and function of ``fir.c:fir`` or ``dsp.cpp:k::dot``; the path is "" if absent."""
    match = _LAST_COLON.search(text)
    if match is None:
        file, twice, function = text.partition("::")  # of C++, or of a file and a name by mistake
        return (file, function) if twice and Path(file).is_file() else ("", text)
    return text[: match.start()], text[match.end() :]


@dataclass(frozen=True)
class PlanData:
    """Arguments, expectations and the folder for outputs, the same for every board."""

    arguments: Mapping[str, ArgumentText] = field(default_factory=dict)
    expectations: Sequence[Expectation] = ()
    tolerance: float = 0.0  # largest relative difference of floats
    folder: Path | None = None  # for outputs; None to write none

    def values(self, function: RemoteFunction, arena_bytes: int) -> dict[str, object]:
        """Return the arguments for a function; each call returns new copies of the arrays."""
        # Unknown names stay in, so that the call refuses them with the right ones.
        signature = function.signature
        known = {name for name, _ in signature.parameters}
        try:
            return {
                # Others get the type of the pointer that names them; the call refuses the rest.
                name: text.value(signature.pointers.get(name), arena_bytes)
                if name in known
                else text
                for name, text in self.arguments.items()
            }
        except UsageError as error:
            raise UsageError(f"{function.info.name}: {error.message}", hint=error.hint) from error

    def take(self, measurement: Measurement, *below: str) -> WrongOutputError | None:
        """Save a measurement's outputs, if requested; return what is wrong with them."""
        if self.folder is not None:
            parts = [part.replace("/", "_").replace(" ", "_") for part in below]
            save_outputs(measurement, self.folder.joinpath(*parts))
        try:
            check_outputs(measurement, self.expectations, self.tolerance)
        except WrongOutputError as error:
            return error
        return None


@dataclass(frozen=True)
class Plan:
    """The request of ``boardprof run``; the command's help says what each option means."""

    # Without ``warmup`` and ``repeat``, a function that takes long is called less often. Without
    # ``number``, a sample has several calls if one is too short for an operating system's clock.
    # `run_plans` sets ``data`` to what `read_data` returns, and ``wanted`` to what it makes of
    # ``metrics``.

    target: str
    values: tuple[str, ...] = ()
    boards: tuple[str, ...] = ()
    connection: Connection = field(default_factory=Connection)
    image: str | None = None
    metrics: tuple[str, ...] | None = None
    warmup: int | None = None
    repeat: int | None = None
    number: int | None = None
    code: BuildOptions = field(default_factory=BuildOptions)
    cold: bool = False
    mask_interrupts: bool = False
    hotspots: bool = False
    sampled: bool = False
    samples: int = 1000
    seed: int = 1
    probe: str | None = None
    energy: str | None = None
    sweep: str | None = None
    flash: bool = False
    expect: tuple[str, ...] = ()
    tolerance: float = 0.0
    save_output: str | None = None
    data: PlanData = field(default_factory=PlanData)
    wanted: WantedMetrics | None = None
    benchmark: str = ""  # its name, if the plan is one of the project's benchmarks
    case: str = ""  # what tells it from the other plans of its command, see `cases_of`
    file: str = ""  # its name, if functions of several files are compared

    @property
    def label(self) -> str:
        """The label of the rows: a benchmark's name, unless that is the function's; or a file's."""
        return self.file or ("" if self.benchmark == self.function else self.benchmark)

    @property
    def path(self) -> Path | None:
        """The part of the target before the last colon; None if absent."""
        path, _ = split_target(self.target)
        return Path(path) if path else None

    @property
    def files(self) -> tuple[str | Path, ...]:
        """Files and folders that are measured; empty if the board already has its firmware."""
        if self.path is not None:
            return (self.path, *self.code.sources)
        return () if self.image is None else (self.image,)

    @property
    def function(self) -> str:
        """The part of the target after the last colon."""
        return split_target(self.target)[1]

    @property
    def arguments(self) -> dict[str, str]:
        """The values by parameter name."""
        arguments: dict[str, str] = {}
        for text in self.values:
            name, equals, value = text.partition("=")
            if not equals or not name:
                hint = f"NAME=VALUE, such as n={text if text.isdigit() else 256}"
                if self.path is not None:
                    hint = f"{hint}; `boardprof functions {self.path}` has the names"
                raise UsageError(f"{text!r} is not an argument.", hint=hint)
            if name in arguments:
                raise UsageError(f"The argument {name} is given twice.")
            arguments[name] = value
        return arguments

    def read_data(self, boards: Sequence[str] = ()) -> PlanData:
        """Read the arguments and expectations, and the files that they name."""
        expectations = [each for text in self.expect for each in read_expectations(text, boards)]
        texts = {name: read_argument(name, text) for name, text in self.arguments.items()}
        folder = self.save_output
        if folder is not None:
            check_folder(folder)
        place = None if folder is None else Path(folder)
        return PlanData(texts, expectations, self.tolerance, place)

    def output_folders(self, board: str, function: str) -> list[str]:
        """Return the folders for one function's outputs, so that no two write the same files."""
        return [
            *([board] if len(set(self.boards)) > 1 else []),
            *([self.benchmark] if self.benchmark else []),
            *([self.case] if self.case else []),
            *([self.code.cflags.replace(os.sep, "_")] if self.sweep is not None else []),
            *([function] if self.function == ALL else []),
        ]


def _is_target(text: str) -> bool:
    path, function = split_target(text)
    is_type = re.fullmatch(r"(?:[iuf]|u?int|float)\d+", path)  # as in i16:64
    return bool(path and function and "=" not in text and not is_type)


def boards_of(plan: Plan) -> list[BoardSpec]:
    """Return the boards that a plan is for."""
    if not plan.target.strip():
        raise UsageError("The target is empty: give a function.", hint=_TARGET)
    if re.match(r"\w+=", plan.target) and not Path(split_target(plan.target)[0]).exists():
        raise UsageError(
            f"No target is given: {plan.target!r} is an argument.", hint=f"{_TARGET} before it"
        )
    if plan.path is None and not plan.target.isidentifier() and Path(plan.target).exists():
        name = next((each for each in plan.values if each.isidentifier()), "")
        wanted = f"{plan.target}:{name}" if name else f"{plan.target}:FUNCTION or {plan.target}:all"
        raise UsageError(f"{plan.target!r} names no function.", hint=wanted)
    if not plan.function:
        listing = f"{_TARGET}; `boardprof functions {plan.path}` lists them"
        raise UsageError(
            f"{plan.target!r} names no function.", hint=listing if plan.path else _TARGET
        )
    specs = [board_spec(name) for name in dict.fromkeys(plan.boards)]
    if not specs:  # an agent at a port reports its own board
        if plan.flash or plan.connection.port is None:
            specs = [default_board()]
        elif plan.path is None:
            specs = [unnamed_board()]
        else:
            specs = [_board_at_port(plan)]
    if plan.connection.port is not None and len(specs) > 1:
        raise UsageError(
            "-p connects to one board, but several boards were given.",
            hint="give one board with -p",
        )
    if plan.image is not None:
        _check_image(plan, specs)
    if (
        plan.sampled
        and plan.connection.port is not None
        and plan.path is None
        and plan.image is None
    ):
        raise UsageError(
            "The samples of a board at a port have no names without the firmware's ELF file.",
            hint="name it: --image ELF",
        )
    if plan.flash:
        _check_flash(plan, specs)
    return specs


def _board_at_port(plan: Plan) -> BoardSpec:
    """Ask the agent at the port for its board, for which the sources are to be built."""
    from boardprof.measure.connect import connect_by  # later: most runs name their board

    with connect_by(plan.connection) as board:
        name = board.spec.name
    if name not in find_boards():
        raise UsageError(
            f"The board at {plan.connection.port} is {name!r}, which is not known here, so "
            f"{plan.path} cannot be built for it.",
            hint=f"-b FOLDER, its description; or {plan.function!r} without the PATH",
        )
    return board_spec(name)


def _check_image(plan: Plan, specs: Sequence[BoardSpec]) -> None:
    if plan.path is not None:
        raise UsageError(
            f"{plan.image} already has its functions, so {plan.path} would not be built.",
            hint=f"leave --image out, or measure {plan.function!r} without the PATH",
        )
    if len(specs) > 1:
        raise UsageError(
            "An image belongs to one board, but several boards were given.", hint="one -b"
        )


def _check_flash(plan: Plan, specs: Sequence[BoardSpec]) -> None:
    from boardprof.target.build.firmware import check_flashable, check_port  # later: few flash

    for spec in specs:
        check_port(check_flashable(spec, plan.connection.port), plan.connection.port)
    if plan.path is None and plan.image is None:
        raise UsageError("There is nothing to flash.", hint=f"{_TARGET}, or --image ELF")
    if plan.connection.port is None:
        raise UsageError(
            "--flash needs a port: a flashed board is measured through it.", hint="-p PORT"
        )


_NUMBER = re.compile(r"[A-Za-z_]\w*=\d+")
_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")

_COMMA = re.compile(r",(?![^<(]*[>)])")
"""A comma that is not between brackets, as those in a C++ name are."""


def cases_of(plan: Plan, lists: Sequence[tuple[str, str]] = ()) -> list[Plan]:
    """Return a plan for each function of targets such as ``dsp.c:fir,iir`` and each list's value.

    Args:
        plan: the plan of the command. Its values may begin with further targets.
        lists: pairs of an argument and its values, which commas separate. In other arguments and
            in flags of the compiler, ``{NAME}`` stands for the value; a name in flags is
            not an argument. In other arguments it also stands for an argument that is one number.
    """
    others = [*itertools.takewhile(_is_target, plan.values)]
    targets = [target for text in (plan.target, *others) for target in _targets(text)]
    values = plan.values[len(others) :]
    paths = dict.fromkeys(path for path, _ in targets)
    files = {path: Path(path).name for path in paths}
    files = files if len({*files.values()}) == len(files) else {path: path for path in paths}
    if len(files) > 1 and ALL in (function for _, function in targets):
        raise UsageError("Functions of several files are compared by name.", hint="a.c:f b.c:g")
    known = [name for name, _ in lists]
    for names in ([*map(":".join, targets)], known):
        if twice := next((each for each in names if names.count(each) > 1), None):
            raise UsageError(f"{twice.lstrip(':')} is given twice.", hint="name each once")
    numbers = dict(text.split("=", 1) for text in values if _NUMBER.fullmatch(text))
    for name, value in numbers.items():
        values = tuple(text.replace(f"{{{name}}}", value) for text in values)
    for text in values if lists else ():
        for name in _PLACEHOLDER.findall(text):
            if name not in known:
                raise UnknownNameError("list", name, known, where=f"for {{{name}}} in {text}")
    code = plan.code
    flags = " ".join((code.optimize, code.cflags, *code.defines))
    for name in known:
        if f"{{{name}}}" in flags:
            continue
        given = next((text for text in values if text.startswith(f"{name}=")), None)
        if given is None:
            values = (*values, f"{name}={{{name}}}")
        elif f"{{{name}}}" not in given:
            raise UsageError(f"{name} is given twice: by -L and as {given}.", hint="one of them")
    cases = []
    for chosen in itertools.product(*(_listed(*each) for each in lists)):
        pairs = [(name, value) for (name, _), value in zip(lists, chosen, strict=True)]
        of_code = replace(
            code,
            optimize=_filled(code.optimize, pairs),
            cflags=_filled(code.cflags, pairs),
            defines=tuple(_filled(each, pairs) for each in code.defines),
        )
        for path, function in targets:
            texts = [f"{name}={value}" for name, value in pairs]
            own = tuple(_filled(text, pairs) for text in values)
            file = files[path] if len(files) > 1 else ""
            of = [file.replace(os.sep, "_")] if file else []
            case = ", ".join([*of, *([function] if len(targets) > 1 else []), *texts])
            target = f"{path}:{function}" if path else function
            cases.append(
                replace(plan, target=target, values=own, case=case, file=file, code=of_code)
            )
    return cases


def _filled(text: str, values: Iterable[tuple[str, str]]) -> str:
    """Return a text with the value of each name for ``{NAME}``."""
    for name, value in values:
        text = text.replace(f"{{{name}}}", value)
    return text


def _targets(text: str) -> list[tuple[str, str]]:
    """Return the file and the name of each function that a target lists."""
    path, function = split_target(text)
    if re.search(r":\w+,", path) and not Path(path).exists():
        raise UsageError(f"{text!r} names several files.", hint="a word for each file: a.c:f b.c:g")
    functions = [name.strip() for name in _COMMA.split(function)]
    if not all(functions) and len(functions) > 1:
        raise UsageError(f"{text!r} has an empty name.", hint=f"{path}:NAME,NAME")
    return [(path, function) for function in functions]


def _listed(name: str, values: str) -> list[str]:
    """Return the values of a list."""
    listed = [one for each in values.split(",") for one in _range(each.strip())]
    if not all(listed):
        raise UsageError(f"A value of {name} is empty: {values!r}.", hint=f"-L {name} 16,64,256")
    if len(set(listed)) < len(listed):
        raise UsageError(f"A value of {name} is given twice: {values!r}.", hint="give each once")
    return listed


_RANGE = re.compile(r"(-?N)\.\.(-?N)(?:([:*])(N))?".replace("N", r"\d+(?:\.\d+)?"))
_NO_RANGE = re.compile(r"-?\d[\d.]*\.\.[-\d.:*x]*|\.\.-?\d[-\d.:*x]*")
_MOST_VALUES = 1000


def _range(text: str) -> Iterator[str]:
    """Yield the numbers of ``1..8``, ``0..100:25`` or ``16..1024*2``; any other text as it is."""
    found = _RANGE.fullmatch(text)
    if found is None:
        if _NO_RANGE.fullmatch(text):
            raise UsageError(f"{text} is not a range.", hint="1..8, 0..100:25 or 16..1024*2")
        yield text
        return
    first, last, step = Decimal(found[1]), Decimal(found[2]), Decimal(found[4] or 1)
    if first > last or step <= 0 or (found[3] == "*" and (step <= 1 or first <= 0)):
        raise UsageError(f"{text} has no numbers.", hint="1..8, 0..100:25 or 16..1024*2")
    for _ in range(_MOST_VALUES):
        if first > last:
            return
        yield f"{first:f}"
        first = first * step if found[3] == "*" else first + step
    raise UsageError(f"{text} has more than {_MOST_VALUES} numbers.", hint=f"{text}:STEP")


_USUAL_LEVEL = BuildOptions().optimize


def with_each_setting(plan: Plan) -> list[Plan]:
    """Return the plan once for each setting of the compiler's flags, which are in ``cflags``."""
    if plan.sweep is None:
        return [plan]
    if plan.path is None:
        raise UsageError("--sweep compiles the functions, so it needs a PATH.", hint=_TARGET)
    if not find_sources([plan.path, *plan.code.sources]).files:
        raise UsageError(
            f"--sweep compiles the functions, but {plan.target} has only compiled code: every row "
            "would measure the same code.",
            hint="give the sources, or leave out --sweep",
        )
    if plan.connection.port is not None and not plan.flash:
        raise UsageError(
            "Each setting of --sweep needs its own firmware, but the firmware at a port stays the "
            "same.",
            hint="add --flash, or leave out --sweep or --port",
        )
    if "|" not in plan.sweep and "-O" in plan.sweep and plan.code.optimize != _USUAL_LEVEL:
        both = f"{plan.sweep}|{plan.code.optimize}"
        raise UsageError(
            f"--sweep {plan.sweep} and {plan.code.optimize} are two levels of optimisation.",
            hint=f'settings are separated by |: --sweep "{both}"',
        )
    if "|" not in plan.sweep and re.search(r",\s*-", plan.sweep) and "-W" not in plan.sweep:
        raise UsageError(
            f"--sweep {plan.sweep!r} is one setting.", hint='settings are separated by |: "-O2|-O3"'
        )
    # As for --cflags, relative paths start at the current folder.
    code = plan.code
    settings = settings_of(plan.sweep, f"{code.optimize} {code.cflags}")
    return [replace(plan, code=replace(code, optimize="", cflags=flags)) for flags in settings]


def _is_unknown(error: UsageError) -> bool:
    """Tell whether a board does not know a metric at all; else it does not support it."""
    return isinstance(error, UnknownNameError)


class WantedMetrics:
    """The metrics of one run on several boards; it remembers which no board has."""

    def __init__(self, names: Sequence[str] | None, boards: int) -> None:
        """Ask this number of boards for ``names``, or None for the fixed counters."""
        self._names = names
        several = boards > 1 or (names is not None and len(names) > 1)
        self._may_lack = several and names is not None and ALL_METRICS not in names
        self._boards = boards
        self._had: set[str] = set()
        self._lacking: dict[str, dict[str, UsageError]] = {}  # of each board, by metric
        self._without: list[UsageError] = []  # of boards that have none

    def of(self, board: Board) -> list[str] | None:
        """Return those that a board has, or None for the fixed counters."""
        if self._names is None or not self._may_lack:
            return None if self._names is None else list(self._names)
        found, lacking = board.offer.split(self._names)
        if self._boards == 1 and (not found or any(map(_is_unknown, lacking.values()))):
            return list(self._names)  # which is refused
        self._lacking[board.spec.name] = lacking
        self._had.update(found)
        if not found and lacking:
            self._without.append(next(iter(lacking.values())))
            raise self._without[-1]
        return [*found]

    def with_missing(self, measurement: Measurement, board: Board) -> Measurement:
        """Return the measurement, with the board's missing metrics noted."""
        lacking = self._lacking.get(board.spec.name, {})
        texts = {name: lack_text(name, error) for name, error in lacking.items()}
        unsupported = {**measurement.device.unsupported, **texts}
        return replace(measurement, device=replace(measurement.device, unsupported=unsupported))

    def failures(
        self, failures: Sequence[BoardprofError], on_note: Callable[[str], None]
    ) -> list[BoardprofError]:
        """Return the failures, with an error for each name that no board has."""
        # A board that has none of them is not a failure if other boards have some; it gets a note.
        if not self._had:
            return [*failures]
        for board, told in self._boards_without():
            on_note(f"{board} was not measured, because it has none of the metrics: {told}")
        others = [failure for failure in failures if failure not in self._without]
        lacking = (pair for each in self._lacking.values() for pair in each.items())
        nowhere = [error for name, error in lacking if name not in self._had]
        for error in nowhere:
            if not _is_unknown(error):  # what is measured beside it counts, as with perf stat
                on_note(error.message.rstrip("."))
        return others + [error for error in nowhere if _is_unknown(error)]

    def left_out(self) -> list[str]:
        """Return the boards that have none of the metrics, which others have, and why."""
        boards = self._boards_without() if self._had else ()
        return [f"all of {board}, which has none of the metrics ({told})" for board, told in boards]

    def _boards_without(self) -> Iterator[tuple[str, str]]:
        for board, lacking in self._lacking.items():
            if any(error in self._without for error in lacking.values()):
                yield board, "; ".join(f"{n}: {lack_text(n, e)}" for n, e in lacking.items())
