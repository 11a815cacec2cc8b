# SPDX-License-Identifier: Apache-2.0
"""The part of a connected board that a measurement needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from boardprof.decode.dictionary import CollectorInfo, Dictionary
from boardprof.link.session import Session
from boardprof.measure.board_interrupts import BoardInterrupts, interrupts_of
from boardprof.measure.programmable import Programmable
from boardprof.report.interrupts import HOOKED
from boardprof.report.measurement import Device
from boardprof_protocol.layout import Layout


@dataclass(frozen=True, eq=False)
class BoardLink:
    """A connected board, as seen by a measurement.

    Attributes:
        session: with the board.
        dictionary: the board's functions and collectors.
        layouts: of the collectors' blobs, by schema.
        device: the facts about the board for Reports.
        programmable: the collectors whose slots can be programmed.
    """

    session: Session
    dictionary: Dictionary
    layouts: Mapping[int, Layout]
    device: Device
    programmable: tuple[Programmable, ...]

    @cached_property
    def interrupts(self) -> BoardInterrupts | None:
        """The board's facts about its interrupts; None if it cannot mask them."""
        return interrupts_of(self.session, self.dictionary)

    @property
    def hooks(self) -> list[CollectorInfo]:
        """The collector that counts hooked interrupts, if the board has it."""
        return [each for each in self.dictionary.collectors if each.name == HOOKED]

    @property
    def is_real_time(self) -> bool:
        """Whether the board's clock runs at the pace of the host's."""
        return self.device.clock_kind != "simulated"
