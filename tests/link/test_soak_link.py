# SPDX-License-Identifier: Apache-2.0
"""A short run of scripts/soak_link.py: calls and bulk data, one frame in a hundred damaged."""

from __future__ import annotations

import pytest

from scripts.soak_link import main, soak


def test_a_thousand_calls_and_four_mebibytes_have_no_wrong_answer() -> None:
    done = soak(1_000, 4, faults=0.01, seed=7)
    assert done.wrong == 0
    assert (done.calls, done.bytes) == (1_000, 4 << 20)
    assert done.damaged.total() >= 10
    assert done.longest_call_s < 10


def test_one_frame_in_five_damaged_is_slower_and_as_right() -> None:
    done = soak(200, 2, faults=0.2, seed=8)
    assert done.wrong == 0
    assert done.damaged.total() >= 60


def test_the_script_prints_its_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--calls", "20", "--mib", "2", "--seed", "5"]) == 0
    first, calls, bulk, damaged = capsys.readouterr().out.splitlines()
    assert first == "seed 5: 0 wrong answers"
    assert calls.startswith("20 calls in ")
    assert bulk.startswith("2,097,152 bytes of bulk in ")
    assert " frames damaged (" in damaged
