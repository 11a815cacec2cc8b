# SPDX-License-Identifier: Apache-2.0
"""Convert the bodies of replies to Python values, and ERROR replies to exceptions."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import dataclass

import msgpack

from boardprof.base.errors import (
    CheckFailedError,
    DeviceCounterError,
    DeviceError,
    DeviceFaultError,
    DeviceTimeoutError,
    FrameError,
    Location,
    RpcError,
    option,
)
from boardprof_protocol.codes import ErrorCode, FaultCause

_WHAT_WENT_WRONG = {
    ErrorCode.MALFORMED: "the call's body is malformed",
    ErrorCode.NO_FUNCTION: "it has no packed function with that id",
    ErrorCode.ARG_COUNT: "wrong number of arguments",
    ErrorCode.ARG_TYPE: "an argument has the wrong type",
    ErrorCode.ARG_RANGE: "an argument is out of range",
    ErrorCode.REPLY_TOO_BIG: "the reply does not fit the board's buffer",
    ErrorCode.NO_MEMORY: "no room on the board: too many windows, blocks or collectors",
    ErrorCode.BAD_HANDLE: "no such handle in this session",
    ErrorCode.BAD_OFFSET: "outside the block",
    ErrorCode.NO_COLLECTOR: "it does not have that collector",
    ErrorCode.UNSUPPORTED: "not supported by this agent",
    ErrorCode.NOT_MEASURABLE: "that function cannot be measured",
    ErrorCode.CANCELLED: "it was cancelled",
}

_HAS_ANOTHER_FORM = "`boardprof info` shows what the board's firmware has and takes"
_IS_TOO_MUCH = (
    "request less at a time, or compile the agent with more room: BP_CFG_MTU, BP_CFG_ARENA and the "
    "other sizes of bp_config.h (in a board.toml: [build] config)"
)

_WHAT_TO_TRY = {
    ErrorCode.MALFORMED: "build the firmware again with this boardprof",
    ErrorCode.NO_FUNCTION: _HAS_ANOTHER_FORM,
    ErrorCode.ARG_COUNT: _HAS_ANOTHER_FORM,
    ErrorCode.ARG_TYPE: _HAS_ANOTHER_FORM,
    ErrorCode.ARG_RANGE: _HAS_ANOTHER_FORM,
    ErrorCode.REPLY_TOO_BIG: _IS_TOO_MUCH,
    ErrorCode.NO_MEMORY: f"free or close what is not needed; {_IS_TOO_MUCH}",
    ErrorCode.BAD_HANDLE: "reserve or open it again: a handle is invalid once it is freed "
    "or closed, and in any other session",
    ErrorCode.BAD_OFFSET: "stay within the block; the detail is the length of the block in bytes",
    ErrorCode.NO_COLLECTOR: _HAS_ANOTHER_FORM,
    ErrorCode.UNSUPPORTED: _HAS_ANOTHER_FORM,
    ErrorCode.NOT_MEASURABLE: "call it instead, with board.functions or in a window of a collector",
}

_WHAT_TRAPPED = {
    FaultCause.BAD_ADDRESS: "bad address",
    FaultCause.MISALIGNED: "misaligned address",
    FaultCause.ILLEGAL_INSTRUCTION: "illegal instruction",
    FaultCause.DIVIDE: "division by zero",
    FaultCause.STACK_OVERFLOW: "stack overflow",
    FaultCause.BREAKPOINT: "breakpoint",
    FaultCause.ABORT: "abort or exit",
}
_MEMORY_FUNCTIONS = ("memcmp", "memcpy", "memmove", "memset")
_MEMORY_SOURCE = "bp_mem.c"
_TOUCHES = (FaultCause.BAD_ADDRESS, FaultCause.MISALIGNED)
_STOPS = (ErrorCode.FAULT, ErrorCode.TIMEOUT)

Locate = Callable[[int], Location | None]
"""Maps a pc, as an address of the image's ELF file, to its source line."""


_LONGEST_ARRAY = 15


def unpack_reply(name: str, body: bytes) -> object:
    """Return the one msgpack value of a reply to ``name``."""
    try:
        # Refuse what no board writes (SPEC.md 4.1) before memory is allocated for it.
        value: object = msgpack.unpackb(
            body, raw=False, max_array_len=_LONGEST_ARRAY, max_map_len=0, max_ext_len=0
        )
    except (ValueError, msgpack.UnpackException) as error:
        raise FrameError(
            f"The reply to {name} is not one msgpack value: {error or type(error).__name__}",
            hint="build the firmware again with this boardprof, or check what else uses this line",
        ) from error
    return value


def refusal(name: str, body: bytes, locate: Locate | None = None) -> RpcError | DeviceError:
    """Return the exception for the ERROR with ``body`` that answered ``name`` (SPEC.md 4.2)."""
    fields = unpack_reply(name, body)
    if not (isinstance(fields, list) and _is_readable(fields)):
        return RpcError(
            f"The board refused {name} with an unreadable error.",
            code=0,
            hint="build the firmware again with this boardprof",
        )
    code, detail = fields[0], fields[1]
    if code == ErrorCode.CHECK_FAILED:
        detail -= (detail & 1 << 31) << 1  # the check's int, sent as its 32 bits
        return CheckFailedError(
            f"{name} ran, but its check function says that the result is wrong (it returned "
            f"{detail}).",
            code=detail,
            hint=f"no number is reported for a wrong result; look for the fault in {name}",
        )
    if code in _STOPS:
        pc, address = fields[2:4] if len(fields) >= 4 else (0, 0)
        stop = _Stop(name, code, detail, pc, address, locate(pc) if locate and pc else None)
        return stop.fault() if code == ErrorCode.FAULT else stop.time_out()
    if code == ErrorCode.COUNTER_CHANGED:
        return DeviceCounterError(
            f"{name} stopped, set or reprogrammed a counter that measures it.",
            code=code,
            schema_id=detail,
            hint="the agent has restored it for the next function",
        )
    why = _WHAT_WENT_WRONG.get(code, f"error {code}")
    if code == ErrorCode.NO_MEMORY and name == "bp.alloc":
        why, shown = "no room for one more block", f"the arena has {detail:,} bytes"
    else:
        shown = f"detail {detail}"
    return RpcError(
        f"The board refused {name}: {why} ({shown}).",
        code=code,
        hint=_WHAT_TO_TRY.get(code),
    )


def _is_readable(fields: list[object]) -> bool:
    """Tell whether the items that SPEC.md 4.2 gives an ERROR are numbers; it may have more."""
    due = 4 if fields and fields[0] in _STOPS else 2
    return len(fields) >= 2 and all(type(field) is int for field in fields[:due])


@dataclass(frozen=True)
class _Stop:
    """The fields of a FAULT or TIMEOUT, and the source line of its pc."""

    name: str
    code: int
    detail: int
    pc: int
    address: int
    location: Location | None

    def fault(self) -> DeviceFaultError:
        try:
            cause = FaultCause(self.detail)
        except ValueError:
            cause = FaultCause.UNKNOWN
        what = _WHAT_TRAPPED.get(cause, f"cause {self.detail}")
        touches = cause in _TOUCHES
        what += f" {self.address:#x}" if touches else ""
        place = place_text(self.name, self.pc, self.location)
        return DeviceFaultError(
            f"{self.name} trapped on the board: {what}{place}",
            code=self.code,
            cause=cause.key,
            pc=self.pc or None,
            address=self.address if touches else None,
            location=self.location,
            hint=f"look for the fault in {self.name}. The board keeps running, but anything "
            f"{self.name} has already changed stays changed{self._how_to_locate()}",
        )

    def time_out(self) -> DeviceTimeoutError:
        limit_s = self.detail / 1000
        return DeviceTimeoutError(
            f"{self.name} did not end within {limit_s:g} s of the board's clock; the board stopped "
            f"it{place_text(self.name, self.pc, self.location)}",
            code=self.code,
            limit_s=limit_s,
            pc=self.pc or None,
            location=self.location,
            hint=f"if {self.name} is only slow, give {option('--timeout')} more "
            f"seconds{self._how_to_locate()}",
        )

    def _how_to_locate(self) -> str:
        if not self.pc or self.location is not None:
            return ""
        return f". `addr2line -f -e IMAGE {self.pc:#x}` names the line"


def place_text(name: str, pc: int, location: Location | None) -> str:
    """Return where a function was stopped, with a space in front; "" if ``pc`` is 0: unknown."""
    if location is not None and location.is_between_calls:
        return ""
    if location is not None and location.is_agents:
        # It ended in a tail call, so it is no longer on the stack.
        return " in the function that it called last"
    if location is None:
        return f" at pc {pc:#x}" if pc else ""
    if location.function not in _MEMORY_FUNCTIONS or location.function == name:
        return f" at {location}"
    # The line is in the agent or in the C library, but the caller is at fault.
    is_agents = posixpath.basename(location.path) == _MEMORY_SOURCE
    place = f"in {location.function}" if is_agents else f"at {location}"
    return f" {place}, called by {name} or by a function that it calls"
