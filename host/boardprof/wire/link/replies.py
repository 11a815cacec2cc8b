# SPDX-License-Identifier: Apache-2.0
"""HELLO, and what the board replies: WELCOME, BUSY, a value or an error (SPEC.md 3 and 4.2)."""

from __future__ import annotations

import getpass
import os
import posixpath
import socket
from collections.abc import Callable
from dataclasses import dataclass

import msgpack

from boardprof.base.errors import (
    BoardprofError,
    BusyError,
    CheckFailedError,
    DeviceCounterError,
    DeviceError,
    DeviceFaultError,
    DeviceResetError,
    DeviceTimeoutError,
    FrameError,
    Location,
    ProtocolMismatchError,
    RpcError,
    longer,
    option,
)
from boardprof.wire.link.transfer import LEAST_FRAME
from boardprof_protocol.codes import (
    HELLO_MAGIC,
    PROTOCOL_VERSION,
    ClaimFlag,
    ErrorCode,
    FaultCause,
    FrameKind,
    ResetCause,
    WelcomeFlag,
)
from boardprof_protocol.messages import CLAIM, HELLO, OWNER_BYTES, WELCOME

HOST_MTU = 65535
"""Longest encoded frame that the host takes, in bytes."""

_RESETS = {
    cause.value: f" ({cause.name.lower().replace('_', ' ')})"
    for cause in ResetCause
    if cause is not ResetCause.UNKNOWN
}
"""Reset cause -> its text in a message."""


@dataclass(frozen=True)
class Welcome:
    """What the board said of itself when the session began."""

    version: int
    boot_id: int  # differs from one boot to the next
    reset_cause: ResetCause
    mtu_rx: int  # longest encoded frame that the board takes, bytes
    mtu_tx: int  # longest encoded frame that it sends, bytes
    pointer_size: int  # of the board's C, bytes
    big_endian: bool  # the CPU's; the wire is always little-endian
    build_id: bytes  # 8 bytes that tell one firmware from another; zeros when unknown
    dictionary_hash: int  # CRC-32
    last_sequence: int  # of the last call taken in this session


def hello_body(nonce: int, version: int = PROTOCOL_VERSION) -> bytes:
    """Return a HELLO's own fields; of version 0 it begins no session (SPEC.md 3.4)."""
    fields = {
        "magic": HELLO_MAGIC,
        "version_min": version,
        "version_max": version,
        "mtu": HOST_MTU,
        "nonce": nonce,
    }
    return bytes(HELLO.struct.build(fields))


def read_welcome(port: str, body: bytes) -> Welcome:
    """Return what a WELCOME says."""
    if len(body) < WELCOME.size:
        raise FrameError(
            f"The WELCOME from {port} has {len(body)} bytes instead of {WELCOME.size}.",
            hint="is it a boardprof agent?",
        )
    found = WELCOME.struct.parse(body)
    if not found.version_min <= PROTOCOL_VERSION <= found.version_max:
        raise _mismatch(port, found.version_min, found.version_max)
    if min(found.mtu_rx, found.mtu_tx) < LEAST_FRAME:
        raise FrameError(
            f"The WELCOME from {port} gives frame sizes of {found.mtu_rx} and {found.mtu_tx} "
            f"bytes; an agent has at least {LEAST_FRAME}.",
            hint="is it a boardprof agent?",
        )
    causes = set(ResetCause)
    return Welcome(
        version=PROTOCOL_VERSION,
        boot_id=found.boot_id,
        reset_cause=ResetCause(found.reset_cause if found.reset_cause in causes else 0),
        mtu_rx=found.mtu_rx,
        mtu_tx=found.mtu_tx,
        pointer_size=found.pointer_size,
        big_endian=bool(found.flags & WelcomeFlag.BIG_ENDIAN),
        build_id=bytes(found.build_id),
        dictionary_hash=found.dictionary_hash,
        last_sequence=found.last_sequence,
    )


def _mismatch(port: str, version_min: int, version_max: int) -> ProtocolMismatchError:
    theirs = f"{version_min}"
    if version_max != version_min:
        theirs += f" to {version_max}"
    return ProtocolMismatchError(
        f"The agent at {port} speaks protocol {theirs}; this boardprof speaks {PROTOCOL_VERSION}.",
        hint="build the firmware again with this boardprof, or install the one it was built with",
    )


def _owner(body: bytes) -> str:
    """Return the host that a BUSY names."""
    return body[:OWNER_BYTES].rstrip(b"\0").decode(errors="replace") or "an unnamed host"


def in_use(port: str, body: bytes) -> BusyError:
    """Return the error for a BUSY in place of a WELCOME."""
    owner = _owner(body)
    return BusyError(
        f"The board at {port} is in use by {owner}.",
        owner=owner,
        hint=f"wait until it is free, or take it over with {option('--takeover')}",
    )


def taken_over(port: str, body: bytes | None) -> BusyError:
    """Return the error for a BUSY during a session. None if the new host's name is unknown."""
    owner = _owner(body) if body is not None else ""
    return BusyError(
        f"Another host took over the board at {port}{owner and ': '}{owner}.",
        owner=owner,
        hint=f"connect again when it is free, or take it back with {option('--takeover')}",
    )


def lost_session(
    port: str, name: str, boot_id: int | None, answer: tuple[int, bytes] | None
) -> BoardprofError:
    """Return the error for a board that no longer knows the session (SPEC.md 3.4)."""
    if answer is None:
        return DeviceResetError(
            f"The board lost this session during {name} and did not say why. It was probably "
            "reset.",
            hint=_after_reset(name),
        )
    kind, body = answer
    if kind == FrameKind.BUSY:
        return taken_over(port, body)
    now = WELCOME.struct.parse(body[: WELCOME.size].ljust(WELCOME.size, b"\0"))
    if now.boot_id == boot_id:
        return taken_over(port, None)
    cause = _RESETS.get(now.reset_cause, "")
    return DeviceResetError(
        f"The board was reset during {name}{cause}, so this session is lost.",
        hint=_after_reset(name),
    )


def _after_reset(name: str) -> str:
    """Return what to try: the agent's own functions, whose names begin with bp., do not crash."""
    suspect = (
        "look at its power supply, its watchdog and what else runs on it"
        if name.startswith("bp.")
        else f"{name} crashes the board"
    )
    return f"connect again; if it happens again, {suspect}"


def owner_name(user: str, host: str, pid: int) -> bytes:
    """Return ``user@host (pid N)`` as UTF-8 of at most 32 bytes; the host's name is cut."""
    process = f" (pid {pid})".encode()
    place = f"{user}@{host}".encode(errors="replace")[: OWNER_BYTES - len(process)]
    return place.decode(errors="ignore").encode() + process


def make_claim(*, takeover: bool) -> bytes:
    """Return the fields that follow HELLO's own."""
    name = owner_name(_user(), socket.gethostname(), os.getpid())
    flags = ClaimFlag.TAKEOVER if takeover else 0
    return bytes(CLAIM.struct.build({"flags": flags, "owner": name.ljust(OWNER_BYTES, b"\0")}))


def _user() -> str:
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # an id without a name, as in many containers
        return f"uid{os.getuid()}" if hasattr(os, "getuid") else "somebody"


_BUILD_AGAIN = "build the firmware again with this boardprof"
_HAS_ANOTHER_FORM = "`boardprof info` shows what the board's firmware has and takes"
_IS_TOO_MUCH = (
    "request less at a time, or compile the agent with more room: BP_CFG_MTU, BP_CFG_ARENA and the "
    "other sizes of bp_config.h (in a board.toml: [build] config)"
)
_IS_GONE = (
    "reserve or open it again: a handle is invalid once it is freed or closed, and in any other "
    "session"
)
_IS_BEYOND = "stay within the block; the detail is the length of the block in bytes"
_IS_FULL = "no room on the board: too many windows, blocks or collectors"
_IS_CALLED_ONLY = "call it instead, with board.functions or in a window of a collector"

_REFUSALS = {
    ErrorCode.MALFORMED: ("the call's body is malformed", _BUILD_AGAIN),
    ErrorCode.NO_FUNCTION: ("it has no packed function with that id", _HAS_ANOTHER_FORM),
    ErrorCode.ARG_COUNT: ("wrong number of arguments", _HAS_ANOTHER_FORM),
    ErrorCode.ARG_TYPE: ("an argument has the wrong type", _HAS_ANOTHER_FORM),
    ErrorCode.ARG_RANGE: ("an argument is out of range", _HAS_ANOTHER_FORM),
    ErrorCode.REPLY_TOO_BIG: ("the reply does not fit the board's buffer", _IS_TOO_MUCH),
    ErrorCode.NO_MEMORY: (_IS_FULL, f"free or close what is not needed; {_IS_TOO_MUCH}"),
    ErrorCode.BAD_HANDLE: ("no such handle in this session", _IS_GONE),
    ErrorCode.BAD_OFFSET: ("outside the block", _IS_BEYOND),
    ErrorCode.NO_COLLECTOR: ("it does not have that collector", _HAS_ANOTHER_FORM),
    ErrorCode.UNSUPPORTED: ("not supported by this agent", _HAS_ANOTHER_FORM),
    ErrorCode.NOT_MEASURABLE: ("that function cannot be measured", _IS_CALLED_ONLY),
    ErrorCode.CANCELLED: ("it was cancelled", None),
}
"""Error code -> what went wrong, and what to try."""

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
            f"The board refused {name} with an unreadable error.", code=0, hint=_BUILD_AGAIN
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
        at = fields[4] if len(fields) >= 5 else None
        if type(at) is int:
            return stop.of_constructor(at, locate(at) if locate else None)
        return stop.fault() if code == ErrorCode.FAULT else stop.time_out()
    if code == ErrorCode.COUNTER_CHANGED:
        return DeviceCounterError(
            f"{name} stopped, set or reprogrammed a counter that measures it.",
            code=code,
            schema_id=detail,
            hint="leave that out when it is measured. The agent has restored the counter, so other "
            "functions are measured as usual",
        )
    why, hint = _REFUSALS.get(code, (f"error {code}", None))
    if code == ErrorCode.NO_MEMORY and name == "bp.alloc":
        why, shown = "no room for one more block", f"the arena has {detail:,} bytes"
    else:
        shown = f"detail {detail}"
    return RpcError(f"The board refused {name}: {why} ({shown}).", code=code, hint=hint)


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

    @property
    def cause(self) -> FaultCause:
        """Why it stopped."""
        if self.code == ErrorCode.TIMEOUT:
            return FaultCause.TIME_OUT
        try:
            return FaultCause(self.detail)
        except ValueError:
            return FaultCause.UNKNOWN

    @property
    def touched(self) -> int | None:
        """The address that it accessed; None if it accessed none."""
        return self.address if self.cause in _TOUCHES else None

    @property
    def what(self) -> str:
        """Why it stopped, for people."""
        at = "" if self.touched is None else f" {self.touched:#x}"
        return _WHAT_TRAPPED.get(self.cause, f"cause {self.detail}") + at

    def of_constructor(self, at: int, defined: Location | None) -> DeviceFaultError:
        """Return the error of a constructor at the address ``at``."""
        name = f"at {at:#x}" if defined is None else str(defined)
        how = f"trapped: {self.what}"
        if self.cause == FaultCause.TIME_OUT:
            how = f"did not end within {self.detail / 1000:g} s of the board's clock"
        return self._error(
            f"A static constructor, {name}, {how}{place_text('it', self.pc, self.location)}. It "
            f"runs before the first call, so {self.name} was not called",
            "look for the fault in the constructor",
        )

    def fault(self) -> DeviceFaultError:
        place = place_text(self.name, self.pc, self.location)
        inner = None
        if self.location is not None and not self.location.is_agents:
            inner = self.location.function
        where = self.name if inner in (None, self.name) else f"{inner}, which {self.name} called"
        return self._error(
            f"{self.name} trapped on the board: {self.what}{place}",
            f"look for the fault in {where}. What {self.name} changed before that is not undone",
        )

    def _error(self, text: str, hint: str) -> DeviceFaultError:
        return DeviceFaultError(
            text,
            code=self.code,
            cause=self.cause.key,
            pc=self.pc or None,
            address=self.touched,
            location=self.location,
            hint=hint + self._how_to_locate(),
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
            hint=f"if {self.name} is only slow, give "
            f"{longer('--timeout', limit_s)}{self._how_to_locate()}",
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
