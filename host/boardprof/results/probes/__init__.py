# SPDX-License-Identifier: Apache-2.0
"""What the probes of running firmware have recorded: events, ranges, tasks, and files of them."""

from __future__ import annotations

from boardprof.base.files import open_file

_MAGIC = b"PK\x03\x04"


def is_probe_run(file: str) -> bool:
    """Return whether a file may hold a run of probes; False also if it cannot be read."""
    try:
        with open_file(file) as opened:
            return opened.read(len(_MAGIC)) == _MAGIC
    except (OSError, ValueError):
        return False
