# SPDX-License-Identifier: Apache-2.0
"""Hints name the options that pytest has."""

from __future__ import annotations

import pytest

from boardprof.ui.pytest_plugin.options import in_pytest, unlabelled


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("give --timeout more seconds", "give --bp-timeout more seconds"),
        ("or --allow clock", "or --bp-allow clock"),
        ("Take more with --repeat.", "Take more with repeat=."),
        ("use --number 1000, or", "use number=1000, or"),
        ("give --wall-timeout more seconds", "give --bp-wall-timeout more seconds"),
        ("--timeout-ms sets less", "--timeout-ms sets less"),
        ("wait longer with --bp-wait SECONDS", "wait longer with --bp-wait SECONDS"),
        ("a file written by `boardprof run --json FILE`",) * 2,
    ],
)
def test_an_option_is_called_as_pytest_has_it(ours: str, theirs: str) -> None:
    assert in_pytest(ours) == theirs


def test_a_note_that_names_its_test_does_not_name_it_again() -> None:
    note = "time of f [a.py::test_f], time of f [a.py::test_f #2]: few samples"
    assert unlabelled(note, "a.py::test_f") == "time of f, time of f [#2]: few samples"
