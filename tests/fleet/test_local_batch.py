# SPDX-License-Identifier: Apache-2.0
"""Batches on the boards of this machine, without a scheduler."""

from __future__ import annotations

import json
import math
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from boardprof.base.errors import BusyError, UsageError
from boardprof.base.metrics import Duration
from boardprof.base.processes import held_leases
from boardprof.jobs.fleet import Fleet, Job, Limits, Progress, Result, Rules
from boardprof.jobs.fleet.boards import (
    FleetBoard,
    Quarantine,
    keep_quarantine,
    lease,
    lease_folder,
    next_check,
    quarantine_of,
)
from boardprof.jobs.fleet.dask_provider import _boards_of
from boardprof.jobs.fleet.job import ResultsFolder, merged_report
from boardprof.jobs.fleet.provider import JobLostError, JobProcess, JobTimeoutError
from boardprof.jobs.fleet.work import Work, built, data_of, fault_of, perform
from boardprof.results.stats.warnings import warnings
from boardprof.ui.cli.fleet import _live
from tests.fleet.cluster import until
from tests.fleet.stand_in import (
    closed_line,
    crash,
    exclusive,
    first_byte,
    flaky,
    half_answer,
    long_nap,
    nap,
    sick_twice,
    silent,
    wrong_answer,
)
from tests.support import awake

SOURCE = """
unsigned square(unsigned n) { return n * n; }
unsigned cube(unsigned n) { return n * n * n; }
unsigned trap(unsigned n) { return *(volatile unsigned *)0 + n; }
"""


def local_leases() -> dict[str, str]:
    return held_leases(lease_folder())


JOBS = """
[[jobs]]
files = ["f.c"]
functions = ["square", "cube"]
arguments = [["n=3"], ["n=4"]]
boards = ["native"]
repeat = 2
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "f.c").write_text(SOURCE)
    (tmp_path / "jobs.toml").write_text(JOBS)
    return tmp_path


def jobs(folder: Path, *functions: str, board: str = "native", once: bool = False) -> list[Job]:
    limits = Limits(repeat=2, once=once)
    return [Job(str(folder / "f.c"), board, each, ("n=3",), limits=limits) for each in functions]


def stand_ins(count: int, *, once: bool = False) -> list[Job]:
    limits = Limits(once=once, job_s=20.0)
    return [Job("f.c", "native", arguments=(f"n={n}",), limits=limits) for n in range(count)]


def test_results_come_in_the_order_of_the_jobs_with_their_reports(folder: Path) -> None:
    wanted = jobs(folder, "cube", "square")
    results = Fleet().map(wanted)
    assert [result.job for result in results] == wanted
    assert [result.state for result in results] == ["done", "done"]
    for result, name in zip(results, ("cube", "square"), strict=True):
        report = result.report
        assert report is not None
        assert [row["Name"] for row in report.calls] == [name, name]
        first, second = (row["Duration (us)"] for row in report.calls)
        assert isinstance(first, Duration)
        assert isinstance(second, Duration)
        middle_us = (first.microseconds + second.microseconds) / 2
        assert result.medians[name]["Duration (us)"] == pytest.approx(middle_us, abs=1e-9)
        assert list(result.warnings) == [str(each) for each in warnings(report)]
        assert any("2 samples" in text for text in result.warnings), result.warnings
        assert result.board == "local:native.0"


def test_a_batch_goes_on_where_it_was(folder: Path) -> None:
    first = list(Fleet().as_completed(jobs(folder, "square"), results=folder / "r"))
    again = Fleet().map(jobs(folder, "square", "cube"), results=folder / "r")
    assert [result.was_known for result in again] == [True, False]
    assert (again[0].began_s, again[0].medians) == (first[0].began_s, first[0].medians)
    report = again[0].report
    assert report is not None
    assert len(report.calls) == 2
    # Other code is another job.
    (folder / "f.c").write_text(SOURCE.replace("n * n;", "n * n + 1;"))
    assert [r.was_known for r in Fleet().map(jobs(folder, "square"), results=folder / "r")] == [
        False
    ]


def test_a_known_result_is_that_of_the_job_that_is_asked_for_now(folder: Path) -> None:
    """A larger job_s or another path of the same file changes no number."""
    for name in ("x", "y", "z"):
        (folder / name).mkdir()
        (folder / name / "c.c").write_text(SOURCE)
    limits = Limits(repeat=2)
    wanted = [Job(str(folder / n / "c.c"), "native", "cube", ("n=3",), limits=limits) for n in "xy"]
    first = Fleet().map(wanted, results=folder / "r")
    assert len({result.report_file for result in first}) == 2
    slower = [replace(job, limits=replace(limits, job_s=1200.0)) for job in wanted]
    moved = replace(wanted[0], file=str(folder / "z" / "c.c"))
    again = Fleet().map([*slower, moved], results=folder / "r")
    assert [result.was_known for result in again] == [True] * 3
    assert [result.job for result in again] == [*slower, moved]
    assert [result.began_s for result in again[:2]] == [result.began_s for result in first]
    report = merged_report(again[:2])
    assert report is not None
    assert [row["Label"] for row in report.calls] == ["x/c.c"] * 2 + ["y/c.c"] * 2


def test_a_jobs_own_failure_is_final_and_its_boards_is_not(folder: Path) -> None:
    for was_known in (False, True):
        (result,) = Fleet().map(jobs(folder, "trap"), results=folder / "r")
        assert (result.state, result.was_known) == ("failed", was_known)
        assert result.errors[0].kind == "DeviceFaultError"
        assert result.errors[0].exit_code == 6
    for _ in range(2):
        (result,) = Fleet(rules=Rules(retries=1), perform=crash).map(
            stand_ins(1), results=folder / "s"
        )
        assert (result.state, result.was_known) == ("failed", False)
        told = ("The job's process died by signal 9.", "local:native.0")
        lines = [(*error.message.partition("\n"), error.board) for error in result.errors]
        assert [(first, board) for first, _, _, board in lines] == [told, told]
        assert [hint.startswith("Try: run the job by itself") for _, _, hint, _ in lines] == [
            True
        ] * 2
        assert [error.exit_code for error in result.errors] == [3, 3]
        assert result.board == "local:native.0"
        assert 0.0 < result.began_s <= result.ended_s
    # Failures that are not remembered are in the folder, too.
    lines = [json.loads(x) for x in (folder / "s" / "results.jsonl").read_text().splitlines()]
    assert [(line["state"], line["is_final"]) for line in lines] == [("failed", False)] * 2


def test_a_job_that_cannot_be_served_or_built_fails_at_once_and_others_run(folder: Path) -> None:
    (folder / "bad.c").write_text("int broken(int n) { return m; }\n")
    real, near = Fleet().map(
        [*jobs(folder, "cube", board="nucleo-f446re"), *jobs(folder, "cube", board="qemu-rv23")]
    )
    assert "nucleo-f446re is a real board and needs a port." in real.errors[0].message
    assert "-b nucleo-f446re=PORT" in real.errors[0].message
    assert "did you mean 'qemu-rv32'?" in near.errors[0].message
    wanted = [
        *jobs(folder, "square", board="m99"),
        Job(str(folder / "bad.c"), "native", "broken", ("n=1",)),
        *jobs(folder, "square"),
    ]
    lacking, broken, done = Fleet().map(wanted)
    assert lacking.errors[0].message.startswith("There is no board 'm99'. Known: ")
    assert lacking.errors[0].exit_code == 2
    assert (broken.state, broken.errors[0].exit_code) == ("failed", 7)
    assert "bad.c:1" in broken.errors[0].message
    assert done.state == "done"


def test_jobs_with_the_same_content_share_one_build(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from boardprof.jobs.fleet import batch, work

    builds: list[tuple[str, str]] = []

    def counted(alike: Sequence[Job], kind: str) -> work.Image:
        builds.append((alike[0].file, alike[0].flags))
        return work.built(alike, kind)

    monkeypatch.setattr(batch, "built", counted)
    wanted = [*jobs(folder, "square", "cube"), *jobs(folder, "square", "cube", once=True)]
    assert [result.state for result in Fleet().map(wanted)] == ["done"] * 4
    assert builds == [(str(folder / "f.c"), "-O2")]


def test_a_job_whose_process_died_is_tried_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (result,) = Fleet(perform=flaky).map(stand_ins(1, once=False), results=folder / "r")
    assert result.state == "done"


def test_a_job_that_may_run_only_once_is_unknown_and_stays_so(folder: Path) -> None:
    for was_known in (False, True):
        (result,) = Fleet(perform=crash).map(stand_ins(1, once=True), results=folder / "r")
        assert (result.state, result.was_known) == ("unknown", was_known)


MORTAL = """
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>
/* The loader calls it, before the agent, and before there is a C library. */
static long system(long number, long a, const char *b, long c) {{
#ifdef __x86_64__
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "0"(number), "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "memory");
    return result;
#else
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = (long)b, x2 __asm__("x2") = c;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
#endif
}}
static unsigned nothing(void) {{ return 0; }}
static unsigned (*begin(void))(void) {{
    if (system(SYS_faccessat, AT_FDCWD, "{flag}", 0)) system(SYS_exit_group, 3, 0, 0);
    return nothing;
}}
unsigned begun(void) __attribute__((ifunc("begin")));
unsigned last(unsigned n) {{ n += begun(); kill(getpid(), 9); return n; }}
unsigned square(unsigned n) {{ return n * n; }}
"""


def test_a_job_that_may_run_only_once_is_unknown_only_if_it_may_have_begun(folder: Path) -> None:
    (folder / "f.c").write_text(MORTAL.format(flag=folder / "flag"))
    wanted = jobs(folder, "last", "square", board="linux", once=True)
    fleet = Fleet(rules=Rules(retries=0))
    for result in fleet.map(wanted, results=folder / "r"):
        assert (result.state, result.errors[0].kind) == ("failed", "BoardError")
        assert "before a board could be reached" in result.errors[0].message
    (folder / "flag").touch()
    for was_known in (False, True):
        last, square = fleet.map(wanted, results=folder / "r")
        assert (last.state, last.was_known) == ("unknown", was_known)
        assert last.errors[0].message.startswith("The board or its process failed when the job")
        assert (square.state, square.was_known) == ("done", was_known)
    lines = [json.loads(x) for x in (folder / "r" / "results.jsonl").read_text().splitlines()]
    states = [line["state"] for line in lines if line["job"]["function"] == "last"]
    assert (states[0], states[1], states[-2:]) == ("started", "failed", ["started", "unknown"])


def test_a_board_whose_emulator_is_missing_is_the_boards_fault(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = jobs(folder, "square", board="qemu-rv32")
    board = FleetBoard("qemu-rv32", "a")
    work = Work(wanted[0], data_of(wanted[0].arguments), built(wanted, "qemu-rv32"))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    answer = perform(work, board)
    told = "qemu-system-riscv32 was not found on PATH."
    assert answer.errors[0].message.startswith(told)
    assert (answer.is_boards_fault, answer.may_have_run) == (True, False)
    assert fault_of(board) == told
    (result,) = Fleet().map(wanted)
    assert (result.errors[0].message.partition("\n")[0], result.errors[0].exit_code) == (told, 7)
    done = subprocess.run(
        [sys.executable, "-m", "boardprof", "worker", "tls://127.0.0.1:1", "-b", "qemu-rv32"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, told in done.stderr) == (7, True)


def test_a_result_whose_report_is_missing_or_damaged_is_measured_again(folder: Path) -> None:
    wanted = jobs(folder, "square", "cube")
    first = Fleet().map(wanted, results=folder / "r")
    for result, damage in zip(first, (Path.unlink, Path.touch), strict=True):
        file = Path(result.report_file or "")
        file.write_text("{")
        damage(file)
    again = Fleet().map(wanted, results=folder / "r")
    assert [(each.state, each.was_known) for each in again] == [("done", False)] * 2
    assert [len(each.report.calls) for each in again if each.report] == [2, 2]


def test_a_job_that_may_run_only_once_does_not_run_again_without_its_report(folder: Path) -> None:
    wanted = jobs(folder, "square", once=True)
    (first,) = Fleet().map(wanted, results=folder / "r")
    Path(first.report_file or "").write_text("{")  # as after a power failure
    (again,) = Fleet().map(wanted, results=folder / "r")
    assert (again.state, again.was_known, again.report_file) == ("failed", True, None)
    assert [error.kind for error in again.errors] == ["ReportFileError"]


def test_the_start_of_a_job_that_may_run_only_once_is_on_the_disk_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, str]] = []
    real = os.fsync

    def noted(handle: int) -> None:
        index = tmp_path / "a" / "r" / "results.jsonl"
        name = os.path.relpath(os.readlink(f"/proc/self/fd/{handle}"), tmp_path)
        synced.append((name, json.loads(index.read_text().splitlines()[-1])["state"]))
        real(handle)

    monkeypatch.setattr(os, "fsync", noted)
    for once, expected in (
        (False, []),
        (
            True,
            [
                (".", "started"),
                ("a", "started"),
                ("a/r", "started"),
                ("a/r/results.jsonl", "done"),
                ("a/r/results.jsonl", "started"),
            ],
        ),
    ):
        Fleet(perform=nap).map(stand_ins(1, once=once), results=tmp_path / "a" / "r")
        assert sorted(synced) == expected
        shutil.rmtree(tmp_path / "a")


CLIENT = """
from boardprof.jobs.fleet import Fleet
from tests.fleet.stand_in import long_nap
from tests.fleet.test_local_batch import stand_ins
list(Fleet(perform=long_nap).as_completed(stand_ins(1, once=True), results="r"))
"""


def test_a_job_that_may_run_only_once_is_not_repeated_after_its_batch_was_killed(
    folder: Path,
) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    client = subprocess.Popen([sys.executable, "-c", CLIENT], cwd=folder, env=environment)
    index = folder / "r" / "results.jsonl"
    until(lambda: index.exists() and index.stat().st_size, "the job's start")
    client.kill()
    client.wait(10.0)
    (result,) = Fleet(perform=nap).map(stand_ins(1, once=True), results=folder / "r")
    assert result.state == "unknown"
    told, _, hint = result.errors[0].message.partition("\n")
    assert told == "The batch ended while this job ran."
    assert hint.startswith("Try: find out whether it ran")


def test_a_board_that_fails_twice_is_checked_and_goes_on_if_it_is_in_order(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    told: list[Progress] = []
    (result,) = Fleet(perform=sick_twice).as_completed(stand_ins(1), on_progress=told.append)
    assert result.state == "done"
    states = [progress.boards["local:native.0"][:2] for progress in told]
    assert ("being checked", "The board does not answer.") in states
    assert states[-1] == ("idle", "")


def test_a_board_that_fails_its_check_is_in_quarantine_with_the_reason(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    fleet = Fleet(boards=["linux=127.0.0.1:9#a"], rules=Rules(retries=1, wait_s=1.0))
    first, second = fleet.map(jobs(folder, "square", "cube", board="a"))
    assert (first.state, second.state) == ("failed", "failed")
    assert first.errors[0].kind == "BoardError"
    assert first.errors[0].exit_code == 3
    told = "No board has been in service for 1 s. a: 1 quarantined, a: "
    assert second.errors[0].message.startswith(told)
    assert "127.0.0.1:9" in second.errors[0].message.removeprefix(told)


def test_a_quarantine_outlives_its_batch_until_a_check_passes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.chdir(folder)
    board = "linux=127.0.0.1:9#a"
    began_s = time.time()
    rules = Rules(retries=1, quarantine_s=50.0, wait_s=1.0)
    wanted = [Job("f.c", "a", arguments=(f"n={n}",)) for n in range(2)]
    first = Fleet(boards=[board], rules=rules, perform=silent).map(wanted)
    assert [each.state for each in first] == ["failed"] * 2
    keeps = Fleet(boards=[board], rules=Rules(wait_s=0.5), perform=nap)
    told: list[Progress] = []
    for result in keeps.as_completed(wanted, on_progress=told.append):
        assert result.state == "failed"  # no job reaches the board
        expected = "No board has been in service for 0.5 s. a: 1 quarantined"
        assert result.errors[0].message.startswith(expected)
    state, why, _ = told[0].boards["a"]
    assert state == "quarantined"
    assert re.match(r"checked again at \d\d:\d\d:\d\d: ", why), why
    (line,) = command(folder, "status").stdout.splitlines()
    assert line.startswith("linux 127.0.0.1:9: in quarantine, checked again at "), line
    (kept,) = json.loads(command(folder, "status", "--json").stdout)["quarantines"]
    assert (kept["board"], kept["count"]) == ("linux 127.0.0.1:9", 1)
    assert "127.0.0.1:9" in kept["why"]
    assert began_s + 50.0 <= kept["until_s"] <= time.time() + 50.0
    # A check that fails again doubles the time.
    again = Fleet(boards=[board], rules=Rules(quarantine_s=50.0, check_now=True), perform=nap)
    with pytest.raises(EndedHereError):
        again.map(wanted, on_progress=until_quarantined_twice)


class EndedHereError(Exception):
    pass


def until_quarantined_twice(progress: Progress) -> None:
    found = quarantine_of("linux 127.0.0.1:9")
    if progress.boards["a"][0] == "quarantined" and found is not None and found.count == 2:
        assert found.until_s > time.time() + 90.0
        raise EndedHereError


def test_a_board_of_an_earlier_quarantine_works_again_after_its_check(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    place = "native local:native.0"
    keep_quarantine(place, Quarantine("The clock was wrong.", time.time() - 1.0, 3))
    assert "checked before its next job (The clock was wrong)" in command(folder, "status").stdout
    (result,) = Fleet(perform=nap).map(stand_ins(1))
    assert result.state == "done"
    assert quarantine_of(place) is None


def test_a_quarantine_of_a_clock_that_was_ahead_is_over(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then it has no end, and the board is checked before its next job."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    place, now_s = "native local:native.0", time.time()
    for until_s in (now_s + 86400.0 * 30, now_s + 3700.0, 1e300, math.inf, math.nan):
        keep_quarantine(place, Quarantine("It was silent.", until_s, 1))
        assert quarantine_of(place) == Quarantine("It was silent.", 0.0, 1)
    assert next_check(0.0) == "checked before its next job"
    for until_s in (now_s + 3590.0, now_s - 86400.0 * 30):
        keep_quarantine(place, Quarantine("It was silent.", until_s, 1))
        assert quarantine_of(place) == Quarantine("It was silent.", until_s, 1)
    (board,) = _boards_of(
        {"tls://a:1": {"metrics": {"boardprof": [far_board(until_s=now_s + 86400.0)]}}}
    )
    assert board.quarantine == Quarantine("It was silent.", 0.0, 1)


def far_board(until_s: float) -> dict[str, object]:
    """Return what the worker of another host, whose clock is ahead, says of its board."""
    kept = {"why": "It was silent.", "until_s": until_s, "count": 1}
    return {"kind": "native", "serial": "a", "port": None, "quarantine": kept}


def test_a_damaged_quarantine_only_means_that_the_board_gets_a_job(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    place = "native local:native.0"
    keep_quarantine(place, Quarantine("It was silent.", time.time() + 60.0, 1))
    (file,) = (folder / "cache").rglob("*.quarantine")
    whole = json.loads(file.read_text())
    for damage in ({"until_s": "soon"}, {"count": None}, {"until_s": []}, {"count": math.inf}):
        file.write_text(json.dumps({**whole, **damage}))
        assert quarantine_of(place) is None
    for content in ("[]", "1", '{"place": "x"}', "[" * 100_000, ""):
        file.write_text(content)
        assert quarantine_of(place) is None


def test_a_job_at_its_time_limit_is_ended() -> None:
    wanted = [Job("f.c", "native", limits=Limits(job_s=0.5))]
    with awake() as clock:
        (result,) = Fleet(perform=long_nap).map(wanted)
        assert clock() < 8.0
    (error,) = result.errors  # it was tried once
    told, _, hint = error.message.partition("\n")
    assert told == "The job did not end within 0.5 s of wall time (job_s)."
    assert "job_s" in hint
    assert error.exit_code == 6  # as of `boardprof run --wall-timeout`
    assert result.board == error.board == "local:native.0"
    assert 0.5 <= result.ended_s - result.began_s < 8.0


def test_progress_says_what_boards_do_and_what_jobs_wait_for() -> None:
    told: list[Progress] = []
    for _ in Fleet(perform=nap).as_completed(stand_ins(3), on_progress=told.append):
        pass
    assert told[-1].total == 3
    assert dict(told[-1].states) == {"done": 3}
    assert told[-1].boards == {"local:native.0": ("idle", "", 3)}
    busy = [each for each in told if each.boards["local:native.0"][0] == "busy"]
    assert busy[0].boards["local:native.0"][1] == "f.c:all n=0 -O2 on native"
    assert busy[0].waiting == ("native: 1 busy",)


def test_a_folder_belongs_to_one_batch_at_a_time(tmp_path: Path) -> None:
    with ResultsFolder(tmp_path), pytest.raises(BusyError, match=" writes results to it"):
        ResultsFolder(tmp_path)


def test_a_line_that_was_cut_short_is_dropped_and_others_stay(tmp_path: Path) -> None:
    done = [Result(job, "done", key=f"k{n}") for n, job in enumerate(stand_ins(2))]
    with ResultsFolder(tmp_path) as folder:
        for result in done:
            folder.add(result)
    index = tmp_path / "results.jsonl"
    whole = index.read_bytes()
    index.write_bytes(whole[:-7])
    with ResultsFolder(tmp_path) as folder:
        assert [folder.known(f"k{n}", stand_ins(1)[0]) is None for n in range(2)] == [False, True]
        folder.add(done[1])
    assert index.read_bytes() == whole


def test_a_line_of_something_else_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").write_text("[1]\n")
    with pytest.raises(UsageError, match=r"results\.jsonl:1: this line is not a result"):
        ResultsFolder(tmp_path)
    with pytest.raises(UsageError, match="The folder for the results has no name"):
        ResultsFolder("")


def test_a_folder_that_another_user_made_where_all_users_can_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As root, another user owns it; other users cannot give it away, and are another one here."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="boardprof-tests-") as folder:
        with ResultsFolder(folder):
            pass
        if os.geteuid() == 0:
            os.chown(folder, 65534, 65534)
        else:
            monkeypatch.setattr(os, "geteuid", lambda: 65534)
        with pytest.raises(UsageError, match=f"{folder} belongs to another user"):
            ResultsFolder(folder)


# -- processes and leases -----------------------------------------------------------------------


def test_a_jobs_process_imports_nothing_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In /tmp, another user can put files there."""
    (tmp_path / "pickle.py").write_text("import os\nos._exit(7)\n")
    monkeypatch.chdir(tmp_path)
    process = JobProcess()
    try:
        assert process.run(os.getcwd, timeout_s=20.0) == str(tmp_path)
    finally:
        process.close()


def test_a_jobs_process_goes_on_after_an_error_and_starts_again_after_its_death() -> None:
    process = JobProcess()
    try:
        first = process.run(os.getpid, timeout_s=20.0)
        with pytest.raises(ZeroDivisionError):
            process.run(divmod, 1, 0, timeout_s=20.0)
        assert process.run(os.getpid, timeout_s=20.0) == first == process.process_id
        with pytest.raises(JobLostError, match="died by signal 9"):
            process.run(os.kill, first, signal.SIGKILL, timeout_s=20.0)
        assert process.run(os.getpid, timeout_s=20.0) not in (first, os.getpid())
    finally:
        process.close()


def test_a_stopped_process_holds_up_neither_sending_nor_receiving() -> None:
    process = JobProcess()
    try:
        for size in (3, 50_000_000):
            assert process.run(len, b"abc", timeout_s=20.0) == 3
            assert process.process_id is not None
            os.kill(process.process_id, signal.SIGSTOP)
            with awake() as clock:
                with pytest.raises(JobTimeoutError, match="did not end within 1 s"):
                    process.run(len, bytes(size), timeout_s=1.0)
                assert clock() < 5.0
        for half in (half_answer, first_byte):
            assert process.run(len, b"abc", timeout_s=20.0) == 3
            with awake() as clock:
                with pytest.raises(JobTimeoutError, match="did not end within 1 s"):
                    process.run(half, timeout_s=1.0)
                assert clock() < 5.0
    finally:
        process.close()


def test_a_function_that_uses_the_processs_files_loses_its_own_job_only() -> None:
    process = JobProcess()
    try:
        cases = {wrong_answer: "runs, but it sent no answer", closed_line: "(runs|died with)"}
        for function, how in cases.items():
            with pytest.raises(JobLostError, match=f"The job's process {how}"):
                process.run(function, timeout_s=20.0)
            assert process.run(len, b"abc", timeout_s=20.0) == 3
    finally:
        process.close()


def test_a_process_that_is_closed_by_another_thread_loses_its_job() -> None:
    process = JobProcess()
    try:
        for _ in range(5):
            assert process.run(len, b"abc", timeout_s=20.0) == 3
            closing = threading.Timer(0.05, process.close)
            closing.start()
            with pytest.raises(JobLostError, match="died by signal 9"):
                process.run(time.sleep, 30.0, timeout_s=20.0)
            closing.join()
    finally:
        process.close()


def test_an_emulators_lease_is_one_of_as_many_as_there_are_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    boards = [FleetBoard("qemu-rv32", f"{n}") for n in range(3)]
    first, second, third = (lease(board, 0.1) for board in boards)
    with first, second:
        assert sorted(local_leases()) == ["emulator 0", "emulator 1"]
        with pytest.raises(BusyError, match="2 emulators, one for each core"), third:
            pass
    assert local_leases() == {}


def test_a_lease_ends_with_the_process_that_holds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    board = FleetBoard("linux", "a", "127.0.0.1:9")
    process = JobProcess()
    lost: list[BaseException] = []

    def hold() -> None:
        try:
            process.run(exclusive, board, timeout_s=60.0)
        except JobLostError as error:
            lost.append(error)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        until(local_leases, "the lease")
        holder = process.process_id
        assert holder is not None
        assert local_leases() == {"127.0.0.1:9": f"process {holder}"}
        with pytest.raises(BusyError, match=f"by process {holder}"), lease(board, 0.1):
            pass
        os.kill(holder, signal.SIGKILL)
        with lease(board, 10.0) as port:
            assert port == "127.0.0.1:9"
    finally:
        thread.join(20.0)
        process.close()
    assert len(lost) == 1


# -- the command --------------------------------------------------------------------------------


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "boardprof", "fleet", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_command_prints_each_result_as_json_and_goes_on(folder: Path) -> None:
    for was_known in (False, True):
        done = command(folder, "run", "jobs.toml")
        assert (done.returncode, done.stderr) == (0, "")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        assert sorted((x["job"]["function"], *x["job"]["arguments"]) for x in lines) == [
            ("cube", "n=3"),
            ("cube", "n=4"),
            ("square", "n=3"),
            ("square", "n=4"),
        ]
        assert {(x["state"], x["was_known"]) for x in lines} == {("done", was_known)}
    shown = subprocess.run(
        [sys.executable, "-m", "boardprof", "show", lines[0]["report_file"]],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert lines[0]["job"]["function"] in shown.stdout


def test_the_command_ends_with_the_code_of_the_first_failure(folder: Path) -> None:
    (folder / "jobs.toml").write_text(JOBS.replace('"cube"', '"trap"'))
    done = command(folder, "run", "jobs.toml")
    assert done.returncode == 6
    assert done.stderr.count("failed: trap trapped on the board") == 1  # of two equal errors
    assert "and 1 more: failed: trap trapped" in done.stderr
    assert command(folder, "run", "jobs.toml", "--results", "").returncode == 2


def test_on_a_terminal_the_command_shows_a_table_of_results(folder: Path) -> None:
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    process = subprocess.Popen(
        [sys.executable, "-m", "boardprof", "fleet", "run", "jobs.toml", "--width", "100"],
        cwd=folder,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(theirs)
    text = b""

    def ended() -> bool:
        nonlocal text
        try:
            text += os.read(ours, 65536)
        except BlockingIOError:
            return False
        except OSError:  # the other end is closed
            return process.poll() is not None
        return False

    until(ended, "the command's end")
    os.close(ours)
    shown = text.decode()
    assert process.returncode == 0, shown
    assert "4 of 4 jobs done; results in jobs.results" in shown
    assert "of 4 jobs" in shown.split("4 of 4 jobs done")[0]  # the live table
    assert "local:native.0" in shown


def test_brackets_and_colons_in_an_argument_are_plain_text_in_the_live_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes the captured stream for a terminal
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    what = 'f.c:length text="[/b] :smile: [red]" -O2 on native'
    progress = Progress(2, Counter(done=1), {"a[/i]": ("busy", what, 1)}, ("[/x]: 1 busy",), None)
    with _live(shown=True) as show:
        assert show is not None
        show(progress)
    shown = capsys.readouterr().err
    assert 'text="[/b] :smile: [red]"' in shown
    assert "a[/i]" in shown
    assert "waiting for [/x]: 1 busy" in shown


def test_status_without_a_scheduler_shows_the_leases_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert command(tmp_path, "status").stdout == "Nothing is leased on this machine.\n"
    board = FleetBoard("linux", "a", "127.0.0.1:9")
    with lease(board, 1.0):
        assert command(tmp_path, "status").stdout == f"127.0.0.1:9: process {os.getpid()}\n"


WITHOUT_DASK = """
import sys
sys.modules["distributed"] = None
from boardprof.ui.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "words",
    [
        ["worker", "tls://127.0.0.1:1", "-b", "native"],
        ["fleet", "status", "--scheduler", "tls://127.0.0.1:1"],
        ["fleet", "run", "jobs.toml", "--scheduler", "tls://127.0.0.1:1"],
        ["fleet", "scheduler"],
    ],
)
def test_without_dask_the_commands_name_the_extra(folder: Path, words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_DASK, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 7  # like a missing tool
    assert "pip install 'boardprof[fleet]'" in done.stderr
