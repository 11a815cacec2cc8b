# SPDX-License-Identifier: Apache-2.0
"""A batch has one Report, which the history keeps as one run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from boardprof.results.report.report_file import read_report
from tests.support import run

pytestmark = [pytest.mark.slow, pytest.mark.board("qemu-rv32")]

FILES = {
    "a.c": "int sum(int n) { int s = 0; while (n--) s += n; return s; }\n",
    "b.c": "int sum(int n) { int s = 0; while (n--) s += 2 * n * n; return s; }\n"
    "int last(int n) { return n; }\n",
}

JOBS = """
[limits]
repeat = 2

[[jobs]]
files = ["a.c", "b.c"]
functions = ["sum"]
arguments = [["n=60"]]
flags = ["-O1", "-Os"]
boards = ["qemu-rv32"]

[[jobs]]
files = ["b.c"]
functions = ["last"]
arguments = [["n=7"]]
flags = ["-O1"]
boards = ["qemu-rv32", "native"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "jobs.toml").write_text(JOBS)
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "All"]):
        who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        run(["git", "-C", tmp_path, *who, *words])
    return tmp_path


def command(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "boardprof", *words],
        cwd=folder,
        env={**os.environ, "BOARDPROF_HISTORY": str(folder / ".git" / "history.db")},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def runs(folder: Path) -> list[dict[str, Any]]:
    """Return the runs of the history, newest first."""
    return list(map(json.loads, command(folder, "history", "--json").splitlines()))


def instructions(report: Any) -> dict[tuple[str, str, str, str], set[float]]:
    found: dict[tuple[str, str, str, str], set[float]] = {}
    for row in report.calls:
        if "instructions" in row and row["Device"] == "qemu-rv32":
            label, flags = row.get("Label", ""), row["Flags"]
            key = (row["Name"], label, row["Argument Shapes"], flags)
            found.setdefault(key, set()).add(row["instructions"].value)
    return found


def test_a_batch_is_one_report_and_one_run_of_the_history(folder: Path) -> None:
    command(folder, "fleet", "run", "jobs.toml", "--json", "all.json", "--save", "nightly")
    report = read_report(folder / "all.json")
    found = instructions(report)
    assert all(len(values) == 1 for values in found.values())
    assert found.keys() == {
        *(("sum", file, "n=60", flags) for file in ("a.c", "b.c") for flags in ("-O1", "-Os")),
        ("last", "", "n=7", "-O1"),
    }
    # The numbers are those of a single run, which no other function has come into.
    alone = ("run", "b.c:sum", "n=60", "-b", "qemu-rv32", "--sweep", "-O1|-Os", "--repeat", "2")
    command(folder, *alone, "--json", "b.json")
    for key, values in instructions(read_report(folder / "b.json")).items():
        assert found["sum", "b.c", "n=60", key[3]] == values
    assert {row["Device"] for row in report.calls if row["Name"] == "last"} == {
        "qemu-rv32",
        "native",
    }
    history = runs(folder)
    batch = history[-1]
    assert (batch["name"], sorted(batch["functions"])) == ("nightly", ["last", "sum"])
    assert batch["boards"] == ["qemu-rv32", "native"]
    assert (batch["git"]["branch"], batch["git"]["dirty"]) == ("main", False)
    assert batch["command"].startswith("boardprof fleet run jobs.toml")
    # Nothing new was measured, so nothing is kept.
    command(folder, "fleet", "run", "jobs.toml")
    assert runs(folder) == history
    # A change of one file is one run more, which compare and trend read.
    (folder / "b.c").write_text(FILES["b.c"].replace("return n;", "return n * n + 1;"))
    command(folder, "fleet", "run", "jobs.toml")
    compared = json.loads(
        command(folder, "compare", "nightly", "last", "--allow", "outputs", "--json", "-")
    )
    changed = {
        (row["name"], row["device"])
        for row in compared["rows"]
        if row["metric"] == "instructions" and row["verdict"] != "same"
    }
    assert changed == {("last", "qemu-rv32")}
    trends = json.loads(command(folder, "trend", "last", "--all", "-b", "qemu-rv32", "--json"))
    (trend,) = [each for each in trends["trends"] if each["metric"] == "instructions"]
    assert [each["median"] for each in trend["runs"]] == [1, 3]  # ret; mul, addi, ret
    assert "sum" in command(folder, "show", "nightly")


def test_a_batch_prints_its_report_in_place_of_lines(folder: Path) -> None:
    jobs = '[[jobs]]\nfiles = ["b.c"]\nfunctions = ["last"]\narguments = [["n=1"]]\n'
    (folder / "one.toml").write_text(jobs + 'boards = ["native"]\n')
    told = json.loads(command(folder, "fleet", "run", "one.toml", "--json", "-"))
    assert {row["Name"]["string"] for row in told["calls"]} == {"last"}
