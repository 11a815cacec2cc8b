# SPDX-License-Identifier: Apache-2.0
"""The model of the session (protocol/session.pml), searched by spin without leaving a state out."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import ROOT, requires_tool, run

pytestmark = pytest.mark.slow

MODEL = ROOT / "protocol" / "session.pml"
DEPTH = 10000

SAFETY = ("-DSAFETY", "-DNOCLAIM")
"""Asserts and deadlocks only, which is faster; without them the claim `ends` is searched, too."""


@dataclass(frozen=True)
class Search:
    """What the verifier said."""

    text: str

    @property
    def errors(self) -> int:
        found = re.search(r"errors: (\d+)", self.text)
        assert found, self.text
        return int(found[1])

    @property
    def states(self) -> int:
        found = re.search(r"(\d+) states, stored", self.text)
        assert found, self.text
        return int(found[1])

    def assert_complete(self) -> None:
        """A search that was cut short proves nothing."""
        reached = re.search(r"depth reached (\d+)", self.text)
        assert reached, self.text
        assert int(reached[1]) < DEPTH
        for cut in ("too small", "Search not completed", "out of memory", "Bit statespace"):
            assert cut not in self.text
        assert "Full statespace search" in self.text


def search(folder: Path, *switches: str, check: tuple[str, ...] = SAFETY) -> Search:
    """Make spin's verifier in ``folder`` and run it."""
    spin = requires_tool("spin", package="spin")
    gcc = requires_tool("gcc", package="gcc")
    options = [f"-D{switch}" for switch in switches]
    made = subprocess.run(
        [spin, *options, "-a", str(MODEL)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    pan = folder / "pan"
    run([gcc, "-w", "-O2", *check, "-o", pan, folder / "pan.c"])
    acceptance = [] if check == SAFETY else ["-a"]
    found = subprocess.run(
        [str(pan), *acceptance, f"-m{DEPTH}"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return Search(found.stdout + found.stderr)


def test_no_call_runs_twice_no_reset_is_missed_and_nothing_gets_stuck(tmp_path: Path) -> None:
    found = search(tmp_path)
    found.assert_complete()
    assert found.errors == 0
    assert found.states > 100_000  # it is not empty, either


def test_on_a_calm_line_every_call_ends(tmp_path: Path) -> None:
    found = search(tmp_path, check=())
    found.assert_complete()
    assert found.errors == 0
    assert found.states > 100_000


@pytest.mark.parametrize(
    ("switch", "violated"),
    [
        ("NO_REPLY_CACHE", "executed"),
        ("NO_SESSION_CHECK", "executed"),
        ("NO_RESET_CHECK", "executed"),
        ("FIXED_SEQUENCE", "executed"),
    ],
)
def test_without_a_rule_a_call_runs_twice(tmp_path: Path, switch: str, violated: str) -> None:
    found = search(tmp_path, switch)
    assert found.errors == 1
    assert re.search(rf"assertion violated .*{violated}", found.text)


def test_without_retransmission_a_call_gets_stuck(tmp_path: Path) -> None:
    found = search(tmp_path, "NO_RETRANSMISSION")
    assert found.errors == 1
    assert "invalid end state" in found.text


def test_sequence_numbers_that_begin_at_0_again_fail_without_any_reset(tmp_path: Path) -> None:
    """A late HELLO of another session, and then one of the host's own, are enough."""
    found = search(tmp_path, "FIXED_SEQUENCE", "RESETS=0")
    assert found.errors == 1
