# SPDX-License-Identifier: Apache-2.0
"""Run all tests, in two halves at the same time: most of them wait for one program or another.

Each half is a run of pytest of its own. The first writes as it goes, the second when it has ended.
Ends with the exit status of the first half that fails. Arguments go to both.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["halves", "main"]

ROOT = Path(__file__).resolve().parents[1]

FIRST = ("boards",)
"""About half of the time: the rest is the other one, whatever is added."""


def halves(tests: Path = ROOT / "tests") -> tuple[list[str], list[str]]:
    """Return the folders and files of both halves, relative to the project."""
    found = sorted(
        path
        for path in tests.iterdir()
        if (path.is_dir() and any(path.glob("test_*.py"))) or path.match("test_*.py")
    )
    first = [path for path in found if path.name in FIRST]
    second = [path for path in found if path.name not in FIRST]
    root = tests.parent
    return [str(p.relative_to(root)) for p in first], [str(p.relative_to(root)) for p in second]


def main(options: list[str]) -> int:
    """Run both halves; return the exit status."""
    first, second = halves()
    # No cache: both would write it.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    with tempfile.TemporaryFile() as output:
        with subprocess.Popen(
            [*command, *second], cwd=ROOT, stdout=output, stderr=subprocess.STDOUT
        ) as other:
            try:
                status = subprocess.run([*command, *first], cwd=ROOT, check=False).returncode
                other.wait()
            except KeyboardInterrupt:  # it reaches both
                other.wait()
                status = 2
        output.seek(0)
        sys.stdout.buffer.write(output.read())
        sys.stdout.flush()
    return status or other.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
