# SPDX-License-Identifier: Apache-2.0
"""The agent as a shared library in this process, on its own thread, connected by a socket pair."""

from __future__ import annotations

import _ctypes
import contextlib
import ctypes
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from boardprof.base.errors import BoardError
from boardprof.wire.transport.base import DescriptorTransport

ENTRY_POINT = "bp_native_serve"
"""``int bp_native_serve(int fd)``: serve until the other end closes."""

_JOIN_S = 0.5


def connect_library(library: Path) -> DescriptorTransport:
    """Load ``library`` and let its agent serve one end of a socket pair, on a daemon thread."""
    # A copy for each connection: the loader gives out one image for each file, with the static
    # memory of the connection before. A copy boots afresh.
    with tempfile.TemporaryDirectory(prefix="boardprof-") as folder:
        copy = Path(shutil.copy(library, folder))
        try:
            loaded = ctypes.CDLL(str(copy))
            serve = loaded[ENTRY_POINT]
        except (OSError, AttributeError) as error:
            raise BoardError(
                f"{library.name} cannot be loaded as a board: {error}",
                hint="build it again for this machine",
            ) from error
    ours, theirs = socket.socketpair()
    thread = threading.Thread(
        target=_serve, args=(serve, theirs, loaded._handle), name="boardprof agent", daemon=True
    )
    thread.start()

    def close() -> None:
        with contextlib.suppress(OSError):
            ours.shutdown(socket.SHUT_RDWR)
        ours.close()
        thread.join(_JOIN_S)

    return DescriptorTransport(ours.fileno(), f"in-process:{library.name}", close)


def _serve(serve: Callable[[int], int], end: socket.socket, handle: int) -> None:
    serve(end.fileno())
    with contextlib.suppress(OSError):  # a function that it ran may have closed it
        end.close()
    _ctypes.dlclose(handle)  # ctypes never unloads a library
