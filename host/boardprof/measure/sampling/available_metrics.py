# SPDX-License-Identifier: Apache-2.0
"""The metrics that a board can count, and the passes that count the requested ones.

A pass is one run of a function with one set of counters.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.base.formula import Formula
from boardprof.base.metrics import metric_called
from boardprof.measure.sampling.counted_pass import Selection
from boardprof.measure.sampling.programmable import (
    ListedMetric,
    Programmable,
    Slots,
    programmable_collectors,
    shown_name,
)
from boardprof.results.report.calls import DURATION, STACK
from boardprof.results.report.profile import CORE_CYCLES, MODELLED
from boardprof.target.descriptions.board import BoardSpec
from boardprof.wire.decode.dictionary import CollectorInfo, Dictionary
from boardprof.wire.link.session import Session
from boardprof_protocol.layout import Layout

ALL = "all"
"""Value of ``metrics`` for every counter, and every event in the board's file."""

CLOCKS = ("duration_time", "ticks")
"""Counters whose time is the Duration."""


NOTHING = Selection((), frozenset())
"""No counter."""


@dataclass(frozen=True)
class Pass:
    """One run of a function with one set of counters."""

    fixed: Selection  # collectors that cannot be programmed, all in the first pass
    # collector -> the events of its slots; None for their defaults
    events: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)

    def slots(self, collectors: Iterable[Programmable]) -> tuple[Slots, ...]:
        """Program the slots of this pass."""
        programmed = (c for c in collectors if c.collector.name in self.events)
        chosen = [(c, self.events[c.collector.name]) for c in programmed]
        return tuple(
            c.select_default() if names is None else c.select(names) for c, names in chosen
        )

    def selection(self, slots: Sequence[Slots]) -> Selection:
        """Return the collectors of this pass, by index, and their active counters."""
        active = [s for s in slots if s.events]
        collectors = (*self.fixed.collectors, *(s.collector for s in active))
        events = itertools.chain.from_iterable(s.events for s in active)
        return Selection(
            tuple(sorted(collectors, key=lambda c: c.index)), self.fixed.counters | {*events}
        )


def split_into_passes(
    fixed: Selection, events: Mapping[str, Sequence[str] | None], slots: Mapping[str, int]
) -> tuple[Pass, ...]:
    """Distribute events over as few passes as allow the numbers of events that ``slots`` hold."""
    chunks: dict[str, list[tuple[str, ...] | None]] = {}
    for name, wanted in events.items():
        size = slots[name]
        chunks[name] = (
            [None]
            if wanted is None
            else [tuple(wanted[i : i + size]) for i in range(0, len(wanted), size)]
        )
    count = max(1, *(len(chunk) for chunk in chunks.values())) if chunks else 1
    return tuple(
        Pass(
            fixed if i == 0 else NOTHING,
            {name: chunk[i] for name, chunk in chunks.items() if i < len(chunk)},
        )
        for i in range(count)
    )


@dataclass(frozen=True)
class Offer:
    """The metrics that a board can count."""

    board: str
    fixed: tuple[CollectorInfo, ...]
    programmable: tuple[Programmable, ...]
    unsupported: Mapping[str, str]  # counter of `fixed` -> why it is not available
    formulas: Mapping[str, tuple[str, Formula]]  # metric -> its kind and formula
    clock_kind: str
    # counter -> its part of the board, if that is not the CPU
    parts: Mapping[str, str] = field(default_factory=dict)
    core: str = ""  # as GCC names it; "" if not known
    can_record: bool = False  # whether an emulator can record calls

    @property
    def unmodelled(self) -> str:
        """Why the board has no modelled core cycles; "" if it has."""
        from boardprof.measure.hotspots.core_cycles import CORES  # later: few runs need it

        if self.core not in CORES:
            return "its core has no table of costs; a Cortex-M0, M0+, M3 or M4 has one"
        return "" if self.can_record else "nothing can record the calls of a real board"

    def passes(self, metrics: str | Sequence[str] | None) -> tuple[Pass, ...]:
        """Return the passes that count ``metrics``, None for the defaults."""
        # The first pass has the fixed counters. Names are as `metric_called` takes them.
        slots = {p.collector.name: p.slots for p in self.programmable}
        names = metric_names(metrics)
        if names and asks_core_cycles(names) and self.unmodelled:
            raise UsageError(
                f"{self.board} does not support {CORE_CYCLES}: {self.unmodelled}.",
                hint="take an emulated board with such a core: boardprof boards",
            )
        if names:  # these are found beside any metric
            beside = [STACK, *MODELLED]
            names = [name for name in names if metric_called(name, beside) is None] or None
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
        known = self._known()
        meant = [metric_called(name, known) or name for name in names]
        wanted = [part for name in meant for part in self._parts(name)]
        placed = {name: self.find(name) for name in dict.fromkeys(wanted)}
        fixed = [name for name, event in placed.items() if event is None]
        chosen: dict[str, list[str]] = {}
        for collector, event in filter(None, placed.values()):
            events_of = chosen.setdefault(collector, [])
            if event not in events_of:
                events_of.append(event)
        selection = self._select(fixed) if fixed or not chosen else NOTHING
        return self._timed(split_into_passes(selection, chosen, slots))

    def _timed(self, passes: Sequence[Pass]) -> tuple[Pass, ...]:
        """Add a clock that never wraps, beside counters that may wrap."""
        # In a long window a counter may wrap unseen. If the board's clock is real, the host's clock
        # bounds the window's length. If it is simulated, only a clock that never wraps does.
        never_wrap = (
            each
            for each in self.fixed
            if any(k.bits == 64 and k.hz > 0 and k.unsupported is None for k in each.counters)
        )
        clock = next(never_wrap, None)
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
        """Return a collector's events if none is named: () for none, None for its default."""
        if collector.codes is None:
            return None
        events = tuple(e for e in collector.codes if collector.unsupported(e) is None)
        return events if is_all else ()

    def _select(self, metrics: Sequence[str] | None) -> Selection:
        """Choose the fixed collectors for metrics; None for all supported ones."""
        supported = [name for name in self._counters() if name not in self.unsupported]
        if not supported:
            found = (f"{name} ({why})" for name, why in self.unsupported.items())
            raise UsageError(f"{self.board} has no working counter: {'; '.join(found)}.")
        wanted = supported if metrics is None else [self._counter(each) for each in metrics]
        if not wanted:
            raise UsageError("No metric is named.", hint="name one of " + ", ".join(supported))
        active = tuple(c for c in self.fixed if any(k.name in wanted for k in c.counters))
        return Selection(active, frozenset(wanted))

    def _counter(self, metric: str) -> str:
        names = self._counters()
        hint = "one of " + ", ".join(name for name in names if name not in self.unsupported)
        if is_duration(metric) and self.clock_kind == "simulated":
            raise UsageError(
                f"{self.board} does not support {metric}: its clock is simulated.", hint=hint
            )
        candidates = CLOCKS if is_duration(metric) else (metric.removesuffix(" (us)"),)
        found = next((name for name in candidates if name in names), None)
        instead = next((name for name in CLOCKS if name in names), None)
        if found is None and metric in CLOCKS and instead is not None:
            raise UsageError(
                f"{self.board} has no {metric}: its clock counts {instead}.", hint=instead
            )
        if found is None:
            raise UnknownNameError("metric", metric, names, owner=self.board, hint=_hint(metric))
        if found in self.unsupported:
            why = self.unsupported[found]
            raise UsageError(f"{self.board} does not support {metric}: {why}.", hint=hint)
        return found

    def _counters(self) -> list[str]:
        return [counter.name for collector in self.fixed for counter in collector.counters]

    def _parts(self, name: str) -> tuple[str, ...]:
        return self.formulas[name][1].names if name in self.formulas else (name,)

    def find(self, name: str) -> tuple[str, str] | None:
        """Return the collector and event of a metric; None if it is a fixed counter."""
        # An event that the board knows by name is selected to find out, so its slots then count
        # that.
        counters = self._counters()
        # `_counter` names the clock that the board has instead.
        is_clock = name in CLOCKS and not set(CLOCKS).isdisjoint(counters)
        if is_duration(name) or is_clock or name.removesuffix(" (us)") in counters:
            return None
        reasons: dict[str, str] = {}
        # The innermost first: if two count the same, it includes the least overhead.
        for collector in reversed(self._asked(name)):
            own = collector.collector.name
            event = name.removeprefix(f"{own}.")
            if collector.codes is not None and event not in collector.codes:
                continue
            why = collector.unsupported(event)
            if why is not None:
                raise UsageError(
                    f"{self.board} does not support {name}: {why}.", hint=self._list_hint
                )
            if collector.codes is None:
                why = collector.select([event]).refused.get(event)
            if why is None:
                return own, event
            reasons[own] = why
        close = self._close(name) if reasons else []
        if reasons and not close:
            told = "; ".join(f"{own}: {why}" for own, why in reasons.items())
            raise UsageError(f"{self.board} does not count {name}: {told}.", hint=self._list_hint)
        known = dict.fromkeys((*self._known(), *close))
        raise UnknownNameError("metric", name, known, owner=self.board, hint=_hint(name))

    def split(self, names: Iterable[str]) -> tuple[tuple[str, ...], dict[str, UsageError]]:
        """Return the ``names`` that the board has, and the errors of the others, by name."""
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
    def _list_hint(self) -> str:
        return f"boardprof metrics -b {self.board} lists what it counts"

    def _asked(self, name: str) -> Sequence[Programmable]:
        """Return the collectors that may have an event: only one if the name has its prefix."""
        named = [p for p in self.programmable if name.startswith(f"{p.collector.name}.")]
        return named or self.programmable

    def _close(self, name: str) -> list[str]:
        """Return similar names; [] if the name is a known event's."""
        asked = self._asked(name)
        listed = [(p.collector.name, e.name) for p in asked for e in p.listed() if e.name]
        # Modifiers may follow an event's name after a colon, as in cycles:u.
        for own, event in listed:
            plain = name.removeprefix(f"{own}.")
            if plain == event or plain.startswith(f"{event}:"):
                return []
        known = (*self._known(), *(event for _, event in listed))
        nearest = UnknownNameError.nearest(name, known)
        return [nearest] if nearest else []

    def _known(self) -> list[str]:
        events = [p.shown(event) for p in self.programmable for event in p.codes or ()]
        modelled = () if self.unmodelled else (CORE_CYCLES,)
        return list(dict.fromkeys((*self._counters(), *self.formulas, *events, *modelled)))


def offer_of(
    spec: BoardSpec, session: Session, dictionary: Dictionary, layouts: Mapping[int, Layout]
) -> Offer:
    """Find out which metrics a board can count."""
    programmable = programmable_collectors(
        session, dictionary, layouts, spec.events, unsupported=spec.unsupported
    )
    slots = {each.collector.name for each in programmable}
    fixed = tuple(c for c in dictionary.collectors if c.name not in slots)
    lacking = {name: why for each in programmable for name, why in each.lacking.items()}
    counters = {counter.name for each in dictionary.collectors for counter in each.counters}
    for name in sorted(counters & spec.derived.keys()):
        raise UsageError(
            f"{name} in [derived] is already a counter of {spec.name}.",
            hint=f"give it another name in {spec.folder / 'board.toml'}",
        )
    formulas = {
        name: (each.kind, each.formula.renamed(lambda part: shown_name(programmable, part)))
        for name, each in spec.derived.items()
    }
    parts = {
        counter.name: device
        for collector in dictionary.collectors
        if (device := layouts[collector.schema_id].device) is not None
        for counter in collector.counters
    }
    unsupported = unsupported_counters(fixed, spec.unsupported) | lacking
    clock = spec.clock.kind
    found = (fixed, programmable, unsupported, formulas, clock, parts)
    return Offer(spec.name, *found, spec.build.core, bool(spec.launch.record))


def asks_core_cycles(metrics: str | Sequence[str] | None) -> bool:
    """Tell whether core cycles are among the named metrics."""
    names = metric_names(metrics) or ()
    return any(metric_called(name, MODELLED) is not None for name in names)


def _hint(metric: str) -> str | None:
    """Return what to try without a counter that most emulated boards have."""
    return "an emulated board, see `boardprof boards`" if metric == "instructions" else None


def lack_text(name: str, error: UsageError) -> str:
    """Return why a board lacks a metric, for a text that already names both."""
    if isinstance(error, UnknownNameError):
        return "it has no metric with that name"
    return error.message.partition(f"{name}: ")[2].removesuffix(".") or error.message


# -- selection ----------------------------------------------------------------------------------


def unsupported_counters(
    collectors: Sequence[CollectorInfo], known: Mapping[str, str]
) -> dict[str, str]:
    """Return counter name -> why it does not count: from board.toml, or else as the board found."""
    reasons: dict[str, str] = {}
    for collector in collectors:
        for counter in collector.counters:
            # A second collector of the same count has the name COLLECTOR.counter.
            plain = counter.name.removeprefix(f"{collector.name}.")
            reason = known.get(counter.name) or known.get(plain) or counter.unsupported
            if reason is not None:
                reasons[counter.name] = reason
    return reasons


def is_duration(metric: str) -> bool:
    """Return whether a metric is the Duration, by its column's name or an alias of it."""
    return metric_called(metric, [DURATION]) is not None and metric not in CLOCKS


def metric_names(metrics: object) -> list[str] | None:
    """Return the names of metrics that a caller gives; None for all."""
    if metrics is None:
        return None
    if isinstance(metrics, str):
        return [metrics]
    given = list(metrics) if isinstance(metrics, Iterable) else [metrics]
    names = [name for name in given if isinstance(name, str)]
    if len(names) < len(given):
        raise UsageError(
            f"metrics={metrics!r:.60} is not a list of metric names.", hint='metrics=["ticks"]'
        )
    return names


# -- lists -------------------------------------------------------------------------------------


def listed_metrics(offer: Offer) -> list[ListedMetric]:
    """Ask a board for all of its metrics, then count the default events again."""
    found = [
        ListedMetric(k.name, c.name, k.source, offer.unsupported.get(k.name))
        for c in offer.fixed
        for k in c.counters
    ]
    for each in offer.programmable:
        name = each.collector.name
        for event, code in (each.codes or {}).items():  # selected one by one
            refused = each.select([event]).refused.get(event)
            found.append(ListedMetric(each.shown(event), name, f"event {code:#x}", refused))
        if each.codes is not None:
            each.select_default()
        # What the board knows by name, it tries each on its own.
        found += [replace(known, name=each.shown(known.name)) for known in each.listed()]
    reasons = {f"{metric.collector}.{metric.name}": metric.reason for metric in found}
    reasons |= {metric.name: metric.reason for metric in found}
    for name, (_, formula) in offer.formulas.items():
        parts = {part: reasons.get(part) for part in formula.names}
        parts |= {part: _missing(offer, part) for part in parts if part not in reasons}
        reason = "; ".join(f"{part}: {why}" for part, why in parts.items() if why is not None)
        found.append(ListedMetric(name, None, formula.text, reason or None))
    if not offer.unmodelled:
        how = "modelled from a recorded call: the core only, at zero wait states"
        found.append(ListedMetric(CORE_CYCLES, None, how, None))
    return found


def _missing(offer: Offer, part: str) -> str | None:
    """Return why a part of a formula is missing. None if it exists under another name."""
    try:
        found = offer.find(part)
    except UnknownNameError:
        return f"there is no counter or event {part}"
    except UsageError as error:
        return error.message.removesuffix(".")
    for collector in offer.programmable:
        if found is not None and collector.codes is None:
            collector.select_default()  # `find` has selected the event
    return None
