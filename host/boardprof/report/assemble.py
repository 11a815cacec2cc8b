# SPDX-License-Identifier: Apache-2.0
"""Measurements to a Report: rows, totals, configuration, and the raw data beside them."""

from __future__ import annotations

from collections.abc import Sequence

from boardprof.report.configuration import configuration_of
from boardprof.report.measurement import Measurement
from boardprof.report.raw_data import raw_data_of
from boardprof.report.report import Report
from boardprof.report.rows import rows_of
from boardprof.report.totals import totals_of

__all__ = ["assemble"]


def assemble(
    measurements: Sequence[Measurement], *, swept: bool = False, missing: Sequence[str] = ()
) -> Report:
    """Build the Report of measurements on one board or several.

    Args:
        measurements: at least one.
        swept: rows name their compiler flags, as they do by themselves where these differ.
        missing: what was to be measured and could not be, e.g. ``iir on m4: it ran too long``.
    """
    totals = totals_of(measurements)
    swept = swept or len({m.flags for m in measurements if m.flags is not None}) > 1
    rows = (row for m in measurements for row in rows_of(m, totals.get(m.device.name, {}), swept))
    configuration = configuration_of(measurements)
    if missing:
        configuration["Missing"] = "; ".join(missing)
    raw_data = {**raw_data_of(measurements), "missing": list(missing)}
    return Report(rows, totals, configuration, raw_data)
