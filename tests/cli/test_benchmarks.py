# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of a project: one file, one command, and the same names elsewhere."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Outcome, boardprof
from tests.pytest_plugin.suite import Suite

SOURCE = """\
#include <stdint.h>
int32_t sum(const int16_t *x, int32_t n)
{
    int32_t all = 0;
    for (int32_t i = 0; i < n; i++) all += x[i];
    return all / 8;
}
void fill(int16_t *y, int32_t n) { for (int32_t i = 0; i < n; i++) y[i] = (int16_t)(i * STEP); }
struct gain { int by; float not_used; };
int gained(const struct gain *g, int x) { return g->by * x; }
int hang(int x) { while (*(volatile int *)&x) { } return x; }
"""

FILE = """\
[benchmarks]
boards = ["qemu-rv32"]
metrics = ["instructions"]
warmup = 1
repeat = 2
define = ["STEP=3"]

[[benchmark]]
name = "sum-long"
target = "src/a.c:sum"
arguments = {x = "[64]:ones", n = 64}
expect = {return = 8}
tags = ["slow"]

[[benchmark]]
name = "sum"
target = "src/a.c:sum"
arguments = {x = "@data/x.bin", n = 4}
optimize = "s"

[[benchmark]]
name = "fill"
target = "src/a.c:fill"
arguments.y = "[4]:out"
arguments.n = 4
boards = ["qemu-rv32", "qemu-rv64"]
limit.qemu-rv32 = {instructions = 20}
tags = ["slow", "memory"]
"""

STRUCT = """
[[benchmark]]
name = "gained"
target = "src/a.c:gained"
arguments = {g = "{by=3}", x = 4}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "src" / "a.c").write_text(SOURCE)
    (tmp_path / "data" / "x.bin").write_bytes(bytes(8))
    (tmp_path / "boardprof.toml").write_text(FILE)
    return tmp_path


def report_of(folder: Path, *arguments: str, code: int = 0) -> dict[str, Any]:
    done = boardprof("run", *arguments, "--json", "-", folder=folder)
    assert done.code == code, done.err
    content: dict[str, Any] = json.loads(done.out)
    return content


def measured(report: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    rows = report["boardprof"]["measurements"]
    return [(m["name"], m.get("label", ""), m["device"], m["flags"]) for m in rows]


def test_all_benchmarks_are_one_report_in_the_files_order_from_any_folder(project: Path) -> None:
    report = report_of(project / "data", code=1)
    assert measured(report) == [
        ("sum", "sum-long", "qemu-rv32", "-O2 -DSTEP=3"),
        ("sum", "", "qemu-rv32", "-Os -DSTEP=3"),
        ("fill", "", "qemu-rv32", "-O2 -DSTEP=3"),
        ("fill", "", "qemu-rv64", "-O2 -DSTEP=3"),
    ]
    results = [m["result"] for m in report["boardprof"]["measurements"]]
    assert results == [8, 0, None, None]
    # Those with the same flags are one image, whichever are measured.
    build = report["boardprof"]["measurements"][0]["build_id"]
    alone = report_of(project, "fill", "-b", "qemu-rv32", code=1)
    assert [m["build_id"] for m in alone["boardprof"]["measurements"]] == [build]


def test_names_patterns_tags_and_boards_choose(project: Path) -> None:
    assert [row[1] for row in measured(report_of(project, "sum*"))] == ["sum-long", ""]
    chosen = measured(report_of(project, "--tag", "memory", "-b", "qemu-rv64"))
    assert chosen == [("fill", "", "qemu-rv64", "-O2 -DSTEP=3")]
    [flags] = {row[3] for row in measured(report_of(project, "sum*", "-O3", "-D", "STEP=1"))}
    assert flags == "-O3 -DSTEP=1"
    for arguments, text in (
        (["fil"], "There is no benchmark 'fil' in boardprof.toml; did you mean 'fill'?"),
        (["--tag", "fast"], "There is no tag 'fast' in boardprof.toml"),
        (["src/a.c:sum", "--tag", "slow"], "--tag chooses benchmarks, not other targets."),
        (["sum", "--tag", "slow"], "No benchmark has both this name and this tag."),
        (["--image", "src/a.c"], "Which function of the image?"),
    ):
        done = boardprof("run", *arguments, folder=project)
        assert (done.code, text in done.err) == (2, True), done.err


def test_a_board_that_the_file_does_not_name_measures_all_without_limits(project: Path) -> None:
    done = boardprof("run", "fill", "-b", "qemu-cortex-m4,qemu-rv32", folder=project)
    assert (done.code, "fill on qemu-rv32: instructions is" in done.out) == (1, True), done.out
    assert "do not name qemu-cortex-m4 in `boards`: they are measured there without" in done.err
    assert "  qemu-cortex-m4 ---" in done.out
    other = report_of(project, "-b", "qemu-cortex-m4")
    assert measured(other)[0][1:3] == ("sum-long", "qemu-cortex-m4")
    text = "not checked on qemu-cortex-m4, which the benchmarks do not name"
    assert other["configuration"]["limits"] == {"string": text}


def test_two_settings_or_commits_are_compared_over_all_benchmarks(project: Path) -> None:
    (project / "boardprof.toml").write_text(FILE.replace("20}", "2000}"))
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        git = ("git", "-C", str(project), "-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run([*git, *words], check=True, timeout=60)
    rule = ("--fail-if", "instructions>0", "-q", "-b", "qemu-rv32")
    same = boardprof("run", "--ab-rev", "HEAD", *rule, folder=project / "src")
    assert (same.code, "6 metrics: 6 same.\n" in same.out) == (0, True), same.out
    (project / "src" / "a.c").write_text(SOURCE.replace("i * STEP", "i * STEP + n / STEP"))
    other = boardprof("run", "--ab-rev", "HEAD", *rule, folder=project / "src")
    assert (other.code, "REGRESSION (instructions>0)" in other.out) == (1, True), other.out
    assert other.out.count("OUTPUT CHANGED") == other.out.count("OUTPUT CHANGED: fill(") == 1
    flags = boardprof("run", "sum*", "--ab", "-O0|-O3", *rule[2:], folder=project)
    assert flags.code == 0, flags.err
    assert len(re.findall(r"^sum .* instructions .* better$", flags.out, re.MULTILINE)) == 2


def test_a_benchmark_has_its_own_timeout_and_rules(project: Path) -> None:
    (project / "boardprof.toml").write_text(
        FILE.replace("20}", "2000}").replace('tags = ["slow", "memory"]', 'fail-if = ["ins*>0"]')
        + '\n[[benchmark]]\nname = "hung"\ntarget = "src/a.c:hang"\narguments = {x = 1}\n'
        + "timeout_s = 0.25\n"
    )
    once = ("run", "-b", "qemu-rv32", "-q")
    first = boardprof(*once, folder=project, environment={"BOARDPROF_HISTORY": "h.sqlite"})
    assert "error: hung: hang did not end within 0.25 s of the board's clock" in first.err
    given = boardprof(*once, "hung", "--timeout", "0.1s", folder=project)
    assert "did not end within 0.1 s" in given.err
    baseline = ("sum*", "fill", "--baseline", "base.json")
    assert boardprof(*once, *baseline, folder=project).code == 0
    (project / "src" / "a.c").write_text(
        SOURCE.replace("i * STEP", "i * STEP + n / 999").replace(
            "all += x[i]", "all += x[i] + n / 999"
        )
    )
    slower = boardprof(*once, "sum*", "fill", "--against", "base.json", folder=project)
    assert slower.code == 1, slower.err
    assert slower.out.count("REGRESSION") == slower.out.count("REGRESSION (ins*>0)") == 1
    assert re.search("^fill .* REGRESSION", slower.out, re.MULTILINE)


def test_a_missing_function_does_not_link_those_that_do_not_fit(project: Path) -> None:
    huge = "int huge(int i) { static volatile char all[0x40000000]; return all[i]; }\n"
    (project / "src" / "a.c").write_text(SOURCE + huge)
    (project / "boardprof.toml").write_text(FILE.replace("a.c:fill", "a.c:filled"))
    done = boardprof("run", "-b", "qemu-rv32", "-D", "STEP=1", "-O2", "-q", folder=project)
    assert done.code == 2
    assert done.err.count("error: ") == 1
    assert "fill: There is no function 'filled' in src/a.c" in done.err
    assert len(re.findall("^sum ", done.out, re.MULTILINE)) == 2


def test_names_are_completed_and_values_with_a_name_are_another_target(project: Path) -> None:
    words = {"_BOARDPROF_COMPLETE": "bash_complete", "COMP_WORDS": "boardprof run su"}
    done = boardprof(environment={**words, "COMP_CWORD": "2"}, folder=project)
    assert [line.partition(",")[2] for line in done.out.splitlines()] == ["sum-long", "sum"]
    done = boardprof("run", "sum", "n=4", folder=project)
    assert (done.code, "give PATH:FUNCTION" in done.err) == (2, True), done.err


def test_a_median_above_its_limit_is_told_and_the_run_is_no_baseline(project: Path) -> None:
    done = boardprof("run", "fill", "--baseline", "base.json", folder=project)
    assert done.code == 1
    told = re.search(r"ABOVE ITS LIMIT: (.*)\n", done.out)
    assert told is not None
    assert re.fullmatch(
        r"fill on qemu-rv32: instructions is \d+ per call \(median of 2\), above its limit of 20",
        told[1],
    )
    assert not (project / "base.json").exists()


def test_a_benchmark_that_fails_names_its_line_and_leaves_the_others(project: Path) -> None:
    wrong = FILE.replace("n = 64}", "m = 64}").replace("20", "2000").replace(', "qemu-rv64"', "")
    (project / "boardprof.toml").write_text(
        wrong + '\n[[benchmark]]\nname = "hang"\ntarget = "src/a.c:hang"\narguments = {x = 1}\n'
    )
    done = boardprof("run", "--timeout", "0.1s", folder=project)
    assert done.code == 2, done.err
    assert f"error: {project}/boardprof.toml:9: sum-long: There is no parameter 'm'." in done.err
    assert "error: hang did not end within 0.1 s of the board's clock" in done.err
    assert re.search(r"^fill .* qemu-rv32", done.out, re.MULTILINE)


def test_a_changed_output_fails_against_the_baseline_and_can_be_allowed(project: Path) -> None:
    (project / "boardprof.toml").write_text(FILE.replace("20}", "2000}"))
    both = ("run", "sum", "fill", "-b", "qemu-rv32", "-q")
    assert boardprof(*both, "--baseline", "base.json", folder=project).code == 0
    same = boardprof(*both, "--against", "base.json", folder=project)
    assert (same.code, "OUTPUT CHANGED" in same.out) == (0, False)
    changed = boardprof(
        *both, "-D", "STEP=4", "--against", "base.json", "--allow", "compiler", folder=project
    )
    assert changed.code == 1, changed.out
    told = "OUTPUT CHANGED: fill(y=int16[4], n=4) on qemu-rv32: output y: its checksum is "
    assert told in changed.out
    assert "\nResult: 1 output changed; " in changed.out
    allowed = ("--allow", "compiler", "--allow", "outputs")
    done = boardprof(*both, "-D", "STEP=4", "--against", "base.json", *allowed, folder=project)
    assert done.code == 0, done.out


MISTAKES = [
    ('name = "sum"', 'name = "a b"', 16, "[benchmark] name: 'a b' has a blank or one of"),
    ('name = "sum"', 'name = "sum-long"', 16, 'name: "sum-long" is already at '),
    ('src/a.c:sum"\narguments = {x = "@', 'sum"\narguments = {x = "@', 17, "target: 'sum' is"),
    ('optimize = "s"', "optimise = 1", 19, "unknown key; did you mean 'optimize'?"),
    ("n = 4}", "n = [4]}", 18, "[benchmark.arguments] n: must be a string, a number"),
    ("= 20}", '= "20"}', 27, "[benchmark.limit.qemu-rv32] instructions: must be a number"),
    ("repeat = 2", "repeat = 0", 5, "[benchmarks] repeat: must be 1 or more, not 0"),
    ('"@data/x.bin"', '"@data/no.bin"', 18, "sum: x=@data/no.bin"),
    (
        "a.c:fill",
        "a.c:fil",
        23,
        "fill: There is no function 'fil' in src/a.c",
    ),
    ('"[4]:out"', "4", 24, "fill: y=4 is not an array"),
    ("n = 4}", "n = 4000000000}", 18, "sum: n='4000000000' of sum is out of range: i32 is "),
    ("return = 8", "retrun = 8", 12, "sum-long: There is no output 'retrun' of sum"),
    (
        "limit.qemu-rv32",
        "limit.qemu-rv31",
        27,
        "qemu-rv31: There is no board 'qemu-rv31' here; did you",
    ),
    ('"qemu-rv64"]', '"qemu-rv6"]', 26, "fill: There is no board 'qemu-rv6'; did you mean"),
    (
        "{instructions = 20}",
        "{cycles = 20}",
        27,
        "fill: qemu-rv32 does not support cycles: ",
    ),
    ("{instructions = 20}", "{insns = 20}", 27, "fill: qemu-rv32 has no metric 'insns'. Known: "),
    (
        'tags = ["slow", "memory"]',
        'fail-if = ["instr>0"]',
        28,
        "fill: There is no metric 'instr' ",
    ),
    (
        'metrics = ["instructions"]',
        'metrics = ["inst"]',
        3,
        "sum-long: There is no metric 'inst' ",
    ),
    ("repeat = 2", "timeout_s = 1e7", 5, "timeout_s: must be at most 1,000,000 seconds, not 1e+07"),
]


@pytest.mark.parametrize(("old", "new", "line", "text"), MISTAKES)
def test_check_tells_each_mistake_with_file_and_line(
    project: Path, old: str, new: str, line: int, text: str
) -> None:
    assert old in FILE
    (project / "boardprof.toml").write_text(FILE.replace(old, new, 1))
    done = boardprof("check", folder=project)
    assert done.code == 2
    found = [each for each in done.err.splitlines() if text in each]
    assert len(found) == 1, done.err
    assert found[0].startswith(f"{project}/boardprof.toml:{line}: "), found


def test_check_tells_all_mistakes_of_a_benchmark(project: Path) -> None:
    (project / "boardprof.toml").write_text(
        """\
[benchmarks]
repeat = 0
define = ["STEP=1"]
fail-if = ["instructions"]
[[benchmark]]
name = "a"
target = "src/a.c:sum"
boards = ["qemu-rv32"]
optimise = 2
tags = 3
timeout_s = -1
arguments.x = 3
arguments.n = 5000000000
arguments.m = 1
arguments.k = "@none.bin"
expect = {retrun = 4}
limit = {instructions = "x", qemu-rv3 = {a = 1}}
"""
    )
    done = boardprof("check", folder=project)
    assert (done.code, done.out) == (2, "1 benchmark on qemu-rv32: 13 wrong\n")
    lines = re.findall(rf"^{project}/boardprof.toml:(\d+): ", done.err, re.MULTILINE)
    assert sorted(map(int, lines)) == [2, 4, 9, 10, 11, 12, 13, 14, 15, 15, 16, 17, 17]


def test_check_knows_which_metrics_a_board_may_have(project: Path) -> None:
    rules = '"*>0", "qemu-rv64.instructions:max>0", "Stack>0", "time>3spread"'
    own = f"boards = ['qemu-rv64', 'native']\nfail-if = [{rules}]\nlimit.native.time = 9\n"
    text = FILE.replace(
        'boards = ["qemu-rv32", "qemu-rv64"]\nlimit.qemu-rv32', f"{own}limit.qemu-rv64"
    )
    (project / "boardprof.toml").write_text(text)
    done = boardprof("check", folder=project)
    assert (done.code, done.err) == (0, "")


def test_benchmarks_in_the_plural_are_told_what_they_should_be(project: Path) -> None:
    (project / "boardprof.toml").write_text('[[benchmarks]]\nname = "sum"\n')
    for command in ("check", "run"):
        done = boardprof(command, folder=project)
        assert (done.code, "each benchmark is a [[benchmark]]" in done.err) == (2, True), done.err


def test_a_first_file_keeps_the_options_of_its_command(project: Path) -> None:
    file = project / "boardprof.toml"
    file.unlink()
    (project / "inc").mkdir()
    (project / "inc" / "step.h").write_text("#define STEP BY\n")
    source = project / "src" / "a.c"
    source.write_text(f'#include "step.h"\n{source.read_text()}')
    options = ("-I", "inc", "-D", "BY=3", "-O", "s", "-b", "qemu-rv64")
    ended_well(boardprof("new", "benchmarks", "src/a.c", *options, folder=project))
    common = 'boards = ["qemu-rv64"]\noptimize = "s"\ninclude = ["inc"]\ndefine = ["BY=3"]\n'
    assert file.read_text().startswith(f"[benchmarks]\n{common}\n[[benchmark]]\n")
    ended_well(boardprof("check", folder=project))
    file.write_text("[benchmarks]\nrepeat = 3\n")
    refused = boardprof("new", "benchmarks", "src/a.c", *options, folder=project)
    assert (refused.code, "already has [benchmarks]" in refused.err) == (2, True)
    assert file.read_text() == "[benchmarks]\nrepeat = 3\n"


def test_a_first_file_has_every_function_and_passes_the_check(project: Path) -> None:
    (project / "boardprof.toml").write_text(FILE + STRUCT)
    checked = boardprof("check", folder=project)
    assert (checked.code, "4 benchmarks on" in checked.out) == (0, True), checked.err
    refused = boardprof("new", "benchmarks", "src/a.c", "-D", "STEP=1", folder=project)
    assert (refused.code, "already has benchmarks" in refused.err) == (2, True)
    (project / "boardprof.toml").write_text('define = ["STEP=1"]\n')
    made = boardprof("new", "benchmarks", "src/a.c", folder=project)
    assert made.code == 0, made.err
    assert "boardprof.toml: 4 benchmarks, 7 values to change\n" in made.out
    checked = boardprof("check", folder=project)
    assert (checked.code, checked.out) == (0, "4 benchmarks: nothing is wrong\n"), checked.err


def test_the_names_of_a_first_file_are_those_that_benchmarks_may_have(project: Path) -> None:
    (project / "boardprof.toml").unlink()
    (project / "src" / "b.cpp").write_text(
        "namespace k { int dot(int y\u00e4) { return y\u00e4; } }\n"
    )
    (project / "src" / "c.c").write_text("int all(int n) { return n; }\n")
    for name in ("d", "e", "f"):
        (project / "src" / f"{name}.c").write_text("int same(int n) { return n; }\n")
    files = [f"src/{name}" for name in ("b.cpp", "c.c", "d.c", "e.c", "f.c")]
    ended_well(boardprof("new", "benchmarks", *files, folder=project))
    names = re.findall(r'name = "(.*)"', (project / "boardprof.toml").read_text())
    assert names == ["k-dot", "all-2", "same", "same-2", "same-3"]
    ended_well(boardprof("check", folder=project))


def ended_well(done: Outcome) -> str:
    assert done.code == 0, done.err
    return done.out


def test_the_same_names_are_in_trend_tune_fleet_and_pytest(project: Path) -> None:
    file = FILE.replace("20}", "2000}").replace(', "qemu-rv64"', "")
    (project / "boardprof.toml").write_text(file)
    history = {"BOARDPROF_HISTORY": str(project / "history.sqlite")}
    ended_well(boardprof("run", "--baseline", "base.json", folder=project, environment=history))
    trend = ended_well(boardprof("trend", "sum-long", folder=project, environment=history))
    assert "sum [sum-long](x=int16[64], n=64) on qemu-rv32" in trend
    assert "n=4" not in trend
    tune = ("tune", "sum-long", "--flags", "-O2|-Os", "-q")
    assert "Best instructions:" in ended_well(boardprof(*tune, folder=project))
    (project / "boardprof.toml").write_text(file.replace("expect = {return = 8}\n", ""))
    fleet = ("fleet", "run", "--json", "fleet.json")
    ended_well(boardprof(*fleet, folder=project, environment=history))
    compared = ended_well(boardprof("compare", "base.json", "fleet.json", folder=project))
    assert compared.endswith("Result: no rule, so nothing is gated; 6 metrics: 6 same.\n")
    suite = Suite(project)
    rule = (
        "--bp-baseline",
        "base.json",
        "--bp-fail-if",
        "instructions:max>0",
        "--bp-require-board",
    )
    held = suite.run("boardprof.toml", "--bp-benchmarks", *rule)
    assert (held.code, "3 passed" in held.out) == (0, True), held.out
    (project / "src" / "a.c").write_text(SOURCE.replace("/ 8", "/ 4"))
    failed = suite.run("boardprof.toml", "--bp-benchmarks", *rule, "-k", "sum")
    assert failed.code == 1
    assert "output changed: sum [sum-long](x=int16[64], n=64) on qemu-rv32" in failed.out
