# SPDX-License-Identifier: Apache-2.0
"""The energy of a measurement's samples: a meter is opened, and its windows are matched to samples.

They are matched by their order, within one request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from boardprof.base.errors import BoardprofError, MeterError, UsageError
from boardprof.base.packages import named_function
from boardprof.measure.meter import MarkedWindow, Meter
from boardprof.results.record import Energy
from boardprof.results.report.measurement import window_s
from boardprof.wire.decode.samples import Sample

__all__ = ["energy_of", "matched", "open_meter"]

_TIMEOUT_S = 10.0  # longest time until a meter is open

_LONGEST_SHARE, _LONGEST_S = 0.1, 50e-6
"""Largest difference between a window's length by the meter and by the board's clock.

An RC oscillator may be a few percent off.
"""


def open_meter(text: str) -> Meter:
    """Open a power analyser.

    Args:
        text: ``ppk2``, ``ppk2:PORT``, both with ``?mv=3300&pin=2``; or the name of an entry point
            in the group ``boardprof.meters``, which gets the whole text and a timeout in seconds.

    Raises:
        UsageError: no such meter, or an unknown setting.
        MissingExtraError: the meter's Python package is not installed.
        MeterError: it is not there, another program uses it, or it cannot measure energy.
    """
    name = text.partition("?")[0].partition(":")[0]
    if name == "ppk2":
        from boardprof.measure.ppk2 import open_ppk2  # later: few runs measure energy

        return open_ppk2(text, _TIMEOUT_S)
    found = named_function("meters", name, f"The meter {name}")
    if found is None:
        raise UsageError(
            f"{name!r} is not a meter.",
            hint="ppk2, or a meter of an installed package (entry points boardprof.meters)",
        )
    try:
        meter = found.function(text, _TIMEOUT_S)
        if not isinstance(meter, Meter):
            raise TypeError(f"{meter!r:.60} is not a Meter")
    except BoardprofError:
        raise
    except Exception as error:  # whatever another package raises
        raise MeterError(f"No meter at {text}: {found.place} says {error!r}.") from error
    return meter


def matched(
    meter: Meter, samples: Sequence[Sample], *, is_real_time: bool
) -> tuple[MarkedWindow, ...]:
    """Return the window of each sample of one request; all are in doubt if some are missing.

    Raises:
        MeterError: the meter saw none of them, so it would see none of the next ones.
    """
    found = meter.windows(len(samples))
    if samples and not found:
        raise MeterError(
            f"{meter.name} saw no measured window: its marker pin stayed low.",
            hint="check the pin's wire, that the agent has BP_CFG_MARKER=1, and that windows take "
            "longer than the meter's samples: --number 1000",
        )
    if len(found) != len(samples):
        why = (
            f"the meter saw {len(found):,} windows of {len(samples):,}: the pin's wire is loose, "
            "the agent has no marker, or windows are too short"
        )
        return (MarkedWindow(0.0, 0.0, 0.0, why),) * len(samples)
    return tuple(
        _checked(window, window_s(sample.readings) if is_real_time else None)
        for window, sample in zip(found, samples, strict=True)
    )


def _checked(window: MarkedWindow, seconds: float | None) -> MarkedWindow:
    """Compare a window's length with the board's clock, if that is known."""
    if window.doubt or seconds is None:
        return window
    if abs(window.seconds - seconds) <= _LONGEST_SHARE * seconds + _LONGEST_S:
        return window
    return replace(window, doubt="its length differs from that by the board's clock")


def energy_of(meter: Meter, windows: Sequence[MarkedWindow]) -> Energy:
    """Return what a Report keeps of the windows of a measurement's samples."""
    return Energy(
        meter.name,
        tuple(None if each.doubt else each.joules * 1e9 for each in windows),
        tuple(None if each.doubt else each.error_joules * 1e9 for each in windows),
        dict(Counter(each.doubt for each in windows if each.doubt)),
    )
