# SPDX-License-Identifier: Apache-2.0
"""Notes of a test."""

from __future__ import annotations

from boardprof.ui.pytest_plugin.options import unlabelled


def test_a_note_that_names_its_test_does_not_name_it_again() -> None:
    note = "time of f [a.py::test_f], time of f [a.py::test_f #2]: few samples"
    assert unlabelled(note, "a.py::test_f") == "time of f, time of f [#2]: few samples"
