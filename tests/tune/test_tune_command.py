# SPDX-License-Identifier: Apache-2.0
"""`boardprof tune`: what is tried, printed, written, resumed and refused."""

from __future__ import annotations

import json
import os
import re
import shlex
import sqlite3
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from boardprof.base.errors import UsageError
from boardprof.jobs.tune import MeasureError, MeasureResult, Runner
from boardprof.jobs.tune.search import Search, Space, Trial
from boardprof.jobs.tune.tuning import number
from boardprof.results.report.report_file import read_report
from tests.cli.command import boardprof
from tests.cli.terminal import on_terminal
from tests.cli.test_flash import lab, serving

SOURCE = """\
#include <stdint.h>
#ifndef TIMES
#define TIMES 1
#endif
/* GREEDY takes room and does nothing else; BROKEN gives another output. */
void triple(const int32_t x[8], int32_t y[8]) {
#ifdef GREEDY
    if (x == y) { for (int i = 0; i < 8; i++) y[i] = x[i] * GREEDY + GREEDY / 3; }
#endif
    for (int i = 0; i < 8; i++) y[i] = x[i] * (TIMES + 2);
}
"""

ARGUMENTS = ("x=[8]:random(1)", "y=[8]:zeros")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "triple.c"
    path.write_text(SOURCE)
    return path


def tuned(source: Path, *options: str | Path, code: int = 0) -> tuple[str, str, dict[str, Any]]:
    """Return what was printed, notes, and the JSON."""
    file = source.parent / "tuned.json"
    done = boardprof(
        *("tune", "-b", "native", f"{source}:triple", *ARGUMENTS, "--json", file, *options)
    )
    assert done.code == code, done.err
    return done.out, done.err, json.loads(file.read_text()) if code in (0, 9) else {}


def test_the_smallest_right_candidate_wins(source: Path) -> None:
    out, _, found = tuned(
        *(source, "--param", "TIMES=1,2", "--flags", "-O3|-Os", "--minimise", "flash"),
        *("--sampler", "grid"),
    )
    assert found["goals"] == ["Flash (bytes)"]
    assert [each["choice"] for each in found["trials"]] == [
        {"flags": "-O3", "TIMES": "1"},
        {"flags": "-O3", "TIMES": "2"},
        {"flags": "-Os", "TIMES": "1"},
        {"flags": "-Os", "TIMES": "2"},
    ]
    errors = [each["error_no"] for each in found["trials"]]
    assert errors == [0, MeasureError.WRONG_ANSWER, 0, MeasureError.WRONG_ANSWER]
    assert found["best"] == 2
    assert "2 of 4 have a wrong output, such as: y of triple on native differs" in out
    assert re.search(r"(?m)^#2 +\d+ +-Os +1$", out)


def test_a_candidate_that_does_not_compile_shows_the_compilers_error(source: Path) -> None:
    out, _, found = tuned(source, "--param", "TIMES=1,wrong", "--minimise", "flash")
    error = found["trials"][1]["error"]
    assert " error: " in error
    assert "wrong" in error
    assert f"1 of 2 do not compile or link, such as: {error}" in out


def test_the_printed_command_measures_the_winner(source: Path) -> None:
    out, _, found = tuned(source, "--flags", "-O3|-Os", "--minimise", "flash", "-D", "GREEDY=7")
    [line] = [line.strip() for line in out.splitlines() if line.startswith("  boardprof run")]
    assert line == found["command"]
    words = shlex.split(line)
    assert words[1:5] == ["run", "-b", "native", f"{source}:triple"]
    assert "-D" in words
    assert "--cflags=-Os" in words
    done = boardprof(*words[1:])
    assert done.code == 0
    assert "triple" in done.out


def test_a_static_function_and_the_headers_names_of_parameters_are_taken_as_run_takes_them(
    tmp_path: Path,
) -> None:
    (tmp_path / "sum.h").write_text("int sum(const int *values, int count);\n")
    source = tmp_path / "sum.c"
    source.write_text(
        '#include "sum.h"\n'
        "#ifdef TWO\n"
        "static int by_macro(int x) { return TWO * x; }\n"
        "int of_macro(int x) { return by_macro(x); }\n"
        "#endif\n"
        "static int twice(int x) { return 2 * x; }\n"
        "int sum(const int *x, int n) {\n"
        "    int s = 0;\n    while (n-- > 0) s += twice(x[n]);\n    return s;\n}\n"
    )
    search = ("--flags", "-O2|-Os", "--minimise", "flash")
    done = boardprof(
        *("tune", "-b", "native", f"{source}:sum", "values=[3]:ones", "count=3", *search)
    )
    assert (done.code, done.err.splitlines()[0]) == (
        0,
        "note: sum: count is n, values is x. The first are the names in sum.h",
    )
    done = boardprof("tune", "-b", "native", f"{source}:twice", "x=21", "--expect", "42", *search)
    assert (done.code, done.err.splitlines()[0]) == (
        0,
        "note: the build adds --no-inline twice, because it is static",
    )
    done = boardprof("tune", "-b", "native", f"{source}:by_macro", "x=21", "--param", "TWO=2,3")
    assert (done.code, done.err.splitlines()[0]) == (
        0,
        "note: the build adds --no-inline by_macro, because it is static",
    )


def test_several_goals_give_the_candidates_that_nothing_beats(source: Path) -> None:
    out, _, found = tuned(
        *(source, "--param", "GREEDY=9,10", "--flags", "-O3|-Os", "--sampler", "nsga2"),
        *("--minimise", "flash", "--minimise", "ram", "--trials", "4"),
    )
    assert "Not beaten in all of Flash (bytes), RAM (bytes):" in out
    flash = {each["number"]: each["metrics"]["Flash (bytes)"] for each in found["trials"]}
    assert found["pareto"] == [found["best"]]
    assert flash[found["best"]] == min(flash.values())


def test_a_search_goes_on_where_it_ended(source: Path) -> None:
    study = source.parent / "study.db"
    options = ("--param", "GREEDY=1,2,3,4", "--minimise", "flash", "--study", study)
    _, _, first = tuned(source, *options, "--trials", "2")
    _, _, second = tuned(source, *options, "--trials", "3")
    assert [len(each["trials"]) for each in (first, second)] == [2, 3]
    assert second["trials"][:2] == first["trials"]
    assert len({each["choice"]["GREEDY"] for each in second["trials"]}) == 3
    done = boardprof(
        *("tune", "-b", "native", f"{source}:triple", *ARGUMENTS, "--param", "GREEDY=1,2"),
        *("--minimise", "flash", "--study", study),
    )
    assert done.code == 2
    assert "is another study. Its alternatives: GREEDY 1, 2, 3, 4. Now: GREEDY 1, 2.\n" in done.err


def test_a_study_does_not_go_on_under_other_conditions(source: Path) -> None:
    header, study = source.parent / "limits.h", source.parent / "study.db"
    header.write_text("#define LIMIT 9\n")
    source.write_text('#include "limits.h"\n' + SOURCE)
    choices = ("--param", "GREEDY=1,2,3", "--minimise", "flash", "--study", study)
    tuned(source, *choices, "--trials", "2")

    def refused(*options: str) -> str:
        _, told, _ = tuned(source, *choices, *options, code=2)
        return told.partition("study.db ")[2].partition("\n")[0]

    assert refused("-O3", "-D", "X=1") == ("is another study. Its options: none. Now: -O3 -D X=1.")
    assert refused("--warmup", "3") == "is another study. Its warmup: not set. Now: 3."
    header.write_text("#define LIMIT 8\n")  # changes no code
    assert refused() == "is an older study: a source file or a header has changed since."


def test_a_study_goes_on_with_the_trials_that_were_measured_before_ctrl_c(source: Path) -> None:
    study = source.parent / "study.db"
    arguments = {"x": np.arange(8, dtype=np.int32), "y": np.zeros(8, np.int32)}
    runner = Runner("native", arguments, "flash", function="triple", sources=[source])
    space = Space({"GREEDY": ("1", "2", "3", "4")})
    seen: list[Trial] = []

    def stop(trial: Trial) -> None:
        seen.append(trial)
        if len(seen) == 2:
            raise KeyboardInterrupt

    search = Search(runner, space, ["Flash (bytes)"], study=study)
    with pytest.raises(KeyboardInterrupt):
        search.run(4, stop)
    search = Search(runner, space, ["Flash (bytes)"], study=study)
    assert [each.choice for each in search.trials] == [each.choice for each in seen]
    search.run(4, seen.append)
    assert sorted(each.choice["GREEDY"] for each in seen) == ["1", "2", "3", "4"]


def test_a_study_that_is_damaged_inside_is_named_with_the_cause(tmp_path: Path) -> None:
    space, study = Space({"GREEDY": ("1", "2", "3", "4")}), tmp_path / "study.db"

    class Measured:
        constraints: ClassVar[dict[str, float]] = {}

        def measure(self, candidates: Any, on_result: Any) -> None:
            for index, _ in enumerate(candidates):
                on_result(index, MeasureResult((1.0,), MeasureError.NO_ERROR, 0, 0, {"x": 1.0}))

    def searched(count: int) -> int:
        search = Search(Measured(), space, ["x"], study=study)  # type: ignore[arg-type]
        search.run(count)
        return len(search.trials)

    assert searched(2) == 2
    content = bytearray(study.read_bytes())
    with sqlite3.connect(study) as file:
        (page,) = file.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'trial_user_attributes'"
        ).fetchone()
    file.close()
    begin = (page - 1) * 4096
    content[begin : begin + 4096] = b"\xff" * 4096
    study.write_bytes(content)
    with pytest.raises(
        UsageError, match=r"study\.db cannot be used as a study: database disk image"
    ):
        searched(3)


def test_a_study_that_another_process_has_is_refused_and_left_as_it_is(source: Path) -> None:
    study = source.parent / "study.db"
    arguments = {"x": np.arange(8, dtype=np.int32), "y": np.zeros(8, np.int32)}
    runner = Runner("native", arguments, "flash", function="triple", sources=[source])
    search = Search(runner, Space({"GREEDY": ("1", "2")}), ["Flash (bytes)"], study=study)
    (asked,) = search._ask(1)  # as a search that runs
    command = (sys.executable, "-m", "boardprof", "tune", "-b", "native", f"{source}:triple")
    choice = ("--param", "GREEDY=1,2", "--minimise", "flash", "--trials", "1", "--study", study)
    done = subprocess.run(
        [*command, *ARGUMENTS, *choice], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 3
    assert re.search(
        rf"The study {re.escape(str(study))} is in use by .*\(pid {os.getpid()}\)", done.stderr
    )
    assert [each.state.name for each in search._study.get_trials()] == ["RUNNING"]
    assert asked.number == 0
    del search, asked
    done = subprocess.run(
        [*command, *ARGUMENTS, *choice], capture_output=True, text=True, timeout=60, check=False
    )
    assert "is another study" in done.stderr  # it could be opened


def test_every_choice_is_tried_once_and_then_the_search_ends(source: Path) -> None:
    _, _, found = tuned(source, "--param", "GREEDY=1,2,3", "--minimise", "flash", "--trials", "50")
    assert sorted(each["choice"]["GREEDY"] for each in found["trials"]) == ["1", "2", "3"]


def test_a_parameter_that_changes_nothing_is_not_important(source: Path) -> None:
    choices = ("--flags", "-O3|-Os|-O1", "--minimise", "flash", "--sampler", "grid")
    _, _, found = tuned(source, *choices, "--param", "NOTHING=1,2,3,4")
    assert found["importance"]["flags"] > 0.9
    assert found["importance"]["NOTHING"] < 0.1
    out, _, found = tuned(source, *choices, "--param", "NOTHING=1,2,3")  # only nine
    assert found["importance"] == {}
    assert "Importance" not in out


def test_results_from_the_history_are_counted(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOARDPROF_HISTORY", str(source.parent / "history.sqlite"))
    choices = ("--minimise", "flash", "--param", "NOTHING=1,2", "--flags")
    out, _, _ = tuned(source, *choices, "-O3|-Os")
    assert "from the history" not in out  # although two of four have the code of another one
    out, _, _ = tuned(source, *choices, "-O3|-Os|-O1")
    assert "4 of 6 results are from the history. BOARDPROF_HISTORY=off measures" in out


def test_a_time_that_is_too_short_to_be_measured_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "sum.c"
    path.write_text("int sum(int n) { volatile int s = 0; while (n--) s += n; return s; }\n")

    def warnings(*options: str) -> str:
        choices = ("--flags", "-O1|-O2", "--minimise", "time")
        done = boardprof("tune", "-b", "native", f"{path}:sum", *choices, *options)
        assert done.code == 0, done.err
        return "".join(line for line in done.err.splitlines(True) if "warning" in line)

    found = warnings("n=1")
    assert found.startswith("warning: Time of sum on native: ")
    assert "Make the samples longer: --number 1" in found
    assert warnings("n=1", "-q") == ""
    assert warnings("n=4000") == ""


def test_short_times_have_four_digits() -> None:
    short = {0.01308: "0.01308", 0.24567: "0.2457", -0.024: "-0.024", 9.5: "9.5", 0.0: "0"}
    assert {value: number(value) for value in short} == short
    long = {157244.0: "157,244", 1234.567: "1,234.57"}
    assert {value: number(value) for value in long} == long


def test_a_macro_that_the_source_does_not_use_is_named(source: Path) -> None:
    macros = ("--param", "NOTHING=1,2", "--param", "GREEDY=1,2", "--param", "wrong=1,2")
    out, _, found = tuned(source, *macros, "--minimise", "flash", "--sampler", "grid")
    assert len(found["trials"]) == 8
    assert re.findall(r"(?m)^(\w+) changes nothing: all its values compile", out) == [
        "NOTHING",
        "wrong",
    ]
    out, _, _ = tuned(source, *macros, "--minimise", "flash", "--trials", "1")
    assert "changes nothing" not in out  # nothing was compared


def test_a_macro_that_does_not_compile_is_not_called_unused(source: Path) -> None:
    choices = ("--param", "TIMES=1,2-1,wrong", "--minimise", "flash", "--sampler", "grid")
    out, _, _ = tuned(source, *choices)
    assert "1 of 3 do not compile or link" in out
    assert "changes nothing" not in out
    out, _, _ = tuned(source, *choices, "--param", "NOTHING=1,2")
    assert "2 of 6 do not compile or link" in out
    assert re.findall(r"(?m)^(\w+) changes nothing", out) == ["NOTHING"]


def test_a_constraint_is_kept(source: Path) -> None:
    out, _, found = tuned(
        *(source, "--flags", "-O2|-O3", "--minimise", "flash", "--constraint", "flash<=10"),
        code=9,
    )
    assert found["best"] is None
    assert found["command"] is None
    assert "No candidate has a right output within the limits." in out
    assert "above a limit, such as: Flash (bytes) is" in out


def test_a_page_has_the_history_of_trials(source: Path) -> None:
    page = source.parent / "page.html"
    tuned(source, "--flags", "-O0|-O3|-Os", "--minimise", "flash", "--html", page)
    text = page.read_text()
    assert text.count("<circle ") == 3
    assert "triple on native" in text
    assert "http" not in text.replace("http-equiv", "")
    assert "<script" not in text


def test_a_terminal_shows_the_best_trials_while_the_search_runs(source: Path) -> None:
    code, shown = on_terminal(
        *("tune", "-b", "native", f"{source}:triple", *ARGUMENTS, "--flags", "-O3|-Os"),
        *("--minimise", "flash"),
        environment={"TERM": "xterm"},
        both=True,
    )
    assert code == 0
    assert "1 of 2 trials, 0 failed" in shown
    assert "2 of 2 trials, 0 failed" in shown
    assert "Best Flash (bytes): " in shown.rpartition("2 of 2 trials")[2]


def test_a_baseline_that_fails_is_an_error(source: Path) -> None:
    done = boardprof(
        *("tune", "-b", "native", f"{source}:triple", *ARGUMENTS, "--param", "TIMES=wrong,1"),
    )
    assert done.code == 7
    assert "triple.c:" in done.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--param", "TIMES"), "'TIMES' is not a valid --param."),
        (("--param", "TIMES=1,,2"), "'TIMES=1,,2' is not a valid --param."),
        (("--param", "TIMES=1,1"), "--param TIMES=1,1 has a value twice."),
        (("--param", "TIMES=1,2", "--param", "TIMES=4"), "--param TIMES is given twice."),
        ((), "There is nothing to choose."),
        (("--param", "TIMES=1,2", "--constraint", "stack"), "'stack' is not a valid --constraint."),
        (("--param", "TIMES=1,2", "--constraint", "stack<=1.2.3"), "is not a valid --constraint."),
        (
            ("--param", "TIMES=1,2", "--constraint", "stack<=1", "--constraint", "stack<=2"),
            "--constraint has two limits of Stack (bytes).",
        ),
        (("--param", "TIMES=1,2", "--html", "nowhere/page.html"), "there is no folder"),
        (("--param", "TIMES=1,2", "--minimise", "cycels"), "no metric 'cycels'"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    source: Path, options: tuple[str, ...], message: str
) -> None:
    done = boardprof("tune", "-b", "native", f"{source}:triple", *ARGUMENTS, *options)
    assert done.code == 2
    assert message in done.err


def test_without_optuna_it_says_what_to_install(source: Path, tmp_path: Path) -> None:
    (tmp_path / "optuna.py").write_text("raise ImportError\n")
    done = boardprof(
        *("tune", "-b", "native", f"{source}:triple", *ARGUMENTS, "--param", "TIMES=1,2"),
        environment={"PYTHONPATH": str(tmp_path)},
    )
    assert done.code == 7  # like a missing tool
    assert "pip install 'boardprof[tune]'" in done.err


@pytest.mark.slow
@pytest.mark.board("qemu-rv32")
def test_on_an_exact_board_the_winner_costs_the_same_by_itself(source: Path) -> None:
    file = source.parent / "tuned.json"
    done = boardprof(
        *("tune", "-b", "qemu-rv32", f"{source}:triple", *ARGUMENTS, "--json", file),
        *("--flags", "-O1|-O3", "--constraint", "stack<=500"),
    )
    assert done.code == 0, done.err
    found = json.loads(file.read_text())
    assert found["goals"] == ["instructions"]
    best = found["trials"][found["best"]]
    assert found["cost_by_itself"] == best["metrics"]["instructions"]
    assert best["metrics"]["Stack (bytes)"] <= 500
    assert "By itself it takes" in done.out


TABLE = """\
#include <stdint.h>
static uint32_t table[16 * TIMES];
static int ready;
uint32_t sum(uint32_t n) {
    uint32_t found = 0;
    for (; !ready; ready = 1)
        for (uint32_t i = 0; i < 16 * TIMES; i++) table[i] = i / TIMES * 3;
    for (uint32_t i = 0; i < n; i++) found += table[i * TIMES];
    return found;
}
"""


@pytest.mark.slow
@pytest.mark.board("qemu-rv32")
def test_a_function_whose_first_call_does_more_is_named(tmp_path: Path) -> None:
    path, file = tmp_path / "sum.c", tmp_path / "tuned.json"
    path.write_text(TABLE)
    command = ("tune", "-b", "qemu-rv32", f"{path}:sum", "n=9", "--param", "TIMES=1,2")
    done = boardprof(*command, "--json", file)
    assert done.code == 0, done.err
    found = json.loads(file.read_text())
    later = found["later_cost_by_itself"]
    assert later < found["cost_by_itself"]
    assert f"That is its first call. The next one takes {later:,.0f}. To tune it, add" in done.out
    done = boardprof(*command, "--json", file, "--warmup", "1")
    found = json.loads(file.read_text())
    assert found["trials"][found["best"]]["metrics"]["instructions"] == found["cost_by_itself"]
    assert found["later_cost_by_itself"] == found["cost_by_itself"]
    assert "first call" not in done.out


RING = """\
#include <stdint.h>
static uint32_t ring[64 / WIDTH], count;
uint32_t mean(uint32_t value) {
    ring[count++ % (64 / WIDTH)] = value;
    uint32_t sum = 0;
    for (uint32_t i = 0; i < count && i < 64 / WIDTH; i++) sum += ring[i];
    return sum;
}
"""
"""Each call costs more than the one before, until the ring is full."""


@pytest.mark.slow
@pytest.mark.board("qemu-rv32")
@pytest.mark.parametrize(
    ("options", "rounds", "later"),
    [
        ((), "--warmup 0 --repeat 1", "That is its first call. The next one takes "),
        (("--warmup", "1"), "--warmup 1 --repeat 1", "The next calls take "),
        (("--warmup", "70"), "--warmup 70 --repeat 1", ""),
        (
            ("--number", "3", "--repeat", "2"),
            "--warmup 0 --repeat 2 --number 3",
            "The next calls take ",
        ),
    ],
)
def test_the_printed_command_reproduces_the_winners_cost(
    tmp_path: Path, options: tuple[str, ...], rounds: str, later: str
) -> None:
    path, file, report = tmp_path / "mean.c", tmp_path / "tuned.json", tmp_path / "report.json"
    path.write_text(RING)
    command = ("tune", "-b", "qemu-rv32", f"{path}:mean", "value=5", "--param", "WIDTH=1,2")
    done = boardprof(*command, "--flags", "-Os", *options, "--json", file)
    assert done.code == 0, done.err
    found = json.loads(file.read_text())
    cost = found["trials"][found["best"]]["metrics"]["instructions"]
    told = done.out.partition(" instructions, too.\n")[2]
    assert told.startswith(later)
    assert ("The next" in told) == bool(later)
    assert found["command"].endswith(f" {rounds}")
    assert boardprof(*shlex.split(found["command"])[1:], "--json", report).code == 0
    calls = [row for row in read_report(str(report)).calls if "instructions" in row]
    number = int(dict(zip(options[::2], options[1::2], strict=True)).get("--number", 1))
    assert statistics.median(row["instructions"].value / number for row in calls) == cost


def test_a_board_at_a_port_is_flashed_with_each_image(tmp_path: Path) -> None:
    path, file = tmp_path / "triple.c", tmp_path / "tuned.json"
    path.write_text(SOURCE)
    made = lab(tmp_path, "linux")
    with serving(made, "{firmware}", "--pty"):
        done = made.run(
            *("tune", "-b", made.board, "-p", made.port, f"{path}:triple", *ARGUMENTS),
            *("--param", "TIMES=1,*(volatile int*)8", "--flags", "-O1|-O2"),
            *("--minimise", "time", "--json", file),
        )
    assert done.code == 0, done.err
    found = json.loads(file.read_text())
    errors = {each["choice"]["TIMES"]: each["error_no"] for each in found["trials"]}
    assert errors == {"1": 0, "*(volatile int*)8": MeasureError.RUNTIME_DEVICE}
    assert f"-p {made.port} --flash" in found["command"]
