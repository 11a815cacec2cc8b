# SPDX-License-Identifier: Apache-2.0
"""A session's channels: whole blocks of the board's memory, and streams (SPEC.md 4.5 and 5.5).

COBS for bulk is the agent's own C if this machine has a compiler, else the Python functions. The
agent's source is compiled once into the build's cache and loaded with ctypes.
"""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from boardprof.base.errors import BoardprofError, FrameError, RpcError, UsageError, agent_option
from boardprof.base.resources import runtime_dir
from boardprof.target.toolchain.cache import Cache, digest
from boardprof.wire.decode.dictionary import Dictionary
from boardprof.wire.link.channel import LEAST_FRAME, Receiver, Upload
from boardprof.wire.link.handshake import Welcome
from boardprof.wire.link.session import Session
from boardprof_protocol.codes import ErrorCode
from boardprof_protocol.frame import BadFrame, Cobs, cobs_encode

Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all)."""

_FAST_CREDIT = 1 << 20
_SLOW_CREDIT = 1 << 14
"""On a line with a baud rate: four long frames, so that losing one costs little."""

_SLOW_FRAME = 1 << 12
_STREAM_CREDIT = 1 << 16
_LONGEST = 65535
"""Encoded bytes of a frame."""

_COMPILERS = ("gcc", "cc", "clang")
_TIMEOUT_S = 60.0
_FLAGS = (
    "-std=c11",
    "-O2",
    "-shared",
    "-fPIC",
    f"-DBP_CFG_MTU={_LONGEST}",
    f"-DBP_CFG_BULK={_LONGEST}",
    "-DBP_CFG_ARENA=1",
)

# It includes the agent's file, and so its static functions. Each session has its own receiver of
# bp_codec_state() bytes, since two threads may have a session each.
_SOURCE = """
#include "bp_frame.c"
#include "bp_le.c"

size_t bp_codec_state(void) { return sizeof(bp_receiver_t); }

size_t bp_codec_encode(uint8_t *out, const uint8_t *raw, size_t length) {
    return bp_cobs(out, raw, length);
}

int bp_codec_decode(bp_receiver_t *state, const uint8_t *encoded, size_t count, uint8_t **raw) {
    int length = 0;
    bp_frame_take(state, 0);
    size_t taken = bp_frame_take_some(state, encoded, count, &length);
    *raw = state->frame;
    return taken == count && length == 0 ? bp_frame_take(state, 0) : -1;
}
"""


class Channels:
    """Opens channels of a session, one at a time, and closes those that were left open."""

    def __init__(self, session: Session, welcome: Welcome, dictionary: Dictionary) -> None:
        """Offer what the board's dictionary lists."""
        self._session = session
        self._mtu_rx = welcome.mtu_rx
        self._ids = {f.name: f.id for f in dictionary.functions if f.name.startswith("bp.")}
        self._open: int | None = None  # the number of a channel that the board may hold open
        self._has_codec = False

    def offers(self, opener: str) -> bool:
        """Whether the agent has the function ``opener`` and no stream is open."""
        return opener in self._ids and "bp.finish" in self._ids and self._session.channel is None

    def download(
        self, handle: int, offset: int, length: int, on_progress: Progress | None = None
    ) -> bytes:
        """Return ``length`` bytes, 1 or more, of the block from ``offset``.

        Raises:
            FrameError: the data differs from what the board sent; none of it is returned.
            RpcError, BoardTimeoutError, DeviceResetError, LinkError: see `Session.carry`.
        """
        client = self._session.client
        credit = _SLOW_CREDIT if client.byte_time_s else _FAST_CREDIT
        channel = Receiver(client, self._next(), credit, length)
        self._opened(channel, "bp.download", handle, offset, length)
        self._carry(channel, "bp.download", on_progress)
        content = channel.take()
        sent, crc, _ = self.finish()
        if sent != length or channel.crc != crc:
            raise FrameError(
                f"The data read from the board is damaged: {length} bytes arrived, the board sent "
                f"{sent}, and the CRC differs.",
                hint="read again; if it happens again, the board's memory changes during the read",
            )
        return content

    def upload(
        self, handle: int, offset: int, content: bytes, on_progress: Progress | None = None
    ) -> None:
        """Write ``content``, 1 byte or more, to the block at ``offset``; raises as `download`."""
        client = self._session.client
        frame = max(min(self._mtu_rx, _SLOW_FRAME if client.byte_time_s else 65535), LEAST_FRAME)
        window = _SLOW_CREDIT if client.byte_time_s else _FAST_CREDIT
        channel = Upload(client, self._next(), content, frame_bytes=frame, window=window)
        self._opened(channel, "bp.upload", handle, offset, len(content))
        self._carry(channel, "bp.upload", on_progress)
        taken, crc, _ = self.finish()
        if taken != len(content) or crc != channel.crc:
            raise FrameError(
                f"The data written to the board is damaged: {taken} of {len(content)} bytes "
                "arrived, and the CRC differs.",
                hint="write again",
            )

    def stream(self) -> Receiver:
        """Open a stream from the board.

        Raises:
            UsageError: the agent has none.
            RpcError: another channel is open.
        """
        if "bp.stream" not in self._ids:
            raise UsageError(
                "The board's agent does not support streams.",
                hint=f"compile it with {agent_option('stream', 4096)}",
            )
        channel = Receiver(self._session.client, self._next(), _STREAM_CREDIT)
        self._opened(channel, "bp.stream")
        return channel

    def finish(self) -> tuple[int, int, int]:
        """Close the channel; return its bytes modulo 2³², their CRC-32 and the bytes dropped.

        Raises:
            RpcError: the board has closed it, since its block was freed.
        """
        assert self._open is not None, "whoever closes a channel has opened one"
        self._session.drop_channel()
        fields = self._session.invoke(self._ids["bp.finish"], "bp.finish", self._open)
        self._open = None
        if not (
            isinstance(fields, list)
            and len(fields) >= 3
            and all(type(field) is int for field in fields[:3])
        ):
            raise FrameError(f"bp.finish returned {fields!r:.60}, not [bytes, crc, dropped].")
        return fields[0], fields[1], fields[2]

    def _next(self) -> int:
        """Close a channel that an interruption or error left open; return the next one's number."""
        if self._session.channel is not None:
            raise UsageError("A stream of the board is already open.", hint="close it first")
        if not self._has_codec:
            self._session.client.decoder.cobs, _ = load_codec()
            self._has_codec = True
        if self._open is not None:
            try:
                self.finish()
            except RpcError as error:
                if error.code != ErrorCode.BAD_HANDLE:
                    raise
                self._open = None  # it had never been opened
        return self._session.next_sequence

    def _opened(self, channel: Receiver | Upload, opener: str, *values: int) -> None:
        self._open = channel.sequence
        try:
            self._session.open_channel(channel, self._ids[opener], opener, *values)
        except RpcError:
            self._open = None  # refused: nothing is open
            raise

    def _carry(self, channel: Receiver | Upload, name: str, on_progress: Progress | None) -> None:
        try:
            self._session.carry(channel, name, on_progress)
        finally:
            self._session.drop_channel()


# -- COBS --------------------------------------------------------------------------------------


def load_codec() -> tuple[Cobs, str]:
    """Return the fastest COBS on this machine, and a text that says where it comes from.

    Each call returns one with buffers of its own, for one session. The library, or the reason why
    there is none, is kept for the process. Nothing here is an error, because the Python functions
    do the same.
    """
    with _finding:  # one thread compiles, the others wait for it
        library, where = _found()
    return (Cobs() if library is None else _cobs(library)), where


_finding = threading.Lock()


@functools.cache
def _found() -> tuple[ctypes.CDLL | None, str]:
    """Return the library and its path; without one, None and the reason."""
    try:
        path = _library()
        library = ctypes.CDLL(str(path))
    except (BoardprofError, OSError, subprocess.SubprocessError) as error:
        reason = str(error).strip().splitlines()
        return None, f"Python, since {reason[0] if reason else type(error).__name__}"
    size, text, pointer = ctypes.c_size_t, ctypes.c_char_p, ctypes.c_void_p
    library.bp_codec_state.restype = size
    library.bp_codec_encode.argtypes = (pointer, text, size)
    library.bp_codec_encode.restype = size
    library.bp_codec_decode.argtypes = (pointer, text, size, ctypes.POINTER(pointer))
    return library, f"C, {path}"


def _library() -> Path:
    """Return the compiled library, from the cache if it is there."""
    compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
    if compiler is None:
        raise OSError("there is no C compiler")
    runtime = runtime_dir()
    files = sorted(runtime.glob("include/boardprof/*.h"))
    files += [runtime / "src" / "bp_frame.c", runtime / "src" / "bp_le.c"]
    status = os.stat(compiler)
    key = digest(
        _SOURCE,
        _FLAGS,
        [compiler, status.st_size, status.st_mtime_ns],
        os.uname().machine,
        sys.maxsize,
        [[file.name, file.read_text(encoding="utf-8")] for file in files],
    )
    cache = Cache()
    kept = cache.find("codec.so", "codec", key)
    if kept is not None:
        return kept
    with cache.scratch() as scratch:
        (scratch / "codec.c").write_text(_SOURCE, encoding="ascii")
        places = [f"-I{runtime / folder}" for folder in ("include", "src")]
        command = [compiler, *_FLAGS, *places, "codec.c", "-o", "codec.so"]
        done = subprocess.run(
            command, cwd=scratch, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
        if done.returncode != 0:
            raise OSError(f"the agent's codec does not compile: {done.stderr.strip()}")
        return cache.store(scratch / "codec.so", "codec", key)


def _cobs(library: ctypes.CDLL) -> Cobs:
    # Aligned for anything, and zeroed like a static agent's.
    state = (ctypes.c_uint64 * ((library.bp_codec_state() + 7) // 8))()
    out = ctypes.create_string_buffer(2 * _LONGEST)
    raw = ctypes.c_void_p()

    def encode(data: bytes) -> bytes:
        if len(data) > _LONGEST:
            return cobs_encode(data)
        return ctypes.string_at(out, library.bp_codec_encode(out, data, len(data)))

    def decode(encoded: bytes) -> bytes:
        if 0 in encoded:
            raise BadFrame("not COBS")
        length = library.bp_codec_decode(state, encoded, len(encoded), ctypes.byref(raw))
        if length < 0:
            raise BadFrame("not COBS")
        return ctypes.string_at(raw, length)

    return Cobs(encode, decode)
