# SPDX-License-Identifier: Apache-2.0
"""Replies' bodies as Python values, and the exceptions that ERROR replies stand for."""

from __future__ import annotations

import msgpack

from boardprof.errors import CheckFailedError, DeviceError, FrameError, RpcError
from boardprof_protocol.codes import ErrorCode

__all__ = ["refusal", "unpack_reply"]

_WHAT_WENT_WRONG = {
    ErrorCode.MALFORMED: "the call's body is malformed",
    ErrorCode.NO_FUNCTION: "it has no packed function of that id",
    ErrorCode.ARG_COUNT: "wrong number of arguments",
    ErrorCode.ARG_TYPE: "an argument has the wrong type",
    ErrorCode.ARG_RANGE: "an argument is out of range",
    ErrorCode.REPLY_TOO_BIG: "the reply does not fit the board's buffer",
    ErrorCode.NO_MEMORY: "no room on the board: too many windows, blocks or collectors",
    ErrorCode.BAD_HANDLE: "no such handle in this session",
    ErrorCode.BAD_OFFSET: "outside the block",
    ErrorCode.NO_COLLECTOR: "it has no such collector",
    ErrorCode.UNSUPPORTED: "not supported by this agent",
    ErrorCode.NOT_MEASURABLE: "that function cannot be measured",
}

_DEVICE_FAILED = {
    ErrorCode.FAULT: "trapped on the board",
    ErrorCode.TIMEOUT: "did not end, and the board stopped it",
}


def unpack_reply(name: str, body: bytes) -> object:
    """Return the one msgpack value of a reply to ``name``.

    Raises:
        FrameError: the body is anything else.
    """
    try:
        value: object = msgpack.unpackb(body, raw=False, strict_map_key=True)
    except (ValueError, msgpack.UnpackException) as error:
        raise FrameError(
            f"The reply to {name} is not one msgpack value: {error or type(error).__name__}"
        ) from error
    return value


def refusal(name: str, body: bytes) -> RpcError | DeviceError:
    """Return the exception for the ERROR with ``body`` that answered ``name`` (SPEC.md 4.2)."""
    fields = unpack_reply(name, body)
    if not (
        isinstance(fields, list)
        and len(fields) >= 2
        and all(isinstance(item, int) for item in fields[:2])
    ):
        return RpcError(f"The board refused {name} with an unreadable error.", code=0)
    code, detail = fields[0], fields[1]
    if code == ErrorCode.CHECK_FAILED:
        detail -= (detail & 1 << 31) << 1  # the check's int, sent as its 32 bits
        return CheckFailedError(
            f"{name} ran, but its check says that the result is wrong (it returned {detail}).",
            code=detail,
            hint=f"no number is reported for a wrong result; debug {name}",
        )
    if code in _DEVICE_FAILED:
        return DeviceError(f"{name} {_DEVICE_FAILED[code]} (detail {detail}).", code=code)
    why = _WHAT_WENT_WRONG.get(code, f"error {code}")
    return RpcError(f"The board refused {name}: {why} (detail {detail}).", code=code)
