# SPDX-License-Identifier: Apache-2.0
"""The names of probes, as the image's ELF file has them in a section (SPEC.md 5.12)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from boardprof.base.errors import DecodeError
from boardprof_protocol.codes import TRACE_FIRST_NAME, ProbeKind, TraceId

NAMES_SECTION = "bp_trace_names"
"""Of the ELF file."""

CHECK_SECTION = "bp_trace_check"
"""Of the ELF file, and of the memory of the board: a hash of each name."""

_PAIRS = frozenset({ProbeKind.RANGE, ProbeKind.INTERRUPT})
"""Kinds of names with two numbers: begin and end."""

VALUES = frozenset({ProbeKind.U32, ProbeKind.I32, ProbeKind.F32})
"""Kinds of names with a value."""


@dataclass(frozen=True)
class ProbeName:
    """A name; the end of a range or an interrupt has the number after that of its begin."""

    number: int
    kind: ProbeKind
    text: str


class ProbeNames:
    """The names in an image, in the order of their numbers."""

    def __init__(self, names: Sequence[ProbeName]) -> None:
        """Keep the names."""
        self.names = tuple(names)

    @cached_property
    def end(self) -> int:
        """The first number after those of all names."""
        if not self.names:
            return TRACE_FIRST_NAME
        last = self.names[-1]
        return last.number + (2 if last.kind in _PAIRS else 1)

    @cached_property
    def by_number(self) -> dict[int, ProbeName]:
        """The names by each of their numbers."""
        found = {}
        for name in self.names:
            found[name.number] = name
            if name.kind in _PAIRS:
                found[name.number + 1] = name
        return found

    @cached_property
    def has_value(self) -> npt.NDArray[np.bool_]:
        """Whether the record of an id, 0 to 255, has a value."""
        found = np.zeros(256, np.bool_)
        found[[each for each in TraceId if each != TraceId.INTERRUPT_EXIT]] = True
        for name in self.names:
            if name.kind in VALUES and name.number < 256:
                found[name.number] = True
        return found

    @cached_property
    def unusual(self) -> npt.NDArray[np.uint8]:
        """What is unusual of the record of an id, 0 to 255.

        0: nothing, 1: it belongs to the record after it or before it, 2: there is no such id.
        """
        found = np.full(256, 2, np.uint8)
        found[list(TraceId)] = 0
        found[TRACE_FIRST_NAME : self.end] = 0
        found[[TraceId.LONG, TraceId.WIDE, TraceId.VALUE, TraceId.WRAPPED]] = 1
        return found

    def of_kind(self, *kinds: ProbeKind) -> list[ProbeName]:
        """Return the names of some kinds."""
        return [name for name in self.names if name.kind in kinds]

    def section(self) -> bytes:
        """Return the names as `read_names` reads them."""
        return b"".join(bytes([n.kind]) + n.text.encode() + b"\0" for n in self.names)


def read_names(content: bytes) -> ProbeNames:
    """Read the bytes of the section."""
    names, number, at = [], TRACE_FIRST_NAME, 0
    while at < len(content):
        stop = content.find(b"\0", at + 1)
        try:
            kind, text = ProbeKind(content[at]), content[at + 1 : stop].decode()
        except UnicodeDecodeError:
            raise DecodeError(
                f"The name of a probe, {content[at + 1 : stop]!r:.60}, is not UTF-8.",
                hint="save the source file as UTF-8, or name the probe in ASCII",
            ) from None
        except ValueError:
            stop = -1
        if stop < 0:
            raise DecodeError(
                f"The section {NAMES_SECTION} has no name of a probe at byte {at}.",
                hint="link all files of the firmware against one version of bp_trace.h",
            )
        names.append(ProbeName(number, kind, text))
        number += 2 if kind in _PAIRS else 1
        at = stop + 1
    return ProbeNames(names)
