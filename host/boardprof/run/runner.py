# SPDX-License-Identifier: Apache-2.0
"""What ``boardprof run`` and ``agent serve`` do, without their options."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from boardprof.arguments.signature import parse_signature
from boardprof.board.board import Board
from boardprof.boards.board_file import BoardSpec
from boardprof.boards.finding import board_spec, default_board, unnamed_board
from boardprof.connection import connect
from boardprof.errors import (
    BoardprofError,
    BoardTimeoutError,
    BuildError,
    CheckFailedError,
    DeviceEndedError,
    DeviceError,
    DeviceResetError,
    RpcError,
    UnknownNameError,
    UsageError,
)
from boardprof.firmware.build_options import BuildOptions
from boardprof.firmware.firmware import Firmware
from boardprof.firmware.sources import find_sources
from boardprof.firmware.sweep import settings_of
from boardprof.report.assemble import assemble
from boardprof.report.measurement import Measurement
from boardprof.report.report import Report
from boardprof.run.long_wait import told_after
from boardprof.run.plan_data import PlanData, read_plan_data
from boardprof.run.wanted_metrics import WantedMetrics

__all__ = ["Outcome", "Plan", "run_plan"]

_ALL = "all"
_TARGET = "PATH:FUNCTION or PATH:all"
_OF_THE_BOARD = (BoardTimeoutError, DeviceEndedError, DeviceResetError)
"""Behind these a board does nothing more, or knows nothing of the host."""

Note = Callable[[str], None]
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Plan:
    """What ``boardprof run`` was asked for; the command's help says what each option means.

    ``data`` is what `run_plan` has read of ``values``, ``expect`` and the files that they name, and
    ``wanted`` what it finds of ``metrics``.
    """

    target: str
    values: tuple[str, ...] = ()
    boards: tuple[str, ...] = ()
    port: str | None = None
    baud: int | None = None
    timeout_s: float | None = None
    takeover: bool = False
    key_file: str | None = None
    image: str | None = None
    metrics: tuple[str, ...] | None = None
    warmup: int = 10
    repeat: int = 10
    number: int = 1
    code: BuildOptions = field(default_factory=BuildOptions)
    cold: bool = False
    sweep: str | None = None
    flash: bool = False
    expect: tuple[str, ...] = ()
    tolerance: float = 0.0
    save_output: str | None = None
    data: PlanData = field(default_factory=PlanData)
    wanted: WantedMetrics | None = None

    @property
    def path(self) -> Path | None:
        """The part of the target before the last colon; None when there is none."""
        path, colon, _ = self.target.rpartition(":")
        return Path(path) if colon and path else None

    @property
    def function(self) -> str:
        """The part of the target after the last colon."""
        return self.target.rpartition(":")[2]

    @property
    def arguments(self) -> dict[str, str]:
        """The values by parameter name.

        Raises:
            UsageError: one has no ``=``, or a name is given twice.
        """
        arguments: dict[str, str] = {}
        for text in self.values:
            name, equals, value = text.partition("=")
            if not equals or not name:
                raise UsageError(f"{text!r} is not an argument.", hint="NAME=VALUE, e.g. n=256")
            if name in arguments:
                raise UsageError(f"The argument {name} is given twice.")
            arguments[name] = value
        return arguments

    def output_folders(self, board: str, function: str) -> list[str]:
        """Return the folders for one function's outputs, so that no two write the same files."""
        return [
            *([board] if len(set(self.boards)) > 1 else []),
            *([self.code.cflags.replace(os.sep, "_")] if self.sweep is not None else []),
            *([function] if self.function == _ALL else []),
        ]


@dataclass(frozen=True)
class Outcome:
    """What came of a plan.

    Attributes:
        report: of all that could be measured; None when nothing could.
        failures: what could not be measured, and why, in the order in which it was found.
        interrupted: by Ctrl-C; the report has what was measured until then.
    """

    report: Report | None
    failures: tuple[BoardprofError, ...]
    interrupted: bool = False


def run_plan(
    plan: Plan,
    *,
    on_command: Callable[[str], None] | None = None,
    on_progress: Progress | None = None,
    on_console: Callable[[str], None] | None = None,
    on_note: Note,
    flash_output: int | None = None,
) -> Outcome:
    """Build, start and measure on one board after the other, and one setting after the other.

    A function that fails on a board, a board that fails or lacks what is asked for, and a setting
    that does not compile do not take the others' numbers with them, whatever the order.

    Args:
        plan: what to do.
        on_command: gets each compiler command.
        on_progress: called with (function on board, calls done, calls in all).
        on_console: gets each line that a board prints.
        on_note: gets what the user should know, such as functions that were left out.
        flash_output: the file descriptor that a tool which flashes writes to; None keeps what it
            writes for the error.

    Raises:
        UsageError: the plan itself makes no sense; nothing was built.
    """
    specs = _specs(plan)
    # A mistake in these is told before anything is built.
    data = read_plan_data(plan.arguments, plan.expect, plan.tolerance, plan.save_output)
    wanted = WantedMetrics(plan.metrics, len(specs))
    plan = replace(plan, data=data, wanted=wanted)
    settings = _settings(plan)
    noted: set[str] = set()

    def note_once(text: str) -> None:
        if text not in noted:
            noted.add(text)
            on_note(text)

    found = _Found(plan.sweep is not None, [spec.name for spec in specs])
    interrupted = False
    try:
        for spec, setting in itertools.product(specs, settings):
            with found.failing(spec, setting):
                firmware = _build(spec, setting, on_command)
                if plan.flash:
                    _flash(spec, setting, firmware, flash_output, on_command)
                left: list[str] | None = None
                while left is None or left:
                    with _connected(spec, setting, firmware, on_console, note_once) as board:
                        if left is None:
                            left = _chosen(board, setting, firmware, note_once)
                            _note_hooks(left, firmware, note_once)
                        found.take(_measure_all(board, left, setting, on_progress, note_once))
    except KeyboardInterrupt:
        if not found.measurements:
            raise
        interrupted = True
    failures = wanted.failures(found.failures, note_once)
    found.name_places()
    if not found.measurements:
        return Outcome(None, tuple(failures))
    missing = [failure.message.partition("\n")[0].removesuffix(":") for failure in failures]
    missing += wanted.left_out()
    missing += ["what was left when it was interrupted"] if interrupted else []
    report = assemble(found.measurements, swept=plan.sweep is not None, missing=missing)
    return Outcome(report, tuple(failures), interrupted)


@dataclass(frozen=True)
class _Failure:
    """An error, the boards that it came of, and the setting of a sweep."""

    error: BoardprofError
    boards: list[str]
    setting: str | None

    def name_places(self, boards: Sequence[str]) -> None:
        """Let the error tell where it happened, if it could have been elsewhere.

        A mistake of the plan itself, which is one on all boards, names none.
        """
        wrong = list(dict.fromkeys(self.boards))
        is_told = any(name in self.error.message for name in wrong)
        is_general = isinstance(self.error, UsageError) and len(wrong) == len(boards)
        at = "for" if isinstance(self.error, BuildError) else "on"
        is_placed = len(boards) > 1 and not is_told and not is_general
        places = [f"{at} {', '.join(wrong)}"] if is_placed else []
        if self.setting is not None:
            places.append(f"with {self.setting or 'no flags'}")
        if places:
            where = ", ".join(places)
            self.error.message = f"{where[0].upper()}{where[1:]}: {self.error.message}"


class _Found:
    """What has come of a plan so far: it stays, whatever comes later."""

    def __init__(self, is_sweep: bool, boards: Sequence[str]) -> None:
        self.measurements: list[Measurement] = []
        self._failures: list[_Failure] = []
        self._is_sweep = is_sweep
        self._boards = boards
        self._told: dict[str, _Failure] = {}
        self._now: list[BoardprofError] = []

    @property
    def failures(self) -> list[BoardprofError]:
        """The errors, in the order in which they came."""
        return [failure.error for failure in self._failures]

    def name_places(self) -> None:
        """Let each error tell the board and the setting that it came of, if there are several."""
        for failure in self._failures:
            failure.name_places(self._boards)

    @contextlib.contextmanager
    def failing(self, spec: BoardSpec, setting: Plan) -> Iterator[None]:
        """Take the errors of one board and setting, so that the next ones have their turn."""
        self._now = []
        try:
            yield
        except BoardprofError as error:
            told = self._told.get(str(error))
            # A mistake in the plan is told once, and so is what has nothing to do with a setting.
            if told is None or (self._is_sweep and not isinstance(error, UsageError)):
                self._now.append(error)
            else:
                told.boards.append(spec.name)
        finally:
            flags = setting.code.cflags if self._is_sweep else None
            for each in self._now:
                failure = _Failure(each, [spec.name], flags)
                self._failures.append(failure)
                self._told.setdefault(str(each), failure)

    def take(self, results: Iterable[Measurement | BoardprofError]) -> None:
        """Take results as they come."""
        for result in results:
            if isinstance(result, Measurement):
                self.measurements.append(result)
            else:
                self._now.append(result)


def _specs(plan: Plan) -> list[BoardSpec]:
    if plan.path is None and not plan.target.isidentifier() and Path(plan.target).exists():
        raise UsageError(
            f"{plan.target!r} names no function.",
            hint=f"{plan.target}:FUNCTION or {plan.target}:all",
        )
    if not plan.function:
        raise UsageError(f"{plan.target!r} names no function.", hint=_TARGET)
    specs = [board_spec(name) for name in dict.fromkeys(plan.boards)] or [_board_for(plan)]
    if plan.port is not None and len(specs) > 1:
        raise UsageError("A port leads to one board; several were named.", hint="one -b with -p")
    if plan.image is not None:
        _check_image(plan, specs)
    if plan.flash:
        _check_flash(plan, specs)
    return specs


def _board_for(plan: Plan) -> BoardSpec:
    """Return the board when none is named: what is at a port says itself what it is."""
    builds = plan.path is not None or plan.flash
    return default_board() if builds or plan.port is None else unnamed_board()


def _check_image(plan: Plan, specs: Sequence[BoardSpec]) -> None:
    if plan.path is not None:
        raise UsageError(
            f"{plan.image} has its functions already; {plan.path} is not built into it.",
            hint=f"leave --image out, or measure {plan.function!r} without the PATH",
        )
    if len(specs) > 1:
        raise UsageError("An image is of one board; several were named.", hint="one -b")


def _check_flash(plan: Plan, specs: Sequence[BoardSpec]) -> None:
    from boardprof.firmware.flash import check_flashable

    for spec in specs:
        check_flashable(spec, plan.port)
    if plan.path is None and plan.image is None:
        raise UsageError("There is nothing to flash.", hint=f"{_TARGET}, or --image ELF")
    if plan.port is None:
        raise UsageError("A board that was flashed is measured through a port.", hint="-p PORT")


def _flash(
    spec: BoardSpec,
    plan: Plan,
    firmware: Firmware | None,
    output: int | None,
    on_command: Callable[[str], None] | None,
) -> None:
    from boardprof.firmware.flash import flash

    image = firmware.image if firmware else Path(plan.image or "")
    flash(spec, image, plan.port, output=output, on_command=on_command)


def _settings(plan: Plan) -> list[Plan]:
    """Return the plan once for each setting of the compiler's flags, which are in ``cflags``."""
    if plan.sweep is None:
        return [plan]
    if plan.path is None:
        raise UsageError("A sweep builds the functions, and there is no PATH.", hint=_TARGET)
    if not find_sources([plan.path, *plan.code.sources]).files:
        raise UsageError(
            f"A sweep compiles the functions, and {plan.target} has only compiled code: its rows "
            "would be of the same code.",
            hint="give the sources, or leave --sweep out",
        )
    if plan.port is not None and not plan.flash:
        raise UsageError(
            "Each setting of a sweep is firmware of its own; what runs at a port stays the same.",
            hint="add --flash, or leave --sweep or --port out",
        )
    # As --cflags, of which relative paths begin at the current folder.
    code = plan.code
    settings = settings_of(plan.sweep, f"{code.optimize} {code.cflags}")
    return [replace(plan, code=replace(code, optimize="", cflags=flags)) for flags in settings]


def _build(
    spec: BoardSpec, plan: Plan, on_command: Callable[[str], None] | None
) -> Firmware | None:
    if plan.path is None:
        return None
    return plan.code.build(spec, [plan.path], on_command)


def _connected(
    spec: BoardSpec,
    plan: Plan,
    firmware: Firmware | None,
    on_console: Callable[[str], None] | None,
    on_note: Note,
) -> Board:
    options: dict[str, Any] = {
        "baud": plan.baud,
        "timeout_s": plan.timeout_s,
        "takeover": plan.takeover,
        "key_file": plan.key_file,
        "on_console": on_console,
        "on_note": on_note,
    }
    if firmware is not None:
        return firmware.open(plan.port, **options)
    return connect(spec, plan.port, image=plan.image, **options)


def _chosen(board: Board, plan: Plan, firmware: Firmware | None, on_note: Note) -> list[str]:
    """Return the functions to measure, in the board's order."""
    infos = {f.name: f for f in board.dictionary.user_functions if f.measurable}
    reasons = {f.name: f.reason for f in firmware.functions if f.reason} if firmware else {}
    if plan.function != _ALL:
        if firmware is not None and plan.function in firmware.missing:
            raise BuildError(
                f"{plan.function} needs {firmware.missing[plan.function]}, which is not defined.",
                hint="give the file that defines it with --source, or its library with --ldflags",
            )
        if reason := reasons.get(plan.function):
            raise UsageError(f"{plan.function} cannot be called over the wire: {reason}.")
        hidden = firmware.hidden if firmware else {}
        if plan.function in hidden and plan.function not in infos:
            raise UsageError(
                f"{plan.function} in {hidden[plan.function]} is static or inlined: nothing outside "
                "of its file can call it.",
                hint=f"--keep {plan.function} compiles it out of line",
            )
        if plan.function not in infos:
            _check_mangled(plan.function, reasons)
            hint = None if infos or plan.path else "PATH:FUNCTION builds firmware that has it"
            others = (name for name in (*reasons, *hidden) if not name.startswith("_"))
            where = _where(board, plan)
            raise UnknownNameError(
                "function", plan.function, [*infos, *others], where=where, hint=hint
            )
        return [plan.function]
    for name, reason in reasons.items():
        on_note(f"{name} is left out: {reason}")
    chosen = []
    for name, info in infos.items():
        needed = {parameter for parameter, _ in parse_signature(info.signature).parameters}
        if needed == plan.arguments.keys():
            chosen.append(name)
        else:
            on_note(f"{name} is left out: it takes {info.signature}")
    if not chosen:
        raise UsageError(f"There is nothing to measure {_where(board, plan)}.")
    return chosen


def _check_mangled(function: str, reasons: Mapping[str, str]) -> None:
    """See that a function is not one of C++ or Rust, whose names in the object are longer."""
    for symbol, reason in reasons.items():
        # Itanium C++ ABI, 5.1.2: <source-name> is its length and the name; so it is in Rust.
        if symbol.startswith(("_Z", "_R")) and f"{len(function)}{function}" in symbol:
            raise UsageError(f"{function} cannot be called over the wire: {reason}.")


def _note_hooks(names: Sequence[str], firmware: Firmware | None, on_note: Note) -> None:
    """Tell of functions that have the name of a set-up or a check, but not its type."""
    others = {f.name for f in firmware.functions} if firmware else set()
    for name in names:
        for hook, form in (("setup", "void {}(void)"), ("check", "int {}(void)")):
            if f"{name}_{hook}" in others:
                wanted = form.format(f"{name}_{hook}")
                on_note(f"{name}_{hook} is not run for {name}: it is not `{wanted}`")


def _where(board: Board, plan: Plan) -> str:
    return f"in {plan.path}" if plan.path else f"on {board.device.name}"


def _measure_all(
    board: Board, left: list[str], plan: Plan, on_progress: Progress | None, on_note: Note
) -> Iterator[Measurement | BoardprofError]:
    """Yield what came of each function, and take its name from those that are ``left``.

    Ends early at an error behind which the board measures no more: if it was started here, it can
    be started again for the rest.
    """
    while left:
        name = left.pop(0)
        try:
            what, longest_s = f"{name} on {board.device.name}", board.session.timeout_s
            with told_after(board.spec.clock, what, longest_s, on_note):
                measurement = _measure(board, name, plan, on_progress, on_note)
            wrong = _wrong_output(measurement, plan)
            yield measurement  # its numbers are told though an output is wrong
            if wrong is not None:
                yield wrong
        except BoardprofError as error:
            is_over = isinstance(error, _OF_THE_BOARD)
            if (is_over and plan.port is not None) or not isinstance(
                error, (DeviceError, RpcError, *_OF_THE_BOARD)
            ):
                if left:
                    on_note(f"not measured on {board.device.name}: {', '.join(left)}")
                raise
            yield error
            if is_over:
                return


def _wrong_output(measurement: Measurement, plan: Plan) -> CheckFailedError | None:
    """Save a measurement's outputs; return what is wrong with them."""
    folders = plan.output_folders(measurement.device.name, measurement.function)
    try:
        plan.data.take(measurement, *folders)
    except CheckFailedError as error:
        return error
    return None


def _measure(
    board: Board, name: str, plan: Plan, on_progress: Progress | None, on_note: Note
) -> Measurement:
    what = f"{name} on {board.device.name}" + (f", {plan.code.cflags}" if plan.sweep else "")

    def show(done: int, total: int) -> None:
        if on_progress is not None:
            on_progress(what, done, total)

    def show_transfer(way: str, done: int, total: int) -> None:
        if on_progress is not None:
            on_progress(f"{what}, bytes {way}", done, total)

    wanted = plan.wanted or WantedMetrics(plan.metrics, 1)
    measurement = board.measure(
        name,
        metrics=wanted.of(board),
        warmup=plan.warmup,
        repeat=plan.repeat,
        number=plan.number,
        cold=plan.cold,
        named=plan.data.values(board.functions[name].signature),
        on_progress=show,
        on_transfer=show_transfer,
        on_note=on_note,
    )
    return wanted.told(measurement, board)
