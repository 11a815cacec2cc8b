# SPDX-License-Identifier: Apache-2.0
"""Carry out a plan on a board: build, flash, connect, and measure or record each function."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from boardprof.base.errors import (
    BoardprofError,
    BoardTimeoutError,
    DeviceEndedError,
    DeviceError,
    DeviceResetError,
    RpcError,
    WrongOutputError,
)
from boardprof.base.progress import show_progress, waiting
from boardprof.jobs.run.function_choice import check_early, chosen_functions
from boardprof.jobs.run.plan import (
    Plan,
    WantedMetrics,
    boards_of,
    with_each_setting,
)
from boardprof.measure.connect import connect_by
from boardprof.measure.session.board import Board
from boardprof.measure.session.open_board import open_firmware
from boardprof.results.report.measurement import Measurement
from boardprof.results.report.profile import Profile
from boardprof.target.build.firmware import Firmware
from boardprof.target.descriptions.board_file import BoardSpec
from boardprof.target.descriptions.board_lookup import check_recordable

_OF_THE_BOARD = (BoardTimeoutError, DeviceEndedError, DeviceResetError)
"""After these errors a board does nothing more, or has forgotten the host."""

Note = Callable[[str], None]


@dataclass(frozen=True)
class Listener:
    """Callbacks for the progress of a run.

    Attributes:
        on_note: gets what the user should know, such as functions that were left out.
        on_command: gets each compiler command.
        on_console: gets each line that a board prints.
        on_sources: gets the files that firmware was compiled from, including the user's headers.
        flash_output: file descriptor for the output of a tool that flashes; None keeps the output
            for the error message.
        on_connected: called when the board has answered, before anything is called on it.
    """

    on_note: Note
    on_command: Callable[[str], None] | None = None
    on_console: Callable[[str], None] | None = None
    on_sources: Callable[[Sequence[Path]], None] | None = None
    flash_output: int | None = None
    on_connected: Callable[[], None] | None = None


def results(
    spec: BoardSpec, plan: Plan, listener: Listener, *, firmware: Firmware | None = None
) -> Generator[Measurement | BoardprofError, None, None]:
    """Yield the result of each function as it arrives.

    If a board that was started here ends, or is ended in a call that hangs, it is started again
    for the remaining functions.

    Args:
        spec: the board.
        plan: what to measure.
        listener: gets progress and notes.
        firmware: built before; None builds the plan's.

    Raises:
        BoardprofError: nothing more can be measured on the board.
    """
    if plan.hotspots and not plan.sampled:
        check_recordable(spec)
    _check_probe(plan)
    if firmware is None:
        firmware = firmware_of(spec, plan, listener)
    left: list[str] | None = None
    total = 0
    while left is None or left:
        with connected(spec, plan, firmware, listener) as board:
            if listener.on_connected is not None:
                listener.on_connected()
            if left is None:
                left = chosen_functions(board, plan, firmware, listener.on_note)
                total = len(left)
            yield from _measure_all(board, left, total, plan, listener)


def _check_probe(plan: Plan) -> None:
    """Check that the debug probe's server answers, before anything takes long."""
    if plan.probe is not None:
        from boardprof.measure.hotspots.debug_probe import DebugProbe  # later: few runs need one

        with closing(DebugProbe(plan.probe)) as probe:
            probe.run("version")


def firmware_of(spec: BoardSpec, plan: Plan, listener: Listener) -> Firmware | None:
    """Build a plan's firmware, and flash what it names; None if the board has its own."""
    firmware = None if plan.path is None else _built(spec, plan.path, plan, listener)
    if plan.flash:
        _flash(spec, plan, firmware, listener)
    return firmware


def _built(spec: BoardSpec, path: Path, plan: Plan, listener: Listener) -> Firmware:
    from boardprof.target.build.builder import build  # later: it knows all compilers

    firmware = build(
        spec,
        [path],
        plan.code,
        verbose=listener.on_command,
        on_functions=lambda functions: check_early(functions, plan),
    )
    if listener.on_sources is not None:
        listener.on_sources(firmware.sources)
    return firmware


def connected(spec: BoardSpec, plan: Plan, firmware: Firmware | None, listener: Listener) -> Board:
    """Start a plan's board, or connect to it."""
    connection = replace(plan.connection, on_console=listener.on_console, on_note=listener.on_note)
    with _after_flash(plan):
        if firmware is not None:
            return open_firmware(firmware, connection)
        return connect_by(connection, spec, plan.image)


def _after_flash(plan: Plan) -> AbstractContextManager[None]:
    if not plan.flash:
        return nullcontext()
    from boardprof.target.build.flash import after_flash  # later: few runs flash

    return after_flash()


def _flash(spec: BoardSpec, plan: Plan, firmware: Firmware | None, listener: Listener) -> None:
    from boardprof.target.build.flash import flash  # later: few runs flash

    image = firmware.image if firmware else Path(plan.image or "")
    flash(
        spec,
        image,
        plan.connection.port,
        output=listener.flash_output,
        on_command=listener.on_command,
    )


def _measure_all(
    board: Board, left: list[str], total: int, plan: Plan, listener: Listener
) -> Iterator[Measurement | BoardprofError]:
    """Yield the result of each function, and remove its name from ``left``.

    Ends early at an error after which the board cannot measure: if it was started here, it can
    be started again for the rest.
    """
    while left:
        name = left.pop(0)
        at = f" ({total - len(left)} of {total})" if total > 1 else ""
        try:
            measurement = _measure(board, name, plan, listener, at)
            wrong = _wrong_output(measurement, plan)
            yield measurement  # its numbers are reported although an output is wrong
            if wrong is not None:
                yield wrong
        except BoardprofError as error:
            is_over = isinstance(error, _OF_THE_BOARD) or board.session.is_closed
            if (is_over and plan.connection.port is not None) or not isinstance(
                error, (DeviceError, RpcError, *_OF_THE_BOARD)
            ):
                if left:
                    listener.on_note(f"not measured on {board.device.name}: {', '.join(left)}")
                raise
            yield error
            if is_over:
                return


def _wrong_output(measurement: Measurement, plan: Plan) -> WrongOutputError | None:
    """Save a measurement's outputs; return what is wrong with them."""
    folders = plan.output_folders(measurement.device.name, measurement.function)
    try:
        plan.data.take(measurement, *folders)
    except WrongOutputError as error:
        return error
    return None


def _measure(board: Board, name: str, plan: Plan, listener: Listener, at: str) -> Measurement:
    """Measure one function; ``at`` is its position among all, for progress."""
    setting = f", {plan.code.cflags}" if plan.sweep else ""
    what = f"{name} on {board.device.name}{setting}{at}"
    with _waiting(board, what) as heard:

        def show(done: int, total: int) -> None:
            heard()
            show_progress(what, done, total)

        def show_transfer(way: str, done: int, total: int) -> None:
            heard()
            show_progress(f"{what}, bytes {way}", done, total)

        wanted = plan.wanted or WantedMetrics(plan.metrics, 1)
        given = {"warmup": plan.warmup, "repeat": plan.repeat}
        rounds = {name: count for name, count in given.items() if count is not None}
        measurement = board.measure(
            name,
            metrics=wanted.of(board),
            **rounds,
            may_shorten=not rounds,
            number=plan.number,
            cold=plan.cold,
            mask_interrupts=plan.mask_interrupts,
            named=plan.data.values(board.functions[name], board.memory.size),
            on_progress=show,
            on_transfer=show_transfer,
            on_note=listener.on_note,
        )
        if plan.hotspots:
            named = plan.data.values(board.functions[name], board.memory.size)
            again = replace(plan, warmup=1 if plan.sampled else measurement.warmup)
            profile = _profile(board, name, named, again)
            measurement = replace(measurement, profile=profile)
        return wanted.with_missing(measurement, board)


def _profile(board: Board, name: str, named: Mapping[str, object], plan: Plan) -> Profile:
    """Return the profile of a function as a plan asks for it: recorded or sampled."""

    def show(done: int, total: int) -> None:
        show_progress(f"{name} on {board.spec.name}, samples", done, total)

    return board.hotspots(
        name,
        named=named,
        warmup=1 if plan.warmup is None else plan.warmup,
        sampled=plan.sampled,
        samples=plan.samples,
        seed=plan.seed,
        probe=plan.probe,
        on_samples=show,
    )


def _waiting(board: Board, what: str) -> AbstractContextManager[Callable[[], None]]:
    """Show how long a round takes, if that does not disturb the measurement."""
    if not board.spec.clock.is_emulated:  # it would be a thread that disturbs the measurement
        return nullcontext(lambda: None)
    return waiting(f"waiting for {what}, {board.session.timeout_s:g} s at most")


def record_plan(plan: Plan, listener: Listener) -> Iterator[Profile]:
    """Yield a profile of one call of each function, on each board with each setting of a sweep.

    Args:
        plan: what to call; its number of samples is ignored.
        listener: gets notes.

    Raises:
        UsageError: nothing can record calls on a board.
        BoardprofError: as `run_plan`'s failures; the first one ends it.
    """
    specs = boards_of(plan)
    for spec in specs:
        if not plan.sampled:
            check_recordable(spec)
    _check_probe(plan)
    data = plan.read_data()
    settings = with_each_setting(replace(plan, data=data))
    for spec, setting in itertools.product(specs, settings):
        firmware = firmware_of(spec, setting, listener)
        with connected(spec, setting, firmware, listener) as board:
            for name in chosen_functions(board, setting, firmware, listener.on_note):
                named = data.values(board.functions[name], board.memory.size)
                yield _profile(board, name, named, plan)
