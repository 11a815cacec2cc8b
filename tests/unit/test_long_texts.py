# SPDX-License-Identifier: Apache-2.0
"""A text without an end does not make every row of a table, and each character of it, cost more."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Callable

import pytest

from boardprof.base.metrics import Count, Metric
from boardprof.base.printable import bounded, escaped
from boardprof.results.comparison.compare import compare
from boardprof.results.report.report import Report
from boardprof.show.exporters import find_exporter

LONG = "x" * 3_000_000
SHOWN = re.compile(r"x{9900,9974}\.\.\. \(3,000,0\d\d characters\)")
"""A title has more than the name."""


def report(name: str) -> Report:
    same: dict[str, Metric] = {"Device": "m0", "Count": Count(1), "cycles": Count(5)}
    rows = [{"Name": each, **same} for each in (name, "a", "b")]
    return Report(rows, {"m0": {"cycles": Count(9)}}, {"flags": name})


FORMS: dict[str, Callable[[Report], str | bytes]] = {
    "table": lambda each: each.table(),
    "samples": lambda each: each.table(aggregate=False),
    "by board": lambda each: each.table(by_board=True),
    "statistics": lambda each: each.statistics(),
    "comparison": lambda each: compare(each, each).table(),
    "comparison in Markdown": lambda each: compare(each, each).markdown(),
    "comparison in JUnit": lambda each: compare(each, each, ["cycles>5%"]).junit(),
    "markdown": find_exporter("markdown"),
    "html": find_exporter("html"),
    "collapsed": find_exporter("collapsed"),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_shows_its_beginning_and_how_long_it_is(form: str) -> None:
    shown = FORMS[form](report(LONG))
    text = shown if isinstance(shown, str) else shown.decode()
    assert SHOWN.search(text)
    assert "x" * 9_975 not in text
    assert len(text) < 300_000


def test_a_page_never_has_the_whole_report_beside_it_in_memory() -> None:
    """It contains the Report, compressed: ten cells of one text are 30 MB of JSON."""
    rows: list[dict[str, Metric]] = [{"Name": LONG, "Device": "m0", "Count": Count(1)}] * 10
    large = Report(rows, {"m0": {"Count": Count(10)}}, {})
    render = find_exporter("html")
    tracemalloc.start()
    try:
        render(large)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 20_000_000


def test_a_text_that_is_not_longer_is_whole() -> None:
    name = "y" * 10_000
    assert f"{name} " in report(name).table()


def test_what_is_escaped_is_no_longer_either() -> None:
    once = bounded("\x1b" * 9_000)
    assert once == "\\x1b" * 2_494 + "\\x... (9,000 characters)"
    assert bounded(once) == once
    assert bounded("\x1b" * 2_500) == "\\x1b" * 2_500


def test_what_is_not_printable_is_escaped_wherever_it_is() -> None:
    assert escaped("a\x1bb\n\t\u202e\udce9\U000e0001 é") == (
        "a\\x1bb\\n\\t\\u202e\\udce9\\U000e0001 é"
    )
    assert escaped("\x9b\n\t\x7f", keep="\n\t") == "\\x9b\n\t\\x7f"
    assert escaped("\n") == "\\n"
