# SPDX-License-Identifier: Apache-2.0
"""Runs what is too long for each change, part by part, and says how long each part took.

Run from the repository: ``python scripts/nightly.py [PART ...]`` (`make nightly`). A part that has
passed on the same files is not run again, so that a run that was stopped goes on. Ends with 1 when
a part has failed, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

__all__ = ["PARTS", "main"]

_ROOT = Path(__file__).resolve().parents[1]
_STATE = _ROOT / "build" / "nightly.json"

_END_S = 60.0
"""Time that a part has to end after Ctrl-C."""

_PYTHON = sys.executable
_PYTEST = ("pytest", "-v", "-n", "4", "--dist", "loadscope", "-p", "no:cacheprovider")

PARTS: dict[str, tuple[str, ...]] = {
    "tests": (_PYTHON, "-m", *_PYTEST, "-m", "nightly"),
    "debian": ("sh", "scripts/other_debian.sh"),
    "faults": (_PYTHON, "-m", "tests.faults"),
    "mutants": (_PYTHON, "scripts/mutants.py"),
    "fuzz": (_PYTHON, "-m", "tests.fuzz.run", "3600"),
    "soak": (_PYTHON, "scripts/soak.py"),
}
"""The commands that run, in this order."""


def fingerprint() -> str:
    """Return a hash of all files that git knows or would add: a pass holds for these alone."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=_ROOT,
        capture_output=True,
        check=True,
        timeout=60,
    )
    digest = hashlib.sha256()
    for name in sorted(listed.stdout.split(b"\0")):
        path = _ROOT / name.decode()
        digest.update(name + b"\0" + (path.read_bytes() if path.is_file() else b""))
    return digest.hexdigest()[:16]


def passed(code: str) -> dict[str, float]:
    """Return the seconds of each part that has passed on the files of ``code``."""
    try:
        state = json.loads(_STATE.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return {}
    return dict(state["seconds"]) if state["code"] == code else {}


def keep(code: str, name: str, seconds: float) -> None:
    """Write down that a part has passed, beside what another process has written meanwhile."""
    _STATE.parent.mkdir(exist_ok=True)
    state = {"code": code, "seconds": {**passed(code), name: seconds}}
    _STATE.write_text(json.dumps(state), encoding="ascii")


def run_part(name: str) -> tuple[float, int]:
    """Run a part; return its seconds and exit status.

    Raises:
        KeyboardInterrupt: Ctrl-C. The part and its processes have ended: it got the signal, too.
    """
    print(f"== {name}", flush=True)
    began_s = time.monotonic()
    # In a group of its own, so that it gets one signal, whoever sent it to whom.
    part = subprocess.Popen(PARTS[name], cwd=_ROOT, start_new_session=True)
    try:
        status = part.wait()
        return time.monotonic() - began_s, status
    except KeyboardInterrupt:
        os.killpg(part.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            part.wait(_END_S)
        raise
    finally:
        with suppress(ProcessLookupError):
            os.killpg(part.pid, signal.SIGKILL)
        part.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts that have not passed yet; return the exit status."""
    parser = argparse.ArgumentParser(description="What is too long for each change.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--fresh", action="store_true", help="run also what has passed")
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"There is no part {', '.join(sorted(unknown))}. Known: {', '.join(PARTS)}")
    code = fingerprint()
    done = {} if options.fresh else passed(code)
    lines, failed = [], False
    try:
        for name in options.parts or PARTS:
            if name in done:
                lines.append(f"{name:8} {done[name] / 60:6.1f} min  passed earlier")
                continue
            seconds, status = run_part(name)
            if status == 0:
                keep(code, name, seconds)
            failed = failed or status != 0
            verdict = "passed" if status == 0 else f"FAILED (exit code {status})"
            lines.append(f"{name:8} {seconds / 60:6.1f} min  {verdict}")
    except KeyboardInterrupt:
        lines.append("Interrupted. The next run continues with the part that was interrupted.")
        return 130
    finally:
        print("\n".join(lines), flush=True)
    return int(failed)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
