# SPDX-License-Identifier: Apache-2.0
"""Numbers that both sides must agree on. The C header is generated from this module."""

from __future__ import annotations

from enum import IntEnum, IntFlag

__all__ = [
    "HELLO_MAGIC",
    "PROTOCOL_VERSION",
    "TRACE_FIRST_NAME",
    "AckFlag",
    "BuiltIn",
    "ClaimFlag",
    "CounterStatus",
    "ErrorCode",
    "FaultCause",
    "FrameKind",
    "InterruptFlag",
    "MeasureFlag",
    "ProbeKind",
    "ResetCause",
    "TraceBlockFlag",
    "TraceClockStatus",
    "TraceFlag",
    "TraceId",
    "TraceMode",
    "TraceSlotFlag",
    "WelcomeFlag",
]

PROTOCOL_VERSION = 1
"""Version of the frames and messages. It fits the four bits of a frame's first byte."""

HELLO_MAGIC = 0x46525042
"""First field of HELLO: the bytes ``BPRF`` in little-endian order."""


class FrameKind(IntEnum):
    """Low four bits of a frame's first byte (SPEC.md 2)."""

    HELLO = 1
    WELCOME = 2
    CALL = 3
    RESULT = 4
    ERROR = 5
    PROGRESS = 6
    NAK = 7
    NO_SESSION = 8
    BUSY = 9
    DATA = 10
    ACK = 11
    CANCEL = 12


class ErrorCode(IntEnum):
    """First field of an ERROR body. In C the same numbers are negative (``BP_ERR_*``)."""

    MALFORMED = 1
    NO_FUNCTION = 2
    ARG_COUNT = 3
    ARG_TYPE = 4
    ARG_RANGE = 5
    REPLY_TOO_BIG = 6
    NO_MEMORY = 7
    BAD_HANDLE = 8
    BAD_OFFSET = 9
    NO_COLLECTOR = 10
    UNSUPPORTED = 11
    NOT_MEASURABLE = 12
    CHECK_FAILED = 13
    FAULT = 14
    TIMEOUT = 15
    CANCELLED = 16
    COUNTER_CHANGED = 17


class FaultCause(IntEnum):
    """What ended a guarded call (SPEC.md 4.2)."""

    NONE = 0
    UNKNOWN = 1
    BAD_ADDRESS = 2
    MISALIGNED = 3
    ILLEGAL_INSTRUCTION = 4
    DIVIDE = 5
    STACK_OVERFLOW = 6
    BREAKPOINT = 7
    ABORT = 8
    TIME_OUT = 9

    @property
    def key(self) -> str:
        """The cause as board.toml spells it: ``bad-address``."""
        return self.name.lower().replace("_", "-")


class CounterStatus(IntEnum):
    """Whether a counter can be trusted, as found by the board's own probe."""

    OK = 0
    ABSENT = 1
    STUCK = 2
    REFUSED = 3


class ResetCause(IntEnum):
    """Why the board last started, as far as it knows."""

    UNKNOWN = 0
    POWER_ON = 1
    PIN = 2
    SOFTWARE = 3
    WATCHDOG = 4
    BROWN_OUT = 5


class WelcomeFlag(IntFlag):
    """Bits of WELCOME's ``flags``."""

    BIG_ENDIAN = 1


class ClaimFlag(IntFlag):
    """Bits of a claim's ``flags``: how a host asks for a board that another one may have."""

    TAKEOVER = 1


class AckFlag(IntFlag):
    """Bits of ACK's ``flags``."""

    RESEND = 1
    """Send again from ``offset`` on: something behind it was lost."""


class MeasureFlag(IntFlag):
    """Bits of the ``flags`` argument of ``bp.measure``."""

    EMPTY = 1
    """Measure the empty function in place of the named one: a calibration."""

    RESULT = 2
    """Return what the last call has returned, behind the blobs."""

    MASK = 4
    """Let no interrupt run within each sample's window."""

    INTERRUPT = 8
    """Call what triggers an empty interrupt in place of the named function."""


class InterruptFlag(IntFlag):
    """Bits of the first number that ``bp.interrupts`` returns."""

    MASKS_GUARD = 1
    """The guard's timer does not run either: a hang within a masked window is not ended."""

    TRIGGERS = 2
    """The board can trigger an empty interrupt: `MeasureFlag.INTERRUPT`."""

    MASKS_SOME = 4
    """The most urgent interrupts are not masked by `MeasureFlag.MASK`."""


class BuiltIn(IntEnum):
    """Ids of the packed functions that every agent has, in the order of its table."""

    DESCRIBE = 0
    MEASURE = 1


class ProbeKind(IntEnum):
    """First byte of a name in the image's section ``bp_trace_names`` (SPEC.md 5.12)."""

    RANGE = 1
    INTERRUPT = 2
    MARK = 3
    U32 = 4
    I32 = 5
    F32 = 6


TRACE_FIRST_NAME = 16
"""The first id of trace records that has a name in the image; smaller ones are a `TraceId`."""


class TraceId(IntEnum):
    """Ids of trace records that need no name. All but the first one have a value."""

    INTERRUPT_EXIT = 0
    INTERRUPT_ENTER = 1
    TASK = 2
    ALLOC = 3
    SIZE = 4
    CALLER = 5
    FREE = 6
    SYNC = 7
    WIDE = 8
    VALUE = 9
    DROPPED = 10
    LONG = 11
    WRAPPED = 12
    LIVE = 13
    HIGH = 14


class TraceFlag(IntFlag):
    """What bp.trace_start starts."""

    EVENTS = 1
    STATISTICS = 2


class TraceMode(IntEnum):
    """What happens to events when the ring is full."""

    DROP = 0
    STOP = 1
    OVERWRITE = 2


class TraceClockStatus(IntEnum):
    """Whether the trace clock can be used."""

    OK = 0
    STUCK = 1
    NARROW = 2


class TraceBlockFlag(IntFlag):
    """Bits of a block's ``flags``."""

    WHOLE = 1
    LAST = 2
    OTHER_CLOCK = 4


class TraceSlotFlag(IntFlag):
    """Bits of a slot's ``flags``."""

    SQUARES_OVERFLOW = 1
    TOO_LONG = 2
    UNMATCHED = 4
