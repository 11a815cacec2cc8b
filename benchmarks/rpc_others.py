# SPDX-License-Identifier: Apache-2.0
"""Other systems' bulk transfers. Runs in the benchmark's own environment, never in the project's.

usage: rpc_others.py serve erpc|rpyc, which prints where it listens;
rpc_others.py fetch erpc|rpyc HOST:PORT BYTES, which fetches the content once for each line on its
standard input and prints the seconds that it took and the content's CRC-32.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
import zlib
from collections.abc import Callable

_CHUNK = 32768
"""Bytes of one reply of eRPC, whose frames are shorter than 64 KiB."""

_SERVICE, _METHOD = 1, 1
_CONTENT = os.urandom(1 << 20)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def _announce(port: int) -> None:
    print(f"listening on 127.0.0.1:{port}", flush=True)


def _serve_erpc() -> None:
    from erpc.basic_codec import BasicCodec  # type: ignore[import-not-found]
    from erpc.codec import MessageInfo, MessageType  # type: ignore[import-not-found]
    from erpc.server import Service  # type: ignore[import-not-found]
    from erpc.simple_server import SimpleServer  # type: ignore[import-not-found]
    from erpc.transport import (  # type: ignore[import-not-found]
        ConnectionClosed,
        TCPTransport,
    )

    class Content(Service):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(_SERVICE)
            self._methods = {_METHOD: self._read}

        def _read(self, sequence: int, codec: BasicCodec) -> None:
            offset, length = codec.read_uint32(), codec.read_uint32()
            codec.reset()
            reply = MessageInfo(MessageType.kReplyMessage, _SERVICE, _METHOD, sequence)
            codec.start_write_message(reply)
            codec.write_binary(_CONTENT[offset : offset + length])

    port = _free_port()
    server = SimpleServer(TCPTransport("127.0.0.1", port, True), BasicCodec)
    server.add_service(Content())
    while not _is_listening(port):
        time.sleep(0.01)
    _announce(port)
    with contextlib.suppress(ConnectionClosed):
        server.run()


def _is_listening(port: int) -> bool:
    with open("/proc/net/tcp", encoding="ascii") as table:
        return any(f":{port:04X} 00000000:0000 0A" in line for line in table)


def _serve_rpyc() -> None:
    import rpyc  # type: ignore[import-not-found]
    from rpyc.utils.server import ThreadedServer  # type: ignore[import-not-found]

    class Content(rpyc.Service):  # type: ignore[misc]
        def exposed_read(self, length: int) -> bytes:
            return _CONTENT[:length]

    server = ThreadedServer(Content, hostname="127.0.0.1", port=0)
    _announce(server.port)
    server.start()


def _erpc_fetch(host: str, port: int) -> Callable[[int], bytes]:
    from erpc.basic_codec import BasicCodec
    from erpc.client import ClientManager  # type: ignore[import-not-found]
    from erpc.codec import MessageInfo, MessageType
    from erpc.transport import TCPTransport

    client = ClientManager(TCPTransport(host, port, False), BasicCodec)

    def chunk(offset: int, length: int) -> bytes:
        request = client.create_request()
        codec = request.codec
        codec.start_write_message(
            MessageInfo(MessageType.kInvocationMessage, _SERVICE, _METHOD, request.sequence)
        )
        codec.write_uint32(offset)
        codec.write_uint32(length)
        client.perform_request(request)
        return bytes(codec.read_binary())

    def fetch(length: int) -> bytes:
        starts = range(0, length, _CHUNK)
        return b"".join(chunk(start, min(_CHUNK, length - start)) for start in starts)

    return fetch


def _rpyc_fetch(host: str, port: int) -> Callable[[int], bytes]:
    import rpyc

    connection = rpyc.connect(host, port)
    read: Callable[[int], bytes] = connection.root.read
    return read


def _fetch(fetch: Callable[[int], bytes], length: int) -> None:
    for _ in sys.stdin:
        begin = time.perf_counter()
        content = fetch(length)
        elapsed_s = time.perf_counter() - begin
        assert len(content) == length
        print(elapsed_s, zlib.crc32(content), flush=True)


def main() -> None:
    """Do what the command line says."""
    action, system, *rest = sys.argv[1:]
    if action == "serve":
        {"erpc": _serve_erpc, "rpyc": _serve_rpyc}[system]()
        return
    host, _, port = rest[0].rpartition(":")
    connect = {"erpc": _erpc_fetch, "rpyc": _rpyc_fetch}[system]
    _fetch(connect(host, int(port)), int(rest[1]))


if __name__ == "__main__":
    main()
