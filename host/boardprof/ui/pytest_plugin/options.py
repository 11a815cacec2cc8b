# SPDX-License-Identifier: Apache-2.0
"""The plugin's options, and the markers and labels of tests.

Precedence of options: flags, then ``BOARDPROF_*``, then boardprof.toml or pyproject.toml.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from boardprof.base.connection import LONGEST_S, Connection
from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.base.settings import find_settings, set_project_name, settings_of

N = TypeVar("N", int, float)

_WAIT_S = 600.0


@dataclass(frozen=True)
class Options:
    """The options of a run of pytest."""

    # names; tests without a board of their own run on each. Empty for the default board
    boards: tuple[str, ...]
    connection: Connection
    # what to compare with: a run of the history, or a file. None if absent
    baseline: str | Path | None
    rules: tuple[str, ...]  # a change must not break them; for tests whose marker has no rules
    allow: tuple[str, ...]
    json_file: Path | None
    save: str | None
    wait_s: float
    is_required: bool  # a missing board fails the test instead of skipping it
    is_baseline_required: bool
    may_lack_baseline: bool
    new_baseline: Path | None
    ab_flags: str | None
    ab_revision: str | None
    hotspots: bool
    exports: tuple[str, ...]
    benchmarks: bool  # each benchmark of the project is a test
    settings: Mapping[str, Any]  # of the project, by key


def add_options(parser: pytest.Parser) -> None:
    """Add the options that all begin with ``--bp-``."""
    group = parser.getgroup("boardprof", "measuring functions on boards (boardprof)")

    def add(name: str, help_text: str, metavar: str | None = None, **more: Any) -> None:
        more |= {"action": "store_true"} if metavar is None else {"metavar": metavar}
        group.addoption(f"--bp-{name}", help=help_text, **more)

    add("board", "One board, or several: tests run on each.", "NAME[,NAME]")
    add("port", "Port of the board, as for `boardprof run`.", "PORT")
    add("baud", "Baud rate of a serial port.", "N", type=int)
    add("compare", "Compare with a run in the history or a JSON file.", "RUN")
    add("baseline", "Compare with a committed baseline file.", "FILE")
    add(
        "compare-if-present",
        "Warn if the run or file to compare with does not exist, instead of failing: for a first "
        "run.",
    )
    add("update-baseline", "Write the file of --bp-baseline instead of comparing with it.")
    add(
        "ab",
        "Measure with two settings of compiler flags in turns, and compare them: "
        "--bp-ab='-O2|-O3'.",
        '"FLAGS|FLAGS"',
    )
    add("ab-rev", "Compare the commit REV with the working tree in the same way.", "REV")
    add(
        "fail-if",
        "Fail if a change breaks RULE, e.g. 'cycles:median>2%%'. Needs --bp-baseline or "
        "--bp-compare.",
        "RULE",
        action="append",
    )
    add(
        "allow",
        "Compare even if the clock, the board, the compiler, the inputs or the outputs differ.",
        "WHAT",
        action="append",
    )
    add(
        "hotspots",
        "Record where each call spends its cost, on emulated boards. A failing comparison then "
        "names functions and lines.",
    )
    add("benchmarks", "Also run each benchmark of boardprof.toml as a test.")
    add("json", "Write a Report of all measurements.", "FILE")
    add(
        "export",
        "Also write that Report with an exporter: bencher, csv, html, ...",
        "NAME=FILE",
        action="append",
    )
    add("save", "Store that Report in the history as NAME.", "NAME")
    add("timeout", "Longest time of a call on the board's clock.", "SECONDS")
    add("wall-timeout", "Longest wall time of a call.", "SECONDS")
    add(
        "wait",
        "Wait this long for a board that another worker is using. [default: %(default)g]",
        "SECONDS",
        type=float,
        default=_WAIT_S,
    )
    add("require-board", "Fail instead of skipping if a board or its tools are not available.")
    add(
        "require-baseline",
        "Fail tests that could not be compared or checked, or were not measured again. Needs "
        "--bp-baseline or --bp-compare.",
    )


def read_options(config: pytest.Config) -> Options:
    """Return the options of this run."""
    settings = _settings(config.rootpath)
    set_project_name(str(settings.get("project", "")))

    def given(name: str) -> Any:
        return config.getoption(f"--bp-{name}")

    def option(name: str) -> Any:
        """Return an option that may also be set in the environment or a file."""
        variable = f"BOARDPROF_{name.upper().replace('-', '_')}"
        flag = given(name)
        return flag if flag is not None else os.environ.get(variable) or settings.get(name)

    boards = option("board") or ()
    names = boards.split(",") if isinstance(boards, str) else boards
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise pytest.UsageError(f"board is {boards!r}, which is not a board name")
    rules, is_required = given("fail-if") or (), given("require-baseline")
    baseline, new_baseline = _baseline(config)
    flags, revision = given("ab"), given("ab-rev")
    others = (baseline, new_baseline, flags, revision)
    if sum(each is not None for each in (baseline, flags, revision)) > 1:
        raise pytest.UsageError(
            "--bp-compare, --bp-baseline, --bp-ab and --bp-ab-rev cannot be combined: give one of "
            "them"
        )
    for name, wanted in (("fail-if", rules), ("require-baseline", is_required)):
        if wanted and all(each is None for each in others):
            raise pytest.UsageError(
                f"--bp-{name} needs something to compare with: add --bp-baseline FILE or "
                "--bp-compare RUN"
            )
    if given("benchmarks") and (flags is not None or revision is not None):
        raise pytest.UsageError("--bp-benchmarks excludes --bp-ab and --bp-ab-rev")
    may_lack_baseline = given("compare-if-present")
    if may_lack_baseline and (baseline is None or is_required):
        raise pytest.UsageError(
            "--bp-compare-if-present needs --bp-compare or --bp-baseline, and excludes "
            "--bp-require-baseline"
        )
    json_file, wait_s = given("json"), given("wait")
    if not 0 <= wait_s < math.inf:
        raise pytest.UsageError(f"--bp-wait {wait_s} is not a number of seconds")
    return Options(
        boards=tuple(name.strip() for name in names if name.strip()),
        connection=Connection(
            option("port"),
            _number("baud", option("baud"), int),
            timeout_s=_timeout_s("timeout", option("timeout")),
            wall_timeout_s=_timeout_s("wall-timeout", option("wall-timeout")),
        ),
        baseline=baseline,
        rules=tuple(rules),
        allow=tuple(given("allow") or ()),
        json_file=None if json_file is None else Path(json_file).absolute(),
        save=given("save"),
        wait_s=wait_s,
        is_required=given("require-board"),
        is_baseline_required=is_required,
        may_lack_baseline=may_lack_baseline,
        new_baseline=new_baseline,
        ab_flags=flags,
        ab_revision=revision,
        hotspots=given("hotspots"),
        exports=tuple(given("export") or ()),
        benchmarks=given("benchmarks"),
        settings=settings,
    )


def _baseline(config: pytest.Config) -> tuple[str | Path | None, Path | None]:
    """Return what to compare with and the baseline file to write; each may be None."""
    run, file = config.getoption("--bp-compare"), config.getoption("--bp-baseline")
    path = None if file is None else Path(file).absolute()
    if config.getoption("--bp-update-baseline"):
        if path is None:
            raise pytest.UsageError(
                "--bp-update-baseline needs a file to write: add --bp-baseline FILE"
            )
        return run, path
    if run is not None and path is not None:
        raise pytest.UsageError("--bp-compare and --bp-baseline cannot be combined")
    may_lack = config.getoption("--bp-compare-if-present")
    if path is not None and not path.is_file() and not may_lack:
        raise pytest.UsageError(f"{file} does not exist: --bp-update-baseline writes it")
    return run or path, None


def _timeout_s(name: str, given: Any) -> float | None:
    """Return the longest time of a call, in seconds. None if it is not set."""
    seconds = _number(name, given, float)
    if seconds is not None and not 0 < seconds <= LONGEST_S:
        raise pytest.UsageError(
            f"{name} is {given}; it must be above 0 and at most {LONGEST_S:,.0f} seconds"
        )
    return seconds


def _number(name: str, given: Any, kind: type[N]) -> N | None:
    """Return a number from an option, the environment or a file. None if it is not set."""
    try:
        return None if given is None else kind(given)
    except (TypeError, ValueError):
        raise pytest.UsageError(f"{name} is {given!r}, which is not a number") from None


def _settings(folder: Path) -> dict[str, Any]:
    try:
        found = settings_of(find_settings(folder), os.environ.get("BOARDPROF_PROFILE"))
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None
    return {key: setting.value for key, setting in found.items()}


PREFIX: Final = "--bp-"
"""The prefix of our options, for `speaking_of_options`."""

MARKERS = (
    "board(name, *sources, optimize='-O2'): run the test on this board with these sources",
    "boardprof(limit={METRIC: N}, fail_if=[RULE], metrics=, warmup=, repeat=, number=): limits "
    "and rules for the measurements of a test, and how to measure",
)
MEASURING = ("metrics", "warmup", "repeat", "number")
"""Arguments of the marker ``boardprof`` that control the measurement."""

_GATING = ("limit", "fail_if")


def named_board(node: pytest.Item) -> str | None:
    """Return the board that a test names, or None."""
    marker = node.get_closest_marker("board")
    return str(marker.args[0]) if marker is not None and marker.args else None


def marked(node: pytest.Item) -> dict[str, Any]:
    """Return the arguments of the marker ``boardprof``; the nearest marker overrides."""
    words: dict[str, Any] = {}
    for marker in node.iter_markers("boardprof"):
        words = {**marker.kwargs, **words}
    for name in words:
        if name not in (*MEASURING, *_GATING):
            raise UnknownNameError("argument of the marker boardprof", name, [*MEASURING, *_GATING])
    return words


def is_ruled(node: pytest.Item, rules: Sequence[str]) -> bool:
    """Tell whether rules apply to a measuring test, if it runs. Mistakes are not reported here."""
    if "boardprof" not in getattr(node, "fixturenames", ()):
        return False
    own = (each.kwargs for each in node.iter_markers("boardprof") if "fail_if" in each.kwargs)
    return bool(next(own, {"fail_if": rules})["fail_if"])


_NUMBER: Final = re.compile(r" #\d+$")

BOARD = "bp_board"
"""The parameter by which a test runs on several boards; its id comes first."""


def label_of(node: pytest.Item) -> str:
    """Return a test's id without its board, which has its own column."""
    callspec = getattr(node, "callspec", None)
    if callspec is None or BOARD not in callspec.params:
        return node.nodeid
    rest = callspec.id.removeprefix(str(callspec.params[BOARD])).removeprefix("-")
    name = node.nodeid.removesuffix(f"[{callspec.id}]")
    return f"{name}[{rest}]" if rest else name


def numbered(label: str, n: int) -> str:
    """Return the label of the n-th measurement that is alike in one test, from 1."""
    return label if n == 1 else f"{label} #{n}"


def unnumbered(label: str) -> str:
    """Return a test's label without the number that `numbered` adds."""
    return _NUMBER.sub("", label)


def unlabelled(text: str, label: str) -> str:
    """Return a text about one test without the test's label; numbers of measurements stay."""
    return text.replace(f" [{label}]", "").replace(f" [{label} #", " [#")
