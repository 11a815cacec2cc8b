# SPDX-License-Identifier: Apache-2.0
"""JOBS.toml: a matrix of jobs, read strictly."""

from __future__ import annotations

from pathlib import Path

import pytest

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.jobs.fleet import Job, Limits, read_jobs
from boardprof.jobs.fleet.boards import FleetBoard, boards_of_host


def jobs(folder: Path, text: str) -> list[Job]:
    file = folder / "jobs.toml"
    file.write_text(text)
    return read_jobs(file)


def test_a_matrix_has_a_job_for_each_combination(tmp_path: Path) -> None:
    found = jobs(
        tmp_path,
        """
        [limits]
        repeat = 3
        [[jobs]]
        files = ["a.c", "b.c"]
        functions = ["f"]
        arguments = [["n=1"], ["n=2"]]
        flags = ["-O2", "-Os"]
        boards = ["native"]
        once = true
        """,
    )
    limits = Limits(repeat=3, once=True)
    assert found == [
        Job(str(tmp_path / file), "native", "f", (values,), flags, limits)
        for file in ("a.c", "b.c")
        for values in ("n=1", "n=2")
        for flags in ("-O2", "-Os")
    ]


def test_only_files_and_boards_are_needed(tmp_path: Path) -> None:
    found = jobs(tmp_path, '[[jobs]]\nfiles = ["a.c"]\nboards = ["native"]\n')
    assert found == [Job(str(tmp_path / "a.c"), "native", "all", (), "-O2", Limits())]


def test_equal_jobs_of_two_matrices_are_one(tmp_path: Path) -> None:
    matrix = '[[jobs]]\nfiles = ["a.c"]\nboards = ["native"]\n'
    assert len(jobs(tmp_path, matrix + matrix)) == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", r"jobs: the key is missing"),
        ("jobs = []", r"jobs: the list is empty"),
        ("jobs = [1]", r"entry 1 must be a table"),
        ("[[jobs]]\nfiles = ['a.c']", r"boards: the key is missing"),
        ("[[jobs]]\nfile = ['a.c']", r"files: the key is missing"),
        ("[[jobs]]\nfiles = ['a.c']\nboards = ['x']\nrepeats = 3", r"did you mean 'repeat'"),
        ("[[jobs]]\nfiles = ['a.c']\nboards = ['x']\nrepeat = 0", r"must be at least 1, not 0"),
        ("[[jobs]]\nfiles = ['a.c']\nboards = ['x']\narguments = ['n=1']", r"lists of strings"),
        ("[[jobs]]\nfiles = ['a.c']\nboards = ['x']\nflags = ['O2']", r"is not a compiler flag"),
        (
            "[[jobs]]\nfiles = ['a.c']\nboards = ['x']\n[[jobs]]\nfiles = []\nrepeat = 0",
            r"jobs\.toml:5: \[jobs\] files: the list is empty",
        ),
        (
            "[[jobs]]\nfiles = ['a.c']\nboards = ['x']\nflags = [\"-DX='\"]",
            r"jobs\.toml:4: \[jobs\] flags: .* cannot be split",
        ),
        ("[[jobs]\n", r"is not valid TOML"),
    ],
)
def test_a_mistake_is_an_error_that_names_it(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        jobs(tmp_path, text)


def test_a_job_takes_lists_and_refuses_one_text() -> None:
    job = Job("a.c", "native", arguments=["n=1"], limits=Limits(metrics=["cycles"]))  # type: ignore[arg-type]
    assert (job.arguments, job.limits.metrics) == (("n=1",), ("cycles",))
    assert len({job, job}) == 1
    with pytest.raises(UsageError, match="arguments must be a list of strings, not 'n=1'"):
        Job("a.c", "native", arguments="n=1")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="metrics must be a list of strings, not 'cycles'"):
        Limits(metrics="cycles")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="job_s must be above 0, not 0"):
        Limits(job_s=0)


def test_a_file_that_is_missing_is_named() -> None:
    with pytest.raises(UsageError, match=r"nowhere\.toml cannot be read: No such file"):
        read_jobs("nowhere.toml")


def test_a_host_offers_an_emulated_board_once_for_each_core(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    texts = ["qemu-rv32", "native", "nucleo-f446re=/dev/ttyACM0#066B", "linux=127.0.0.1:4321"]
    assert boards_of_host(texts, "ant") == [
        FleetBoard("qemu-rv32", "ant:qemu-rv32.0"),
        FleetBoard("qemu-rv32", "ant:qemu-rv32.1"),
        FleetBoard("qemu-rv32", "ant:qemu-rv32.2"),
        FleetBoard("native", "ant:native.0"),
        FleetBoard("nucleo-f446re", "066B", "/dev/ttyACM0"),
        FleetBoard("linux", "ant:127.0.0.1:4321", "127.0.0.1:4321"),
    ]


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["nucleo-f446re"], "is a real board and needs a port"),
        (["linux=#7"], "'linux=#7' is not a board"),
        (["linux="], "'linux=' is not a board"),
        (["linux= "], "'linux= ' is not a board"),
        (["linux=[::1]:4321#"], "is not a board"),
        (["linux=labgrid:"], "is not a board"),
        ([""], "'' is not a board"),
        (["linux=a:1#7", "linux=a:2#7"], "Two boards have the serial number 7"),
    ],
)
def test_a_board_that_cannot_be_offered_is_an_error(texts: list[str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        boards_of_host(texts, "ant")


def test_a_kind_of_board_that_does_not_exist_is_named() -> None:
    with pytest.raises(UnknownNameError, match="no board 'qemu-rv23'"):
        boards_of_host(["qemu-rv23"], "ant")
