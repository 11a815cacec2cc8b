# SPDX-License-Identifier: Apache-2.0
"""What ``boardprof run`` and ``agent serve`` do, without their options."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from boardprof.assemble import assemble
from boardprof.board import Board
from boardprof.board_file import BoardSpec
from boardprof.boards import board_spec, default_board
from boardprof.builder import Firmware, build
from boardprof.connection import connect
from boardprof.errors import (
    BoardprofError,
    BuildMismatchError,
    DeviceError,
    DeviceResetError,
    RpcError,
    UnknownNameError,
    UsageError,
)
from boardprof.measurement import Measurement
from boardprof.report import Report
from boardprof.signature import parse_signature

__all__ = ["Outcome", "Plan", "run_plan", "serve_agent"]

_ALL = "all"

Note = Callable[[str], None]
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Plan:
    """What ``boardprof run`` was asked for; the command's help says what each option means."""

    target: str
    values: tuple[str, ...] = ()
    boards: tuple[str, ...] = ()
    port: str | None = None
    baud: int | None = None
    timeout_s: float | None = None
    takeover: bool = False
    key_file: str | None = None
    metrics: tuple[str, ...] | None = None
    warmup: int = 10
    repeat: int = 10
    number: int = 1
    optimize: str = "-O2"

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


@dataclass(frozen=True)
class Outcome:
    """What came of a plan.

    Attributes:
        report: of all that could be measured; None when nothing could.
        failures: what could not be measured, and why, in the order in which it was found.
    """

    report: Report | None
    failures: tuple[BoardprofError, ...]


def run_plan(
    plan: Plan,
    *,
    on_command: Callable[[str], None] | None = None,
    on_progress: Progress | None = None,
    on_console: Callable[[str], None] | None = None,
    on_note: Note,
) -> Outcome:
    """Build, start and measure on one board after the other.

    A function that fails on a board, and a board that fails or lacks what is asked for, do not take
    the others' numbers with them, whatever the order.

    Args:
        plan: what to do.
        on_command: gets each compiler command.
        on_progress: called with (function on board, calls done, calls in all).
        on_console: gets each line that a board prints.
        on_note: gets what the user should know, such as functions that were left out.

    Raises:
        UsageError: the plan itself makes no sense; nothing was built.
    """
    specs = _specs(plan)
    _ = plan.arguments  # a mistake in them is told before anything is built
    measurements: list[Measurement] = []
    failures: list[BoardprofError] = []
    for spec in specs:
        try:
            firmware = _build(spec, plan, on_command)
            with _connected(spec, plan, firmware, on_console) as board:
                names = _chosen(board, plan, firmware, on_note)
                _note_hooks(names, firmware, on_note)
                for result in _measure_all(board, names, plan, on_progress, on_note):
                    if isinstance(result, Measurement):
                        measurements.append(result)
                    else:
                        failures.append(result)
        except BoardprofError as error:
            if str(error) not in map(str, failures):  # a mistake in the plan is told once
                failures.append(error)
    return Outcome(assemble(measurements) if measurements else None, tuple(failures))


def _specs(plan: Plan) -> list[BoardSpec]:
    if plan.path is None and not plan.target.isidentifier() and Path(plan.target).exists():
        raise UsageError(
            f"{plan.target!r} names no function.",
            hint=f"{plan.target}:FUNCTION or {plan.target}:all",
        )
    if not plan.function:
        raise UsageError(f"{plan.target!r} names no function.", hint="PATH:FUNCTION or PATH:all")
    specs = [board_spec(name) for name in dict.fromkeys(plan.boards)] or [default_board()]
    if plan.port is not None and len(specs) > 1:
        raise UsageError("A port leads to one board; several were named.", hint="one -b with -p")
    return specs


def _build(
    spec: BoardSpec, plan: Plan, on_command: Callable[[str], None] | None
) -> Firmware | None:
    if plan.path is None:
        return None
    return build(spec, [plan.path], optimize=plan.optimize, verbose=on_command)


def _connected(
    spec: BoardSpec,
    plan: Plan,
    firmware: Firmware | None,
    on_console: Callable[[str], None] | None,
) -> Board:
    image = firmware.image if firmware else None
    board = connect(
        spec,
        plan.port,
        image=image,
        baud=plan.baud,
        timeout_s=plan.timeout_s,
        takeover=plan.takeover,
        key_file=plan.key_file,
        on_console=on_console,
    )
    if firmware is not None and board.welcome.build_id != firmware.build_id:
        board.close()
        raise BuildMismatchError(
            f"The board at {board.device.port} runs build {board.welcome.build_id.hex()}; these "
            f"sources give build {firmware.build_id.hex()}.",
            hint="start or flash the board with these sources and flags, or leave PATH out to "
            "measure what it has",
        )
    return board


def _chosen(board: Board, plan: Plan, firmware: Firmware | None, on_note: Note) -> list[str]:
    """Return the functions to measure, in the board's order."""
    infos = {f.name: f for f in board.dictionary.user_functions if f.measurable}
    reasons = {f.name: f.reason for f in firmware.functions if f.reason} if firmware else {}
    if plan.function != _ALL:
        if reason := reasons.get(plan.function):
            raise UsageError(f"{plan.function} cannot be called over the wire: {reason}.")
        if plan.function not in infos:
            hint = None if infos or plan.path else "PATH:FUNCTION builds firmware that has it"
            known = [*infos, *reasons]
            raise UnknownNameError(
                f"function {_where(board, plan)}", plan.function, known, hint=hint
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
    board: Board, names: Sequence[str], plan: Plan, on_progress: Progress | None, on_note: Note
) -> Iterator[Measurement | BoardprofError]:
    """Yield what came of each function, until an error after which the board measures no more."""
    for index, name in enumerate(names):
        try:
            yield _measure(board, name, plan, on_progress)
        except BoardprofError as error:
            if isinstance(error, DeviceResetError) or not isinstance(error, DeviceError | RpcError):
                if left := names[index + 1 :]:
                    on_note(f"not measured on {board.device.name}: {', '.join(left)}")
                raise
            yield error


def _measure(board: Board, name: str, plan: Plan, on_progress: Progress | None) -> Measurement:
    what = f"{name} on {board.device.name}"

    def show(done: int, total: int) -> None:
        if on_progress is not None:
            on_progress(what, done, total)

    return board.measure(
        name,
        metrics=plan.metrics,
        warmup=plan.warmup,
        repeat=plan.repeat,
        number=plan.number,
        named=plan.arguments,
        on_progress=show,
    )


def serve_agent(board: str, paths: Sequence[str], line: Sequence[str], optimize: str) -> None:
    """Build a board that is a program of this machine and become it. Does not return.

    Raises:
        UsageError: the board is no such program.
    """
    spec = board_spec(board)
    if spec.launch.listen != "board":
        raise UsageError(
            f"{board} is not a program of this machine that could serve a port.",
            hint="`boardprof run -b " + board + " PATH:FUNCTION` starts it by itself",
        )
    firmware = build(spec, [Path(path) for path in paths], optimize=optimize)
    image = os.fspath(firmware.image)
    os.execv(image, [image, *line])
