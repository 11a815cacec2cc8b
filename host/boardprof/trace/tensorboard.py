# SPDX-License-Identifier: Apache-2.0
"""Traces under the names that TensorBoard's plugin looks for."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from boardprof.errors import UsageError
from boardprof.writing import unwritable

_NOT_IN_NAMES = ("/", "\\", "\0")
"""Characters that file names cannot have on some system."""


class _Exports(Protocol):
    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None: ...


def tensorboard_trace_handler(
    dir_name: str | os.PathLike[str], worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[_Exports], None]:
    """Return an ``on_trace_ready`` that writes each trace to ``WORKER.TIME.pt.trace.json``.

    Args:
        dir_name: of the files; made if it is not there.
        worker_name: if None or "", host and process at the time of the first trace.
        use_gzip: compress the files; their names end in ``.gz`` then.

    Raises:
        UsageError: a name is not a string, or the worker's cannot be part of a file name. The
            handler raises it if the folder or the file cannot be written.
    """
    if not isinstance(dir_name, str | os.PathLike) or not isinstance(worker_name, str | None):
        raise UsageError(
            f"dir_name={dir_name!r:.60}, worker_name={worker_name!r:.60}: names must be strings."
        )
    if worker_name is not None and any(each in worker_name for each in _NOT_IN_NAMES):
        raise UsageError(
            f"worker_name={worker_name!r:.60} cannot be part of a file name.",
            hint="leave out slashes; dir_name sets the folder",
        )
    worker = worker_name or None

    def handler(prof: _Exports) -> None:
        nonlocal worker
        folder = Path(dir_name)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(folder, error) from error
        if worker is None:
            worker = f"{socket.gethostname()}_{os.getpid()}"
        ending = ".gz" if use_gzip else ""
        prof.export_chrome_trace(folder / f"{worker}.{time.time_ns()}.pt.trace.json{ending}")

    return handler
