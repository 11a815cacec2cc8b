# SPDX-License-Identifier: Apache-2.0
r"""A Report as the JSON that TVM's own ``Report.from_json`` takes: its three keys, and no others.

TVM reads text as UTF-8 and knows five escapes, none of them by number, so that names stand as they
are. What could only be escaped by number, control characters and what is no Unicode, is spelled
out: ``\x1b`` is a backslash and three letters then.
"""

from __future__ import annotations

import json
import re
from typing import Final

from boardprof.metrics import MetricJson, metric_to_json
from boardprof.report.calls import Row
from boardprof.report.report import Report

_BY_NUMBER: Final = r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]"


def tvm_json(report: Report) -> str:
    """Return calls, device metrics and configuration as one line of JSON; ``extra`` is left out."""
    content = {
        "calls": list(map(_row, report.calls)),
        "device_metrics": {_text(name): _row(row) for name, row in report.device_metrics.items()},
        "configuration": _row(report.configuration),
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _row(row: Row) -> dict[str, MetricJson]:
    return {_text(name): _spelled_out(metric_to_json(metric)) for name, metric in row.items()}


def _spelled_out(metric: MetricJson) -> MetricJson:
    return {tag: _text(raw) if isinstance(raw, str) else raw for tag, raw in metric.items()}


def _text(text: str) -> str:
    return re.sub(_BY_NUMBER, lambda found: ascii(found[0])[1:-1], text)
