# SPDX-License-Identifier: Apache-2.0
"""Compiles all C that ships, for each board and each further target, with warnings as errors.

Run from the repository: ``python scripts/lint_c.py``. Ends with 7 when something does not compile
without a warning, or when a compiler is missing.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from boardprof.base.errors import BoardprofError
from boardprof.target.build.build_options import BuildOptions
from boardprof.target.build.builder import build
from boardprof.target.descriptions.board import board_spec, find_boards
from scripts.size_compile import PORTABLE, STRICT, compile_agent

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parents[1]
_WORKLOADS = _ROOT / "examples" / "workloads"
_SMALL = _ROOT / "tests" / "boards" / "fixtures" / "small"
_ROOM_FOR_WORKLOADS = 32768
"""A board with an arena as large as this has RAM for the ten workloads."""


def compile_board(name: str) -> None:
    """Compile the agent for a board, and functions that it has room for."""
    spec = board_spec(name)
    strict = replace(spec, build=replace(spec.build, cflags=(*spec.build.cflags, *STRICT)))
    room = spec.build.config.get("arena", 0) >= _ROOM_FOR_WORKLOADS
    build(strict, [_WORKLOADS if room else _SMALL], BuildOptions("-O2 -std=c11"))


def main() -> int:
    """Compile everything, on all cores; return the exit status."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        compiling: list[Future[Any]] = []
        compiling += [pool.submit(compile_board, name) for name in sorted(find_boards())]
        compiling += [pool.submit(compile_agent, target) for target in PORTABLE]
        try:
            for each in compiling:
                each.result()
        except BoardprofError as error:
            pool.shutdown(cancel_futures=True)
            print(f"lint: {error}", file=sys.stderr)
            return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
