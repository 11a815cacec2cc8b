# SPDX-License-Identifier: Apache-2.0
"""The plugin that pytest loads. It does nothing until a test asks, and imports nothing heavy.

For that, imports inside functions of this module, `session` and `item` wait for the first test.

::

    @pytest.mark.boardprof(limit={"instructions": 50_000}, fail_if=["instructions:max>0"])
    def test_fir_stays_as_fast_as_it_is(boardprof):
        fir = boardprof("fir.c:fir", x, h, y, 256, repeat=20)
        assert fir["Stack (bytes)"].maximum <= 128

``pytest --bp-board qemu-rv32 --bp-compare main`` runs it on that board, and compares it with the
last run of the branch main.
"""

from __future__ import annotations

import contextlib
import pathlib
import shutil
from collections.abc import Generator, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import pytest

from boardprof.base.errors import BoardError, BoardprofError, MissingToolError, speaking_of_options
from boardprof.base.printable import escaped
from boardprof.ui.pytest_plugin.options import (
    BOARD,
    MARKERS,
    MEASURING,
    PREFIX,
    add_options,
    is_ruled,
    label_of,
    marked,
    named_board,
    unlabelled,
)
from boardprof.ui.pytest_plugin.session import SESSION, Session

if TYPE_CHECKING:
    from boardprof.measure.board.board import Board
    from boardprof.show.layout import Page
    from boardprof.ui.pytest_plugin.profiler import Profiler


_SENT = "boardprof"
_PROFILER = pytest.StashKey["Profiler"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add our options."""
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Register markers; read the options, so that a mistake is reported before any test."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    config.stash[SESSION] = session = Session(config)
    with speaking_of_options(PREFIX):
        session.check()


@pytest.hookimpl(tryfirst=True)  # so that the board begins the id, see `label_of`
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that names no board on each requested board."""
    boards = metafunc.config.stash[SESSION].options.boards
    is_free = BOARD in metafunc.fixturenames and named_board(metafunc.definition) is None
    if is_free and len(boards) > 1:
        metafunc.parametrize(BOARD, boards, indirect=True)


@pytest.fixture
def bp_board(request: pytest.FixtureRequest) -> str | None:
    """The name of the test's board: its marker's, else ``--bp-board``. None for the default."""
    boards = request.config.stash[SESSION].options.boards
    named: str | None = getattr(request, "param", None) or named_board(request.node)
    return named or (boards[0] if boards else None)


@pytest.fixture
def board(request: pytest.FixtureRequest, bp_board: str | None) -> Iterator[Board]:
    """A connected `boardprof.Board`, with the sources that the marker ``board`` names."""
    session = request.config.stash[SESSION]
    from boardprof.ui.pytest_plugin.profiler import wanted_board

    with contextlib.ExitStack() as lent:
        with session.skipping(), _failing_without_traceback():
            wanted = wanted_board(request.node, bp_board)
            found = lent.enter_context(session.boards.board(wanted))
        yield found


@pytest.fixture
def boardprof(request: pytest.FixtureRequest, bp_board: str | None) -> Iterator[Profiler]:
    """Measures functions; see `boardprof.ui.pytest_plugin.profiler.Profiler`."""
    from boardprof.ui.pytest_plugin.gate import check_limits, check_rules
    from boardprof.ui.pytest_plugin.profiler import Profiler, wanted_board

    session = request.config.stash[SESSION]
    with _failing_without_traceback():
        words = marked(request.node)
        rules = words.get("fail_if", session.options.rules)
        rules = (rules,) if isinstance(rules, str) else tuple(rules)
        check_rules(rules)
        check_limits(words.get("limit", {}))
        session.is_ruled |= bool(rules)
        profiler = Profiler(
            session.boards,
            wanted_board(request.node, bp_board),
            request.path.parent,
            label_of(request.node),
            session.gate(words.get("limit", {}), rules),
            {name: words[name] for name in MEASURING if name in words},
            session.turns,
            session.records,
        )
    request.node.stash[_PROFILER] = profiler
    yield profiler
    session.measurements += profiler.measurements
    session.sources |= profiler.sources
    session.compiled |= profiler.compiled
    session.verdicts += profiler.verdicts
    notes = dict.fromkeys(note for verdict in profiler.verdicts for note in verdict.notes)
    node = request.node
    session.notes += [f"{node.nodeid}: {unlabelled(note, label_of(node))}" for note in notes]


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Report our errors in a form for test output, and skip tests without a board."""
    is_whole = bool(pyfuncitem.config.getoption("fulltrace", False))
    if _PROFILER not in pyfuncitem.stash:
        if "board" not in pyfuncitem.fixturenames:
            return (yield)
        with _shortened(is_whole):
            return (yield)
    with pyfuncitem.config.stash[SESSION].skipping(), _shortened(is_whole):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Fail a test that passed but broke its gate, also a unittest test."""
    yield
    profiler = item.stash.get(_PROFILER, None)
    if profiler is None:
        return
    from boardprof.ui.pytest_plugin.profiler import Measured

    for measurement in profiler.measurements:  # for JUnit
        item.user_properties += [
            (f"boardprof.{measurement.function}.{metric}.median", summary.median)
            for metric, summary in Measured(measurement).items()
        ]
    failures = [text for verdict in profiler.verdicts for text in verdict.failures]
    if failures:
        if all(verdict.is_waiting or not verdict.failures for verdict in profiler.verdicts):
            item.config.stash[SESSION].waiting.append(label_of(item))
        pytest.fail("\n".join(failures), pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Record why a test was skipped; an expected failure has no such place and reason."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = str(report.longrepr[2]).removeprefix("Skipped: ")
        item.config.stash[SESSION].skipped[label_of(item)] = reason
    return report


def pytest_collect_file(
    file_path: pathlib.Path, parent: pytest.Collector
) -> pytest.Collector | None:
    """Collect the project's file with its benchmarks, if that was asked for."""
    if not parent.config.stash[SESSION].options.benchmarks or file_path.suffix != ".toml":
        return None
    from boardprof.ui.pytest_plugin.benchmarks import BenchmarkFile, benchmark_path

    try:
        if file_path != benchmark_path(parent.config):
            return None
    except BoardprofError as error:
        raise pytest.Collector.CollectError(str(error)) from None
    file: pytest.Collector = BenchmarkFile.from_parent(parent, path=file_path)
    return file


@pytest.hookimpl(tryfirst=True)  # before -k and -m
def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """Add the benchmarks if the file is in no folder that pytest was given."""
    if not session.config.stash[SESSION].options.benchmarks:
        return
    from boardprof.ui.pytest_plugin.benchmarks import BenchmarkFile, BenchmarkItem, benchmark_path

    try:
        if not any(isinstance(item, BenchmarkItem) for item in items):
            path = benchmark_path(session.config)
            items += BenchmarkFile.from_parent(session, path=path).collect()
    except (BoardprofError, pytest.Collector.CollectError) as error:
        raise pytest.UsageError(str(error)) from None


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Record that this run does not include all tests."""
    for item in items[:1]:
        item.config.stash[SESSION].is_narrowed = True


def pytest_collection_finish(session: pytest.Session) -> None:
    """Record the rules of tests that will run, or be skipped before they get our fixture."""
    ours = session.config.stash[SESSION]
    ours.is_ruled |= any(is_ruled(item, ours.options.rules) for item in session.items)


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Record the interruption: `pytest.exit` may give the exit code of a success."""
    try:
        return (yield)
    except (KeyboardInterrupt, pytest.exit.Exception):
        session.config.stash[SESSION].is_broken_off = True
        raise


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send a worker's measurements to the controller, or write them."""
    ours = session.config.stash.get(SESSION, None)
    if ours is None:
        return
    ours.close()
    output = getattr(session.config, "workeroutput", None)
    if output is None:
        _conclude(session, ours)
        ours.write(session.exitstatus != pytest.ExitCode.OK and not _only_waits(session, ours))
        if ours.errors and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED  # a requested thing is missing
    else:
        output[_SENT] = ours.packed()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Take over the measurements of a pytest-xdist worker, unless it has died."""
    output = getattr(node, "workeroutput", {})
    sent = output.get(_SENT)
    if sent:
        node.config.stash[SESSION].take(sent)
        output[_SENT] = b""  # pytest reports an interrupted worker twice
    elif sent is None and error:
        node.config.stash[SESSION].lost.append(str(node.gateway.id))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the measurements."""
    ours = terminalreporter.config.stash[SESSION]
    if not any((ours.measurements, ours.notes, ours.warnings, ours.errors)):
        return
    terminalreporter.section("boardprof")
    if ours.measurements:
        from boardprof.show.answer import answer_page
        from boardprof.show.table import report_page

        report = ours.report()
        _write_page(terminalreporter, answer_page(report) or report_page(report, aggregate=False))
    for worker in ours.lost:
        terminalreporter.write_line(f"note: worker {worker} died: its measurements are missing")
    for note in ours.notes:
        terminalreporter.write_line(escaped(f"note: {note}", keep="\n"))
    for warning in ours.warnings:
        terminalreporter.write_line(escaped(f"warning: {warning}", keep="\n"), yellow=True)
    _write_page(terminalreporter, ours.changes)
    for error in ours.errors:
        terminalreporter.write_line(escaped(f"ERROR: {error}", keep="\n"), red=True)


def _write_page(terminal: pytest.TerminalReporter, page: Page) -> None:
    """Print tables and lines, fitted to a terminal's width; to a file or a program in full."""
    from boardprof.show.layout import fitted

    width = shutil.get_terminal_size().columns if terminal.isatty else 0
    terminal.write(fitted(page, width, styled=terminal.hasmarkup))


def _conclude(session: pytest.Session, ours: Session) -> None:
    """Compare the session with the baseline, unless it was interrupted or ran no test."""
    config = session.config
    is_whole = session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    if not is_whole or config.getoption("collectonly"):
        return
    is_part = ours.is_narrowed or is_narrowed(config) or ours.is_broken_off
    is_part = is_part or bool(session.shouldfail or session.shouldstop)
    ours.conclude(
        lambda label: (
            not is_part and (is_within(config, label) if "::" in label else ours.options.benchmarks)
        )
    )


def _only_waits(session: pytest.Session, ours: Session) -> bool:
    """Tell whether tests failed only because their branch has too few runs so far."""
    # They would wait for ever if this session did not count as one.
    is_of_tests = session.exitstatus == pytest.ExitCode.TESTS_FAILED
    return is_of_tests and session.testsfailed == len(ours.waiting) > 0


_NARROWING: Final = ("lf", "ignore", "ignore_glob", "setuponly", "setupplan")
"""Options that leave tests out without deselecting them."""


def is_narrowed(config: pytest.Config) -> bool:
    """Tell whether options or arguments choose among the tests of a folder or a file."""
    is_chosen = any(config.getoption(name, None) for name in _NARROWING)
    return is_chosen or any("::" in each for each in config.args)


def is_within(config: pytest.Config, label: str) -> bool:
    """Tell whether a test's label lies in the files and folders that pytest was given."""
    file = (config.rootpath / label.partition("::")[0]).resolve()
    folder = config.invocation_params.dir
    return any(file.is_relative_to((folder / each).resolve()) for each in config.args)


@contextlib.contextmanager
def _failing_without_traceback() -> Iterator[None]:
    """Turn our errors in a fixture into failures without a traceback, which has no user's line."""
    # Errors that `Session.skipping` handles pass through.
    try:
        with speaking_of_options(PREFIX):
            yield
    except (BoardError, MissingToolError):
        raise
    except BoardprofError as error:
        text = f"{type(error).__name__}: {error}"
        raise pytest.fail.Exception(text, pytrace=False) from None


@contextlib.contextmanager
def _shortened(is_whole: bool) -> Iterator[None]:
    """Remove our own frames from our errors, so that pytest shows the line of the test last."""
    try:
        with speaking_of_options(PREFIX):
            yield
    except (BoardprofError, AttributeError) as error:
        # A missing attribute of a board raises Python's own error, caused by one of ours.
        ours = isinstance(error, BoardprofError) or isinstance(error.__cause__, BoardprofError)
        if ours and not is_whole:
            _cut(error)
        raise


def _cut(error: BaseException) -> None:
    """End the traceback where the test calls us, and remove the cause of the error."""
    # The test's frames are called by pytest, which is called by frames of ours.
    last: TracebackType | None = None
    entry = error.__traceback__
    while entry is not None:
        package = str(entry.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in ("boardprof", "contextlib"):
            last = entry
        elif last is not None:
            break
        entry = entry.tb_next
    if last is not None:
        last.tb_next = None
    error.__cause__ = None
    error.__suppress_context__ = True
