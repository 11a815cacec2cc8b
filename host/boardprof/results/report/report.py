# SPDX-License-Identifier: Apache-2.0
"""The Report: rows of metrics, totals per device, configuration, and the record of the board.

The model is that of ``tvm.runtime.profiling.Report``. ``calls`` has one row for each sample.
``Count`` is the number of calls in the sample, and every other value is the sample's net total, so
that sums are correct. ``record`` is ours: what the board sent, and how it was measured. In the JSON
it is under the key ``boardprof``.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from boardprof.base.errors import ReportFileError
from boardprof.base.metrics import Metric
from boardprof.results.record import Record
from boardprof.results.record_json import SCHEMA_VERSION, read_record, record_text
from boardprof.results.report.calls import Calls, checked_row
from boardprof.results.report_json import Compat, Contents, parse_json, render_json

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, init=False, repr=False)
class Report(Contents):
    """Measured data, ready to be shown, stored or compared.

    Two Reports are equal if their contents are, in any order of keys; NaN equals NaN.

    Attributes:
        calls: one row for each sample, a dict from column name to metric; see `Calls`.
        device_metrics: totals of the whole run, keyed by device, e.g. "cpu0".
        configuration: facts about the run.
        record: what the board sent, and how it was measured; None if boardprof did not measure it.
    """

    def __init__(
        self,
        calls: Iterable[Mapping[str, Metric | int]],
        device_metrics: Mapping[str, Mapping[str, Metric | int]],
        configuration: Mapping[str, Metric | int],
        extra: Mapping[str, Any] | None = None,
        *,
        record: Record | None = None,
    ) -> None:
        """Copy and check the contents.

        Args:
            calls: rows; a plain int stands for a Count, a plain str for itself.
            device_metrics: rows keyed by device, values as in ``calls``.
            configuration: values as in ``calls``.
            extra: the record as JSON has it, with ``"schema_version": 1``; tuples become lists.
            record: the record itself.

        Raises:
            TypeError: a value is not a metric (a bare float has no unit), a key is not a str, or
                ``extra`` holds a type that JSON does not have, or that a record does not have in
                its place; the message has the place, e.g. ``calls[3]["cycles"]``.
            ValueError: ``extra`` lacks its schema version or holds a NaN.
        """
        super().__init__(
            calls if isinstance(calls, Calls) else Calls(calls),
            {
                name: checked_row(row, "device_metrics", name)
                for name, row in device_metrics.items()
            },
            checked_row(configuration, "configuration"),
            record if extra is None else _record(extra),
        )

    @property
    def extra(self) -> dict[str, Any] | None:
        """The record as JSON has it under ``boardprof``, made anew each time; None if absent."""
        if self.record is None:
            return None
        found: dict[str, Any] = json.loads(record_text(self.record))
        return found

    def __repr__(self) -> str:
        """Return one short line, however many rows there are."""
        devices = ", ".join(self.device_metrics) or "none"
        return f"<Report: {len(self.calls)} rows, devices: {devices}>"

    def _repr_html_(self) -> str:
        """Return the default table, for notebooks."""
        return f"<pre>{html.escape(self.table())}</pre>"

    def __str__(self) -> str:
        """Return the default table."""
        return self.table()

    def table(
        self,
        sort: bool = True,
        aggregate: bool = True,
        col_sums: bool = True,
        *,
        compat: Compat = None,
        separator: str = ",",
        by_board: bool = False,
    ) -> str:
        """Return the Report as a text table.

        Args:
            sort: largest ``Duration (us)`` first; if absent, largest ``instructions`` or ``ticks``.
            aggregate: merge rows of equal name, argument shapes and device.
            col_sums: add a row with the sum of each column.
            compat: "tvm" gives the exact layout of TVM's table.
            separator: between thousands, e.g. "," or "".
            by_board: a row for each function or setting of compiler flags, and a group of columns
                for each board. Each number is the median per call, and there are no sums.

        Raises:
            UnknownNameError: there is no such compat mode.
            UsageError: ``by_board`` of single samples, or in TVM's layout.
        """
        from boardprof import render_table

        return render_table(
            self,
            sort=sort,
            aggregate=aggregate,
            col_sums=col_sums,
            compat=compat,
            separator=separator,
            by_board=by_board,
        )

    def statistics(self) -> str:
        """Return statistics of the samples as a text table, a row for each metric of a function.

        Values are per call: how many samples, smallest, median, mean, largest, standard deviation,
        coefficient of variation, percentiles, the separate cold value, and outliers by their
        numbers in run order, from #0. `boardprof.stats` has these as numbers, and warnings about
        them.
        """
        from boardprof import render_statistics

        return render_statistics(self)

    @property
    def has_several(self) -> bool:
        """Whether it has several boards, or several settings of compiler flags."""
        devices = set(self.calls.column("Device").filled(""))
        return len(devices) > 1 or "Flags" in self.calls.names

    def csv(self, *, compat: Compat = None) -> str:
        """Return ``calls`` as comma-separated values, floats exact to the last bit.

        Args:
            compat: "tvm" writes six digits and leaves quotes in strings unchanged, like TVM; the
                result may not be readable as CSV.

        Raises:
            UnknownNameError: there is no such compat mode.
        """
        from boardprof import render_csv

        return render_csv(self, compat=compat)

    def json(self, *, compat: Compat = None) -> str:
        """Return the whole Report as one line of JSON; ``from_json`` gives it back.

        Args:
            compat: "tvm" writes what TVM's own ``from_json`` takes: ``calls``, ``device_metrics``
                and ``configuration``, without the record; text as UTF-8.

        Raises:
            UnknownNameError: there is no such compat mode.
        """
        return render_json(self, compat=compat)

    def to_pandas(self) -> pandas.DataFrame:
        """Return ``calls`` as a DataFrame, a column per metric; needs ``boardprof[pandas]``.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        from boardprof import to_pandas

        return to_pandas(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> Report:
        """Read a Report that ``json()`` or TVM wrote.

        Raises:
            ReportFileError: the text is not a Report; the message gives the place.
        """
        found = parse_json(text)
        return cls(found.calls, found.device_metrics, found.configuration, record=found.record)


def _record(extra: Mapping[str, Any]) -> Record:
    version = extra.get("schema_version")
    if type(version) is not int or version != SCHEMA_VERSION:
        raise ValueError(f'extra must contain "schema_version": {SCHEMA_VERSION}, not {version!r}')
    try:
        return read_record(json.loads(json.dumps(extra, allow_nan=False)))
    except ReportFileError as error:
        raise TypeError(error.message.replace("boardprof", "extra", 1)) from error
