# SPDX-License-Identifier: Apache-2.0
"""Format our errors for test output: the line of the test, and what went wrong there."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from boardprof.errors import BoardprofError


_OURS: Final = "boardprof"
_COMMAND: Final = r"`[^`]*`"
_OPTION: Final = r"(?<![\w-])--(allow|baud|board|fail-if|json|port|save|(?:wall-)?timeout)(?![\w-])"
_WORD: Final = r"(?<![\w-])--(metrics|number|repeat|warmup)(?![\w-])(?: (?=\d))?"


def in_pytest(text: str) -> str:
    """Return a text with our command's options as pytest has them; whole commands stay."""
    text = re.sub(f"{_COMMAND}|{_OPTION}", lambda m: f"--bp-{m[1]}" if m[1] else m[0], text)
    return re.sub(f"{_COMMAND}|{_WORD}", lambda m: f"{m[1]}=" if m[1] else m[0], text)


def renamed(error: BoardprofError) -> BoardprofError:
    """Return an error whose hint names the options that pytest has."""
    error.hint = None if error.hint is None else in_pytest(error.hint)
    return error


@contextlib.contextmanager
def failing_without_traceback() -> Iterator[None]:
    """Turn our errors in a fixture into a failure without a traceback: no line of it is a user's.

    What `Session.skipping` waits for passes through.
    """
    from boardprof.errors import BoardError, BoardprofError, MissingToolError

    try:
        yield
    except (BoardError, MissingToolError):
        raise
    except BoardprofError as error:
        text = f"{type(error).__name__}: {renamed(error)}"
        raise pytest.fail.Exception(text, pytrace=False) from None


@contextlib.contextmanager
def shortened(is_whole: bool) -> Iterator[None]:
    """Cut our own frames off our errors: the last that pytest shows is of the test.

    Args:
        is_whole: leave them, as ``--full-trace`` wants them.
    """
    from boardprof.errors import BoardprofError

    try:
        yield
    except (BoardprofError, AttributeError) as error:
        # A missing attribute of a board raises Python's own error, caused by one of ours.
        ours = [each for each in (error, error.__cause__) if isinstance(each, BoardprofError)]
        for each in ours:
            renamed(each)
        if ours and not is_whole:
            _cut(error)
        raise


def _cut(error: BaseException) -> None:
    """End the traceback where the test calls us, and forget what caused the error.

    Above the test's frames are those of pytest, and above these are ours again.
    """
    last: TracebackType | None = None
    entry = error.__traceback__
    while entry is not None:
        package = str(entry.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in (_OURS, "contextlib"):
            last = entry
        elif last is not None:
            break
        entry = entry.tb_next
    if last is not None:
        last.tb_next = None
    error.__cause__ = None
    error.__suppress_context__ = True
