# SPDX-License-Identifier: Apache-2.0
"""The agent as a shared library in this process, on its own thread, connected by a socket pair."""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
import threading
from pathlib import Path
from typing import Any

from boardprof.errors import BoardError
from boardprof.transport.base import DescriptorTransport

ENTRY_POINT = "bp_native_serve"
"""``int bp_native_serve(int fd)``: serve until the other end closes."""

_JOIN_S = 0.5


def connect_library(library: Path) -> DescriptorTransport:
    """Load ``library`` and let its agent serve one end of a socket pair.

    The agent runs on a daemon thread: a function that never returns delays neither the caller's
    deadline nor the end of the process.

    Raises:
        BoardError: the library cannot be loaded or has no entry point.
    """
    from boardprof.transport.libraries import ffi  # only this board needs it

    # A copy for each connection: the loader hands out one image a file, and with it the static
    # memory of whoever came before. A copy boots afresh.
    with tempfile.TemporaryDirectory(prefix="boardprof-") as folder:
        copy = Path(shutil.copy(library, folder))
        try:
            loaded = ffi.dlopen(str(copy))
            getattr(loaded, ENTRY_POINT)
        except (OSError, AttributeError) as error:
            raise BoardError(
                f"{library.name} cannot be loaded as a board: {error}",
                hint="build it again for this machine",
            ) from error
    ours, theirs = socket.socketpair()
    thread = threading.Thread(
        target=_serve, args=(loaded, theirs), name="boardprof agent", daemon=True
    )
    thread.start()

    def close() -> None:
        with contextlib.suppress(OSError):
            ours.shutdown(socket.SHUT_RDWR)
        ours.close()
        thread.join(_JOIN_S)

    return DescriptorTransport(ours.fileno(), f"in-process:{library.name}", close)


def _serve(library: Any, end: socket.socket) -> None:
    # The library is unloaded with its last reference: this thread must hold one while it runs.
    getattr(library, ENTRY_POINT)(end.fileno())
    with contextlib.suppress(OSError):  # a function that it ran may have closed it
        end.close()
