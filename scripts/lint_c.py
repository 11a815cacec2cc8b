# SPDX-License-Identifier: Apache-2.0
"""Compiles all C that ships, for each board and each further target, with warnings as errors.

Run from the repository: ``python scripts/lint_c.py``. Ends with 7 when something does not compile
without a warning, or when a compiler is missing.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from boardprof.boards.finding import board_spec, find_boards
from boardprof.errors import BoardprofError
from boardprof.firmware.build_options import BuildOptions
from boardprof.firmware.builder import build
from scripts.size_compile import PORTABLE, compile_agent

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parents[1]
_WORKLOADS = _ROOT / "examples" / "workloads"
_SMALL = _ROOT / "tests" / "boards" / "fixtures" / "small"
_ROOM_FOR_WORKLOADS = 32768
"""A board with an arena as large as this has RAM for the ten workloads."""

# Of the users' files, only these are ours to be strict with.
_STRICT = "-O2 -std=c11 -Wall -Wextra -Wconversion -Wshadow -Wmissing-prototypes -pedantic -Werror"


def main() -> int:
    """Compile everything; return the exit status."""
    try:
        for name in sorted(find_boards()):
            spec = board_spec(name)
            room = spec.build.config.get("arena", 0) >= _ROOM_FOR_WORKLOADS
            build(spec, [_WORKLOADS if room else _SMALL], BuildOptions(_STRICT))
        for target in PORTABLE:
            compile_agent(target)
    except BoardprofError as error:
        print(f"lint: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
