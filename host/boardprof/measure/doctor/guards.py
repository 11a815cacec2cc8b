# SPDX-License-Identifier: Apache-2.0
"""Check that a board ends each call that its description says it ends, and goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from boardprof.base.errors import (
    BoardprofError,
    DeviceFaultError,
    DeviceTimeoutError,
)
from boardprof.measure.board.board import Board
from boardprof.measure.doctor.counters import FAILED, OK, SKIPPED, UNSUPPORTED, Finding

_AFTER = "proof_rounds"
_NEEDS_ADDRESS = "bad-address"


def guards(board: Board) -> Iterator[Finding]:
    """Call a function that ends by each cause, and after it one that returns."""
    for cause, reason in board.spec.guard.missing.items():
        yield Finding(f"guard: {cause}", UNSUPPORTED, reason)
    for cause in board.spec.guard.catches:
        finding = _guard(board, cause)
        yield finding
        if board.session.is_closed:
            return


def _guard(board: Board, cause: str) -> Finding:
    subject, name = f"guard: {cause}", f"proof_{cause.replace('-', '_')}"
    if name not in board.functions:
        return Finding(subject, SKIPPED, f"the firmware has no {name}")
    arguments = (board.spec.doctor.nowhere,) if cause == _NEEDS_ADDRESS else ()
    try:
        board.functions[name](*arguments)
        return Finding(subject, FAILED, f"{name} returned")
    except DeviceFaultError as error:
        seen, found = error.message, error.cause
    except DeviceTimeoutError as error:
        seen, found = error.message, "time-out"
    except BoardprofError as error:
        return Finding(subject, FAILED, f"{name}: {error.message}")
    if found != cause:
        return Finding(subject, FAILED, f"{name} ended by {found}: {seen}")
    with suppress(BoardprofError):
        board.functions[_AFTER](3)
        return Finding(subject, OK, seen)
    return Finding(subject, FAILED, f"after {name}, the board does not answer")
