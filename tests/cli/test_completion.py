# SPDX-License-Identifier: Apache-2.0
"""Completion, asked in the way in which the printed scripts ask."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.command import boardprof


def completed(*words: str, **environment: str) -> list[str]:
    return [line.partition(",")[2] for line in answer(*words, **environment)]


def answer(*words: str, **environment: str) -> list[str]:
    done = boardprof(
        environment={
            **environment,
            "_BOARDPROF_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(words),
            "COMP_CWORD": str(len(words) - 1),
        }
    )
    assert done.code == 0
    return done.out.splitlines()


def test_commands_options_and_boards_are_completed() -> None:
    assert completed("boardprof", "doc") == ["doctor"]
    assert "--warmup" in completed("boardprof", "run", "--wa")
    assert completed("boardprof", "run", "-b", "qemu-rv") == ["qemu-rv32", "qemu-rv64"]
    assert completed("boardprof", "run", "-b", "native,arduino-u") == ["native,arduino-uno"]
    assert completed("boardprof", "new", "board", "x", "--like", "nati") == ["native"]


def test_functions_of_a_source_are_completed_behind_the_colon() -> None:
    assert completed("boardprof", "run", "examples/workloads/crc32.c:cr") == [
        "examples/workloads/crc32.c:crc32"
    ]
    # bash has a colon as a word of its own.
    words = ("boardprof", "run", "examples/workloads/crc32.c", ":")
    assert completed(*words) == ["crc32", "all"]
    assert completed(*words, "cr") == ["crc32"]


def test_runs_are_completed_by_the_names_that_they_were_saved_under(tmp_path: Path) -> None:
    environment = {"BOARDPROF_HISTORY": str(tmp_path / "history.sqlite")}
    done = boardprof(
        *("run", "-q", "examples/workloads:crc32", "--save", "before-fix"), environment=environment
    )
    assert done.code == 0, done.err
    for words in (("show", "bef"), ("compare", "last", "bef"), ("run", "x", "--against", "bef")):
        assert completed("boardprof", *words, **environment) == ["before-fix"]


def test_parameters_of_a_function_are_completed_once_each(tmp_path: Path) -> None:
    source = tmp_path / "scale.c"
    source.write_text("void scale(short *out, short in, int n) { while (n--) out[n] = in; }\n")
    target = f"{source}:scale"
    assert completed("boardprof", "run", target, "") == ["out=", "in=", "n="]
    assert completed("boardprof", "run", target, "n=4", "") == ["out=", "in="]
    assert completed("boardprof", "run", str(source), ":", "scale", "n") == ["n="]


def test_metrics_are_those_of_the_boards_that_are_named() -> None:
    assert completed("boardprof", "run", "-b", "qemu-cortex-m4", "--metrics", "") == [
        *("all", "instructions", "cycles", "ticks")
    ]
    found = completed("boardprof", "run", "-b", "ibex-rtl", "--metrics", "cycles,i")
    assert "cycles,instructions" in found


@pytest.mark.parametrize(
    "words",
    [
        *[("run", "fi"), ("build", "fi"), ("flash", "fi"), ("agent", "serve", "fi")],
        *[("show", "fi"), ("compare", "fi"), ("export", "html", "fi"), ("devices", "fi")],
        ("info", "-p", "fi"),
    ],
)
def test_files_are_left_to_the_shell(words: tuple[str, ...]) -> None:
    assert answer("boardprof", *words) == ["file,fi"]


def test_a_boards_path_is_left_to_the_shell() -> None:
    assert answer("boardprof", "run", "-b", "./lab") == ["dir,./lab"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_printed_for_each_shell(shell: str) -> None:
    done = boardprof("completion", shell)
    assert (done.code, done.err) == (0, "")
    assert f"_BOARDPROF_COMPLETE={shell}_complete" in done.out


def test_bash_accepts_its_script() -> None:
    script = boardprof("completion", "bash").out
    done = subprocess.run(
        ["bash", "-c", f"{script}\ncomplete -p boardprof"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "-F _boardprof_completion boardprof" in done.stdout


def test_another_shell_is_refused() -> None:
    done = boardprof("completion", "tcsh")
    assert done.code == 2
    assert "'bash', 'zsh', 'fish'" in done.err


def test_what_no_shell_asks_is_a_mistake() -> None:
    assert boardprof(environment={"_BOARDPROF_COMPLETE": "tcsh_complete"}).code == 2
