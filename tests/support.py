# SPDX-License-Identifier: Apache-2.0
"""What tests share: saying what they need of the machine."""

from __future__ import annotations

import os
import shutil

import pytest

__all__ = ["requires_tool"]


def requires_tool(tool: str, package: str) -> None:
    """Skip the test when ``tool`` is missing; fail it where everything is required.

    ``make test`` installs all tools and sets BOARDPROF_REQUIRE_ALL=1: there, a missing tool is a
    fault and no reason to skip.
    """
    if shutil.which(tool) is not None:
        return
    reason = f"{tool} is missing (Debian package {package})"
    if os.environ.get("BOARDPROF_REQUIRE_ALL") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
