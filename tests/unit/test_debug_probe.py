# SPDX-License-Identifier: Apache-2.0
"""What a server that is not OpenOCD, or whose clock is wrong, says of its times and registers."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from boardprof.base.errors import BoardError
from boardprof.measure.hotspots.sampled_call import DebugProbe


def waits_of(request: str) -> list[int]:
    """Return the waits of a request in microseconds."""
    found = re.search(r"\}\} \{([\d ]*)\}", request)
    assert found is not None
    return [int(word) for word in found[1].split()]


@contextmanager
def server(answer: Callable[[str], str]) -> Iterator[tuple[DebugProbe, list[str]]]:
    """Start a server; yield a connection to it, and the requests that it got."""
    requests: list[str] = []

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            content = b""
            while part := connection.recv(1 << 16):
                content += part
                if content.endswith(b"\x1a"):
                    requests.append(content.decode())
                    connection.sendall(answer(requests[-1]).encode() + b"\x1a")
                    content = b""

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        probe = DebugProbe(f"127.0.0.1:{listening.getsockname()[1]}")
        try:
            yield probe, requests
        finally:
            probe.close()


@pytest.mark.parametrize("spent_us", [10**400, 10**320, 3_600_000_000, -3_600_000_000, -(10**320)])
def test_waits_follow_the_time_that_passed_and_not_the_servers_clock(spent_us: int) -> None:
    def answer(request: str) -> str:
        return f"0 {{{spent_us} {' '.join('0x101' for _ in waits_of(request))}}}"

    with server(answer) as (probe, requests):
        assert set(probe.program_counters()) == {0x100}
        assert set(probe.program_counters()) == {0x100}
    assert sum(waits_of(requests[1])) < 4_000_000


@pytest.mark.parametrize("word", ["-1", "0x100000000", "9" * 1000, "pc"])
def test_a_word_that_no_register_has_is_refused(word: str) -> None:
    with (
        server(lambda request: f"0 {{5 {' '.join(word for _ in waits_of(request))}}}") as (
            probe,
            _,
        ),
        pytest.raises(BoardError, match="not 20 numbers"),
    ):
        probe.program_counters()
