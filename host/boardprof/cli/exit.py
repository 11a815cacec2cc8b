# SPDX-License-Identifier: Apache-2.0
"""How the command ends when it is interrupted, or has an error in itself."""

from __future__ import annotations

INTERRUPTED = 130
"""The exit code after Ctrl-C."""

DEBUG = "--debug"
"""The option that shows tracebacks."""

_debugging: list[bool] = []


def show_tracebacks() -> None:
    """Show the traceback of an error in boardprof itself from now on."""
    _debugging.append(True)


def shows_tracebacks() -> bool:
    """Return whether `show_tracebacks` was called."""
    return bool(_debugging)
