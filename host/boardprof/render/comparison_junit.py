# SPDX-License-Identifier: Apache-2.0
"""A Comparison as JUnit XML: a test case a metric, failed where a rule is broken."""

from __future__ import annotations

import re
from xml.etree import ElementTree as xml

from boardprof.comparison.comparison import Comparison, Difference
from boardprof.render.cells import escaped
from boardprof.render.comparison_cells import (
    certainty,
    change_text,
    headline,
    median_text,
    what_of,
)

__all__ = ["comparison_junit"]

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def comparison_junit(comparison: Comparison) -> str:
    """Return ``comparison`` as JUnit XML; what only one side has is skipped."""
    rows = comparison.rows
    missing = [row for row in rows if row.verdict in ("added", "removed")]
    suite = xml.Element(
        "testsuite",
        name="boardprof compare",
        tests=str(len(rows)),
        failures=str(len(comparison.regressions)),
        errors="0",
        skipped=str(len(missing)),
    )
    properties = xml.SubElement(suite, "properties")
    for name, value in _properties(comparison):
        xml.SubElement(properties, "property", name=_clean(name), value=_clean(value))
    for row in rows:
        suite.append(_case(row))
    lines = map(_clean, [headline(comparison), *comparison.notes])
    xml.SubElement(suite, "system-out").text = "\n".join(lines)
    root = xml.Element("testsuites")
    root.append(suite)
    xml.indent(root)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n' + xml.tostring(root, encoding="unicode") + "\n"
    )


def _case(row: Difference) -> xml.Element:
    case = xml.Element(
        "testcase",
        classname=_clean(f"boardprof.{row.device}" if row.device else "boardprof"),
        name=_clean(what_of(row)),
        time="0",
    )
    if row.before is None or row.after is None:
        xml.SubElement(
            case, "skipped", message=f"{row.verdict}: there is nothing to compare it with"
        )
    elif row.broken:
        numbers = (
            f"{median_text(row.before, row.kind)} -> {median_text(row.after, row.kind)} "
            f"({change_text(row)}, {certainty(row)}, {row.before.n} and {row.after.n} samples)"
        )
        rules = ", ".join(map(str, row.broken))
        message = f"{row.metric} of {row.name}: {numbers}, limit {rules}"
        failure = xml.SubElement(case, "failure", type="regression", message=_clean(message))
        failure.text = "\n".join(map(_clean, [what_of(row), numbers, f"broken: {rules}"]))
    return case


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
    """Return text that XML can carry, and that shows no other way round than it is written."""
    return _NOT_XML.sub("?", escaped(text))
