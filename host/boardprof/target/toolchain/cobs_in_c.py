# SPDX-License-Identifier: Apache-2.0
"""COBS in C for long frames: the agent's own source, compiled once into the cache, by ctypes.

It is ten times as fast as Python and numpy where the data has many zeros, as small integers have.
"""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

from boardprof.base.errors import BoardprofError
from boardprof.base.files import runtime_dir
from boardprof.target.toolchain.cache import Cache, digest
from boardprof_protocol.frame import BadFrame, Cobs, cobs_encode

_LONGEST = 65535  # encoded bytes of a frame
_COMPILERS = ("gcc", "cc", "clang")
_TIMEOUT_S = 60.0
_LIMITS = (f"-DBP_CFG_MTU={_LONGEST}", f"-DBP_CFG_BULK={_LONGEST}", "-DBP_CFG_ARENA=1")
_FLAGS = ("-std=c11", "-O2", "-shared", "-fPIC", *_LIMITS)

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


def load_codec() -> tuple[Cobs, str]:
    """Return the fastest COBS on this machine, for one session, and where it comes from.

    The library, or the reason why there is none, is kept for the process. Nothing here is an error,
    because the Python functions do the same.
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

    def compiled(target: Path) -> None:
        (target.parent / "codec.c").write_text(_SOURCE, encoding="ascii")
        places = [f"-I{runtime / folder}" for folder in ("include", "src")]
        command = [compiler, *_FLAGS, *places, "codec.c", "-o", target.name]
        done = subprocess.run(
            command, cwd=target.parent, capture_output=True, text=True, timeout=_TIMEOUT_S
        )
        if done.returncode != 0:
            raise OSError(f"the agent's codec does not compile: {done.stderr.strip()}")

    return Cache().made("codec.so", compiled, "codec", key)


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
