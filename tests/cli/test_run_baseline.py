# SPDX-License-Identifier: Apache-2.0
"""``boardprof run --baseline FILE``: a file to commit, whose diff is what has changed."""

from __future__ import annotations

import difflib
import json
from pathlib import Path

import pytest

from boardprof.ui.cli import main
from tests.cli.command import FIXTURES, boardprof
from tests.support import requires_tool

WORK = """\
#include <stdint.h>
uint32_t work(uint32_t n);
uint32_t twice(uint32_t n);
uint32_t work(uint32_t n) {
    uint32_t s = 0;
    for (uint32_t i = 0; i < n; i++) s = s * 31u + i;
    return s;
}
uint32_t twice(uint32_t n) { return 2u * n; }
"""


@pytest.mark.slow
def test_two_runs_in_two_folders_write_the_same_bytes_and_each_change_is_one_line(
    tmp_path: Path,
) -> None:
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    texts = []
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "work.c").write_text(WORK)
        command = ("run", "-q", "-b", "qemu-rv32", "work.c:all", "n=100", "--baseline", "base.json")
        assert boardprof(*command, folder=tmp_path / name).code == 0
        texts.append((tmp_path / name / "base.json").read_bytes())
    assert texts[0] == texts[1]
    assert max(map(len, texts[0].splitlines())) <= 100
    (tmp_path / "there" / "work.c").write_text(WORK.replace("s * 31u + i", "s * 31u + i / 3u"))
    gate = ("--against", "../here/base.json", "--fail-if", "instructions:max>0")
    done = boardprof(*command, *gate, folder=tmp_path / "there")
    assert done.code == 1
    assert "warning: base.json was not written: the run failed" in done.err
    assert (tmp_path / "there" / "base.json").read_bytes() == texts[0]
    assert boardprof(*command, folder=tmp_path / "there").code == 0
    now = (tmp_path / "there" / "base.json").read_text()
    diff = list(difflib.ndiff(texts[0].decode().splitlines(), now.splitlines()))
    changed = [line.split('"')[1] for line in diff if line.startswith(("-", "+"))]
    keys = ("first and last call", "returned", "instructions")
    assert changed == [key for key in keys for _ in "-+"]
    compared = boardprof("compare", "here/base.json", "there/base.json", *gate[2:], folder=tmp_path)
    assert compared.code == 1
    assert "REGRESSION (instructions:max>0)" in compared.out
    shown = boardprof("show", "here/base.json", folder=tmp_path)
    assert (shown.code, "twice" in shown.out) == (0, True)


@pytest.mark.slow
def test_a_run_that_did_not_measure_a_metric_of_the_file_does_not_replace_its_row(
    tmp_path: Path,
) -> None:
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    (tmp_path / "work.c").write_text(WORK)
    run = ("run", "-q", "-b", "qemu-rv32", "work.c:twice", "n=3", "--baseline", "base.json")
    assert boardprof(*run, folder=tmp_path).code == 0
    before = (tmp_path / "base.json").read_bytes()
    done = boardprof(*run, "--metrics", "ticks", folder=tmp_path)
    assert done.code == 2
    assert "The baseline has instructions of twice, which this run did not measure." in done.err
    assert (tmp_path / "base.json").read_bytes() == before


def test_functions_with_different_arguments_share_a_file_and_have_each_their_own_gate(
    tmp_path: Path,
) -> None:
    code = "int a(int n) { return n * 3; }\nint b(int m) { return m / 7; }\n"
    (tmp_path / "f.c").write_text(code)
    calls = [("native", "f.c:a", "n=5"), ("native", "f.c:b", "m=5")]
    calls += [("native", "f.c:a", "n=6"), ("linux", "f.c:b", "m=5")]
    told = ["1 row added", *(f"1 row added, {count} kept" for count in (1, 2, 3))]
    run = ("run", "--metrics", "time", "--repeat", "2", "--no-warnings", "-b")
    for call, text in zip(calls, told, strict=True):
        done = boardprof(*run, *call, "--baseline", "base.json", folder=tmp_path)
        assert (done.code, done.err) == (0, f"Baseline written to base.json: {text}\n")
    content = json.loads((tmp_path / "base.json").read_text())
    rows = [
        (each["function"], each["arguments"], each["board"]) for each in content["measurements"]
    ]
    assert rows == [
        ("a", "n=5", "native"),
        ("a", "n=6", "native"),
        ("b", "m=5", "linux"),
        ("b", "m=5", "native"),
    ]
    body = "volatile char all[512]; for (int i = 0; i < 512; i++) all[i] = 1; return all[m] / 7;"
    (tmp_path / "f.c").write_text(code.replace("return m / 7;", body))
    gate = ("--against", "base.json", "--fail-if", "stack>256", "--fail-if-missing")
    codes = [boardprof(*run, *call, *gate, folder=tmp_path).code for call in calls]
    assert codes == [0, 1, 0, 1]


def test_a_file_that_is_no_baseline_is_told_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("keep me")
    assert main(["run", "-b", "native", "x.c:f", "--baseline", str(file)]) == 2
    assert f"error: {file}: this is not a baseline file.\n" in capsys.readouterr().err
    assert file.read_text() == "keep me"


def test_a_run_that_failed_writes_no_baseline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "base.json"
    command = ["run", "-b", "native", "--repeat", "2", "--baseline", str(file)]
    assert main([*command, f"{FIXTURES / 'faulty.c'}:all"]) == 6
    assert f"warning: {file} was not written: the run failed" in capsys.readouterr().err
    assert not file.exists()
    assert main([*command, f"{FIXTURES / 'faulty.c'}:a_right"]) == 0
    assert json.loads(file.read_text())["measurements"][0]["function"] == "a_right"


def test_a_baseline_that_could_not_be_written_is_told_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "no" / "base.json"
    assert main(["run", "-b", "native", "x.c:f", "--baseline", str(file)]) == 2
    assert "cannot be written: there is no folder" in capsys.readouterr().err


def test_other_contents_of_an_array_are_no_regression(tmp_path: Path) -> None:
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    source = (
        "int small(const char *s, int n) { int i = 0; while (i < n && s[i] >= 'a') i++; return i; }"
    )
    (tmp_path / "u.c").write_text(source)
    (tmp_path / "one").write_text("abcdefgh")
    (tmp_path / "two").write_text("ABCDabcd")
    command = ("run", "-q", "-b", "qemu-rv32", "u.c:small", "n=8", "--repeat", "1")
    gate = ("--against", "base.json", "--fail-if", "instructions<-1")
    made = boardprof(*command, "s=@one", "--baseline", "base.json", folder=tmp_path)
    assert made.code == 0, made.err
    assert boardprof(*command, "s=@one", *gate, folder=tmp_path).code == 0
    done = boardprof(*command, "s=@two", *gate, folder=tmp_path)
    assert done.code == 2
    assert "its arrays had other contents, which may be what changed it" in done.out
    assert boardprof(*command, "s=@two", *gate, "--allow", "inputs", folder=tmp_path).code == 1
