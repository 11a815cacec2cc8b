# SPDX-License-Identifier: Apache-2.0
"""TVM's collector of PAPI's counters, over any transport."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

from boardprof.board.board import Board
from boardprof.errors import UsageError
from boardprof.measure.programmable import Programmable, Slots
from boardprof.measure.window import Window
from boardprof.metrics import Count, Metric
from boardprof.profiling.host_collectors import DeviceWrapper, MetricCollector

_COLLECTOR = "papi"
_DEFAULTS = (
    "perf::CYCLES",
    "perf::STALLED-CYCLES-FRONTEND",
    "perf::STALLED-CYCLES-BACKEND",
    "perf::INSTRUCTIONS",
    "perf::CACHE-MISSES",
)


class PAPIMetricCollector(MetricCollector):
    """Collector of PAPI's events, on boards that have PAPI.

    Name, arguments and defaults are those of ``tvm.runtime.profiling``; unlike TVM's, it works over
    RPC, and defaults that a board does not have are left out with a warning::

        collector = PAPIMetricCollector({board: ["perf::PAGE-FAULTS"]})
        profiled = profile_function(board, collectors=[collector], func_name="fir")

    `Init`, `Start` and `Stop` are available too. Between Start and Stop the host can make any
    calls. The counts then include the agent's handling of these calls. `profile_function` measures
    on the board and corrects by the calibration.
    """

    def __init__(self, metric_names: Mapping[object, Sequence[str]] | None = None) -> None:
        """Set the events; the board is not asked yet.

        Args:
            metric_names: names of PAPI's events by board, or by the board's name. None for TVM's
                five CPU events.
        """
        self._names = metric_names
        self._slots: dict[int, Slots] = {}

    def metric_names(self, board: Board) -> list[str]:
        """Return the events that ``board`` can count; to find out, they are selected.

        Raises:
            UsageError: the board cannot count a named event, for the reason in the message; or the
                board has no PAPI.
        """
        collector = _papi_of(board)
        names = self._wanted(board)
        if names is not None:
            self._check(board, collector, names)
            return names
        refused = collector.select(_DEFAULTS).refused
        if refused:
            listed = "; ".join(f"{name}: {why}" for name, why in refused.items())
            warnings.warn(f"{board.device.name} does not count {listed}.", stacklevel=2)
        return [name for name in _DEFAULTS if name not in refused]

    def metrics(self, board: Board) -> list[str]:
        """Return `metric_names` in the form of ``metrics=``, bound to this collector.

        Raises:
            UsageError: see `metric_names`.
        """
        return [f"{_COLLECTOR}.{name}" for name in self.metric_names(board)]

    def Init(self, devs: Sequence[DeviceWrapper | Board]) -> None:
        """Select the events on each board. Boards without chosen events are left out.

        Raises:
            UsageError: see `metric_names`; or there are more events than fit into one pass.
        """
        self._slots = {}
        for board in (DeviceWrapper(dev).device for dev in devs):
            names = self.metric_names(board)
            if names:
                self._slots[id(board)] = _papi_of(board).select(names)

    def Start(self, dev: Board) -> object | None:
        """Open a window on a board; None if `Init` chose no events for it.

        If something else was selected since `Init`, its events are selected again.
        """
        slots = self._slots.get(id(dev))
        if slots is None:
            return None
        collector = _papi_of(dev)
        if collector.current is not slots:
            names = [event.removeprefix(f"{_COLLECTOR}.") for event in slots.events]
            self._slots[id(dev)] = collector.select(names)
        window = dev.window(_COLLECTOR)
        window.start()
        return window

    def Stop(self, obj: object) -> dict[str, Metric]:
        """Close a window that `Start` returned.

        Returns:
            Raw Counts by event.

        Raises:
            UsageError: it is not such a window, or is already closed.
        """
        if not isinstance(obj, Window):
            raise UsageError(f"{obj!r:.60} was not returned by Start.")
        obj.stop()
        return {name: Count(reading.value) for name, reading in obj.readings.items()}

    def _wanted(self, board: Board) -> list[str] | None:
        if self._names is None:
            return None
        for device, names in self._names.items():
            if device is board or str(device) == board.device.name:
                return list(names)
        return []

    def _check(self, board: Board, collector: Programmable, names: list[str]) -> None:
        if len(names) > collector.slots:
            raise UsageError(
                f"{len(names)} events are more than the {collector.slots} that PAPI counts at once "
                f"on {board.device.name}.",
                hint="board.profile(..., metrics=[...]) makes several passes",
            )
        for name, why in collector.select(names).refused.items():
            raise UsageError(
                f"PAPI cannot count {name} on {board.device.name}: {why}.",
                hint=f"boardprof metrics -b {board.spec.name} lists what it counts",
            )


def _papi_of(board: Board) -> Programmable:
    for collector in board.offer.programmable:
        if collector.collector.name == _COLLECTOR:
            return collector
    raise UsageError(
        f"{board.device.name} has no collector {_COLLECTOR!r}.",
        hint="PAPI is available on Linux boards; boardprof metrics lists what a board counts",
    )
