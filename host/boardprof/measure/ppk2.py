# SPDX-License-Identifier: Apache-2.0
"""Nordic's Power Profiler Kit II as a meter, through the package ppk2lab.

It sends 100,000 samples a second: current, and eight digital inputs on the same timeline. Its
accuracy is Nordic's typical one for each range, as ppk2lab has it. It does not measure voltage.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Self
from urllib.parse import parse_qsl

import numpy as np

from boardprof.base.errors import MeterError, MissingExtraError, UsageError
from boardprof.measure.meter import MarkedWindow

try:
    from ppk2lab import PPK2, GapEvent, Mode, Ppk2labError
    from ppk2lab.capture.stats import StatsAccumulator, VoltageContext, WindowStats
    from ppk2lab.protocol.samples import LOGIC_SHIFT, SampleBlock
    from ppk2lab.types import SAMPLE_PERIOD_S, VoltageBasis
except ImportError as error:
    raise MissingExtraError("Measuring energy with a PPK2", "ppk2lab", "energy") from error

if TYPE_CHECKING:
    from ppk2lab.device import StreamIterator

_QUIET = 5000
"""Samples until all before them have surely come over USB: 50 ms."""

_WAIT_S = 5.0
"""Longest wall time until these have come, or until windows have ended that are still missing."""

_LARGEST_MV = 5000  # the PPK2 measures up to 5 V (Nordic, PPK2 user guide, specifications)
_FEWEST = 10
"""Samples of a window; in shorter ones, the edges alone are more than 10 % off."""


def open_ppk2(text: str, timeout_s: float) -> Ppk2Meter:
    """Open the PPK2 of ``ppk2[:PORT][?mv=3300&pin=2]``. ppk2lab's own deadlines are shorter."""
    place, _, query = text.partition("?")
    port = place.partition(":")[2] or None
    given = dict(parse_qsl(query, keep_blank_values=True))
    if not given.keys() <= {"mv", "pin"} or not all(each.isdecimal() for each in given.values()):
        raise UsageError(
            f"{text} has a setting that a PPK2 does not know.",
            hint="ppk2:/dev/ttyACM1?mv=3300&pin=2",
        )
    with _told(port):
        device = PPK2.open(port=port)
    try:
        return Ppk2Meter(
            device, int(given.get("pin", 0)), int(given["mv"]) if "mv" in given else None
        )
    except BaseException:
        device.close()
        raise


@contextlib.contextmanager
def _told(port: str | None) -> Iterator[None]:
    """Turn errors of ppk2lab into a MeterError."""
    try:
        yield
    except Ppk2labError as error:
        where = f" at {port}" if port else ""
        raise MeterError(
            f"The PPK2{where} cannot be used: {error.message}.",
            hint="check its USB cable and that no other program uses it; or name its port: "
            "ppk2:/dev/ttyACM1",
        ) from error


class Ppk2Meter:
    """An open PPK2. It never switches the board's supply, and never changes its voltage."""

    def __init__(self, device: PPK2, pin: int = 0, supply_mv: int | None = None) -> None:
        """Take an open device, which is closed with the meter; the marker is wired to ``pin``.

        ``supply_mv``: the board's supply in millivolts; None takes what the PPK2 is set to.
        """
        if not 0 <= pin <= 7:
            raise UsageError(f"A PPK2 has the inputs D0 to D7, not D{pin}.")
        if supply_mv is not None and not 0 < supply_mv <= _LARGEST_MV:
            raise UsageError(
                f"mv={supply_mv} is out of range: a PPK2 measures up to {_LARGEST_MV} mV.",
                hint="give the board's supply in millivolts: ppk2?mv=3300",
            )
        is_source, own_mv = device.state.mode is Mode.SOURCE, device.state.source_voltage_mv
        if not is_source and supply_mv is None:
            raise MeterError(
                "The PPK2 is an ampere meter now and does not know the voltage of the board.",
                hint="give it in millivolts: ppk2?mv=3300",
            )
        if is_source and supply_mv not in (None, own_mv):
            raise MeterError(
                f"The PPK2 supplies {own_mv} mV, not {supply_mv} mV.",
                hint="leave out mv, or set the voltage: ppk2lab configure",
            )
        basis = VoltageBasis.CALLER_OVERRIDE if supply_mv else VoltageBasis.DEVICE_METADATA
        self._voltage = VoltageContext(
            supply_mv or own_mv, basis.value, "source" if is_source else "ampere"
        )
        what = "simulated PPK2" if device.info.simulated else "PPK2"
        self.name = f"{what} at {(supply_mv or own_mv or 0) / 1000:.3f} V"
        self._device, self._pin = device, pin
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closing = False
        self._error: Exception | None = None
        # Of the thread; others read them under the lock.
        self._end = 0  # index of the next sample
        self._found: list[MarkedWindow] = []
        self._open: StatsAccumulator | None = None  # while the pin is high
        self._gap: GapEvent | None = None  # right before the next sample

    def __enter__(self) -> Self:
        """Return the meter."""
        return self

    def __exit__(self, *error: object) -> None:
        """Stop and close the device."""
        self._is_closing = True
        if self._thread is not None:
            self._thread.join(_WAIT_S)
        with contextlib.suppress(Exception):  # it may be unplugged
            self._device.close()

    def begin(self) -> None:
        """Forget earlier windows; see `Meter`."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="ppk2", daemon=True)
            self._thread.start()
        self._wait_quiet()
        with self._changed:
            if self._open is not None:
                raise MeterError(
                    f"D{self._pin} of the PPK2 is high although the board measures nothing.",
                    hint="is it wired to the marker's pin, and its GND to the board's?",
                )
            self._found.clear()

    def windows(self, count: int) -> Sequence[MarkedWindow]:
        """Return the windows since `begin`; see `Meter`."""
        self._wait_quiet()
        self._wait(lambda: len(self._found) >= count and self._open is None)
        with self._changed:
            return tuple(self._found)

    def _wait_quiet(self) -> None:
        goal = self._end + _QUIET
        if not self._wait(lambda: self._end >= goal):
            raise MeterError(
                f"The PPK2 sent fewer than {_QUIET:,} samples in {_WAIT_S:g} s.",
                hint="unplug it and plug it in again",
            )

    def _wait(self, ready: Callable[[], bool]) -> bool:
        """Wait until it is so, or the thread has failed; False if it takes too long."""
        end_s = time.monotonic() + _WAIT_S
        with self._changed:
            while not ready():
                if self._error is not None:
                    with _told(None):
                        raise self._error
                if (left_s := end_s - time.monotonic()) <= 0:
                    return False
                self._changed.wait(left_s)
        return True

    def _run(self) -> None:
        """Take what the PPK2 sends, until the meter is closed."""
        try:
            with self._device.stream(idle_timeout_s=_WAIT_S) as events:
                self._follow(events)
        except Exception as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _follow(self, events: StreamIterator) -> None:
        for event in events:
            if self._is_closing:
                return
            with self._changed:
                if isinstance(event, SampleBlock):
                    self._take(event)
                elif self._open is not None:
                    self._open.add_gap(event)
                else:
                    self._gap = event
                self._changed.notify_all()

    def _take(self, block: SampleBlock) -> None:
        """Add a block's samples to the open window, and open and close windows at its edges."""
        high = (np.frombuffer(block.words, np.uint32) >> (LOGIC_SHIFT + self._pin)) & 1 != 0
        before = np.concatenate(([self._open is not None], high[:-1]))
        begin = 0
        for end in (*np.flatnonzero(high != before).tolist(), len(high)):
            if self._open is not None and end > begin:
                part = SampleBlock(block.start_index + begin, block.words[begin:end])
                self._open.add_block(part, self._currents_ua(part))
            if end < len(high):
                if self._open is not None:
                    self._found.append(self._window(self._open))
                    self._open = None
                else:
                    self._open = StatsAccumulator(block.start_index + end)
                    if end == 0 and self._gap is not None:  # the edge may be in it
                        self._open.add_gap(self._gap)
            begin = end
        self._gap, self._end = None, block.end_index

    def _currents_ua(self, block: SampleBlock) -> list[float]:
        calibration = self._device.calibration
        assert calibration is not None, "ppk2lab has read it"
        # In each mode, the correction is for the voltage that the PPK2 itself is set to.
        return calibration.convert_block(block, self._device.state.source_voltage_mv)

    def _window(self, found: StatsAccumulator) -> MarkedWindow:
        stats = found.finalize(voltage=self._voltage)
        seconds, doubt = stats.stored_samples * SAMPLE_PERIOD_S, _doubt(stats)
        energy_uj, error = stats.energy_uj, stats.uncertainty
        if doubt or energy_uj is None or error is None or error.energy_uj is None:
            return MarkedWindow(0.0, 0.0, seconds, doubt or "the meter has no calibration for it")
        # Both edges together are at most one sample off.
        volts = (self._voltage.voltage_mv or 0) / 1000
        edges_uj = max(abs(stats.max_ua or 0), abs(stats.min_ua or 0)) * volts * SAMPLE_PERIOD_S
        return MarkedWindow(energy_uj * 1e-6, (error.energy_uj + edges_uj) * 1e-6, seconds)


def _doubt(stats: WindowStats) -> str:
    """Return why the energy of a window is not known; "" if it is."""
    if stats.gap_count:
        return "samples of the meter are missing"
    if stats.saturated_samples or stats.implausible_samples:
        return "the current was above the meter's range"
    if stats.nan_samples or stats.invalid_range_samples:
        return "the meter has no calibration for it"
    if stats.stored_samples < _FEWEST:
        return f"it is shorter than {_FEWEST * SAMPLE_PERIOD_S * 1e6:.0f} us"
    return ""
