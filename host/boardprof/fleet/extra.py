# SPDX-License-Identifier: Apache-2.0
"""dask, which is needed for the boards of other hosts only."""

from __future__ import annotations

import logging
from typing import Any

from boardprof.render.data_frame import MissingExtraError


def distributed() -> Any:
    """Return the module ``distributed``, which logs warnings only.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import distributed
    except ImportError as error:
        raise MissingExtraError("A fleet of several hosts", "distributed", "fleet") from error
    logging.getLogger("distributed").setLevel(logging.WARNING)
    return distributed
