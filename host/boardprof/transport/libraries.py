# SPDX-License-Identifier: Apache-2.0
"""The C functions of libraries that are loaded into this process, for cffi.

cffi would read `DECLARATIONS` with a C parser, whose import takes a tenth of a run's time. So what
it makes of them is here, as its out-of-line ABI mode writes it. A test compares both.
"""

from __future__ import annotations

import _cffi_backend

DECLARATIONS = """
int bp_native_serve(int fd);
size_t bp_codec_state(void);
size_t bp_codec_encode(uint8_t *out, const uint8_t *raw, size_t length);
int bp_codec_decode(void *state, const uint8_t *encoded, size_t count, uint8_t **raw);
"""

ffi = _cffi_backend.FFI(
    "boardprof",
    _version=0x2601,
    _types=bytes.fromhex(
        "0000010D 00000701 0000000F 0000010D 00001103 00001003 00001C01 00000A03 0000000F"
        "0000060D 00001003 00000511 00001C01 0000000F 0000060D 0000000F 00001201 00000001"
    ),
    _globals=(
        *(b"\0\0\x03\x23bp_codec_decode", 0),
        *(b"\0\0\x09\x23bp_codec_encode", 0),
        *(b"\0\0\x0e\x23bp_codec_state", 0),
        *(b"\0\0\x00\x23bp_native_serve", 0),
    ),
)
