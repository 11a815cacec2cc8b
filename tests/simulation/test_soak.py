# SPDX-License-Identifier: Apache-2.0
"""The long run: resumable, whole in what it keeps, and honest about what failed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.soak import Progress
from tests.simulation.pool import Tally
from tests.support import ROOT


def soak(state: Path, schedules: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable,
            str(ROOT / "scripts" / "soak.py"),
            *("--jobs", "1", "--state", str(state), "--schedules", str(schedules)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_a_soak_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    state = tmp_path / "soak.json"
    with soak(state, 500) as first:
        text, _ = first.communicate(timeout=100)
    assert first.returncode == 0, text
    assert text.splitlines()[0] == "Seeds done: none"
    assert text.splitlines()[-1] == "0 of 500 schedules broke a rule."
    with soak(state, 750) as second:
        text, _ = second.communicate(timeout=100)
    assert second.returncode == 0, text
    assert text.splitlines()[0] == "Seeds done: 0..499"
    assert text.splitlines()[-2:] == ["Seeds done: 0..749", "0 of 750 schedules broke a rule."]


def test_ctrl_c_stops_a_soak_and_keeps_what_was_done(tmp_path: Path) -> None:
    state = tmp_path / "soak.json"
    with soak(state, 10_000_000) as long:
        assert long.stdout is not None
        assert long.stdout.readline() == "Seeds done: none\n"
        long.send_signal(signal.SIGINT)
        text, _ = long.communicate(timeout=30)
    assert long.returncode == 130, text
    assert "goes on from here" in text
    assert json.loads(state.read_text(encoding="utf-8"))["failures"] == {}


def test_a_soak_begins_again_when_what_it_tries_changes_and_for_nothing_else() -> None:
    listed = subprocess.run(
        [sys.executable, "-c", "from scripts.soak import sources; print(*sources(), sep='\\n')"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    tried = {str(Path(line).relative_to(ROOT)) for line in listed.stdout.splitlines()}
    assert {
        "device_runtime_c/include/boardprof/bp_wire.h",
        "device_runtime_c/src/bp_channel.c",
        "host/boardprof/wire/link/session.py",
        "protocol/boardprof_protocol/frame.py",
        "tests/simulation/board.c",
        "tests/simulation/schedule.py",
    } <= tried
    assert not any(name.startswith(("host/boardprof/ui", "host/boardprof/jobs")) for name in tried)


def test_ranges_that_touch_become_one(tmp_path: Path) -> None:
    progress = Progress("code")
    for begin, end in ((500, 1000), (0, 500), (2000, 2500)):
        progress.add(range(begin, end), Tally(played=500))
    assert progress.ranges == [(0, 1000), (2000, 2500)]
    assert progress.seeds() == "0..999, 2000..2499"
    assert progress.played == 1500
    assert progress.has(range(500, 1000))
    assert not progress.has(range(1500, 2000))


def test_failures_are_kept_for_the_same_code_and_forgotten_for_other_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "build" / "soak.json"
    progress = Progress("code")
    progress.add(range(0, 500), Tally(500, {7: "it ran 2 times"}))
    progress.save(state)
    assert Progress.load(state, "code") == progress
    assert Progress.load(state, "other code") == Progress("other code")
    assert "is of other code" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"code": "code", "ranges": 1}'])
def test_a_file_that_tells_nothing_is_a_new_beginning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    state = tmp_path / "soak.json"
    state.write_text(content)
    assert Progress.load(state, "code") == Progress("code")
    assert "cannot be read; beginning again" in capsys.readouterr().err
