# SPDX-License-Identifier: Apache-2.0
"""Exit codes as ``git bisect run`` understands them.

It takes 0 for good, 125 for "cannot be tested" and all else up to 127 for bad (git-bisect(1)). Our
own codes of what failed would be bad commits to it. From 128 on it stops: Ctrl-C stays 130.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from boardprof.cli.exit import INTERRUPTED

UNTESTABLE = 125


def bisects(arguments: Sequence[str] | None) -> bool:
    """Tell whether a command line has ``--bisect``.

    The words are looked at themselves: a mistake in them, or in the settings that the commit has,
    ends the command before its options are known.

    Args:
        arguments: of the command. None for those of this process.
    """
    words = sys.argv[1:] if arguments is None else arguments
    return "--bisect" in words


def for_bisect(code: int) -> int:
    """Return an exit code as git is to understand it: 0, 1, 125, or what stops the search."""
    return code if code in (0, 1, INTERRUPTED) else UNTESTABLE
