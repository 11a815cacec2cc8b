# SPDX-License-Identifier: Apache-2.0
"""TVM's interface for collectors on the host: the base classes for users."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from boardprof.board.board import Board
from boardprof.errors import UsageError
from boardprof.metrics import Metric


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
