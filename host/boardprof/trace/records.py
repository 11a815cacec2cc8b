# SPDX-License-Identifier: Apache-2.0
"""Records of the host's activity while a profile records: ranges, marks and calls."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from boardprof.errors import UsageError
from boardprof.metrics import Metric
from boardprof.report.profile import Profile
from boardprof.trace.device_spans import RawSpan
from boardprof.trace.open_ranges import innermost_record

Kind = Literal["range", "step", "mark", "call", "measurement", "function"]


class Thread(NamedTuple):
    """A thread of the host: its identifier as the system has it, and its name."""

    id: int
    name: str


@dataclass(slots=True, eq=False)
class Record:
    """A range or call that began, and ended unless `end_ns` is None.

    Attributes:
        name: the range's, or the called function's.
        kind: what it is.
        thread: where it happened.
        start_ns: of the host's clock, ns.
        end_ns: likewise.
        around: the innermost range open in its context when it began; None if none was.
        args: the user's facts about a range, or facts about a call.
        board: the called board; "" if none.
        shapes: of a call's arguments, as Reports show them; None if not requested or not known.
        dims: of the arrays among them, by parameter.
        values: of the scalars, likewise.
        calls: the number of calls that it stands for: those in a measurement's samples, else 1.
        metrics: counters of a call.
        is_raw: whether they include the agent's work and the link's.
        spans: when it ran by the board's clock.
        untimed: why its time on the board is not known; "" if it is known, and for ranges.
        error: name of the exception that ended it, "" for none.
        profile: where the call spent what it cost; None if not recorded.
        is_refused: the host refused the call and did not call the board.
    """

    name: str
    kind: Kind
    thread: Thread
    start_ns: int
    end_ns: int | None = None
    around: Record | None = field(default=None, repr=False)
    args: dict[str, object] = field(default_factory=dict)
    board: str = ""
    shapes: str | None = None
    dims: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)
    calls: int = 1
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    is_raw: bool = False
    spans: tuple[RawSpan, ...] = ()
    untimed: str = ""
    error: str = ""
    profile: Profile | None = None
    is_refused: bool = False


RECORDINGS: list[list[Record]] = []
"""Targets of ranges and marks, one for each profile that records the host; usually empty."""


def now_ns() -> int:
    """Return the host's clock in ns, the one that `ClockFit` uses."""
    return time.monotonic_ns()


def this_thread() -> Thread:
    """Return the current thread."""
    return Thread(threading.get_native_id(), threading.current_thread().name)


def check_name(name: object) -> None:
    """Raise UsageError unless the name of a range or a mark is a string."""
    if not isinstance(name, str):
        raise UsageError(f"{name!r:.60} is not the name of a range or a mark: it must be a string.")


def begin_range(name: str, kind: Kind = "range", args: object = None) -> Record | None:
    """Begin a range; None if nothing records. It ends when its `end_ns` is set.

    It is inside the open ranges of this context, but is not open there itself.

    Raises:
        UsageError: the name is not a string.
    """
    check_name(name)
    if not RECORDINGS:
        return None
    around = innermost_record()
    record = Record(name, kind, this_thread(), now_ns(), around=around, args=_args(args))
    for recording in tuple(RECORDINGS):
        recording.append(record)
    return record


def mark(name: str) -> None:
    """Mark an instant, if anything records."""
    record = begin_range(name, "mark")
    if record is not None:
        record.end_ns = record.start_ns


def _args(args: object) -> dict[str, object]:
    if args is None:
        return {}
    if isinstance(args, Mapping):
        return {str(key): value for key, value in args.items()}
    return {"args": args}
