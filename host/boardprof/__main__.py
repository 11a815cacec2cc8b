# SPDX-License-Identifier: Apache-2.0
"""``python -m boardprof``: the same as the command ``boardprof``."""

from __future__ import annotations

from boardprof.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
