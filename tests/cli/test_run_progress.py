# SPDX-License-Identifier: Apache-2.0
"""Whoever watches a run is told which of its functions is measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from boardprof.jobs.run.execution import Listener, run_plan
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
    listener = Listener(print, on_progress=lambda what, done, total: seen.append(what))
    plan = Plan(f"{source}:{target}", boards=("native",), warmup=0, repeat=2)
    outcome = run_plan(plan, listener)
    assert outcome.failures == ()
    assert list(dict.fromkeys(seen)) == told
