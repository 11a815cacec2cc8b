# SPDX-License-Identifier: Apache-2.0
"""What runs nightly: a part that has passed on the same files does not run again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts import nightly
from tests.support import ROOT

PASSES = (sys.executable, "-c", "print('ran')")
FAILS = (sys.executable, "-c", "raise SystemExit(3)")


def other_run(folder: Path, parts: dict[str, tuple[str, ...]]) -> str:
    """Return a program that runs ``parts`` with the same state as the test."""
    return f"""
import pathlib, sys
from scripts import nightly
nightly._STATE = pathlib.Path({str(folder / "nightly.json")!r})
nightly.PARTS = {parts!r}
sys.exit(nightly.main([]))
"""


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(nightly, "_STATE", tmp_path / "nightly.json")
    monkeypatch.setattr(nightly, "PARTS", {"soak": PASSES, "tests": FAILS})


def test_a_part_that_has_passed_does_not_run_again_and_one_that_has_failed_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert nightly.main([]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "== soak",
        "== tests",
        "soak        0.0 min  passed",
        "tests       0.0 min  FAILED (exit code 3)",
    ]
    assert nightly.main([]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "== tests",
        "soak        0.0 min  passed earlier",
        "tests       0.0 min  FAILED (exit code 3)",
    ]


def test_a_pass_of_other_files_counts_for_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert nightly.main(["soak"]) == 0
    monkeypatch.setattr(nightly, "fingerprint", lambda: "0" * 16)
    assert nightly.main(["soak"]) == 0
    assert capsys.readouterr().out.count("== soak") == 2


def test_fresh_runs_also_what_has_passed(capsys: pytest.CaptureFixture[str]) -> None:
    assert nightly.main(["soak"]) == 0
    assert nightly.main(["--fresh", "soak"]) == 0
    assert capsys.readouterr().out.count("== soak") == 2


def test_what_another_run_has_passed_meanwhile_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    meanwhile = (sys.executable, "-c", other_run(tmp_path, {"fuzz": PASSES}))
    monkeypatch.setattr(nightly, "PARTS", {"soak": meanwhile})
    assert nightly.main([]) == 0
    assert set(nightly.passed(nightly.fingerprint())) == {"fuzz", "soak"}


WAITS = """
import time
try:
    print("waits", flush=True)
    time.sleep(60)
finally:
    time.sleep(1)
    print("has ended", flush=True)
"""


@pytest.mark.parametrize("sent", [os.killpg, os.kill], ids=["terminal", "supervisor"])
def test_ctrl_c_ends_the_part_then_it_with_130_and_what_passed_before_is_kept(
    tmp_path: Path, sent: Callable[[int, int], None]
) -> None:
    program = other_run(tmp_path, {"soak": PASSES, "tests": (sys.executable, "-c", WAITS)})
    command = [sys.executable, "-c", program]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        while process.stdout.readline() != "waits\n":
            assert process.poll() is None
        sent(process.pid, signal.SIGINT)
        process.wait(timeout=30)
        lines = process.stdout.read().splitlines()
    assert process.returncode == 130
    assert lines == [
        "has ended",
        "soak        0.0 min  passed",
        "Interrupted. The next run continues with the part that was interrupted.",
    ]
    assert list(nightly.passed(nightly.fingerprint())) == ["soak"]
