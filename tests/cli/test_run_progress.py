# SPDX-License-Identifier: Apache-2.0
"""Whoever watches a run is told which of its functions is measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from boardprof.base.progress import shown_by
from boardprof.jobs.run.execution import Listener
from boardprof.jobs.run.outcome import run_plans
from boardprof.jobs.run.plan import Plan


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("all", ["one on native (1 of 2)", "two on native (2 of 2)"]),
        ("two", ["two on native"]),
    ],
)
def test_progress_says_which_of_the_functions_it_is(
    tmp_path: Path, target: str, told: list[str]
) -> None:
    source = tmp_path / "two.c"
    source.write_text("void one(void) {}\nvoid two(void) {}\n")
    seen: list[str] = []
    plan = Plan(f"{source}:{target}", boards=("native",), warmup=0, repeat=2)
    with shown_by(lambda what, done, total: seen.append(what)):
        outcome = run_plans([plan], Listener(print))
    assert outcome.failures == ()
    assert [what for what in dict.fromkeys(seen) if what.startswith(("one", "two"))] == told
