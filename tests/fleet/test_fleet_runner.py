# SPDX-License-Identifier: Apache-2.0
"""Tuning on all boards of a kind at once gives what tuning on one of them gives."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from boardprof.base.errors import BoardError, UsageError
from boardprof.jobs.fleet import FleetRunner, Rules
from boardprof.jobs.tune import MeasureResult, Runner
from tests.fleet.cluster import cluster
from tests.support import run
from tests.tune.candidates import EXPECTED, arguments, mixed

pytestmark = [pytest.mark.slow, pytest.mark.board("qemu-rv32")]

SETTINGS = {
    "metric": "instructions",
    "function": "scale",
    "expect": EXPECTED,
    "timeout_s": 0.05,
    "remember": False,
}


def facts(result: MeasureResult) -> tuple[object, ...]:
    flash = result.metrics.get("Flash (bytes)")
    return (result.costs, result.error_no, flash, type(result.error))


def test_all_boards_of_a_kind_measure_shares_of_the_candidates() -> None:
    texts, _ = mixed(20)
    told: dict[int, MeasureResult] = {}
    fleet = FleetRunner("qemu-rv32", arguments(), share=5, **SETTINGS)  # type: ignore[arg-type]
    results = fleet.measure(texts, on_result=told.__setitem__)
    alone = Runner("qemu-rv32", arguments(), **SETTINGS).measure(texts)  # type: ignore[arg-type]
    assert list(map(facts, results)) == list(map(facts, alone))
    assert [told[number] for number in range(20)] == results


@pytest.mark.parametrize(
    ("board", "boards", "kind"),
    [("linux", ["linux=127.0.0.1:9"], UsageError), ("no-such-board", [], BoardError)],
)
def test_candidates_that_no_board_can_measure_are_an_error_with_the_reason(
    board: str, boards: list[str], kind: type[Exception]
) -> None:
    fleet = FleetRunner(board, arguments(), boards=boards, rules=Rules(retries=0))
    with pytest.raises(kind, match=r"Candidates from number 0 on were not measured: \S"):
        fleet.measure(["int f(int n) { return n; }"])


SOURCE = """
unsigned work(unsigned n) {
    unsigned s = 0;
    for (unsigned i = 0; i < n; i += STEP)
        s += i;
    return s;
}
"""


def tuned(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    choice = ["--param", "STEP=1,2,3", "--sampler", "grid", "--expect", "@right.npy"]
    return subprocess.run(
        [sys.executable, "-m", "boardprof", "tune", "f.c:work", "n=60", *choice, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_the_command_tunes_on_the_boards_of_a_worker(tmp_path: Path) -> None:
    """The worker has another current folder; the expected output makes two candidates wrong."""
    (tmp_path / "f.c").write_text(SOURCE)
    np.save(tmp_path / "right.npy", np.uint32(60 * 59 // 2))
    with cluster(tmp_path) as made:
        made.worker("ant", "qemu-rv32")
        made.await_workers("ant")
        fleet = tuned(tmp_path, "-b", "qemu-rv32", "--fleet", made.address, "--json", "-")
    assert fleet.returncode == 0, fleet.stderr
    facts = json.loads(fleet.stdout)
    trials = {each["choice"]["STEP"]: each for each in facts["trials"]}
    assert {step: each["error_no"] for step, each in trials.items()} == {
        "1": 0,
        "2": 5,
        "3": 5,  # MeasureError.WRONG_ANSWER
    }
    words = ["run", "-q", f"{tmp_path}/f.c:work", "n=60", "-D", "STEP=1", "-b", "qemu-rv32"]
    alone = run([sys.executable, "-m", "boardprof", *words, "--json", "-"])
    first = json.loads(alone)["calls"][0]["instructions"]["count"]
    assert trials["1"]["metrics"]["instructions"] == facts["cost_by_itself"] == first


def test_tuning_on_a_fleet_has_no_port_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text(SOURCE)
    done = tuned(tmp_path, "-b", "linux", "--fleet", "here", "-p", "127.0.0.1:9")
    assert (done.returncode, "--fleet excludes --port" in done.stderr) == (2, True), done.stderr
