# SPDX-License-Identifier: Apache-2.0
"""A user's own folder of tests, run by a pytest of its own that has our plugin."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

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

    def run(self, *options: str, environment: dict[str, str] | None = None) -> Ran:
        """Run pytest in the folder."""
        # Hypothesis takes longer to load than all the rest.
        without = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
        command = [sys.executable, "-m", "pytest", *without, "-ra"]
        done = subprocess.run(
            [*command, *options],
            cwd=self.folder,
            env={
                **os.environ,
                "BOARDPROF_HISTORY": str(self.folder / "history.sqlite"),
                **(environment or {}),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )
        return Ran(done.returncode, done.stdout + done.stderr)
