# SPDX-License-Identifier: Apache-2.0
"""Warnings that stand at the user's line, not at that of this package which found something."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from pathlib import Path

__all__ = ["warn_user"]

_NOT_THE_USERS = (f"{Path(__file__).parents[1]}{os.sep}", contextlib.__file__)


def warn_user(message: str) -> None:
    """Warn at the innermost line that is not this package's, such as that of a ``with``.

    What enters and leaves a ``with`` for the user, as an ``ExitStack`` does, is passed over, too.
    """
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_USERS):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
