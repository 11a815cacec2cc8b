# SPDX-License-Identifier: Apache-2.0
"""Whole programs: a sequence of calls, such as a network's layers, profiled as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from boardprof.board.board import Board
from boardprof.errors import UsageError
from boardprof.measure.measure_function import Progress
from boardprof.measure.passes import Rounds
from boardprof.profiling.collector_selection import Collector, check_device, check_open, choose
from boardprof.profiling.host_collectors import DeviceWrapper
from boardprof.profiling.observed_calls import observed_value, planned_passes
from boardprof.profiling.program_calls import ProgramArrays, ProgramCall, program_call
from boardprof.profiling.program_runs import ProgramRuns, program_report
from boardprof.report.report import Report


class Program:
    """A sequence of calls of packed functions that share arrays.

    ::

        program = Program(board)
        program.add("dense", x, w1, h, 64, 32, label="hidden")
        program.add("relu", h, 32)
        program.add("dense", h, w2, y, 32, 10, label="output")
        print(program.profile().table())

    An array that several calls take is on the board once: the next call reads there what one call
    has written, without the wire. So a graph becomes its calls in an order in which inputs are
    written before they are read. A view of another shape is the same array; other overlaps are
    refused. Blocks of ``board.memory`` are passed directly, and are not restored.
    """

    def __init__(self, board: Board) -> None:
        """Begin an empty program.

        Args:
            board: connected; used for each call that does not name another.

        Raises:
            UsageError: it is not a connected board.
        """
        if not isinstance(board, Board):
            raise UsageError(
                f"{board!r:.60} is not a connected board.",
                hint="pass what boardprof.connect returned",
            )
        self._board = board
        self._calls: list[ProgramCall] = []

    def add(
        self,
        function: str,
        *args: object,
        label: str | None = None,
        device: Board | DeviceWrapper | str | None = None,
        named: Mapping[str, object] | None = None,
    ) -> None:
        """Append a call.

        Args:
            function: its name.
            args: as for ``Board.profile``; arrays are looked at when the program runs.
            label: a name for the call, in a column of its own.
            device: another connected board to call. Data written on one board cannot be read on
                another.
            named: arguments by parameter name.

        Raises:
            UnknownNameError: no such function.
            LinkError: the board is closed.
            UsageError: it cannot be measured; the arguments do not fit; there is no such device; or
                the label is not a string.
        """
        if not isinstance(named, Mapping | None):
            raise UsageError(f"named={named!r:.60} is not a dict of arguments by name.")
        board = device.device if isinstance(device, DeviceWrapper) else device
        if not isinstance(board, Board):
            check_device(self._board, board)
            board = self._board
        check_open(board)
        self._calls.append(program_call(board, function, args, named or {}, label))

    def __len__(self) -> int:
        """Return the number of calls."""
        return len(self._calls)

    def run(self) -> list[object]:
        """Run it once without measuring; return each function's result. Arrays hold the outputs.

        Raises:
            UsageError: there are no calls, or their arrays do not fit; see `profile`.
        """
        self._check()
        with ProgramArrays(self._calls) as arrays:
            values = [observed_value(call.host_call, arrays.call(call)) for call in self._calls]
            arrays.fetch()
        return values

    def profile(
        self,
        collectors: Sequence[Collector] | None = None,
        *,
        warmup: int = 3,
        repeat: int = 1,
        mask_interrupts: bool = False,
        on_progress: Progress | None = None,
    ) -> Report:
        """Run it and measure each call, like ``graph_executor.profile`` and ``vm.profile``.

        The Report has a row for each call in the order of execution, run after run: Name, Count 1,
        Duration if there is a clock, the counters, Percent of the board's total, the arguments'
        shapes, a Hash that is the same for the same function, Label, Device. The totals are of the
        board's work between the calls' first and last instruction on it, argument handling
        included; ``End to end (us)`` in the configuration is a run by the host's clock, wire and
        collectors included, the median of the runs.

        Each run begins with the caller's values in all arrays. Afterwards they hold the results of
        the last run. More counters than fit one pass need more runs; host ``collectors`` run in
        those of the first pass.

        Args:
            collectors: as for `profile_function`.
            warmup: runs before the measured ones, >= 0.
            repeat: measured runs, >= 1.
            mask_interrupts: mask interrupts within the windows of the measured runs. If this also
                masks the guard's timer, one warm-up run is needed, and is added if there is none.
            on_progress: called with (calls done, total calls) of a pass, warm-up included.

        Raises:
            UsageError: there are no calls; two boards have the same name; arrays overlap, do not
                fit the arena, or are written on one board and taken on another; a collector is
                unknown or failed; a board cannot mask interrupts, or not for so long.
            DeviceError, LinkError: see ``Board.profile``.
        """
        rounds = Rounds(warmup, repeat, 1)
        self._check()
        boards = list(dict.fromkeys(call.board for call in self._calls))
        names = [board.device.name for board in boards]
        if len({*names}) < len(names):
            raise UsageError(
                f"Two boards of the program have the same name: {', '.join(sorted(names))}.",
                hint="give them different names: a Report tells boards apart by name",
            )
        choices = {board: choose(board, collectors) for board in boards}
        passes = {
            board: planned_passes(board, choice.metrics, mask_interrupts=mask_interrupts)
            for board, choice in choices.items()
        }
        # The collectors of the host are the same for all boards.
        collecting = choices[boards[0]].collecting
        collecting.init(boards)
        with ProgramArrays(self._calls) as arrays:
            runs = ProgramRuns(
                self._calls,
                arrays,
                rounds,
                passes,
                collecting,
                on_progress,
                mask_interrupts=mask_interrupts,
            )
            executed = list(runs.executed())
            arrays.fetch()
        return program_report(executed, warmup, repeat, runs.elapsed_s)

    def _check(self) -> None:
        if not self._calls:
            raise UsageError(
                "The program has no calls.", hint='program.add("function", arguments, ...)'
            )
        for call in self._calls:
            call.board.stack_check.require(call.name)
