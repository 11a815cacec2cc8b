# SPDX-License-Identifier: Apache-2.0
"""What there is to count on a board: of its dictionary, its layouts and its board.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from boardprof.board.events import programmable_collectors, shown_name
from boardprof.board.planning import Offer
from boardprof.board.selection import unsupported_counters
from boardprof.boards.board_file import BoardSpec
from boardprof.decode.dictionary import Dictionary
from boardprof.errors import UsageError
from boardprof.formula import Formula
from boardprof.link.session import Session
from boardprof_protocol.layout import Layout

__all__ = ["Counters", "counters_of"]


@dataclass(frozen=True)
class Counters:
    """What there is to count.

    Attributes:
        offer: what may be asked for, and what may not, with the reason.
        formulas: metrics that are computed of others: name -> its kind and the formula.
        parts: counter -> the part of the board that it belongs to, where that is not the CPU.
    """

    offer: Offer
    formulas: Mapping[str, tuple[str, Formula]]
    parts: Mapping[str, str]


def counters_of(
    spec: BoardSpec, session: Session, dictionary: Dictionary, layouts: Mapping[int, Layout]
) -> Counters:
    """Find out what there is to count.

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
    offer = Offer(
        spec.name,
        fixed,
        programmable,
        unsupported_counters(fixed, spec.unsupported) | lacking,
        {name: formula for name, (_, formula) in formulas.items()},
        spec.clock.kind,
    )
    return Counters(offer, formulas, _parts(dictionary, layouts))


def _check_names(spec: BoardSpec, dictionary: Dictionary) -> None:
    counters = {counter.name for each in dictionary.collectors for counter in each.counters}
    for name in spec.derived:
        if name in counters:
            raise UsageError(
                f"{name} of [derived] is a counter of {spec.name}.",
                hint=f"give it another name in {spec.folder / 'board.toml'}",
            )


def _parts(dictionary: Dictionary, layouts: Mapping[int, Layout]) -> dict[str, str]:
    return {
        counter.name: device
        for collector in dictionary.collectors
        if (device := layouts[collector.schema_id].device) is not None
        for counter in collector.counters
    }
