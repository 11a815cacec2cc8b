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

__all__ = ["tensorboard_trace_handler"]

_NOT_IN_NAMES = ("/", "\\", "\0")
"""What the name of a file has nowhere, on one system or another."""


class _Exports(Protocol):
    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None: ...


def tensorboard_trace_handler(
    dir_name: str | os.PathLike[str], worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[_Exports], None]:
    """Return an ``on_trace_ready`` that writes each trace to ``WORKER.TIME.pt.trace.json``.

    Args:
        dir_name: of the files; made if it is not there.
        worker_name: None or "": host and process, when the first trace is ready.
        use_gzip: compress the files; their names end in ``.gz`` then.

    Raises:
        UsageError: a name is no text, or the worker's cannot stand in that of a file; or, when a
            trace is ready, the folder or the file cannot be written.
    """
    if not isinstance(dir_name, str | os.PathLike) or not isinstance(worker_name, str | None):
        raise UsageError(
            f"dir_name={dir_name!r:.60}, worker_name={worker_name!r:.60}: names are texts."
        )
    if worker_name is not None and any(each in worker_name for each in _NOT_IN_NAMES):
        raise UsageError(
            f"worker_name={worker_name!r:.60} is no part of a file's name.",
            hint="no slashes; the folder is dir_name",
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
