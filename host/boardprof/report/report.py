# SPDX-License-Identifier: Apache-2.0
"""The Report: rows of metrics, totals per device, configuration, and what lies beside.

The model is that of ``tvm.runtime.profiling.Report``. ``calls`` has one row a
sample, ``Count`` says how many calls the sample held, and every other value is
the net total of the sample, so that sums stay true. ``extra`` is ours: raw
samples, calibration, blobs, unsupported counters and diagnostics ride in it,
and it appears in the JSON beside the rest under the key ``boardprof``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from boardprof.errors import UsageError
from boardprof.metrics import Metric
from boardprof.report.calls import Calls, Row, checked_row, place_text

if TYPE_CHECKING:
    import pandas

__all__ = ["SCHEMA_VERSION", "Compat", "Report", "Row", "place_text"]

SCHEMA_VERSION: Final = 1
"""Version of the layout of ``extra`` that this package writes and reads."""

Compat: TypeAlias = Literal["tvm"] | None


@dataclass(frozen=True, init=False, repr=False)
class Report:
    """What was measured, ready to be shown, stored or compared.

    Two Reports are equal when their contents are, whatever the order of the
    keys; NaN equals NaN.

    Attributes:
        calls: one row a sample, each a dict from column name to metric; see `Calls`.
        device_metrics: totals of the whole run, keyed by device, e.g. "cpu0".
        configuration: facts about the run.
        extra: JSON-able dict with ``"schema_version": 1``, or None.
    """

    calls: Calls
    device_metrics: dict[str, Row]
    configuration: Row
    extra: dict[str, Any] | None

    def __init__(
        self,
        calls: Iterable[Mapping[str, Metric | int]],
        device_metrics: Mapping[str, Mapping[str, Metric | int]],
        configuration: Mapping[str, Metric | int],
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Copy and check the contents.

        Args:
            calls: rows; a plain int stands for a Count, a plain str for itself.
            device_metrics: rows keyed by device, values as in ``calls``.
            configuration: values as in ``calls``.
            extra: dict of str, int, finite float, bool, None, list and dict
                with str keys, containing ``"schema_version": 1``; tuples
                become lists.

        Raises:
            TypeError: a value is no metric (a bare float has no unit), a key is
                not a str, or ``extra`` holds what JSON cannot; the message
                begins with the place, e.g. ``calls[3]["cycles"]``.
            ValueError: ``extra`` lacks its schema version or holds a NaN.
        """
        set_field = object.__setattr__  # the class is frozen for everyone else
        set_field(self, "calls", calls if isinstance(calls, Calls) else Calls(calls))
        totals = {
            name: checked_row(row, "device_metrics", name) for name, row in device_metrics.items()
        }
        set_field(self, "device_metrics", totals)
        set_field(self, "configuration", checked_row(configuration, "configuration"))
        set_field(self, "extra", None if extra is None else _plain_json(extra))

    def __repr__(self) -> str:
        """Return one short line, however many rows there are."""
        devices = ", ".join(self.device_metrics) or "none"
        return f"<Report: {len(self.calls)} rows, devices: {devices}>"

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
            sort: largest ``Duration (us)`` first; without any, largest
                ``instructions`` or ``ticks`` first.
            aggregate: merge rows of equal name, argument shapes and device.
            col_sums: add a row with the sum of each column.
            compat: "tvm" gives the exact layout of TVM's table.
            separator: between thousands, e.g. "," or "".
            by_board: a row a function or a setting of compiler flags, a group of columns a board;
                each number is the median per call, and there are no sums.

        Raises:
            UnknownNameError: there is no such compat mode.
            UsageError: ``by_board`` of single samples, or in TVM's layout.
        """
        if by_board:
            if compat is not None or not aggregate:
                raise UsageError("A table by board is of all samples together, in our own layout.")
            from boardprof.render.boards_table import render_boards_table

            return render_boards_table(self, sort=sort, separator=separator)
        from boardprof.render.table import render_table

        return render_table(
            self,
            sort=sort,
            aggregate=aggregate,
            col_sums=col_sums,
            compat=compat,
            separator=separator,
        )

    def statistics(self) -> str:
        """Return what the samples are like, as a text table: a row a metric of a function.

        Values are per call: how many samples, smallest, median, mean, largest, standard deviation,
        coefficient of variation, percentiles; the cold value apart; outliers by their numbers in
        run order, from #0. `boardprof.stats` has them as numbers, and its warnings of them.
        """
        from boardprof.render.statistics_table import render_statistics

        return render_statistics(self)

    @property
    def has_several(self) -> bool:
        """Whether it compares: several boards, or several settings of compiler flags."""
        devices = set(self.calls.column("Device").filled(""))
        return len(devices) > 1 or "Flags" in self.calls.names

    def csv(self, *, compat: Compat = None) -> str:
        """Return ``calls`` as comma-separated values, floats exact to the last bit.

        Args:
            compat: "tvm" writes six digits and leaves quotes in strings as they
                are, as TVM does; the result may not be readable as CSV.

        Raises:
            UnknownNameError: there is no such compat mode.
        """
        from boardprof.render.csv import render_csv

        return render_csv(self, compat=compat)

    def json(self, *, compat: Compat = None) -> str:
        """Return the whole Report as one line of JSON; ``from_json`` gives it back.

        Args:
            compat: "tvm" writes what TVM's own ``from_json`` takes: ``calls``, ``device_metrics``
                and ``configuration``, without ``extra``; text as UTF-8.

        Raises:
            UnknownNameError: there is no such compat mode.
        """
        from boardprof.render.json import render_json

        return render_json(self, compat=compat)

    def to_pandas(self) -> pandas.DataFrame:
        """Return ``calls`` as a DataFrame, a column a metric; needs ``boardprof[pandas]``.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        from boardprof.render.frames import to_pandas

        return to_pandas(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> Report:
        """Read a Report that ``json()`` or TVM wrote.

        Raises:
            ReportFileError: the text is not a Report; says what is wrong where.
        """
        from boardprof.render.json import parse_json

        return parse_json(text)


def _plain_json(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return a deep copy of ``extra``, made by JSON itself, which keeps it fast."""
    version = extra.get("schema_version")
    if type(version) is not int or version != SCHEMA_VERSION:
        raise ValueError(f'extra must contain "schema_version": {SCHEMA_VERSION}, not {version!r}')
    try:
        copy: dict[str, Any] = json.loads(json.dumps(extra, allow_nan=False))
    except (TypeError, ValueError):
        _refuse_foreign(extra, "extra")
        raise
    if copy != extra:
        _refuse_foreign(extra, "extra")
    return copy


def _refuse_foreign(value: object, root: str, *keys: str | int) -> None:
    """Raise for the first value under ``value`` that JSON cannot carry."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{place_text(root, *keys)}: a key is a str, not {key!r:.60}")
            _refuse_foreign(item, root, *keys, key)
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            _refuse_foreign(item, root, *keys, i)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{place_text(root, *keys)}: JSON has no {value}; use None or a str")
    elif value is not None and not isinstance(value, str | int | float):
        raise TypeError(f"{place_text(root, *keys)}: JSON cannot hold {type(value).__name__}")
