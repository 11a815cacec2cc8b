# SPDX-License-Identifier: Apache-2.0
"""How a test run is shared among workers, in which order, and what it says at its end."""

from __future__ import annotations

import gc
import os
import random
import re
import signal
import tempfile
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from boardprof.target.descriptions.board import find_boards
from tests.support import ROOT

# A busy machine is slow, and no fault; each test has pytest's time-out.
settings.register_profile("boardprof", deadline=None)
settings.load_profile("boardprof")

# A shell has SIGINT ignored for what it runs in the background; tests send it, also to children.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What the tester has set and kept is not the tests'; those of history name a file of their own.
for name in [name for name in os.environ if name.startswith("BOARDPROF_")]:
    if name != "BOARDPROF_REQUIRE_ALL":
        del os.environ[name]
os.environ["BOARDPROF_HISTORY"] = "off"
# numpy's linear algebra would start a thread for each core in every process, and needs none here.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
# What this machine's samples are like is no matter of theirs either, but of those that ask for it.
os.environ["BOARDPROF_WARNINGS"] = "no"
CONFIG_HOME = tempfile.TemporaryDirectory(prefix="boardprof-tests-")
os.environ["XDG_CONFIG_HOME"] = CONFIG_HOME.name


_LONGEST_FIRST = ("cli", "link", "docs", "protocol", "projects", "pytest_plugin")
"""Folders in the order of their time: what begins last should be short."""

_EMULATED = "boards"
"""The folder whose tests are spread over the whole run: emulators slow each other down most."""

_ON_ONE_CORE = {"boards", "cli", "docs", "projects", "pytest_plugin", "tune"}
"""Folders of tests and emulators that take turns. On two cores the one that waits burns the other.

Tests of what happens at the same time are in other folders, and have all cores.
"""

_CORES = sorted(os.sched_getaffinity(0))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run in the random order of SEED")


def board_of(item: pytest.Item) -> str | None:
    """Return the board that a test is about: as its marker says, or its parameters."""
    marker = item.get_closest_marker("board")
    return _board_in(item.nodeid) if marker is None else str(marker.args[0])


_BOARD = re.compile(rf"[\[-]({'|'.join(sorted(find_boards(), key=len, reverse=True))})[\]-]")


def _board_in(nodeid: str) -> str | None:
    found = _BOARD.search(nodeid)
    return None if found is None else found[1]


def group_of(nodeid: str) -> str:
    """Return what one worker runs in one go: a file's tests of one board, which share its start."""
    return f"{nodeid.partition('::')[0]} {_board_in(nodeid) or ''}".strip()


class Scheduling(LoadScopeScheduling):
    """Gives each worker the next group when it has done one."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    return Scheduling(config, log)


def folder_of(path: Path) -> str:
    """Return the folder of ``tests`` that a file is in, "." for none."""
    return path.relative_to(ROOT / "tests").parts[0] if path.parent != ROOT / "tests" else "."


def ordered(items: Iterable[pytest.Item], seed: int | None) -> list[pytest.Item]:
    """Return tests by groups: the longest folders first beside emulators, or shuffled."""
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        groups.setdefault(group_of(item.nodeid), []).append(item)
    chosen = list(groups.values())
    if seed is None:
        emulated = [group for group in chosen if folder_of(group[0].path) == _EMULATED]
        others = [group for group in chosen if folder_of(group[0].path) != _EMULATED]
        others.sort(key=lambda group: _rank(folder_of(group[0].path)))
        parts = (emulated, others)
        at = {id(group): i / len(part) for part in parts for i, group in enumerate(part)}
        chosen.sort(key=lambda group: at[id(group)])
    else:
        mixer = random.Random(seed)
        mixer.shuffle(chosen)
        for group in chosen:
            mixer.shuffle(group)
    return [item for group in chosen for item in group]


def _rank(folder: str) -> int:
    return _LONGEST_FIRST.index(folder) if folder in _LONGEST_FIRST else len(_LONGEST_FIRST)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Turn off garbage collection while ten thousand tests are made, none of them garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items[:] = ordered(items, config.getoption("--shuffle"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    worker = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    if not worker:
        return
    alone = folder_of(item.path) in _ON_ONE_CORE
    cores = {_CORES[int(worker) % len(_CORES)]} if alone else set(_CORES)
    if os.sched_getaffinity(0) != cores:
        for thread in os.listdir("/proc/self/task"):  # one of them starts emulators
            with suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread), cores)


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


def folder_lines(terminalreporter: pytest.TerminalReporter) -> list[str]:
    """Return a line for each folder: the seconds of its tests, set-up included, of all workers."""
    seconds: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[folder_of(ROOT / report.nodeid.partition("::")[0])] += report.duration
    return [f"{total:7.1f} s  {folder}" for folder, total in seconds.most_common()]


@pytest.hookimpl(wrapper=True, tryfirst=True)  # outermost: what it writes comes last
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int
) -> Generator[None, None, None]:
    yield
    terminalreporter.section("time per folder", sep="-")
    for line in folder_lines(terminalreporter):
        terminalreporter.write_line(line)
    lines = skipped_lines(terminalreporter.stats.get("skipped", []))
    if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):  # all others ended early
        lines = lines or ["no test was skipped"]
    terminalreporter.section("skipped", sep="-")
    for line in lines or ["The run ended early: not every test ran."]:
        terminalreporter.write_line(line)
