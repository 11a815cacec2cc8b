# SPDX-License-Identifier: Apache-2.0
"""The metrics that a board can count, and the passes needed for the requested ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from boardprof.boards.board_file import BoardSpec
from boardprof.decode.dictionary import CollectorInfo, CounterInfo, Dictionary
from boardprof.errors import UnknownNameError, UsageError
from boardprof.formula import Formula
from boardprof.link.session import Session
from boardprof.measure.passes import Pass, split_into_passes
from boardprof.measure.programmable import Programmable, programmable_collectors, shown_name
from boardprof.measure.selection import (
    CLOCKS,
    Selection,
    is_duration,
    metric_names,
    select_metrics,
    unsupported_counters,
)
from boardprof_protocol.layout import Layout

ALL = "all"
"""In place of metrics: every counter and every event that the board's file knows."""


@dataclass(frozen=True)
class Offer:
    """The metrics that a board can count.

    Attributes:
        board: its name.
        fixed: collectors whose counters cannot be programmed.
        programmable: collectors whose slots can be programmed.
        unsupported: counter of ``fixed`` -> why it is not available.
        formulas: metrics that are computed from others: name -> its kind and the formula.
        clock_kind: see `ClockSpec`.
        parts: counter -> the part of the board that it belongs to, if that is not the CPU.
    """

    board: str
    fixed: tuple[CollectorInfo, ...]
    programmable: tuple[Programmable, ...]
    unsupported: Mapping[str, str]
    formulas: Mapping[str, tuple[str, Formula]]
    clock_kind: str
    parts: Mapping[str, str] = field(default_factory=dict)

    def passes(self, metrics: str | Sequence[str] | None) -> tuple[Pass, ...]:
        """Return the runs that it takes to count ``metrics``, the fixed counters in the first.

        Args:
            metrics: names of counters, events or formulas, or one. None for the fixed counters;
                `ALL`: all that the board's file knows.

        Raises:
            UnknownNameError: the board has no such metric.
            UsageError: the board has the metric but does not support it; or it is not a name.
        """
        slots = {p.collector.name: p.slots for p in self.programmable}
        names = metric_names(metrics)
        if names is not None and ALL in names and len(names) > 1:
            raise UsageError(
                f"`{ALL}` cannot be combined with other metrics: {', '.join(names)}.",
                hint=f'give metrics="{ALL}", or names only',
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
        """Add a clock that never wraps to counters that may, unless the host's clock bounds them.

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
        return self.formulas[name][1].names if name in self.formulas else (name,)

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
        # Ask the innermost first: of two that count the same, it includes the least overhead.
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

    def split(self, names: Iterable[str]) -> tuple[tuple[str, ...], dict[str, UsageError]]:
        """Return those of ``names`` that the board has, and by name why it lacks the others."""
        found: list[str] = []
        lacking: dict[str, UsageError] = {}
        for name in names:
            try:
                self.passes([name])
            except UsageError as error:
                lacking[name] = error
            else:
                found.append(name)
        return tuple(found), lacking

    @property
    def _what_there_is(self) -> str:
        return f"boardprof metrics -b {self.board} lists what it counts"

    def _asked(self, name: str) -> Sequence[Programmable]:
        """Return those that may have an event: the one that it names, if it names one."""
        named = [p for p in self.programmable if name.startswith(f"{p.collector.name}.")]
        return named or self.programmable

    def _close(self, name: str) -> list[str]:
        """Return suggestions for a name that nothing counts; [] if the name is right."""
        asked = self._asked(name)
        listed = [(p.collector.name, e.name) for p in asked for e in p.listed() if e.name]
        # Behind an event's name there may be a colon and modifiers, as in cycles:u.
        if any(_is_event(name.removeprefix(f"{own}."), event) for own, event in listed):
            return []
        known = (*self._known(), *(event for _, event in listed))
        nearest = UnknownNameError.nearest(name, known)
        return [nearest] if nearest else []

    def _is_clock(self, name: str) -> bool:
        """Whether `select_metrics` names the replacement that the board has."""
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


def offer_of(
    spec: BoardSpec, session: Session, dictionary: Dictionary, layouts: Mapping[int, Layout]
) -> Offer:
    """Find out what a board can count.

    Args:
        spec: the board's description.
        session: with the board.
        dictionary: what it offers.
        layouts: of its collectors' blobs, by schema.

    Raises:
        UsageError: a formula of the board's has the name of a counter.
    """
    programmable = programmable_collectors(
        session, dictionary, layouts, spec.events, unsupported=spec.unsupported
    )
    slots = {each.collector.name for each in programmable}
    fixed = tuple(c for c in dictionary.collectors if c.name not in slots)
    lacking = {name: why for each in programmable for name, why in each.lacking.items()}
    _check_names(spec, dictionary)
    formulas = {
        name: (each.kind, each.formula.renamed(lambda part: shown_name(programmable, part)))
        for name, each in spec.derived.items()
    }
    return Offer(
        spec.name,
        fixed,
        programmable,
        unsupported_counters(fixed, spec.unsupported) | lacking,
        formulas,
        spec.clock.kind,
        _parts(dictionary, layouts),
    )


def _check_names(spec: BoardSpec, dictionary: Dictionary) -> None:
    counters = {counter.name for each in dictionary.collectors for counter in each.counters}
    for name in spec.derived:
        if name in counters:
            raise UsageError(
                f"{name} in [derived] is already a counter of {spec.name}.",
                hint=f"give it another name in {spec.folder / 'board.toml'}",
            )


def _parts(dictionary: Dictionary, layouts: Mapping[int, Layout]) -> dict[str, str]:
    return {
        counter.name: device
        for collector in dictionary.collectors
        if (device := layouts[collector.schema_id].device) is not None
        for counter in collector.counters
    }


def lack_text(name: str, error: UsageError) -> str:
    """Return why a board lacks a metric, for a text that names both already."""
    if isinstance(error, UnknownNameError):
        return "it has no metric with that name"
    return error.message.partition(f"{name}: ")[2].removesuffix(".") or error.message
