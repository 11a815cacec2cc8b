# SPDX-License-Identifier: Apache-2.0
"""Protocol Buffers' wire format, as far as a writer of traces needs it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

_VARINT, _FIXED64, _LENGTH = 0, 1, 2  # wire types
_LONGEST = 10  # bytes of a number of 64 bits
_PIECE = 1 << 16  # numbers that are encoded at once: as many as the processor's cache holds


def varint(value: int) -> bytes:
    """Return a number; one below zero in two's complement of 64 bits."""
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


def number(field: int, value: int) -> bytes:
    """Return a field with a number, also one of an enum or a bool."""
    return varint(field << 3 | _VARINT) + varint(value)


def double(field: int, value: float) -> bytes:
    """Return a field with a double."""
    return varint(field << 3 | _FIXED64) + struct.pack("<d", value)


def text(field: int, value: str) -> bytes:
    """Return a field with a string."""
    return message(field, value.encode())


def message(field: int, *content: bytes) -> bytes:
    """Return a field with a message, or with bytes."""
    whole = b"".join(content)
    return varint(field << 3 | _LENGTH) + varint(len(whole)) + whole


def varints(values: npt.NDArray[np.integer[Any]]) -> Iterator[bytes]:
    """Yield many numbers, each as `varint` returns it."""
    shifts = np.arange(_LONGEST, dtype=np.uint64) * np.uint64(7)
    for at in range(0, len(values), _PIECE):
        rest = values[at : at + _PIECE].astype(np.uint64)[:, None] >> shifts
        lengths = np.maximum(np.count_nonzero(rest, axis=1), 1)
        follows = np.arange(1, _LONGEST + 1) < lengths[:, None]
        rows = ((rest & np.uint64(127)) | (follows * np.uint64(128))).astype(np.uint8).tobytes()
        for index, length in enumerate(lengths.tolist()):
            yield rows[index * _LONGEST : index * _LONGEST + length]
