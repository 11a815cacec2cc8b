# SPDX-License-Identifier: Apache-2.0
"""A user's own folder of tests, run by a pytest of its own that has our plugin."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.cli.command import forked, started

__all__ = ["SQUARE", "Ran", "Suite"]

SQUARE = """\
unsigned square(unsigned x);
unsigned square(unsigned x) {
    return x * x;
}
"""


@dataclass(frozen=True)
class Ran:
    """What pytest left: exit code and output."""

    code: int
    out: str


class Suite:
    """A folder with ``square.c`` and whatever a test writes into it."""

    def __init__(self, folder: Path) -> None:
        """Make the folder's C file and an empty history."""
        self.folder = folder
        self.write("square.c", SQUARE)

    def write(self, name: str, text: str) -> Path:
        """Write a file of the suite; return its path."""
        path = self.folder / name
        path.write_text(text)
        return path

    def run(
        self, *options: str, environment: dict[str, str] | None = None, is_new: bool = False
    ) -> Ran:
        """Run pytest in the folder; ``is_new``: in a process in which nothing is loaded."""
        # Hypothesis and anyio take longer to load than all the rest.
        without = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:anyio"]
        variables = {
            **os.environ,
            "BOARDPROF_HISTORY": str(self.folder / "history.sqlite"),
            **(environment or {}),
        }
        words = ["pytest", *without, "-ra", *options]
        if is_new:
            command = [sys.executable, "-m", *words]
            code, out, err = started(command, variables, self.folder, 110.0)
        else:
            code, out, err = forked(words, variables, self.folder, 110.0)
        return Ran(code, out + err)
