# SPDX-License-Identifier: Apache-2.0
"""Times as texts, under torch's names."""

from __future__ import annotations

from typing import Protocol

UNKNOWN = "--"
"""Text of an unknown time, which is never 0."""

UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0}
"""In us."""


def time_text(us: float | None, unit: str | None = None) -> str:
    """Return a time with three decimals, in a suitable unit or in the given one."""
    if us is None:
        return UNKNOWN
    if unit is None:
        unit = "s" if us >= 1e6 else "ms" if us >= 1e3 else "us"
    return f"{us / UNITS[unit]:.3f}{unit}"


class _Times(Protocol):
    @property
    def cpu_time(self) -> float: ...
    @property
    def cpu_time_total(self) -> float: ...
    @property
    def self_cpu_time_total(self) -> float: ...
    @property
    def device_time(self) -> float | None: ...
    @property
    def device_time_total(self) -> float | None: ...
    @property
    def self_device_time_total(self) -> float | None: ...


class TimeTexts:
    """Mixin for times as texts; ``--`` if not known."""

    @property
    def cpu_time_str(self: _Times) -> str:
        """See `cpu_time`."""
        return time_text(self.cpu_time)

    @property
    def cpu_time_total_str(self: _Times) -> str:
        """See `cpu_time_total`."""
        return time_text(self.cpu_time_total)

    @property
    def self_cpu_time_total_str(self: _Times) -> str:
        """See `self_cpu_time_total`."""
        return time_text(self.self_cpu_time_total)

    @property
    def device_time_str(self: _Times) -> str:
        """See `device_time`."""
        return time_text(self.device_time)

    @property
    def device_time_total_str(self: _Times) -> str:
        """See `device_time_total`."""
        return time_text(self.device_time_total)

    @property
    def self_device_time_total_str(self: _Times) -> str:
        """See `self_device_time_total`."""
        return time_text(self.self_device_time_total)
