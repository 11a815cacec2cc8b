# SPDX-License-Identifier: Apache-2.0
"""Prints the fault matrix: ``python -m tests.faults [BOARD ...]``."""

from __future__ import annotations

import sys

from tests.faults.matrix import main

if __name__ == "__main__":
    sys.exit(main())
