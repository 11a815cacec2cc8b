# SPDX-License-Identifier: Apache-2.0
"""dask, which is needed for the boards of other hosts only."""

from __future__ import annotations

import logging
from typing import Any

from boardprof.show.rows import MissingExtraError

_NAME = "distributed"
_shown: list[bool] = []


def show_logs() -> None:
    """Let dask log its warnings from now on; without this it logs nothing."""
    _shown.append(True)


def distributed() -> Any:
    """Return the module ``distributed``; what it would log is in our own errors and notes.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import distributed
    except ImportError as error:
        raise MissingExtraError("A fleet of several hosts", "distributed", "fleet") from error
    level = logging.WARNING if _shown else logging.CRITICAL + 1
    for name in (_NAME, *logging.root.manager.loggerDict):
        if name.partition(".")[0] in (_NAME, "tornado"):
            logging.getLogger(name).setLevel(level)
    return distributed
