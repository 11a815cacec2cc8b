# SPDX-License-Identifier: Apache-2.0
"""TVM's collectors on the host: their base class, a run of several around a window, and PAPI's."""

from __future__ import annotations

import contextlib
import itertools
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from boardprof.base.errors import BoardprofError, UsageError, warn_user
from boardprof.base.metrics import Count, Metric, as_metric
from boardprof.measure.board.board import Board, check_boards
from boardprof.measure.sampling.board_link import Window
from boardprof.measure.sampling.programmable import Programmable, Slots
from boardprof.results.report.calls import DURATION

Gathered = Mapping[str, Mapping[str, Metric]]
"""Metrics of one sample, by collector and name."""

_OF_ROWS = frozenset(
    ["Name", DURATION, "Percent", "Device", "Count", "Argument Shapes", "Hash", "Flags", "Label"]
)
"""Columns that a collector never gets: the host's time is not the board's Duration."""

_COLLECTOR = "papi"
_BY_PERF = "perf"
"""The collector that knows PAPI's presets where the agent is static and cannot load libpapi."""

_DEFAULTS = (
    "perf::CYCLES",
    "perf::STALLED-CYCLES-FRONTEND",
    "perf::STALLED-CYCLES-BACKEND",
    "perf::INSTRUCTIONS",
    "perf::CACHE-MISSES",
)


class DeviceWrapper:
    """A device for `MetricCollector.Init`; the name is TVM's.

    Attributes:
        device: the connected board, which `MetricCollector.Start` gets directly.
    """

    def __init__(self, dev: Board | DeviceWrapper) -> None:
        """Wrap a board.

        Raises:
            UsageError: it is not a board.
        """
        device: object = dev.device if isinstance(dev, DeviceWrapper) else dev
        if not isinstance(device, Board):
            raise UsageError(
                f"{device!r:.60} is not a device.", hint="pass what boardprof.connect returned"
            )
        self.device: Board = device

    @property
    def name(self) -> str:
        """The board's name, as in the Device column of Reports."""
        return self.device.device.name

    def __eq__(self, other: object) -> bool:
        """Compare: two wrappers of the same session with a board are equal."""
        return isinstance(other, DeviceWrapper) and other.device is self.device

    def __hash__(self) -> int:
        """Hash by the board's identity."""
        return hash(id(self.device))

    def __str__(self) -> str:
        """Return the board's name."""
        return self.name

    def __repr__(self) -> str:
        """Return the board's name and how it is reached."""
        return f"DeviceWrapper({self.name} at {self.device.device.port})"


class MetricCollector(ABC):
    """A host collector, read before and after each call of a board: a power meter, a log.

    ::

        class Energy(MetricCollector):
            def Init(self, devs):
                self.meter = open_meter()

            def Start(self, dev):
                return self.meter.joules()

            def Stop(self, obj):
                return {"energy (uJ)": round(1e6 * (self.meter.joules() - obj))}

        fir = profile_function(board, None, [Energy(), "cycles"], "fir")

    Each sample is one call of the board, in this order: `Start` of all collectors, the board's own
    window, `Stop` of all collectors. So the board's counts and its Duration do not include the
    collectors. Between Start and Stop is the call as the host sees it: the request on the wire, the
    board unpacking arguments and restoring arrays, the window, and the reply. If counting takes
    several passes, the collectors run only in the first.

    Collectors on the board itself are faster and exact: see the board's own collectors.
    """

    def Init(self, devs: Sequence[DeviceWrapper]) -> None:  # noqa: B027 - few need it
        """Do expensive preparations; called once, before anything is profiled.

        Args:
            devs: the boards that will be profiled.
        """

    @abstractmethod
    def Start(self, dev: Board) -> object | None:
        """Start collecting.

        Args:
            dev: the board that is about to be called.

        Returns:
            The argument for `Stop`. None if the device is not supported; Stop is then not called.
        """

    @abstractmethod
    def Stop(self, obj: object) -> Mapping[str, Metric | int]:
        """Stop collecting.

        Args:
            obj: the return value of Start.

        Returns:
            A Count, Duration, Percent, Ratio or str by name; an int is a Count.
        """


class Collecting:
    """The host collectors of one `profile_function` or program, in order."""

    def __init__(self, collectors: Sequence[MetricCollector]) -> None:
        """Name each collector for messages and columns: by its class, numbered if several."""
        seen: Counter[str] = Counter()
        self._collectors: list[tuple[str, MetricCollector]] = []
        for collector in collectors:
            name = type(collector).__name__
            seen[name] += 1
            label = name if seen[name] == 1 else f"{name}-{seen[name]}"
            self._collectors.append((label, collector))

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._collectors)

    def init(self, boards: Iterable[Board]) -> None:
        """Call `Init` of each."""
        devices = [DeviceWrapper(board) for board in boards]
        for label, collector in self._collectors:
            with _naming_collector(label, "Init"):
                collector.Init(list(devices))

    @contextlib.contextmanager
    def around(self, board: Board) -> Iterator[dict[str, Mapping[str, Metric]]]:
        """Start all, and stop all after the block, which gets a mapping for their metrics."""
        # An error of the block takes precedence.
        gathered: dict[str, Mapping[str, Metric]] = {}
        started: list[tuple[str, MetricCollector, object]] = []
        try:
            for label, collector in self._collectors:
                with _naming_collector(label, "Start"):
                    state = collector.Start(board)
                if state is not None:
                    started.append((label, collector, state))
            yield gathered
            while started:
                label, collector, state = started.pop(0)
                with _naming_collector(label, "Stop"):
                    gathered[label] = _metrics(collector.Stop(state))
        finally:
            for _, collector, state in started:  # only after an error
                with contextlib.suppress(Exception):
                    collector.Stop(state)


def columns_for(samples: Iterable[Gathered], taken: Iterable[str]) -> dict[tuple[str, str], str]:
    """Give each metric of each collector a column of its own: (collector, name) -> column."""
    # A name already used by the board or an earlier collector gets the collector's name in front:
    # ``Energy.cycles``.
    used = {*taken, *_OF_ROWS}
    columns: dict[tuple[str, str], str] = {}
    for gathered in samples:
        for label, metrics in gathered.items():
            for name in metrics:
                if (label, name) in columns:
                    continue
                column = name
                while column in used:
                    column = f"{label}.{column}"
                used.add(column)
                columns[label, name] = column
    return columns


def _metrics(found: object) -> dict[str, Metric]:
    if not isinstance(found, Mapping):
        raise TypeError(f"it returned {found!r:.60}, not a dict of metrics")
    metrics: dict[str, Metric] = {}
    for name, value in found.items():
        if not isinstance(name, str):
            raise TypeError(f"a metric's name must be a str, not {name!r:.60}")
        try:
            metrics[name] = as_metric(value)
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from None
    return metrics


@contextlib.contextmanager
def _naming_collector(label: str, step: str) -> Iterator[None]:
    """Add the name of the collector to an error."""
    try:
        yield
    except BoardprofError as error:  # its message and exit code are already right
        error.add_note(f"This happened in {step} of the collector {label}.")
        raise
    except Exception as error:
        raise UsageError(
            f"The collector {label} failed in {step}: {type(error).__name__}: {error}.",
            hint="fix the collector or leave it out; the board is unaffected",
        ) from error


# -- PAPI --------------------------------------------------------------------------------------


class PAPIMetricCollector(MetricCollector):
    """Collector of PAPI's events, on boards that have PAPI.

    A static agent, such as that of linux-arm64, cannot load libpapi. There perf_event_open counts
    six presets, and a warning says so: PAPI_TOT_INS, PAPI_TOT_CYC, PAPI_REF_CYC, PAPI_BR_INS,
    PAPI_BR_MSP and PAPI_L1_ICM.

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
                five CPU events. A board that is not profiled is named in a warning.

        Raises:
            UsageError: it is not such a dict.
        """
        self._names = None if metric_names is None else _checked(metric_names)
        self._slots: dict[int, Slots] = {}

    def metric_names(self, board: Board) -> list[str]:
        """Return the events that ``board`` can count; to find out, they are selected.

        Raises:
            UsageError: the board cannot count a named event, for the reason in the message; or the
                board has no PAPI.
        """
        names = self._wanted(board)
        if names == []:
            return []
        collector = _papi_of(board)
        if names is not None:
            self._check(board, collector, names)
            return names
        refused = collector.select(_DEFAULTS).refused
        if refused:
            listed = "; ".join(f"{name}: {why}" for name, why in refused.items())
            warn_user(f"{board.device.name} does not count {listed}.")
        return [name for name in _DEFAULTS if name not in refused]

    def metrics(self, board: Board) -> list[str]:
        """Return `metric_names` in the form of ``metrics=``, bound to this collector.

        Raises:
            UsageError: see `metric_names`.
        """
        return self.metrics_of([board])[board]

    def metrics_of(self, boards: Sequence[Board]) -> dict[Board, list[str]]:
        """Return `metrics` of several boards; one without PAPI is left out, if others have it.

        Raises:
            UsageError: see `metric_names`.
        """
        return {
            board: [f"{_papi_of(board).collector.name}.{name}" for name in names]
            for board, names in self._events(boards).items()
        }

    def Init(self, devs: Sequence[DeviceWrapper | Board]) -> None:
        """Select the events on each board.

        Boards without chosen events are left out, and without PAPI if others have it.

        Raises:
            UnknownNameError: there is no board of a name for which events are named.
            UsageError: see `metric_names`; or there are more events than fit into one pass.
        """
        boards = [DeviceWrapper(dev).device for dev in devs]
        self._slots = {
            id(board): _papi_of(board).select(names)
            for board, names in self._events(boards).items()
            if names
        }

    def Start(self, dev: Board) -> object | None:
        """Open a window on a board; None if `Init` chose no events for it.

        If something else was selected since `Init`, its events are selected again.
        """
        slots = self._slots.get(id(dev))
        if slots is None:
            return None
        collector = _papi_of(dev)
        if collector.current is not slots:
            prefix = f"{collector.collector.name}."
            names = [event.removeprefix(prefix) for event in slots.events]
            self._slots[id(dev)] = collector.select(names)
        window = dev.collectors[collector.collector.name]
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

    def _events(self, boards: Sequence[Board]) -> dict[Board, list[str]]:
        if self._names is None:
            boards = [board for board in boards if _papi_on(board)] or boards
        check_boards([named for named in self._names or () if isinstance(named, str)])
        profiled = [each for board in boards for each in (board, board.device.name)]
        unused = [named for named in self._names or () if named not in profiled]
        if unused:
            names = ", ".join(n.device.name if isinstance(n, Board) else n for n in unused)
            warn_user(f"PAPI's events are named for {names}, which is not profiled.")
        found = {board: self.metric_names(board) for board in boards}
        for board in (each for each, names in found.items() if names):
            if _papi_of(board).collector.name == _BY_PERF:
                warn_user(
                    f"{board.device.name} has no libpapi: perf_event_open counts PAPI's presets."
                )
        return found

    def _wanted(self, board: Board) -> list[str] | None:
        if self._names is None:
            return None
        # A board can be there twice: itself, and by its name.
        own = [self._names.get(key, []) for key in (board, board.device.name)]
        return list(dict.fromkeys(itertools.chain.from_iterable(own)))

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


def _checked(names: Mapping[object, Sequence[str]]) -> dict[Board | str, list[str]]:
    """Return the events by board; refuse what is neither a board nor the name of one."""
    if not isinstance(names, Mapping):
        raise UsageError(
            f"metric_names={names!r:.60} is not a dict of events by board.",
            hint='PAPIMetricCollector({board: ["PAPI_TOT_INS"]})',
        )
    checked: dict[Board | str, list[str]] = {}
    for device, events in names.items():
        if not isinstance(device, Board | DeviceWrapper | str):
            raise UsageError(
                f"metric_names: {device!r:.60} is not a board.",
                hint="pass what boardprof.connect returned, or the name of a board",
            )
        is_list = isinstance(events, Iterable) and not isinstance(events, str)
        if not is_list or not all(isinstance(each, str) for each in events):
            raise UsageError(
                f"metric_names: {events!r:.60} is not a list of events.", hint=f'["{events}"]'
            )
        own = device.device if isinstance(device, DeviceWrapper) else device
        checked.setdefault(own, []).extend(events)
    return checked


def _papi_on(board: Board) -> Programmable | None:
    """Return PAPI's collector, or that of perf, which knows PAPI's presets where it is alone."""
    by_name = {each.collector.name: each for each in board.offer.programmable}
    return by_name.get(_COLLECTOR, by_name.get(_BY_PERF))


def _papi_of(board: Board) -> Programmable:
    collector = _papi_on(board)
    if collector is not None:
        return collector
    raise UsageError(
        f"{board.device.name} has no collector {_COLLECTOR!r}.",
        hint="PAPI is available on Linux boards; boardprof metrics lists what a board counts",
    )
