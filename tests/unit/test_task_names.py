# SPDX-License-Identifier: Apache-2.0
"""How the tasks of a trace are shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from boardprof.results.probes.run import Task, read_run, task_name, write_run
from boardprof.results.probes.timeline import UNKNOWN_TASK
from boardprof.show.layout import plain
from boardprof.show.probe_tables import probe_run_page
from tests.unit.recordings import two_tasks

TASKS = (
    Task(0x20000100, "motor", 1024, 188),
    Task(0x20000200, "worker", 512, None),
    Task(0x20000300, "worker"),
    Task(0x20000400, ""),
)


def test_a_task_has_its_name() -> None:
    assert task_name(0x20000100, TASKS) == "motor"


def test_tasks_of_one_name_have_their_addresses_too() -> None:
    assert task_name(0x20000200, TASKS) == "worker (0x20000200)"
    assert task_name(0x20000300, TASKS) == "worker (0x20000300)"


def test_a_task_without_a_name_has_its_address() -> None:
    assert task_name(0x20000400, TASKS) == "0x20000400"
    assert task_name(0x20000500, TASKS) == "0x20000500"


def test_what_is_no_task_is_named_for_what_it_is() -> None:
    assert task_name(0, TASKS) == "(scheduler)"
    assert task_name(UNKNOWN_TASK, TASKS) == "(not known)"


def test_a_file_keeps_the_tasks(tmp_path: Path) -> None:
    file = str(tmp_path / "a.bptrace")
    write_run(replace(two_tasks(), tasks=TASKS), file)
    assert read_run(file).tasks == TASKS


def test_the_table_of_tasks_has_names_and_the_stacks_that_are_known() -> None:
    page = plain(probe_run_page(replace(two_tasks(), tasks=TASKS)))
    rows = [line.split() for line in page.splitlines()]
    assert ["Task", "Time", "Share", "Stack", "used", "of"] in rows
    # It runs from 10 to 70, but for the interrupt from 30 to 40.
    assert ["motor", "50", "25.0", "%", "188", "B", "1,024", "B"] in rows
    assert ["worker", "(0x20000200)", "40", "20.0", "%"] in rows


def test_without_a_table_of_tasks_there_are_addresses_and_no_stacks() -> None:
    page = plain(probe_run_page(two_tasks()))
    rows = [line.split() for line in page.splitlines()]
    assert ["Task", "Time", "Share"] in rows
    assert ["0x20000100", "50", "25.0", "%"] in rows
