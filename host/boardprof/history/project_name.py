# SPDX-License-Identifier: Apache-2.0
"""What the user calls the project: the environment's word, else that of the settings."""

from __future__ import annotations

import os

__all__ = ["project_name", "set_project_name"]

_VARIABLE = "BOARDPROF_PROJECT"
_of_settings = ""


def set_project_name(name: str) -> None:
    """Take the setting ``project`` of whoever reads settings; "" where there is none."""
    global _of_settings
    _of_settings = name


def project_name() -> str:
    """Return what the project is called; "" where nobody has said it."""
    chosen = os.environ.get(_VARIABLE)
    return (_of_settings if chosen is None else chosen).strip()
