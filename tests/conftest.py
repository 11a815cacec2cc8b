# SPDX-License-Identifier: Apache-2.0
"""The closing lines of a test run: each board, or test, that was skipped, and why."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Generator

import pytest
from hypothesis import settings

from boardprof.boards.finding import find_boards

# A busy machine is slow, and no fault; each test has pytest's time-out.
settings.register_profile("boardprof", deadline=None)
settings.load_profile("boardprof")

# What the tester has set and kept is not the tests'; those of history name a file of their own.
for name in [name for name in os.environ if name.startswith("BOARDPROF_")]:
    if name != "BOARDPROF_REQUIRE_ALL":
        del os.environ[name]
os.environ["BOARDPROF_HISTORY"] = "off"
# What this machine's samples are like is no matter of theirs either, but of those that ask for it.
os.environ["BOARDPROF_WARNINGS"] = "no"
os.environ["XDG_CONFIG_HOME"] = tempfile.mkdtemp(prefix="boardprof-tests-")


def board_of(item: pytest.Item) -> str | None:
    """Return the board that a test is about: as its marker says, or its parameters."""
    marker = item.get_closest_marker("board")
    if marker is not None:
        return str(marker.args[0])
    callspec = getattr(item, "callspec", None)
    values = callspec.params.values() if callspec is not None else ()
    named = [value for value in values if isinstance(value, str) and value in find_boards()]
    return named[0] if named else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    report.board = board_of(item) if report.skipped else None  # type: ignore[attr-defined]
    return report


def skipped_line(what: str, count: int, reason: str) -> str:
    tests = "" if count == 1 else f" ({count} tests)"
    return f"{what}: skipped{tests}: {reason}"


def skipped_lines(reports: list[pytest.TestReport | pytest.CollectReport]) -> list[str]:
    """Return a line for each reason: a board's reasons under its name, else the file's."""
    reasons: Counter[tuple[str, str]] = Counter()
    for report in reports:
        assert isinstance(report.longrepr, tuple)
        file, _, message = report.longrepr
        reason = str(message).removeprefix("Skipped: ")
        board = getattr(report, "board", None)
        what = report.nodeid.partition("[")[0] or str(file)
        reasons[f"board {board}" if board else what, reason] += 1
    return [skipped_line(what, count, reason) for (what, reason), count in sorted(reasons.items())]


@pytest.hookimpl(wrapper=True, tryfirst=True)  # outermost: what it writes comes last
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter,
) -> Generator[None, None, None]:
    yield
    skipped = terminalreporter.stats.get("skipped", [])
    terminalreporter.section("skipped", sep="-")
    for line in skipped_lines(skipped) or ["no test was skipped"]:
        terminalreporter.write_line(line)
