# SPDX-License-Identifier: Apache-2.0
"""COBS for bulk: the agent's own C, where this machine has a compiler, else the Python one.

The agent's source is compiled once into the build's cache, and loaded without a C API of Python's.
Small frames are not encoded here, because the call into C takes longer than the work.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from boardprof.errors import BoardprofError
from boardprof.resources import runtime_dir
from boardprof.toolchain.cache import Cache, digest
from boardprof_protocol.frame import BadFrame, Cobs

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

# The agent's file as it is, its static functions included. Each session has a receiver of its own,
# of bp_codec_state() bytes: two threads may have a session each.
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


def load_codec() -> tuple[Cobs, str]:
    """Return the fastest COBS on this machine, and a text that says where it comes from.

    Each call returns one with buffers of its own, for one session. What is found, or why there is
    nothing, is kept for the process. Nothing here is an error: the Python one can do all that the
    other can.
    """
    with _finding:  # one thread compiles, the others wait for it
        ffi, library, where = _found()
    return (Cobs() if library is None else _cobs(ffi, library)), where


_finding = threading.Lock()


@functools.cache
def _found() -> tuple[Any, Any, str]:
    """Return cffi's FFI and the library, None without one, and where it is or why there is none."""
    try:
        from boardprof.transport.libraries import ffi  # only bulk needs it

        path = _library()
        return ffi, ffi.dlopen(str(path)), f"C, {path}"
    except (BoardprofError, OSError, subprocess.SubprocessError, ImportError) as error:
        reason = str(error).strip().splitlines()
        return None, None, f"Python, since {reason[0] if reason else type(error).__name__}"


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


def _cobs(ffi: Any, library: Any) -> Cobs:
    # Aligned for anything, and zeroed: as a static agent would be.
    state = ffi.new("uint64_t[]", (library.bp_codec_state() + 7) // 8)
    out = ffi.new("uint8_t[]", 2 * _LONGEST)
    raw = ffi.new("uint8_t **")

    def encode(data: bytes) -> bytes:
        if len(data) > _LONGEST:
            return Cobs().encode(data)
        return bytes(ffi.buffer(out, library.bp_codec_encode(out, data, len(data))))

    def decode(encoded: bytes) -> bytes:
        if 0 in encoded:
            raise BadFrame("not COBS")
        length = library.bp_codec_decode(state, encoded, len(encoded), raw)
        if length < 0:
            raise BadFrame("not COBS")
        return bytes(ffi.buffer(raw[0], length))

    return Cobs(encode, decode)
