# SPDX-License-Identifier: Apache-2.0
"""Transports of other packages, by the scheme of their ports: ``lab://bench-3``.

An entry point of the group ``boardprof.transports`` has the scheme for its name, and names a
function that takes the whole port and the longest time to connect, seconds, and returns a
`Transport`.
"""

from __future__ import annotations

from collections.abc import Callable

from boardprof.errors import BoardError, BoardprofError
from boardprof.packages import named_function
from boardprof.transport.base import Transport

Connect = Callable[[str, float], Transport]


def packages_transport(port: str) -> Connect | None:
    """Return the function that connects to ports of this scheme. None if no package knows it.

    Its exceptions other than `BoardprofError` become a `BoardError` that names the package.

    Raises:
        UsageError: the package cannot be used.
    """
    scheme = port.partition("://")[0]
    found = named_function("transports", scheme, f"The transport {scheme}://")
    if found is None:
        return None
    connect: Connect = found.function

    def told(port: str, timeout_s: float) -> Transport:
        try:
            return connect(port, timeout_s)
        except BoardprofError:
            raise
        except Exception as error:
            raise BoardError(f"No board at {port}: {found.place} says {error!r}.") from error

    return told
