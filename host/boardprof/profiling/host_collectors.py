# SPDX-License-Identifier: Apache-2.0
"""TVM's collectors on the host: their base class, and a run of several around a board's window."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from boardprof.board.board import Board
from boardprof.errors import BoardprofError, UsageError
from boardprof.metrics import Metric, as_metric
from boardprof.report.calls import DURATION

Gathered = Mapping[str, Mapping[str, Metric]]
"""Metrics of one sample, by collector and name."""

_OF_ROWS = frozenset(
    ["Name", DURATION, "Percent", "Device", "Count", "Argument Shapes", "Hash", "Flags", "Label"]
)
"""Columns that a collector never gets: the host's time is not the board's Duration."""


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


@dataclass(frozen=True)
class _Started:
    label: str
    collector: MetricCollector
    state: object


class Collecting:
    """The host collectors of one `profile_function` or program, in order."""

    def __init__(self, collectors: Sequence[MetricCollector]) -> None:
        """Name each collector for messages and columns: by its class, numbered if several.

        Two collectors of a class ``Meter`` are ``Meter`` and ``Meter-2``.
        """
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
        """Call `Init` of each.

        Raises:
            UsageError: one of them failed; the message names it.
        """
        devices = [DeviceWrapper(board) for board in boards]
        for label, collector in self._collectors:
            with _blamed(label, "Init"):
                collector.Init(list(devices))

    @contextlib.contextmanager
    def around(self, board: Board) -> Iterator[dict[str, Mapping[str, Metric]]]:
        """Start all, and stop all after the block; an error of the block takes precedence.

        Yields:
            A mapping that gets the metrics of each supporting collector when the block ends.

        Raises:
            UsageError: one of them failed, which is named; the others have been stopped.
        """
        gathered: dict[str, Mapping[str, Metric]] = {}
        started: list[_Started] = []
        try:
            for label, collector in self._collectors:
                with _blamed(label, "Start"):
                    state = collector.Start(board)
                if state is not None:
                    started.append(_Started(label, collector, state))
            yield gathered
            while started:
                each = started.pop(0)
                with _blamed(each.label, "Stop"):
                    gathered[each.label] = _metrics(each.collector.Stop(each.state))
        finally:
            for left in started:  # only after an error
                with contextlib.suppress(Exception):
                    left.collector.Stop(left.state)


def columns_for(samples: Iterable[Gathered], taken: Iterable[str]) -> dict[tuple[str, str], str]:
    """Give each metric of each collector a column of its own.

    A name already used by the board or an earlier collector gets the collector's name in front:
    ``Energy.cycles``.

    Args:
        samples: the gathered metrics, sample by sample.
        taken: columns in use.

    Returns:
        (collector, name) -> column.
    """
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
def _blamed(label: str, step: str) -> Iterator[None]:
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
