# SPDX-License-Identifier: Apache-2.0
"""A Comparison for the pages of a code review: annotations of GitHub, code quality of GitLab.

Both show a broken rule at the line where the function is defined, if the Report knows it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from boardprof.base.printable import bounded
from boardprof.results.comparison.comparison import Comparison, Difference, Gap, place_of
from boardprof.show.comparison_table import (
    certainty,
    change_text,
    headline,
    judged_text,
    median_text,
    row_title,
    unjudged_at,
)


@dataclass(frozen=True)
class _Finding:
    """A row that broke a rule, or that a rule could not judge."""

    row: Difference | Gap
    title: str
    text: str
    is_failure: bool


def _findings(comparison: Comparison) -> Iterator[_Finding]:
    for row in comparison.regressions:
        yield _Finding(row, f"Regression: {row.what}", _regression(row), True)
    for missing in unjudged_at(comparison).values():
        gap = missing[0].gap
        text = "; ".join(f"not checked against {each.rule}: {each.why}" for each in missing)
        named = f"{row_title(gap)}: {text}" if gap.name else text
        yield _Finding(gap, f"Not checked: {gap.what}", named, comparison.fails_if_missing)


def _regression(row: Difference) -> str:
    assert row.before is not None
    assert row.after is not None
    rules = ", ".join(f"{rule}{judged_text(row, rule)}" for rule in row.broken)
    return (
        f"{row_title(row)}: {row.metric} {median_text(row.before, row.kind)} -> "
        f"{median_text(row.after, row.kind)} ({change_text(row)}, {certainty(row)}), limit {rules}"
    )


# -- GitHub -------------------------------------------------------------------------------------


def render_github(comparison: Comparison) -> str:
    """Return workflow commands of GitHub Actions, which it reads from a job's output.

    A broken rule is an error at the function's line, and the result is a notice. What a rule could
    not judge is a warning, or an error with `Comparison.fails_if_missing`.
    """
    lines = []
    for each in _findings(comparison):
        level = "error" if each.is_failure else "warning"
        place = comparison.sources.get(each.row.name)
        where = {"file": place.file, "line": f"{place.line}"} if place else {}
        lines.append(_command(level, {**where, "title": each.title}, each.text))
    lines.append(_command("notice", {"title": "boardprof"}, headline(comparison)))
    return "".join(f"{line}\n" for line in lines)


_IN_MESSAGES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_IN_PROPERTIES = {**_IN_MESSAGES, **str.maketrans({":": "%3A", ",": "%2C"})}


def _command(level: str, properties: dict[str, str], message: str) -> str:
    named = ",".join(f"{key}={_masked(text, _IN_PROPERTIES)}" for key, text in properties.items())
    return f"::{level} {named}::{_masked(message, _IN_MESSAGES)}"


def _masked(text: str, special: dict[int, str]) -> str:
    return bounded(text).translate(special)


# -- GitLab -------------------------------------------------------------------------------------


def render_gitlab(comparison: Comparison) -> str:
    """Return a code quality report of GitLab: ``artifacts:reports:codequality``.

    A broken rule is a major issue, and so is a row that a rule could not judge with
    `Comparison.fails_if_missing`; otherwise that is a minor one. If the file of a function is not
    known, its name stands in for it, because GitLab requires a path.
    """
    issues = [_issue(comparison, each) for each in _findings(comparison)]
    return json.dumps(issues, indent=2) + "\n"


def _issue(comparison: Comparison, found: _Finding) -> dict[str, Any]:
    row = found.row
    place = comparison.sources.get(row.name)
    key = "\0".join([found.title.partition(":")[0], *place_of(row)])
    return {
        "type": "issue",
        "categories": ["Performance"],
        "check_name": bounded(f"boardprof: {row.metric}"),
        "description": bounded(found.text),
        # The same finding in the next pipeline, even if the line or the numbers differ.
        "fingerprint": hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest(),
        "severity": "major" if found.is_failure else "minor",
        "location": {
            "path": place.file if place else bounded(row.name or row.metric),
            "lines": {"begin": place.line if place else 1},
        },
    }
