# SPDX-License-Identifier: Apache-2.0
"""A Comparison as files for other programs: JSON with its own version, and JUnit XML.

In JUnit XML each metric is a test case, which has failed if a rule is broken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final
from xml.etree import ElementTree as xml

from boardprof.base.metrics import TAGS
from boardprof.base.printable import bounded
from boardprof.results.comparison.comparison import (
    Comparison,
    Difference,
    Gap,
    Unjudged,
    place_of,
)
from boardprof.results.stats.summary import Summary
from boardprof.show.comparison_table import (
    certainty,
    change_text,
    headline,
    judged_text,
    median_text,
    unjudged_at,
    unjudged_lines,
    what_of,
)

COMPARISON_VERSION: Final = 1
"""Version of the JSON's layout; it increases if an old reader would misread new files."""

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
        "rows": [_row_json(row) for row in comparison.rows],
    }
    return json.dumps(content, allow_nan=False)


def _row_json(row: Difference) -> dict[str, Any]:
    return {
        "name": row.name,
        "label": row.label,
        "shapes": row.shapes,
        "device": row.device,
        "flags": row.flags,
        "metric": row.metric,
        "unit": TAGS[row.kind],
        "before": _summary_json(row.before),
        "after": _summary_json(row.after),
        "change": row.change,
        "p": row.p,
        "exact": row.is_exact,
        "verdict": row.verdict,
        "broken": [str(rule) for rule in row.broken],
    }


def _summary_json(summary: Summary | None) -> dict[str, Any] | None:
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


def comparison_junit(comparison: Comparison) -> str:
    """Return ``comparison`` as JUnit XML.

    Rows that only one side has, and rows that a rule could not judge, are skipped. The latter are
    failures if `Comparison.fails_if_missing` is set.
    """
    cases = [*_cases(comparison)]
    suite = xml.Element(
        "testsuite",
        name="boardprof compare",
        tests=str(len(cases)),
        failures=_count(cases, "failure"),
        errors="0",
        skipped=_count(cases, "skipped"),
    )
    properties = xml.SubElement(suite, "properties")
    for name, value in _properties(comparison):
        xml.SubElement(properties, "property", name=_clean(name), value=_clean(value))
    suite.extend(cases)
    lines = map(_clean, [headline(comparison), *unjudged_lines(comparison), *comparison.notes])
    xml.SubElement(suite, "system-out").text = "\n".join(lines)
    root = xml.Element("testsuites")
    root.append(suite)
    xml.indent(root)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n' + xml.tostring(root, encoding="unicode") + "\n"
    )


def _cases(comparison: Comparison) -> Iterator[xml.Element]:
    """Yield a test case for each row, then one for each metric that was not compared."""
    unjudged = unjudged_at(comparison)
    for row in comparison.rows:
        case = _case(comparison, row)
        missing = unjudged.pop(place_of(row), [])
        if row.broken:
            _regression(case, row)
        elif missing:
            _not_judged(case, missing, comparison.fails_if_missing)
        elif row.before is None or row.after is None:
            why = f"{row.verdict}: there is nothing to compare it with"
            xml.SubElement(case, "skipped", message=why)
        yield case
    for missing in unjudged.values():
        case = _case(comparison, missing[0].gap)
        _not_judged(case, missing, comparison.fails_if_missing)
        yield case


def _case(comparison: Comparison, row: Difference | Gap) -> xml.Element:
    place = comparison.sources.get(row.name)
    where = {"file": _clean(place.file), "line": str(place.line)} if place else {}
    return xml.Element(
        "testcase",
        where,
        classname=_clean(f"boardprof.{row.device}" if row.device else "boardprof"),
        name=_clean(what_of(row) if row.name else row.metric),
        time="0",
    )


def _regression(case: xml.Element, row: Difference) -> None:
    assert row.before is not None
    assert row.after is not None
    numbers = (
        f"{median_text(row.before, row.kind)} -> {median_text(row.after, row.kind)} "
        f"({change_text(row)}, {certainty(row)}, {row.before.n} and {row.after.n} samples)"
    )
    rules = ", ".join(f"{rule}{judged_text(row, rule)}" for rule in row.broken)
    message = f"{row.what}: {numbers}, limit {rules}"
    failure = xml.SubElement(case, "failure", type="regression", message=_clean(message))
    failure.text = "\n".join(map(_clean, [what_of(row), numbers, f"broken: {rules}"]))


def _not_judged(case: xml.Element, missing: Sequence[Unjudged], is_failure: bool) -> None:
    texts = [f"not judged by {each.rule}: {each.why}" for each in missing]
    message = _clean("; ".join(texts))
    if is_failure:
        failure = xml.SubElement(case, "failure", type="not judged", message=message)
        failure.text = "\n".join(map(_clean, texts))
    else:
        xml.SubElement(case, "skipped", message=message)


def _count(cases: Iterable[xml.Element], outcome: str) -> str:
    return str(sum(case.find(outcome) is not None for case in cases))


def _properties(comparison: Comparison) -> list[tuple[str, str]]:
    return [
        ("before", comparison.before_name),
        ("after", comparison.after_name),
        ("alpha", f"{comparison.alpha:g}"),
        *(("rule", str(rule)) for rule in comparison.rules),
        *((f"before {name}", value) for name, value in comparison.before_facts),
        *((f"after {name}", value) for name, value in comparison.after_facts),
    ]


def _clean(text: str) -> str:
    """Return text without characters that XML cannot hold or that change the direction of text."""
    return _NOT_XML.sub("?", bounded(text))
