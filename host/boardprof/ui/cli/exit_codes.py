# SPDX-License-Identifier: Apache-2.0
"""Exit codes: after Ctrl-C, and as ``git bisect run`` understands them.

For git, 0 is a good commit, 125 one that cannot be tested, and all others up to 127 are bad
(git-bisect(1)). It would take our own codes of errors for bad commits. From 128 on git stops, so
Ctrl-C stays 130.
"""

from __future__ import annotations

import sys

INTERRUPTED = 130  # the exit code after Ctrl-C
DEBUG = "--debug"  # the option that shows tracebacks
_shows_tracebacks = False


def show_tracebacks() -> None:
    """Show the traceback of an error in boardprof itself from now on."""
    global _shows_tracebacks
    _shows_tracebacks = True


def shows_tracebacks() -> bool:
    """Return whether `show_tracebacks` was called."""
    return _shows_tracebacks


NOTHING_FOUND = 9  # no candidate of a search is right and within its limits
UNTESTABLE = 125  # for ``git bisect run``: this commit cannot be tested


def bisects(arguments: list[str] | None) -> bool:
    """Tell whether a command line has ``--bisect``."""
    # It looks at the words themselves, because a mistake in them, or in the settings of the commit,
    # ends the command before its options are known.
    words = sys.argv[1:] if arguments is None else arguments
    return "--bisect" in words


def for_bisect(code: int) -> int:
    """Return the exit code for git: 0, 1, 125, or what stops the search."""
    return code if code in (0, 1, INTERRUPTED) else UNTESTABLE
