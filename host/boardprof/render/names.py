# SPDX-License-Identifier: Apache-2.0
"""What names a row of a Report, as text."""

from __future__ import annotations

from typing import Final

from boardprof.metrics import Metric, raw_of

__all__ = ["KEY_COLUMNS", "text_of"]

KEY_COLUMNS: Final = ("Name", "Argument Shapes", "Flags", "Device")
"""The columns that tell the samples of one thing from those of another."""


def text_of(metric: Metric) -> str:
    """Return a text as it is, and a number as text: a name ought to be one, and may not be."""
    return str(raw_of(metric))
