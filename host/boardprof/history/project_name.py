# SPDX-License-Identifier: Apache-2.0
"""The user's name for the project, from the environment or else from the settings."""

from __future__ import annotations

import os

_VARIABLE = "BOARDPROF_PROJECT"
_of_settings = ""


def set_project_name(name: str) -> None:
    """Set the value of the setting ``project``; "" if absent."""
    global _of_settings
    _of_settings = name


def project_name() -> str:
    """Return the name of the project; "" if it was not set."""
    chosen = os.environ.get(_VARIABLE)
    return (_of_settings if chosen is None else chosen).strip()
