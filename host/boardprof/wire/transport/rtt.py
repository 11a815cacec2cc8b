# SPDX-License-Identifier: Apache-2.0
"""The line through a debug probe: the TCP port of an RTT server, such as OpenOCD's."""

from __future__ import annotations

from boardprof.base.connection import host_and_port
from boardprof.base.errors import UsageError
from boardprof.wire.transport.base import DescriptorTransport
from boardprof.wire.transport.sockets import SCHEME, connect_socket, stream_of

RTT_SCHEME = "rtt://"
"""The prefix of a port that is an RTT server."""

_SERVERS = "in OpenOCD: rtt server start PORT 0; J-Link's has port 19021"


def connect_rtt(port: str, timeout_s: float) -> DescriptorTransport:
    """Connect to ``rtt://HOST:PORT`` within ``timeout_s``.

    Servers pass bytes as they are, and some greet first. They also accept hosts when they have no
    control block yet: then nothing answers.
    """
    place = port.removeprefix(RTT_SCHEME)
    if host_and_port(place) is None:
        raise UsageError(f"{port!r} is not a port.", hint="rtt://HOST:PORT of an RTT server")
    hint = f"start the RTT server ({_SERVERS}), or check host and port"
    return stream_of(connect_socket(SCHEME + place, timeout_s, port, hint), port)
