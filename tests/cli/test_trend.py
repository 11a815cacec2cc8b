# SPDX-License-Identifier: Apache-2.0
"""A function over the runs of the history, and gates whose limit comes from them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from boardprof.results.history.run import GitState
from boardprof.results.history.store import History
from boardprof.results.report.report import Report
from boardprof.results.report.report_file import write_report
from tests.cli.command import Outcome, boardprof
from tests.support import git
from tests.unit.reports import HARDWARE, report_of

NOISY = [1003, 998, 1001, 996, 1005, 1000, 1002, 995, 1004, 999]
"""Median 1000.5; half of the values are within 2.5 of it, so the spread is 2.5 * 1.4826."""

LATER = [1103, 1098, 1101, 1096, 1105, 1100]


def hardware(cycles: int, **more: str) -> Report:
    values = [cycles - 1, cycles, cycles, cycles + 1, cycles] * 2
    return report_of({"cycles": values}, facts=HARDWARE, device="m4", **more)  # type: ignore[arg-type]


def emulated(count: int, **more: object) -> Report:
    return report_of({"instructions": [count] * 3}, device="qemu", **more)  # type: ignore[arg-type]


def commit(number: int, branch: str = "main") -> GitState:
    return GitState(f"{number:08x}" * 5, branch, is_dirty=False)


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "history.sqlite")


def command(history: History, *words: str) -> Outcome:
    environment = {"BOARDPROF_HISTORY": str(history.path)}
    assert history.path is not None
    return boardprof(*words, environment=environment, folder=history.path.parent)


def save_all(history: History, values: list[int]) -> None:
    first = history.count() + 1
    for number, value in enumerate(values, first):
        history.save(hardware(value), git=commit(number))


# -- trends -----------------------------------------------------------------------------------


def test_runs_with_other_inputs_are_left_out_unless_they_are_allowed(history: History) -> None:
    for number, (value, crc) in enumerate([(500, "a"), (90, "b"), (500, "a")], 1):
        report = emulated(value, measurement={"inputs_crc32": crc})
        history.save(report, git=commit(number))
    done = command(history, "trend", "fir", "--branch", "main")
    assert done.err == (
        "note: left out: #2. Its arrays had other contents (--allow inputs includes it).\n"
    )
    assert "fir(n=64) on qemu: 2 runs" in done.out
    assert "changed" not in done.out
    every = command(history, "trend", "fir", "--branch", "main", "--allow", "inputs")
    assert (every.err, "fir(n=64) on qemu: 3 runs" in every.out) == ("", True)
    assert "instructions changed from 500 to 90" in every.out


def test_a_change_is_named_with_the_run_and_the_commit_that_brought_it(history: History) -> None:
    save_all(history, NOISY + LATER)
    for number, value in ((17, 700), (18, 701)):
        history.save(hardware(value), git=commit(number, "topic"))
    history.save(hardware(5), git=commit(19), has_failed=True)
    done = command(history, "trend", "fir", "--branch", "main", "--width", "160")
    assert (done.code, done.err) == (0, "")
    title, headers, row, change = done.out.splitlines()
    day = history.run("#1").time[:10]
    assert title == f"fir(n=64) on m4: 16 runs, #1 of {day} to #16 of {day}"
    assert headers.split() == ["Metric", "Median", "Spread", "Last", "Trend"]
    # Of the last six: median 1100.5; the distances 2.5 2.5 0.5 4.5 4.5 0.5 have the median 2.5.
    assert row.split()[:4] == ["cycles", "1,100.50", "3.707", "1,100"]
    assert row.split()[4] == "▁▁▁▁▁▁▁▁▁▁██████"
    assert change == (
        "cycles changed from 1,000.50 to 1,100.50 (+10.00 %) between #10 (branch main, 0000000a) "
        f"and #11 (branch main, 0000000b) of {day}"
    )
    narrow = command(history, "trend", "fir", "--branch", "main", "--width", "80").out
    assert narrow.splitlines()[:3] == done.out.splitlines()[:3]
    assert all(len(line) <= 80 for line in narrow.splitlines())
    found = json.loads(command(history, "trend", "fir", "--branch", "main", "--json").out)
    (series,) = found["trends"]
    assert [run["median"] for run in series["runs"]] == NOISY + LATER
    assert series["usual"] == {"median": 1100.5, "spread": 3.7065, "runs": 6}
    (one,) = series["changes"]
    assert (one["id"], one["commit"], one["before"], one["after"]) == (
        *(11, "0000000b" * 5, 1000.5, 1100.5),
    )
    assert (one["previous"]["id"], one["previous"]["commit"]) == (10, "0000000a" * 5)
    assert one["p"] == pytest.approx(2 * 7 * 2 / 8008)  # 2 searches, 7 places, 2 / C(16, 6)
    every = json.loads(command(history, "trend", "fir", "--limit", "3", "--json").out)
    assert [run["median"] for run in every["trends"][0]["runs"]] == [1100, 700, 701]


def test_exact_counts_change_wherever_they_differ(history: History) -> None:
    for number, count in enumerate([505, 505, 507, 507, 505], 1):
        history.save(emulated(count), git=commit(number))
    done = command(history, "trend", "fir", "--width", "160")
    lines = done.out.splitlines()
    assert lines[2].split()[:4] == ["instructions", "505", "exact", "505"]
    assert (
        "changed from 505 to 507 (+0.40 %) between #2 (branch main, 00000002) and #3 " in lines[3]
    )
    assert (
        "changed from 507 to 505 (-0.39 %) between #4 (branch main, 00000004) and #5 " in lines[4]
    )


def test_a_change_within_one_commit_or_one_build_is_not_of_the_code(history: History) -> None:
    dirty = GitState(commit(2).commit, "main", is_dirty=True)
    states = [commit(1), commit(1), commit(2), dirty, commit(3), commit(4)]
    builds = ["a", "b", "c", "d", "e", "e"]
    for number, (state, build) in enumerate(zip(states, builds, strict=True)):
        history.save(emulated(505 + number, measurement={"build_id": build}), git=state)
    done = command(history, "trend", "fir", "--all", "--width", "200")
    told = [line.partition(" of 2")[2].partition(" ")[2] for line in done.out.splitlines()[3:]]
    assert told == [
        "(the same commit: not the code)",
        "",
        "",
        "",
        "(the same build: not the code, but its inputs or the machine)",
    ]


def test_the_trend_is_that_of_the_current_branch(history: History) -> None:
    assert history.path is not None
    git(history.path.parent, "init", "-q", "-b", "main")
    for number, branch in enumerate(["main", "topic", "main"], 1):
        history.save(emulated(500 + number), git=commit(number, branch))
    history.save(emulated(9), git=GitState(commit(4).commit, "main", is_dirty=True))
    assert "2 runs, #1 of" in command(history, "trend", "fir").out
    assert "4 runs, #1 of" in command(history, "trend", "fir", "--all").out
    assert "1 run, #2 of" in command(history, "trend", "fir", "--branch", "topic").out
    git(history.path.parent, "checkout", "-q", "-b", "new")
    assert "4 runs, #1 of" in command(history, "trend", "fir").out
    both = command(history, "trend", "fir", "--all", "--branch", "main")
    assert (both.code, "--all excludes --branch" in both.err) == (2, True)


def test_each_board_and_each_set_of_arguments_has_its_trend(history: History) -> None:
    for value in (100, 101):
        history.save(hardware(value, shapes="n=64"))
        history.save(hardware(2 * value, shapes="n=128"))
        history.save(emulated(value))
    done = command(history, "trend", "fir")
    titles = [line.partition(":")[0] for line in done.out.splitlines() if ": " in line]
    assert titles == ["fir(n=64) on qemu", "fir(n=128) on m4", "fir(n=64) on m4"]
    only = json.loads(command(history, "trend", "fir", "-b", "qemu", "--json").out)
    assert [each["device"] for each in only["trends"]] == ["qemu"]


def test_runs_of_another_compiler_are_left_out_and_told(history: History) -> None:
    for flags in ("-O2", "-O3", "-O2"):
        history.save(hardware(100, flags=flags))
    done = command(history, "trend", "fir")
    assert done.out.startswith("fir(n=64) on m4: 2 runs, #1 ")
    assert done.err.startswith("note: left out: #2. ")
    assert "3 runs, #1 " in command(history, "trend", "fir", "--allow", "compiler").out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["fri"], "There is no function 'fri' in the runs of this project; did you mean 'fir'?"),
        (
            ["fir", "--branch", "dev"],
            "There is no run of fir in the runs of this project on the branch dev without changes.",
        ),
        (["fir", "-b", "qemu"], "There is no run of fir in the runs of this project measured on"),
        (["fir", "--metric", "cycels"], "There is no metric 'cycels'; did you mean 'cycles'?"),
        (["fir", "--limit", "0"], "--limit"),
    ],
)
def test_what_has_no_trend_is_told(history: History, words: list[str], told: str) -> None:
    history.save(hardware(100))
    done = command(history, "trend", *words)
    assert (done.code, done.out, told in done.err) == (2, "", True)


def test_functions_of_one_name_in_several_files_have_trends_of_their_own(history: History) -> None:
    runs = [(5, "src/a.c"), (9, "src/b.c"), (5, "src/a.c"), (8, "src/b.c")]
    for number, (count, file) in enumerate(runs, 1):
        source = {"source": {"file": file, "line": 1}}
        history.save(emulated(count, measurement=source), git=commit(number))
    done = command(history, "trend", "fir", "--width", "120")
    told = [line for line in done.out.splitlines() if "runs, " in line or " changed " in line]
    assert [line.partition(" of 20")[0] for line in told] == [
        "src/b.c:fir(n=64) on qemu: 2 runs, #2",
        "instructions changed from 9 to 8 (-11.11 %) between #2 (branch main, 00000002) and #4 "
        "(branch main, 00000004) of",
        "src/a.c:fir(n=64) on qemu: 2 runs, #1",
    ]
    assert done.err == ""
    found = json.loads(command(history, "trend", "a.c:fir", "--json").out)["trends"]
    assert [(each["file"], each["name"], len(each["runs"])) for each in found] == [
        ("src/a.c", "fir", 2)
    ]
    assert command(history, "trend", "src/a.c:fir").out.startswith("fir(n=64) on qemu: 2 runs, #1 ")
    done = command(history, "trend", "c.c:fir")
    assert (done.code, "There is no file 'c.c' of fir in these runs" in done.err) == (2, True), (
        done.err
    )


def test_a_line_that_shows_only_the_last_runs_says_so(history: History) -> None:
    for _ in range(25):
        history.save(emulated(505), git=commit(1))
    title, headers, row = command(history, "trend", "fir", "--width", "120").out.splitlines()
    assert "25 runs" in title
    assert headers.endswith("Trend (last 24)")
    assert len(row.split()[-1]) == 24


def test_without_any_run_there_is_no_trend(history: History) -> None:
    done = command(history, "trend", "fir")
    assert (done.code, "has no run of this project" in done.err) == (2, True)


# -- limits in spreads ------------------------------------------------------------------------

RULE = ("--fail-if", "cycles>4spread")


def test_a_value_within_the_spread_of_earlier_runs_passes_and_one_beyond_fails(
    history: History, tmp_path: Path
) -> None:
    save_all(history, NOISY)
    # Four spreads are 4 * 2.5 * 1.4826 = 14.826 above 1000.5.
    for value, code in ((1015, 0), (1016, 1)):
        write_report(hardware(value), str(tmp_path / "now.json"))
        done = command(history, "compare", "branch:main", "now.json", *RULE)
        assert done.code == code, done.out
    assert "REGRESSION (cycles>4spread)" in done.out
    assert (
        "Note: cycles of fir: 1,016 is +4.18 spreads of 3.706 from 1,000.5, the median of 10 "
        "earlier runs." in " ".join(done.out.split())
    )
    tight = command(history, "compare", "branch:main", "now.json", "--fail-if", "cycles>5spreads")
    assert tight.code == 0


def test_the_spread_is_that_of_the_runs_since_the_last_change(
    history: History, tmp_path: Path
) -> None:
    save_all(history, NOISY + LATER)
    write_report(hardware(1112), str(tmp_path / "now.json"))
    assert command(history, "compare", "branch:main", "now.json", *RULE).code == 0
    write_report(hardware(1116), str(tmp_path / "now.json"))
    assert command(history, "compare", "branch:main", "now.json", *RULE).code == 1


def test_with_too_few_runs_nothing_is_judged_and_no_gate_passes(
    history: History, tmp_path: Path
) -> None:
    save_all(history, NOISY[:4])
    write_report(hardware(2000), str(tmp_path / "now.json"))
    done = command(history, "compare", "branch:main", "now.json", *RULE)
    assert (done.code, "No rule could judge any row." in done.err) == (2, True)
    assert "a spread needs 5 earlier runs of the branch since its last change, and there are 4" in (
        " ".join(done.out.split())
    )
    missing = command(history, "compare", "branch:main", "now.json", *RULE, "--fail-if-missing")
    assert missing.code == 1


def test_a_run_is_measured_against_the_spread_of_a_branch(history: History, tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text("int twice(int n) { return 2 * n; }\n")
    words = ("run", "-q", "-b", "native", "f.c:twice", "n=3", "--repeat", "5")
    assert command(history, *words, "--save", "one").code == 0
    refused = command(history, *words, "--against", "one", "--fail-if", "time>4spread")
    assert (refused.code, refused.out) == (2, "")
    assert "is not of a branch, so it has no earlier runs" in refused.err
    made = history.find("one")
    for number in range(6):
        history.save(made, git=commit(number))
    gate = ("--against", "branch:main", "--fail-if", "time>1e6spread")
    assert command(history, *words, *gate).code in (0, 2)  # 2: nothing could be judged
    turns = command(history, *words, "--ab", "-O2|-O3", "--fail-if", "time>4spread")
    assert (turns.code, "--ab and --ab-rev measure both sides now" in turns.err) == (2, True)
