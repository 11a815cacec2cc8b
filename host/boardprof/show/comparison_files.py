# SPDX-License-Identifier: Apache-2.0
"""A Comparison as files for other programs: JSON, JUnit XML, and the pages of a code review."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple
from xml.etree import ElementTree as xml

from boardprof.base.metrics import TAGS
from boardprof.base.printable import bounded
from boardprof.results.comparison.comparison import (
    Comparison,
    Difference,
    MetricRow,
    Unjudged,
    row_title,
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

_VERSION: Final = 1  # of the JSON's layout; it increases if an old reader would misread new files

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def comparison_json(comparison: Comparison) -> str:
    """Return ``comparison`` as one line of JSON."""
    content = {
        "kind": "boardprof.comparison",
        "schema_version": _VERSION,
        "regressed": comparison.regressed,
        "failed": comparison.failed,
        "alpha": comparison.alpha,
        "rules": [str(rule) for rule in comparison.rules],
        "before": {"name": comparison.before_name, **dict(comparison.before_facts)},
        "after": {"name": comparison.after_name, **dict(comparison.after_facts)},
        "notes": list(comparison.notes),
        "unjudged": [
            {"rule": each.by, "what": each.what, "why": each.why} for each in comparison.unjudged
        ],
        "above_limit": [each.text for each in comparison.over],
        "outputs": [
            {
                "name": each.name,
                "output": each.metric.removeprefix("output "),
                "what": what_of(each),
                "text": each.text,
            }
            for each in comparison.outputs
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


# -- JUnit -------------------------------------------------------------------------------------


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
        failures=str(sum(case.find("failure") is not None for case in cases)),
        errors="0",
        skipped=str(sum(case.find("skipped") is not None for case in cases)),
    )
    properties = xml.SubElement(suite, "properties")
    facts = [
        ("before", comparison.before_name),
        ("after", comparison.after_name),
        ("alpha", f"{comparison.alpha:g}"),
        *(("rule", str(rule)) for rule in comparison.rules),
        *((f"before {name}", value) for name, value in comparison.before_facts),
        *((f"after {name}", value) for name, value in comparison.after_facts),
    ]
    for name, value in facts:
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
    """Yield a test case for each changed output, limit, row, and metric not compared."""
    unjudged = unjudged_at(comparison)
    for output in comparison.outputs:
        case = _case(comparison, output)
        message = _clean(f"{output.what}: {output.text}")
        xml.SubElement(case, "failure", type="output changed", message=message)
        yield case
    for limit in comparison.over:
        case = _case(comparison, limit)
        xml.SubElement(case, "failure", type="above its limit", message=_clean(limit.text))
        yield case
    for row in comparison.rows:
        case = _case(comparison, row)
        missing = unjudged.pop(row.place, [])
        if row.broken:
            _regression(case, row)
        elif missing:
            _not_judged(case, missing, comparison.fails_if_missing)
        elif row.before is None or row.after is None:
            why = f"{row.verdict}: there is nothing to compare it with"
            xml.SubElement(case, "skipped", message=why)
        yield case
    for missing in unjudged.values():
        case = _case(comparison, missing[0])
        _not_judged(case, missing, comparison.fails_if_missing)
        yield case


def _case(comparison: Comparison, row: MetricRow) -> xml.Element:
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
    numbers = _numbers(row, f"{row.before.n} and {row.after.n} samples")
    message = f"{row.what}: {numbers}, limit {_broken(row)}"
    failure = xml.SubElement(case, "failure", type="regression", message=_clean(message))
    failure.text = "\n".join(map(_clean, [what_of(row), numbers, f"broken: {_broken(row)}"]))


def _numbers(row: Difference, *more: str) -> str:
    """Return both medians, and in brackets what is known of the change."""
    known = ", ".join([change_text(row), certainty(row), *more])
    medians = (median_text(side, row.kind) for side in (row.before, row.after))
    return f"{' -> '.join(medians)} ({known})"


def _broken(row: Difference) -> str:
    return ", ".join(f"{rule}{judged_text(row, rule)}" for rule in row.broken)


def _not_judged(case: xml.Element, missing: Sequence[Unjudged], is_failure: bool) -> None:
    texts = [f"not judged by {each.by}: {each.why}" for each in missing]
    message = _clean("; ".join(texts))
    if is_failure:
        failure = xml.SubElement(case, "failure", type="not judged", message=message)
        failure.text = "\n".join(map(_clean, texts))
    else:
        xml.SubElement(case, "skipped", message=message)


def _clean(text: str) -> str:
    """Return text without characters that XML cannot hold or that change the direction of text."""
    return _NOT_XML.sub("?", bounded(text))


# -- code reviews ------------------------------------------------------------------------------


class _Finding(NamedTuple):
    """Something that a reviewer must see: a changed output, a limit, a broken rule, a gap."""

    row: MetricRow
    title: str
    text: str
    level: str = "error"


def _findings(comparison: Comparison) -> Iterator[_Finding]:
    of_gaps = "error" if comparison.fails_if_missing else "warning"
    for output in comparison.outputs:
        text = f"{what_of(output)}: {output.text}"
        yield _Finding(output, f"Output changed: {output.what}", text)
    for limit in comparison.over:
        yield _Finding(limit, f"Above its limit: {limit.title}", limit.text)
    for row in comparison.regressions:
        text = f"{what_of(row)} {_numbers(row)}, limit {_broken(row)}"
        yield _Finding(row, f"Regression: {row.what}", text)
    for missing in unjudged_at(comparison).values():
        gap = missing[0]
        text = "; ".join(f"not checked against {each.by}: {each.why}" for each in missing)
        named = f"{row_title(gap)}: {text}" if gap.name else text
        yield _Finding(gap, f"Not checked: {gap.what}", named, of_gaps)


def render_github(comparison: Comparison) -> str:
    """Return workflow commands of GitHub Actions, which it reads from a job's output."""
    lines = []
    for each in _findings(comparison):
        place = comparison.sources.get(each.row.name)
        where = {"file": place.file, "line": f"{place.line}"} if place else {}
        lines.append(_command(each.level, {**where, "title": each.title}, each.text))
    lines.append(_command("notice", {"title": "boardprof"}, headline(comparison)))
    return "".join(f"{line}\n" for line in lines)


_IN_MESSAGES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_IN_PROPERTIES = {**_IN_MESSAGES, **str.maketrans({":": "%3A", ",": "%2C"})}


def _command(level: str, properties: dict[str, str], message: str) -> str:
    named = ",".join(f"{key}={_masked(text, _IN_PROPERTIES)}" for key, text in properties.items())
    return f"::{level} {named}::{_masked(message, _IN_MESSAGES)}"


def _masked(text: str, special: dict[int, str]) -> str:
    return bounded(text).translate(special)


def render_editor(comparison: Comparison) -> str:
    """Return a line for each finding as GCC writes its errors: editors lead from it to the code."""
    lines = []
    for each in _findings(comparison):
        place = comparison.sources.get(each.row.name)
        where = f"{bounded(place.file)}:{place.line}" if place else "boardprof"
        lines.append(f"{where}: {each.level}: {bounded(each.text)}")
    return "".join(f"{line}\n" for line in [*lines, headline(comparison)])


def render_gitlab(comparison: Comparison) -> str:
    """Return a code quality report of GitLab: ``artifacts:reports:codequality``."""
    # If the file of a function is not known, its name stands in for it, because GitLab requires a
    # path.
    issues = [_issue(comparison, each) for each in _findings(comparison)]
    return json.dumps(issues, indent=2) + "\n"


def _issue(comparison: Comparison, found: _Finding) -> dict[str, Any]:
    row = found.row
    place = comparison.sources.get(row.name)
    key = "\0".join([found.title.partition(":")[0], *row.place])
    return {
        "type": "issue",
        "categories": ["Performance"],
        "check_name": bounded(f"boardprof: {row.metric}"),
        "description": bounded(found.text),
        # The same finding in the next pipeline, even if the line or the numbers differ.
        "fingerprint": hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest(),
        "severity": "major" if found.level == "error" else "minor",
        "location": {
            "path": place.file if place else bounded(row.name or row.metric),
            "lines": {"begin": place.line if place else 1},
        },
    }
