# SPDX-License-Identifier: Apache-2.0
"""The plugin's options, and the markers and labels of tests.

Precedence of options: flags, then ``BOARDPROF_*``, then boardprof.toml or pyproject.toml.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from boardprof.base.connection import Connection
from boardprof.base.errors import BoardprofError, UnknownNameError, UsageError
from boardprof.base.settings import find_settings, set_project_name, settings_of

N = TypeVar("N", int, float)

_WAIT_S = 600.0
_LONGEST_S = 1e6
"""Largest timeout of a board."""


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
    is_baseline_required: bool = False
    may_lack_baseline: bool = False
    new_baseline: Path | None = None
    ab_flags: str | None = None
    ab_revision: str | None = None
    hotspots: bool = False
    exports: tuple[str, ...] = ()


def add_options(parser: pytest.Parser) -> None:
    """Add the options that all begin with ``--bp-``."""
    group = parser.getgroup("boardprof", "measuring functions on boards (boardprof)")
    add = group.addoption
    add("--bp-board", metavar="NAME[,NAME]", help="One board, or several: tests run on each.")
    add("--bp-port", metavar="PORT", help="Port of the board, as for `boardprof run`.")
    add("--bp-baud", type=int, metavar="N", help="Baud rate of a serial port.")
    add("--bp-compare", metavar="RUN", help="Compare with a run in the history or a JSON file.")
    add("--bp-baseline", metavar="FILE", help="Compare with a committed baseline file.")
    add(
        "--bp-compare-if-present",
        action="store_true",
        help="Warn if the run or file to compare with does not exist, instead of failing: for a "
        "first run.",
    )
    add(
        "--bp-update-baseline",
        action="store_true",
        help="Write the file of --bp-baseline instead of comparing with it.",
    )
    add(
        "--bp-ab",
        metavar='"FLAGS|FLAGS"',
        help="Measure with two settings of compiler flags in turns, and compare them: "
        "--bp-ab='-O2|-O3'.",
    )
    add(
        "--bp-ab-rev",
        metavar="REV",
        help="Compare the commit REV with the working tree in the same way.",
    )
    add(
        "--bp-fail-if",
        action="append",
        metavar="RULE",
        help="Fail if a change breaks RULE, e.g. 'cycles:median>2%%'. Needs --bp-baseline or "
        "--bp-compare.",
    )
    add(
        "--bp-allow",
        action="append",
        metavar="WHAT",
        help="Compare even if the clock, the board, the compiler or the inputs differ.",
    )
    add(
        "--bp-hotspots",
        action="store_true",
        help="Record where each call spends its cost, on emulated boards. A failing comparison "
        "then names functions and lines.",
    )
    add("--bp-json", metavar="FILE", help="Write a Report of all measurements.")
    add(
        "--bp-export",
        action="append",
        metavar="NAME=FILE",
        help="Also write that Report with an exporter: bencher, csv, html, ...",
    )
    add("--bp-save", metavar="NAME", help="Store that Report in the history as NAME.")
    add(
        "--bp-timeout",
        metavar="SECONDS",
        help="Longest time of a call on the board's clock.",
    )
    add("--bp-wall-timeout", metavar="SECONDS", help="Longest wall time of a call.")
    add(
        "--bp-wait",
        type=float,
        default=_WAIT_S,
        metavar="SECONDS",
        help="Wait this long for a board that another worker is using. [default: %(default)g]",
    )
    add(
        "--bp-require-board",
        action="store_true",
        help="Fail instead of skipping if a board or its tools are not available.",
    )
    add(
        "--bp-require-baseline",
        action="store_true",
        help="Fail tests that could not be compared or checked, or were not measured again. Needs "
        "--bp-baseline or --bp-compare.",
    )


def read_options(config: pytest.Config) -> Options:
    """Return the options of this run."""
    settings = _settings(config.rootpath)

    def option(name: str) -> Any:
        flag = config.getoption(f"--bp-{name}")
        variable = f"BOARDPROF_{name.upper().replace('-', '_')}"
        return flag if flag is not None else os.environ.get(variable) or settings.get(name)

    set_project_name(str(settings.get("project", "")))
    boards = option("board") or ()
    names = boards.split(",") if isinstance(boards, str) else boards
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise pytest.UsageError(f"board is {boards!r}, which is not a board name")
    rules = config.getoption("--bp-fail-if") or ()
    baseline, new_baseline = _baseline(config)
    flags, revision = config.getoption("--bp-ab"), config.getoption("--bp-ab-rev")
    others = (baseline, new_baseline, flags, revision)
    if sum(each is not None for each in (baseline, flags, revision)) > 1:
        raise pytest.UsageError(
            "--bp-compare, --bp-baseline, --bp-ab and --bp-ab-rev cannot be combined: give one of "
            "them"
        )
    for name, given in (("fail-if", rules), ("require-baseline", _is_required(config))):
        if given and all(each is None for each in others):
            raise pytest.UsageError(
                f"--bp-{name} needs something to compare with: add --bp-baseline FILE or "
                "--bp-compare RUN"
            )
    may_lack_baseline = bool(config.getoption("--bp-compare-if-present"))
    if may_lack_baseline and (baseline is None or _is_required(config)):
        raise pytest.UsageError(
            "--bp-compare-if-present needs --bp-compare or --bp-baseline, and excludes "
            "--bp-require-baseline"
        )
    json_file = config.getoption("--bp-json")
    baud = option("baud")
    wait_s = config.getoption("--bp-wait")
    if not 0 <= wait_s < math.inf:
        raise pytest.UsageError(f"--bp-wait {wait_s} is not a number of seconds")
    return Options(
        boards=tuple(name.strip() for name in names if name.strip()),
        connection=Connection(
            option("port"),
            None if baud is None else _number("baud", baud, int),
            timeout_s=_timeout_s("timeout", option("timeout")),
            wall_timeout_s=_timeout_s("wall-timeout", option("wall-timeout")),
        ),
        baseline=baseline,
        rules=tuple(rules),
        allow=tuple(config.getoption("--bp-allow") or ()),
        json_file=None if json_file is None else Path(json_file).absolute(),
        save=config.getoption("--bp-save"),
        wait_s=wait_s,
        is_required=config.getoption("--bp-require-board"),
        is_baseline_required=_is_required(config),
        may_lack_baseline=may_lack_baseline,
        new_baseline=new_baseline,
        ab_flags=flags,
        ab_revision=revision,
        hotspots=config.getoption("--bp-hotspots"),
        exports=tuple(config.getoption("--bp-export") or ()),
    )


def _is_required(config: pytest.Config) -> bool:
    return bool(config.getoption("--bp-require-baseline"))


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
    if given is None:
        return None
    seconds = _number(name, given, float)
    if not 0 < seconds <= _LONGEST_S:
        raise pytest.UsageError(
            f"{name} is {given}; it must be above 0 and at most {_LONGEST_S:,.0f} seconds"
        )
    return seconds


def _number(name: str, given: Any, kind: type[N]) -> N:
    """Return a number from an option, the environment or a file."""
    try:
        return kind(given)
    except (TypeError, ValueError):
        raise pytest.UsageError(f"{name} is {given!r}, which is not a number") from None


def _settings(folder: Path) -> dict[str, Any]:
    try:
        found = settings_of(find_settings(folder), os.environ.get("BOARDPROF_PROFILE"))
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None
    return {key: setting.value for key, setting in found.items()}


_COMMAND: Final = r"`[^`]*`"
_OPTION: Final = r"(?<![\w-])--(allow|baud|board|fail-if|json|port|save|(?:wall-)?timeout)(?![\w-])"
_WORD: Final = r"(?<![\w-])--(metrics|number|repeat|warmup)(?![\w-])(?: (?=\d))?"


def in_pytest(text: str) -> str:
    """Return a text with the names of options in pytest; whole commands stay as they are."""
    text = re.sub(f"{_COMMAND}|{_OPTION}", lambda m: f"--bp-{m[1]}" if m[1] else m[0], text)
    return re.sub(f"{_COMMAND}|{_WORD}", lambda m: f"{m[1]}=" if m[1] else m[0], text)


def renamed(error: BoardprofError) -> BoardprofError:
    """Return an error whose hint has the names of options in pytest."""
    error.hint = None if error.hint is None else in_pytest(error.hint)
    return error


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
