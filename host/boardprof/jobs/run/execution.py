# SPDX-License-Identifier: Apache-2.0
"""A run from its plan to its measurements: build, flash, connect, and measure each function."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from boardprof.base.errors import (
    BoardprofError,
    BoardTimeoutError,
    BuildError,
    DeviceEndedError,
    DeviceError,
    DeviceResetError,
    RpcError,
    UnknownNameError,
    UsageError,
)
from boardprof.base.progress import show_progress, waiting
from boardprof.jobs.run.function_choice import chosen_functions, with_own_names
from boardprof.jobs.run.plan import Plan, WantedMetrics, boards_of, with_each_setting
from boardprof.measure.board.board import Board
from boardprof.measure.board.line import check_startable
from boardprof.measure.connect import connect_by, guard_calls, open_firmware
from boardprof.measure.energy import open_meter
from boardprof.measure.meter import Meter
from boardprof.measure.sampling.available_metrics import asks_core_cycles
from boardprof.measure.sampling.counted_pass import CALIBRATION_SAMPLES
from boardprof.results.report.assemble import assemble
from boardprof.results.report.measurement import Measurement
from boardprof.results.report.profile import Profile
from boardprof.results.stats.warnings import MOST_CALLS, calls_needed
from boardprof.target.build.firmware import BuiltFirmware
from boardprof.target.descriptions.board import (
    BoardSpec,
    board_spec,
    check_recordable,
    is_recordable,
)

_OF_THE_BOARD = (BoardTimeoutError, DeviceEndedError, DeviceResetError)
"""After these errors a board does nothing more, or has forgotten the host."""

Note = Callable[[str], None]


@dataclass(frozen=True)
class Listener:
    """Callbacks for the progress of a run."""

    on_note: Note
    on_command: Callable[[str], None] | None = None  # gets each compiler command
    on_console: Callable[[str], None] | None = None  # gets each line that a board prints
    # gets the files that firmware was compiled from, the user's headers too
    on_sources: Callable[[Sequence[Path]], None] | None = None
    flash_output: int | None = None  # file descriptor; None keeps the output for the error
    # called when the board has answered, before any call
    on_connected: Callable[[], None] | None = None


def results(
    spec: BoardSpec,
    plans: Sequence[Plan],
    listener: Listener,
    *,
    firmware: BuiltFirmware | None = None,
    is_chosen: Callable[[Plan], bool] = lambda plan: True,
    on_measured: Callable[[Plan, Measurement, float, BuiltFirmware | None], None] | None = None,
    place: tuple[int, int] | None = None,
) -> Generator[Measurement | BoardprofError, None, None]:
    """Yield the result of each function as it arrives; ``firmware`` is None to build the plans'.

    The plans share one firmware, which is the same whichever of them are chosen. ``on_measured`` is
    called with the plan of each measurement, how long it took, and the firmware. ``place``: how
    many other plans come before these, and how many there are in all, for progress; None if not
    known.
    """
    # If a board that was started here ends, or is ended in a call that hangs, it is started again
    # for the remaining functions.
    chosen = [_recordable(spec, plan, listener.on_note) for plan in plans if is_chosen(plan)]
    for plan in chosen:
        if plan.sampled and asks_core_cycles(plan.metrics):
            raise UsageError(
                "core-cycles come from an exact profile, and --sampled asks for another one.",
                hint="leave out --sampled",
            )
        _check_probe(plan)
        with _meter(plan):  # is it there?
            pass
    if plans[0].connection.port is None:
        check_startable(spec, plans[0].connection)  # before anything is built
    if firmware is None:
        firmware = firmware_of(spec, plans[0], listener, plans[1:])
    chosen = [_named(plan, firmware, listener.on_note) for plan in chosen]
    left: list[tuple[Plan, str]] | None = None
    total = 0
    while left is None or left:
        with connected(spec, plans[0], firmware, listener) as board:
            if listener.on_connected is not None:
                listener.on_connected()
            if left is None:
                left = []
                told: set[str] = set()
                for plan in chosen:
                    try:
                        names = chosen_functions(board, plan, firmware, listener.on_note)
                        left += [(plan, name) for name in names]
                    except (UsageError, BuildError) as error:
                        if len(chosen) == 1:
                            raise
                        is_parameter = (
                            isinstance(error, UnknownNameError) and error.kind == "parameter"
                        )
                        if plan.case and is_parameter:
                            error.message = f"{plan.function}: {error.message}"
                            error.hint = "for a macro NAME: -D 'NAME={NAME}'"
                        if plan.case and plan.function in error.message:
                            if error.message not in told:  # the same for each value of a list
                                yield error
                            told.add(error.message)
                        else:
                            yield of_benchmark(plan, error)
                total = len(left)
                for plan, name in left if total > 1 else ():
                    if plan.case:  # a mistake in one value of a list, before others are measured
                        function = board.functions[name]
                        function.bind((), plan.data.values(function, board.memory.size))
            is_over = False
            while left and not is_over:
                plan, name = left.pop(0)
                before, in_all = (0, total) if place is None else place
                at = f" ({before + total - len(left)} of {in_all})" if in_all > 1 else ""
                try:
                    measurement, time_s = measure(board, name, plan, listener, at)
                    folders = plan.output_folders(measurement.device.name, measurement.function)
                    wrong = plan.data.take(measurement, *folders)
                    if on_measured is not None:
                        on_measured(plan, measurement, time_s, firmware)
                    yield measurement  # its numbers are reported although an output is wrong
                    if wrong is not None:
                        yield of_benchmark(plan, wrong)
                    if plan.connection.port is None and left:
                        is_over = bool(plan.case)  # each one as if it were measured alone
                        if not is_over and _holds_memory(measurement):
                            listener.on_note(
                                f"{board.device.name} is started again after {name}, since it "
                                "keeps memory that later functions may need"
                            )
                            is_over = True
                except BoardprofError as error:
                    if error.kept is not None:
                        yield error.kept
                        _say_kept(error)
                    is_over = isinstance(error, _OF_THE_BOARD) or board.session.is_closed
                    is_of_one_call = isinstance(error, (DeviceError, RpcError, *_OF_THE_BOARD))
                    is_of_one_call = is_of_one_call or len(chosen) > 1
                    if (is_over and plan.connection.port is not None) or not is_of_one_call:
                        rest = ", ".join(each.benchmark or name for each, name in left)
                        if rest:
                            listener.on_note(f"not measured on {board.device.name}: {rest}")
                        raise
                    yield of_benchmark(plan, error)


def _holds_memory(measurement: Measurement) -> bool:
    """Tell whether a function has kept memory of the heap, or has used it up."""
    return any(each.kind.startswith("heap-") for each in measurement.findings)


def _named(plan: Plan, firmware: BuiltFirmware | None, on_note: Note) -> Plan:
    """Return a plan with the names of parameters in the function's definition."""
    if firmware is None:
        return plan
    plan, note = with_own_names(plan, firmware.functions, firmware.sources)
    if note:
        on_note(note)
    return plan


def _say_kept(error: BoardprofError) -> None:
    """Say in an error that the samples from before it are in the Report."""
    first, end, rest = error.message.partition("\n")
    count = len(error.kept.passes[0].samples)
    some = "the sample from before that is" if count == 1 else f"{count} samples from before are"
    error.message = f"{first.rstrip('.:')}; {some} kept{end}{rest}"


def of_benchmark(plan: Plan, error: BoardprofError) -> BoardprofError:
    """Return an error with the benchmark's name, or what the case is, before its message."""
    name = plan.benchmark or plan.case
    known = [f"{name}: ", *([] if isinstance(error, UsageError) else [f"{name} "])]
    if name and not error.message.startswith(tuple(known)):
        error.message = f"{name}: {error.message}"
    return error


def _recordable(spec: BoardSpec, plan: Plan, on_note: Note) -> Plan:
    """Return a plan without profiles for a board that has none beside one that has."""
    try:
        if plan.hotspots and not plan.sampled:
            check_recordable(spec)
    except UsageError as error:
        if not any(is_recordable(board_spec(name)) for name in plan.boards):
            raise
        on_note(f"{spec.name} is measured without a profile: {error.message}")
        return replace(plan, hotspots=False)
    return plan


def _check_probe(plan: Plan) -> None:
    """Check that the debug probe's server answers, before anything takes long."""
    if plan.probe is not None:
        from boardprof.measure.hotspots.sampled_call import DebugProbe  # later: few runs need one

        with closing(DebugProbe(plan.probe)) as probe:
            probe.run("version")


def _meter(plan: Plan) -> AbstractContextManager[Meter | None]:
    return nullcontext() if plan.energy is None else open_meter(plan.energy)


def firmware_of(
    spec: BoardSpec, plan: Plan, listener: Listener, others: Sequence[Plan] = ()
) -> BuiltFirmware | None:
    """Build a plan's firmware, and flash what it names; None if the board has its own.

    ``others``: plans with the same files and flags, whose functions are in it, too.
    """
    firmware = None
    if plan.path is not None:
        from boardprof.jobs.run.plan_build import build_plans  # later: it knows all compilers

        plans = [plan, *others]
        firmware = build_plans(spec, plans, listener.on_note, listener.on_command)
        if listener.on_sources is not None:
            listener.on_sources(firmware.sources)
    if plan.flash:
        from boardprof.target.build.firmware import flash  # later: few runs flash

        image = firmware.image if firmware else Path(plan.image or "")
        flash(
            spec,
            image,
            plan.connection.port,
            output=listener.flash_output,
            on_command=listener.on_command,
        )
    return firmware


def connected(
    spec: BoardSpec, plan: Plan, firmware: BuiltFirmware | None, listener: Listener
) -> Board:
    """Start a plan's board, or connect to it."""
    connection = replace(plan.connection, on_console=listener.on_console, on_note=listener.on_note)
    with _after_flash(plan):
        if firmware is not None:
            return open_firmware(firmware, connection)
        return connect_by(connection, spec, plan.image)


def _after_flash(plan: Plan) -> AbstractContextManager[None]:
    if not plan.flash:
        return nullcontext()
    from boardprof.target.build.firmware import after_flash  # later: few runs flash

    return after_flash()


def measure(
    board: Board, name: str, plan: Plan, listener: Listener, at: str = ""
) -> tuple[Measurement, float]:
    """Measure one function, and tell how long that took, without trials of the number of calls.

    ``at`` is its position among all, for progress.
    """
    setting = f", {plan.code.cflags}" if plan.sweep else ""
    what = f"{name} on {board.device.name}{setting}{at}"
    heard: Callable[[], None]
    with _meter(plan) as meter:
        began: tuple[int, float] | None = None  # calls, time

        def show(done: int, total: int) -> None:
            nonlocal began
            calls, now_s, pace = done - _BEFORE, time.monotonic(), ""
            if calls > 0:
                heard()
                began = (calls, now_s) if began is None or calls < began[0] else began
                if calls > began[0]:
                    call_s = (now_s - began[1]) / (calls - began[0])
                    pace = f"; {call_s:.2g} s a call" if call_s > _SLOW_S else ""
                    if pace and done == total:
                        pace = f"; stack and outputs, {call_s:.2g} s each"
            show_progress(f"{what}{pace}", max(0, calls), total - _BEFORE + _AFTER)

        def show_bytes(way: str, done: int, total: int) -> None:
            heard()
            show_progress(f"{what}, bytes {way}", done, total)

        if plan.benchmark:  # each may have its own
            times = plan.connection.timeout_s, plan.connection.wall_timeout_s
            if times != board.session.asked_s:
                guard_calls(board.session, board.dictionary, board.spec, *times)
        wanted = plan.wanted or WantedMetrics(plan.metrics, 1)
        given = {"warmup": plan.warmup, "repeat": plan.repeat}
        rounds = {name: count for name, count in given.items() if count is not None}

        def told(measurement: Measurement) -> Measurement:
            measurement = wanted.with_missing(measurement, board)
            return replace(measurement, label=plan.label, tolerance=plan.tolerance)

        def measured(number: int) -> Measurement:
            return board.measure(
                name,
                metrics=wanted.of(board),
                **rounds,
                may_shorten="warmup" not in rounds,
                keeps_repeat="repeat" in rounds,
                number=number,
                cold=plan.cold,
                mask_interrupts=plan.mask_interrupts,
                meter=meter,
                named=plan.data.values(board.functions[name], board.memory.size),
                on_progress=show,
                on_transfer=_if_slow(show_bytes),
                on_note=listener.on_note if number == first else None,
            )

        first = plan.number or 1
        measurement: Measurement | None = None
        time_s = 0.0
        try:
            with _waiting(board, what) as heard:
                began_s = time.monotonic()
                measurement, time_s = measured(first), time.monotonic() - began_s
                while more := _more_calls(plan, measurement):
                    began_s = time.monotonic()
                    longer = measured(more)
                    if not _calls_are_alike(longer):
                        break
                    measurement, time_s = longer, time.monotonic() - began_s
            if plan.hotspots and measurement.profile is None:  # core-cycles have one already
                named = plan.data.values(board.functions[name], board.memory.size)
                again = replace(plan, warmup=1 if plan.sampled else measurement.warmup)
                with waiting(f"recording {what}"):
                    profile = _profile(board, name, named, again)
                measurement = replace(measurement, profile=profile)
        except (BoardTimeoutError, DeviceError) as error:
            kept = error.kept or measurement
            error.kept = None if kept is None else told(kept)
            raise
        return told(measurement), time_s


def _more_calls(plan: Plan, measurement: Measurement) -> int:
    """Return how many calls a sample needs for the clock of an operating system; 0 if enough.

    On other boards a function may cost more in its first call of a sample, and that is measured.
    """
    is_fixed = plan.number is not None or plan.cold or plan.energy is not None or plan.warmup == 0
    changes = measurement.changed or measurement.kept
    if is_fixed or changes or not measurement.device.cpu or not _calls_are_alike(measurement):
        return 0
    number = calls_needed(assemble([measurement]))
    return number if measurement.number < number <= MOST_CALLS else 0


def _calls_are_alike(measurement: Measurement) -> bool:
    """Tell whether nothing was noticed in which a later call differs from the first."""
    return not measurement.findings and len(set(measurement.output_crc32s)) <= 1


_BEFORE = CALIBRATION_SAMPLES + 1
"""Rounds of the empty function, which take no time."""

_AFTER = 2
"""Calls after the samples: on painted stack, and for the outputs."""

_SLOW_S = 0.05
"""Quicker calls are seen to go on."""

_SLOW_TRANSFER_S = 1.0
"""Shorter transfers would hide how far the samples are."""


def _if_slow(show: Callable[[str, int, int], None]) -> Callable[[str, int, int], None]:
    began_s, so_far = time.monotonic(), 0

    def shown(way: str, done: int, total: int) -> None:
        nonlocal began_s, so_far
        if done <= so_far:
            began_s = time.monotonic()
        so_far = done
        if time.monotonic() - began_s > _SLOW_TRANSFER_S:
            show(way, done, total)

    return shown


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
    """Show how long a round takes; on a real clock the first one only."""
    # The thread that shows it would disturb later ones. By then a bar shows how many are done.
    is_emulated = board.spec.clock.is_emulated  # else the board ends the call first
    limit_s = None if is_emulated else board.session.line.limit_s
    limit = f"{limit_s or board.session.timeout_s:g} s at most"
    return waiting(f"waiting for {what}, {limit}", once=not is_emulated)


def record_plan(plan: Plan, listener: Listener) -> Iterator[Profile]:
    """Yield a profile of one call of each function, on each board with each setting of a sweep."""
    specs = boards_of(plan)
    for spec in specs:
        if not plan.sampled:
            check_recordable(spec)
    _check_probe(plan)
    data = plan.read_data()
    settings = with_each_setting(replace(plan, data=data))
    for spec, setting in itertools.product(specs, settings):
        firmware = firmware_of(spec, setting, listener)
        setting = _named(setting, firmware, listener.on_note)
        with connected(spec, setting, firmware, listener) as board:
            for name in chosen_functions(board, setting, firmware, listener.on_note):
                named = setting.data.values(board.functions[name], board.memory.size)
                yield _profile(board, name, named, plan)
