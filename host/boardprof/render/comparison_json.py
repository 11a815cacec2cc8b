# SPDX-License-Identifier: Apache-2.0
"""A Comparison as one line of JSON, with a version of its own."""

from __future__ import annotations

import json
from typing import Any, Final

from boardprof.comparison.comparison import Comparison, Difference
from boardprof.metrics import TAGS
from boardprof.stats.summary import Summary

COMPARISON_VERSION: Final = 1
"""Version of the layout; it grows if an old reader would misread new files."""


def comparison_json(comparison: Comparison) -> str:
    """Return ``comparison`` as one line of JSON."""
    content = {
        "kind": "boardprof.comparison",
        "schema_version": COMPARISON_VERSION,
        "regressed": comparison.regressed,
        "failed": comparison.failed,
        "alpha": comparison.alpha,
        "rules": [str(rule) for rule in comparison.rules],
        "before": {"name": comparison.before_name, **dict(comparison.before_facts)},
        "after": {"name": comparison.after_name, **dict(comparison.after_facts)},
        "notes": list(comparison.notes),
        "unjudged": [
            {"rule": str(each.rule), "what": each.what, "why": each.why}
            for each in comparison.unjudged
        ],
        "rows": [_row(row) for row in comparison.rows],
    }
    return json.dumps(content, allow_nan=False)


def _row(row: Difference) -> dict[str, Any]:
    return {
        "name": row.name,
        "label": row.label,
        "shapes": row.shapes,
        "device": row.device,
        "flags": row.flags,
        "metric": row.metric,
        "unit": TAGS[row.kind],
        "before": _summary(row.before),
        "after": _summary(row.after),
        "change": row.change,
        "p": row.p,
        "exact": row.is_exact,
        "verdict": row.verdict,
        "broken": [str(rule) for rule in row.broken],
    }


def _summary(summary: Summary | None) -> dict[str, Any] | None:
    if summary is None:
        return None
    return {
        "n": summary.n,
        "min": summary.minimum,
        "median": summary.median,
        "mean": summary.mean,
        "max": summary.maximum,
        "stddev": summary.stddev,
        "cv": summary.cv,
        **{f"p{share}": value for share, value in summary.percentiles.items()},
        "outliers": list(summary.outliers),
        "cold": summary.first,
    }
