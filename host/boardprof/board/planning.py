# SPDX-License-Identifier: Apache-2.0
"""From the metrics that are wanted to passes: counters, events of programmable ones, formulas."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from boardprof.board.events import Programmable
from boardprof.board.passes import Pass, split_into_passes
from boardprof.board.selection import CLOCKS, Selection, is_duration, metric_names, select_metrics
from boardprof.decode.dictionary import CollectorInfo, CounterInfo
from boardprof.errors import UnknownNameError, UsageError
from boardprof.formula import Formula

__all__ = ["ALL", "Offer"]

ALL = "all"
"""In place of metrics: every counter and every event that the board's file knows."""


@dataclass(frozen=True)
class Offer:
    """What a board can count.

    Attributes:
        board: its name.
        fixed: collectors whose counters are what they are.
        programmable: those whose slots count what they are told.
        unsupported: counter of ``fixed`` -> why there is no such count.
        formulas: metrics that are computed from others, by name.
        clock_kind: see `ClockSpec`.
    """

    board: str
    fixed: tuple[CollectorInfo, ...]
    programmable: tuple[Programmable, ...]
    unsupported: Mapping[str, str]
    formulas: Mapping[str, Formula]
    clock_kind: str

    def passes(self, metrics: str | Sequence[str] | None) -> tuple[Pass, ...]:
        """Return the runs that it takes to count ``metrics``, the fixed counters in the first.

        Args:
            metrics: names of counters, events or formulas, or one; None: what counts by itself;
                `ALL`: all that the board's file knows.

        Raises:
            UnknownNameError: the board has no such metric.
            UsageError: the metric is there in name only, which says why; or it is no name.
        """
        slots = {p.collector.name: p.slots for p in self.programmable}
        names = metric_names(metrics)
        if names is not None and ALL in names and len(names) > 1:
            raise UsageError(
                f"`{ALL}` stands alone, not beside other metrics: {', '.join(names)}.",
                hint=f'metrics="{ALL}", or names only',
            )
        if names is None or names == [ALL]:
            events = {
                p.collector.name: self._untold(p, names is not None) for p in self.programmable
            }
            counting = {name: wanted for name, wanted in events.items() if wanted != ()}
            return self._timed(split_into_passes(self._select(None), counting, slots))
        wanted = [part for name in names for part in self._parts(name)]
        placed = {name: self.find(name) for name in dict.fromkeys(wanted)}
        fixed = [name for name, event in placed.items() if event is None]
        chosen: dict[str, list[str]] = {}
        for collector, event in filter(None, placed.values()):
            events_of = chosen.setdefault(collector, [])
            if event not in events_of:
                events_of.append(event)
        selection = self._select(fixed) if fixed or not chosen else Selection((), frozenset())
        return self._timed(split_into_passes(selection, chosen, slots))

    def _timed(self, passes: Sequence[Pass]) -> tuple[Pass, ...]:
        """Let a clock that never wraps run beside counters that may, unless the host's bounds them.

        How long a window took tells that they have not; the host's clock says nothing of an
        emulator's.
        """
        clock = next((each for each in self.fixed if any(map(_never_wraps, each.counters))), None)
        if clock is None or self.clock_kind != "simulated":
            return tuple(passes)
        return tuple(self._beside(each, clock) for each in passes)

    def _beside(self, chosen: Pass, clock: CollectorInfo) -> Pass:
        running = chosen.fixed.collectors
        counters = [k for each in running for k in each.counters]
        counters += [
            k
            for each in self.programmable
            if each.collector.name in chosen.events
            for k in each.collector.counters
        ]
        if clock in running or all(counter.bits == 64 for counter in counters):
            return chosen
        fixed = tuple(each for each in self.fixed if each in running or each is clock)
        return replace(chosen, fixed=Selection(fixed, chosen.fixed.counters))

    def _untold(self, collector: Programmable, is_all: bool) -> tuple[str, ...] | None:
        """What a collector counts when no event of it is named; () for nothing."""
        if collector.codes is None:
            return None
        events = tuple(e for e in collector.codes if collector.unsupported(e) is None)
        return events if is_all else ()

    def _select(self, names: Sequence[str] | None) -> Selection:
        return select_metrics(self.board, self.fixed, self.unsupported, names, self.clock_kind)

    def _parts(self, name: str) -> tuple[str, ...]:
        return self.formulas[name].names if name in self.formulas else (name,)

    def find(self, name: str) -> tuple[str, str] | None:
        """Return the collector and the event that a metric is; None of a counter that is fixed.

        What the board knows by name is tried out: its slots count something else afterwards.

        Raises:
            UnknownNameError: the board has no such metric.
            UsageError: the board knows it and does not count it, which says why.
        """
        if is_duration(name) or self._is_clock(name):
            return None
        if any(c.name == name.removesuffix(" (us)") for k in self.fixed for c in k.counters):
            return None
        reasons: dict[str, str] = {}
        # The innermost is asked first: of two that count the same it has the least around it.
        for collector in reversed(self._asked(name)):
            own = collector.collector.name
            event = name.removeprefix(f"{own}.")
            if collector.codes is not None and event not in collector.codes:
                continue
            why = collector.unsupported(event)
            if why is not None:
                raise UsageError(
                    f"{self.board} does not support {name}: {why}.", hint=self._what_there_is
                )
            if collector.codes is None:
                why = collector.select([event]).refused.get(event)
            if why is None:
                return own, event
            reasons[own] = why
        close = self._close(name) if reasons else []
        if reasons and not close:
            told = "; ".join(f"{own}: {why}" for own, why in reasons.items())
            raise UsageError(
                f"{self.board} does not count {name}: {told}.", hint=self._what_there_is
            )
        known = dict.fromkeys((*self._known(), *close))
        raise UnknownNameError("metric", name, known, owner=self.board)

    @property
    def _what_there_is(self) -> str:
        return f"boardprof metrics -b {self.board} lists what it counts"

    def _asked(self, name: str) -> Sequence[Programmable]:
        """Return those that may have an event: the one that it names, if it names one."""
        named = [p for p in self.programmable if name.startswith(f"{p.collector.name}.")]
        return named or self.programmable

    def _close(self, name: str) -> list[str]:
        """Return what may have been meant by a name that nobody counts; [] if it is right."""
        asked = self._asked(name)
        listed = [(p.collector.name, e.name) for p in asked for e in p.listed() if e.name]
        # Behind an event's name there may be a colon and modifiers, as in cycles:u.
        if any(_is_event(name.removeprefix(f"{own}."), event) for own, event in listed):
            return []
        return _closest(name, (*self._known(), *(event for _, event in listed)))

    def _is_clock(self, name: str) -> bool:
        """Whether `select_metrics` says what the board has in place of it."""
        counters = {c.name for collector in self.fixed for c in collector.counters}
        return name in CLOCKS and not counters.isdisjoint(CLOCKS)

    def _known(self) -> list[str]:
        counters = [c.name for collector in self.fixed for c in collector.counters]
        events = [p.shown(event) for p in self.programmable for event in p.codes or ()]
        return list(dict.fromkeys((*counters, *self.formulas, *events)))


def _never_wraps(counter: CounterInfo) -> bool:
    return counter.bits == 64 and counter.hz > 0 and counter.unsupported is None


def _is_event(name: str, event: str) -> bool:
    return name == event or name.startswith(f"{event}:")


def _closest(name: str, known: Iterable[str]) -> list[str]:
    """Return the nearest as `UnknownNameError` finds it, [] if none is near."""
    folded = {each.casefold(): each for each in known}
    return [folded[each] for each in difflib.get_close_matches(name.casefold(), folded, n=1)]
