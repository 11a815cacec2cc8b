# SPDX-License-Identifier: Apache-2.0
"""Programmable collectors: the host chooses the events of their slots (SPEC.md 5.3)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any

import msgpack

from boardprof.base.errors import FrameError
from boardprof.wire.decode.dictionary import CollectorInfo, CounterInfo, Dictionary
from boardprof.wire.link.session import Session
from boardprof_protocol.codes import BuiltIn, CounterStatus
from boardprof_protocol.layout import Layout

_COUNTERS = 3  # the section of bp.describe that has the counters
_NANOSECONDS_HZ = 1_000_000_000
_RETIRED = "instructions"
_RETIRED_NAMES = (_RETIRED, "papi_tot_ins", "/inst_retired/")
"""The same count as boards name it that know events by name; the last one after an Arm PMU's."""

_MOST_EVENTS = 100_000  # upper bound, in case a board never ends its list
_USER = ":u"  # what an agent adds to an event that the system lets count in user mode alone
_USERS = (_USER, "/u")  # the same also after an event of a PMU, such as armv8_pmuv3/inst_retired/
_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class ListedMetric:
    """A metric that the board has, or could have."""

    name: str  # for ``metrics=``; empty if one entry represents many missing ones
    collector: str | None  # None if the metric is computed by a formula
    description: str  # the register, the event's meaning, or the formula
    reason: str | None  # why it is not available; None if it is


@dataclass(frozen=True)
class Slots:
    """A programmable collector with its current events."""

    collector: CollectorInfo  # with the names of events; slots that are off keep their own
    layout: Layout  # of its blobs, with the same names
    refused: Mapping[str, str]  # event -> why it does not count

    @property
    def events(self) -> tuple[str, ...]:
        """The events that count, in the order of the slots."""
        counters = self.collector.counters
        return tuple(c.name for c in counters if c.status is CounterStatus.OK)

    @property
    def user_only(self) -> tuple[str, ...]:
        """The events that count in user mode alone, although that was not requested."""
        counters = [c for c in self.collector.counters if c.status is CounterStatus.OK]
        added = [c.name for c in counters if c.source.endswith(_USERS)]
        return tuple(name for name in added if not name.endswith(_USERS))


class Programmable:
    """One programmable collector of a board."""

    def __init__(
        self,
        session: Session,
        dictionary: Dictionary,
        collector: CollectorInfo,
        layout: Layout,
        codes: Mapping[str, int] | None,
        taken: Set[str] = frozenset(),
        unsupported: Mapping[str, str] = _NONE,
    ) -> None:
        """Wrap it; nothing is called yet."""
        # An event whose name is ``taken`` by another counter is ``COLLECTOR.event``.
        # ``unsupported`` has the reasons why this board does not count an event, by either name.
        self.current: Slots | None = None  # as this object has programmed them last
        self._refusals: dict[str, str] = {}
        self._unsupported = unsupported
        self._taken = taken
        self.collector = collector
        # event -> value of its control register; None if the board knows events by name
        self.codes = codes
        self._session = session
        self._dictionary = dictionary
        self._layout = layout

    @property
    def slots(self) -> int:
        """How many events fit into one pass."""
        return len(self.collector.counters)

    @property
    def lacking(self) -> dict[str, str]:
        """Public names of the events of `codes` that the board does not count -> why."""
        reasons = {event: self.unsupported(event) for event in self.codes or ()}
        return {self.shown(event): why for event, why in reasons.items() if why is not None}

    def unsupported(self, event: str) -> str | None:
        """Return the reason that the board's file gives for a missing count, or None."""
        plain = event
        if self.codes is None:  # libpfm4's name of the kernel's events; perf's modifiers
            plain = event.removeprefix("perf::").partition(":")[0]
        names = (f"{self.collector.name}.{plain}", plain, plain.lower())
        return next(
            (
                why
                for pattern, why in self._unsupported.items()
                if any(fnmatchcase(name, pattern) for name in names)
            ),
            None,
        )

    def shown(self, event: str) -> str:
        """Return the event's public name: with the collector's name as prefix if it is taken."""
        return f"{self.collector.name}.{event}" if event in self._taken else event

    def listed(self) -> Iterator[ListedMetric]:
        """Ask for the events that the board knows by name; it tries each with the current ones."""
        if self.codes is not None:
            return
        for index in range(_MOST_EVENTS):
            entry = self._call("event", [index])
            if entry is None:
                return
            event = _listed(self.collector.name, entry)
            why = self.unsupported(event.name)
            yield event if why is None else replace(event, reason=why)
        raise FrameError(f"{self.collector.name}.event never ends its list.")

    def counting(self) -> Slots:
        """Return the current slots; if they were not programmed yet, with their default."""
        return self.select_default() if self.current is None else self.current

    def select(self, events: Sequence[str]) -> Slots:
        """Program the slots with these events, at most `slots`; the other slots are off."""
        reasons = {event: self.unsupported(event) for event in events}
        refused = {event: why for event, why in reasons.items() if why is not None}
        asked = [event for event in events if event not in refused]
        # Exclusive, so that `current` is what the board counts.
        with self._session.exclusive(self.collector.name):
            codes = self.codes
            named = [_text(event) if codes is None else codes[event] for event in asked]
            answers = self._call("select", named)
            if not isinstance(answers, list) or len(answers) != len(asked):
                raise FrameError(f"{self.collector.name}.select returned {answers!r:.80}.")
            found = [_answered(event, answer) for event, answer in zip(asked, answers, strict=True)]
            refused |= {info.name: why for info, why in found if why}
            return self._named([info for info, _ in found], refused)

    def select_default(self) -> Slots:
        """Program the slots with their own default, if they have one."""
        # Events that another collector counts anyway are left out; they can be selected by name.
        with self._session.exclusive(self.collector.name):
            self._call("init", [])
            first = sum(
                len(c.counters) for c in self._dictionary.collectors[: self.collector.index]
            )
            infos: list[CounterInfo] = []
            refused: dict[str, str] = {}
            for index in range(first, first + self.slots):
                arguments = bytes(msgpack.packb(_COUNTERS)) + bytes(msgpack.packb(index))
                entry = self._session.call(BuiltIn.DESCRIBE, arguments, 2, name="bp.describe").value
                if not isinstance(entry, list) or len(entry) < 8:
                    raise FrameError(f"bp.describe returned {entry!r:.80} for a slot.")
                slot, source, status = entry[0], entry[1], CounterStatus(entry[6])
                event = source.removesuffix(_USER)
                info = replace(_counter(event or slot, status, entry[7], entry[3]), source=source)
                why = self.unsupported(event) if event else None
                if event in self._taken or why is not None:
                    info = replace(info, status=CounterStatus.ABSENT)
                else:
                    why = info.unsupported if event else None
                if why is not None:
                    refused[event] = why
                infos.append(info)
            return self._named(
                infos, {event: self._refusal(event, refused[event]) for event in refused}
            )

    def _refusal(self, event: str, why: str) -> str:
        """Return why an event does not count; from the board itself if it knows events by name."""
        if self.codes is not None or event in self._taken or self.unsupported(event) is not None:
            return why
        if event not in self._refusals:
            (answer,) = self._call("select", [_text(event)])
            self._refusals[event] = _answered(event, answer)[1] or why
            self._call("init", [])
        return self._refusals[event]

    def _named(self, infos: Sequence[CounterInfo], refused: Mapping[str, str]) -> Slots:
        """Replace the slots' names by the events' names."""
        slots = self.collector.counters
        counters = [
            replace(info, name=self.shown(info.name), bits=slot.bits)
            for slot, info in zip(slots, infos, strict=False)
        ]
        counters += [replace(s, status=CounterStatus.ABSENT) for s in slots[len(infos) :]]
        meanings = tuple(
            replace(
                meaning,
                name=info.name,
                unit="ns" if info.hz == _NANOSECONDS_HZ else meaning.unit,
                # The empty function retires its own return; see `Counter`.
                own_return=1 if self._is_retired(info) else meaning.own_return,
            )
            for meaning, info in zip(self._layout.counters, counters, strict=True)
        )
        self.current = Slots(
            replace(self.collector, counters=tuple(counters)),
            replace(self._layout, counters=meanings, programmable=False),
            refused,
        )
        return self.current

    def _is_retired(self, info: CounterInfo) -> bool:
        if self.codes is not None:
            return info.source == _RETIRED
        # Without modifiers, perf counts all modes: perf-list(1).
        name, _, modifiers = (
            info.name.lower().rpartition(".")[2].removeprefix("perf::").partition(":")
        )
        is_named = name in _RETIRED_NAMES or name.endswith(_RETIRED_NAMES[-1])
        return is_named and (not modifiers or "u" in modifiers)

    def _call(self, operation: str, arguments: Sequence[object]) -> Any:
        function = self._dictionary.function(f"{self.collector.name}.{operation}")
        return self._session.invoke(function.id, function.name, *arguments)


def programmable_collectors(
    session: Session,
    dictionary: Dictionary,
    layouts: Mapping[int, Layout],
    codes: Mapping[str, Mapping[str, int]],
    *,
    unsupported: Mapping[str, str] = _NONE,
) -> tuple[Programmable, ...]:
    """Return the programmable collectors; ``codes`` of board.toml are by collector and event."""
    offered = {function.name for function in dictionary.functions}
    fixed = [c for c in dictionary.collectors if f"{c.name}.select" not in offered]
    taken = {counter.name for collector in fixed for counter in collector.counters}
    return tuple(
        Programmable(
            session,
            dictionary,
            collector,
            layouts[collector.schema_id],
            None if f"{collector.name}.event" in offered else codes.get(collector.name, {}),
            taken,
            unsupported,
        )
        for collector in dictionary.collectors
        if f"{collector.name}.select" in offered
    )


def shown_name(collectors: Sequence[Programmable], name: str) -> str:
    """Return the public name of a counter or an event, such as ``COLLECTOR.event``."""
    for each in collectors:
        own = f"{each.collector.name}."
        if name.startswith(own):
            return each.shown(name.removeprefix(own))
    return name


def _text(event: str) -> bytes:
    return event.encode(errors="backslashreplace")


def _answered(event: str, answer: object) -> tuple[CounterInfo, str]:
    """Return the slot's counter, and why it does not count; "" if it does."""
    if not isinstance(answer, list) or len(answer) < 2:
        raise FrameError(f"An event's answer is {answer!r:.80}, not [status, detail].")
    status, detail = CounterStatus(answer[0]), answer[1]
    hz = answer[2] if len(answer) > 2 else 0
    reason = answer[4] if len(answer) > 4 else ""
    info = _counter(event, status, detail, hz)
    if len(answer) > 3 and str(answer[3]).endswith(_USERS):
        info = replace(info, source=str(answer[3]))
    if status is CounterStatus.OK:
        return info, ""
    if reason:
        return info, str(reason)
    if status is CounterStatus.REFUSED:
        return info, f"the system refused it: {os.strerror(detail)} (errno {detail})"
    return info, info.unsupported or "it cannot be selected"


def _listed(collector: str, entry: object) -> ListedMetric:
    """Read ``[name, description, status, detail, reason]``; the last three may be absent."""
    if not isinstance(entry, list) or len(entry) < 2:
        raise FrameError(f"{collector}.event returned {entry!r:.80}, not [name, description].")
    status = CounterStatus(entry[2]) if len(entry) > 2 else CounterStatus.OK
    reason = (str(entry[4]) if len(entry) > 4 else "") or "it cannot be selected"
    why = None if status is CounterStatus.OK else reason
    return ListedMetric(str(entry[0]), collector, str(entry[1]), why)


def _counter(name: str, status: CounterStatus, detail: int, hz: int) -> CounterInfo:
    return CounterInfo(name, name, 64, hz, 0, False, status, detail)
