# SPDX-License-Identifier: Apache-2.0
"""Transports of other packages, by the scheme of their ports: ``lab://bench-3``.

An entry point of the group ``boardprof.transports`` has the scheme for its name, and names a
function that takes the whole port and the longest time to connect, seconds, and returns a
`Transport`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata

from boardprof.errors import BoardError, BoardprofError, UsageError
from boardprof.transport.base import Transport

__all__ = ["Connect", "packages_transport"]

_ENTRY_POINTS = "boardprof.transports"

Connect = Callable[[str, float], Transport]


def packages_transport(port: str) -> Connect | None:
    """Return what connects to a port of this scheme; None where no package knows it.

    What it raises that is no `BoardprofError` comes as a `BoardError`, which names the package.

    Raises:
        UsageError: the package cannot be used.
    """
    scheme = port.partition("://")[0]
    found = sorted(metadata.entry_points(group=_ENTRY_POINTS, name=scheme), key=lambda e: e.value)
    if not found:
        return None
    entry = found[0]
    try:
        connect: Connect = entry.load()
        if not callable(connect):
            raise TypeError(f"{connect!r} is no function")
    except Exception as error:  # whatever another package raises
        raise UsageError(
            f"The transport {scheme}:// of {entry.value} cannot be used: {error!r}."
        ) from error

    def told(port: str, timeout_s: float) -> Transport:
        try:
            return connect(port, timeout_s)
        except BoardprofError:
            raise
        except Exception as error:
            raise BoardError(f"No board at {port}: {entry.value} says {error!r}.") from error

    return told
