# SPDX-License-Identifier: Apache-2.0
"""What the README says beside its commands, which tests/docs runs."""

from __future__ import annotations

import re
import subprocess
import tomllib

from boardprof.target.descriptions.board import find_boards, load_board
from tests.support import ROOT, requires_tool

README = (ROOT / "README.md").read_text(encoding="utf-8")
SCREEN = 50
"""Lines that a reader sees before scrolling."""


def row(title: str) -> set[str]:
    """Return the boards that a row of the table names; `-m4` stands for the one before, with it."""
    (line,) = [line for line in README.splitlines() if line.startswith(f"| {title}")]
    names: list[str] = []
    for name in re.findall(r"`([a-z0-9-]+)`", line.split("|")[2]):
        names.append(f"{names[0].rpartition('-')[0]}{name}" if name.startswith("-") else name)
    return set(names)


TITLES = ("this machine", "QEMU, exact", "the same, by", "exact to the cycle", "an emulator")
BUILT = "built, never run"


def test_it_is_read_in_one_sitting() -> None:
    assert 120 <= len(README.splitlines()) <= 200


def test_the_first_screen_says_what_it_is_shows_a_run_and_starts() -> None:
    first = "\n".join(README.splitlines()[:SCREEN])
    assert "What does this C function cost on that board?" in first
    assert "$ boardprof run" in first
    assert "make demo" in first
    assert "No real board has been run yet" in first


def test_setup_ends_with_what_the_readme_says_is_next() -> None:
    make = requires_tool("make", "make")
    command = [make, "--no-print-directory", "-o", "setup-test", "setup"]  # nothing is installed
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == (
        "Ready: . .venv/bin/activate, then boardprof --help, or see docs/tutorial.md.\n"
    )
    assert "`. .venv/bin/activate`" in README


def test_what_the_agent_takes_is_what_its_budget_allows() -> None:
    budget = tomllib.loads((ROOT / "device_runtime_c/size_budget.toml").read_text())["smallest"]
    assert (budget["text"], budget["ram"]) == (4 * 1024, 1 * 1024)
    assert "4 KiB of flash and 1 KiB of RAM at most" in " ".join(README.split())


def test_it_counts_the_emulated_boards_that_every_test_runs() -> None:
    run = {n for n in find_boards() if load_board(find_boards()[n]).status == "run"}
    assert len(run - {"native", "linux"}) == 21
    assert "on this machine and twenty-one emulated boards" in " ".join(README.split())


def test_its_table_has_each_board_once_at_least_and_no_other() -> None:
    assert set().union(*map(row, [*TITLES, BUILT])) == set(find_boards())


def test_it_says_which_boards_nobody_has_run() -> None:
    built = {n for n in find_boards() if load_board(find_boards()[n]).status == "built"}
    assert row(BUILT) == built


def test_its_pictures_are_small_enough_for_a_slow_line() -> None:
    pictures = [*(ROOT / "docs" / "pictures").iterdir()]
    assert (
        {path.name for path in pictures} >= {*re.findall(r"pictures/([\w.]+)\)", README)} != set()
    )
    for path in pictures:
        data = path.read_bytes()
        assert data[:4] == (b"<svg" if path.suffix == ".svg" else b"\x89PNG")
        assert len(data) < 150_000
