# SPDX-License-Identifier: Apache-2.0
"""``python -m boardprof``: the same as the command ``boardprof``."""

from __future__ import annotations

from boardprof.ui.cli import main

if __name__ == "__main__":
    code = main()
    # CPython notes that Ctrl-C came within exec(TEXT), which is how dataclasses are made, and `-m`
    # then ends by the signal although it was caught. The next exec makes it forget.
    exec("")
    raise SystemExit(code)
