# SPDX-License-Identifier: Apache-2.0
"""TVM's interface for collectors that run on the host: what a user derives from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from boardprof.board.board import Board
from boardprof.errors import UsageError
from boardprof.metrics import Metric

__all__ = ["DeviceWrapper", "MetricCollector"]


class DeviceWrapper:
    """A device as `MetricCollector.Init` gets it; the name is TVM's.

    Attributes:
        device: the connected board, which `MetricCollector.Start` gets as it is.
    """

    def __init__(self, dev: Board | DeviceWrapper) -> None:
        """Wrap a board.

        Raises:
            UsageError: it is none.
        """
        device: object = dev.device if isinstance(dev, DeviceWrapper) else dev
        if not isinstance(device, Board):
            raise UsageError(
                f"{device!r:.60} is no device.", hint="pass what boardprof.connect returned"
            )
        self.device: Board = device

    @property
    def name(self) -> str:
        """The board's name, as in the Device column of Reports."""
        return self.device.device.name

    def __eq__(self, other: object) -> bool:
        """Two wrappers of the same session with a board are equal."""
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
    """Something on the host that is to be read around what runs on a board: a power meter, a log.

    ::

        class Energy(MetricCollector):
            def Init(self, devs):
                self.meter = open_meter()

            def Start(self, dev):
                return self.meter.joules()

            def Stop(self, obj):
                return {"energy (uJ)": round(1e6 * (self.meter.joules() - obj))}

        fir = profile_function(board, None, [Energy(), "cycles"], "fir")

    Each sample, which is one call of the board, has this order: `Start` of all collectors, then the
    board's own window opens; it closes, and then `Stop` of all. So the board's counts and its
    Duration have nothing of the collectors in them, while what happens between Start and Stop is
    the call as the host sees it: the request on the wire, the board unpacking the arguments and
    putting its arrays back, the window, and the reply. Where it takes several passes to count
    everything, the collectors run in the first only.

    What runs on the board itself is faster and exact: see the board's own collectors.
    """

    def Init(self, devs: Sequence[DeviceWrapper]) -> None:  # noqa: B027 - most need none
        """Prepare whatever is expensive; called once, before anything is profiled.

        Args:
            devs: the boards that will be profiled.
        """

    @abstractmethod
    def Start(self, dev: Board) -> object | None:
        """Begin to collect.

        Args:
            dev: the board that is about to be called.

        Returns:
            What `Stop` gets; None: the device is unsupported, and Stop is not called for it.
        """

    @abstractmethod
    def Stop(self, obj: object) -> Mapping[str, Metric | int]:
        """End what `Start` began.

        Args:
            obj: what Start returned.

        Returns:
            Name -> Count, Duration, Percent, Ratio or str; an int is a Count.
        """
