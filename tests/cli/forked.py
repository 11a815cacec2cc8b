# SPDX-License-Identifier: Apache-2.0
"""The command, or pytest, in a process forked from a server that has loaded their modules.

This module is imported in each of these processes: it imports nothing that the command does not.
"""

from __future__ import annotations

import atexit
import faulthandler
import io
import os
import sys
from pathlib import Path

__all__ = ["LOADED", "run_forked"]

LOADED = [
    "boardprof.target.arguments.array_argument",
    "boardprof.ui.cli.boards",
    "boardprof.ui.cli.commands",
    "boardprof.ui.cli.run",
    "boardprof.measure.connect",
    "boardprof.target.elf.functions",
    "boardprof.target.build.builder",
    "boardprof.target.build.project",
    "boardprof.measure.hotspots.hotspot_run",
    "boardprof.results.history.report_lookup",
    "boardprof.results.report_json",
    "boardprof.show.board_facts",
    "boardprof.show.table",
    "boardprof.jobs.run.probe_run",
    "boardprof.jobs.run.outcome",
    "boardprof.jobs.run.saving",
    "boardprof.wire.transport.child",
    "boardprof.wire.transport.sockets",
    "boardprof.wire.transport.sockets",
    "elftools.elf.elffile",
    "numpy",
    "pytest",
]
"""What the server loads; they bring most others."""


def run_forked(
    words: list[str],
    environment: dict[str, str],
    folder: Path,
    out: Path,
    err: Path,
    stacks_after_s: float,
) -> None:
    """Run ``boardprof ...`` or ``pytest ...`` in this process and end it as Python ends.

    Args:
        words: the program's name and its arguments.
        environment: all of its variables.
        folder: to run in.
        out: gets its standard output.
        err: gets its standard error.
        stacks_after_s: it writes there where its threads are if it lasts so long.
    """
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.stdin = _opened(0, Path(os.devnull), "r")
    sys.stdout = _opened(1, out, "w")
    sys.stderr = _opened(2, err, "w")
    faulthandler.dump_traceback_later(stacks_after_s, file=2)
    sys.argv = words
    if words[0] == "pytest":
        import pytest

        sys.path.insert(0, str(folder))  # as ``python -m pytest`` does
        code = pytest.console_main()
    else:
        from boardprof.ui.cli import main

        code = main()
    sys.stdout.flush()
    atexit._run_exitfuncs()  # a forked process has none else
    sys.exit(code)


def _opened(descriptor: int, file: Path, mode: str) -> io.TextIOWrapper:
    """Open ``file`` as one of the three standard streams."""
    flags = os.O_RDONLY if mode == "r" else os.O_WRONLY | os.O_CREAT | os.O_APPEND
    opened = os.open(file, flags, 0o600)
    os.dup2(opened, descriptor)
    os.close(opened)
    stream = open(descriptor, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
    assert isinstance(stream, io.TextIOWrapper)
    return stream
