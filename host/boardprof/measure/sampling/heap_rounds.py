# SPDX-License-Identifier: Apache-2.0
"""What a function's rounds keep of the board's heap, and whether it had no memory left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from boardprof.base.errors import FrameError
from boardprof.results.record import Finding
from boardprof.wire.decode.dictionary import Dictionary
from boardprof.wire.link.session import Session

_HEAP = "bp.heap"
_PAGE = 4096  # newlib takes whole pages from the system


class HeapRounds(NamedTuple):
    """Counts of rounds since the board's start (SPEC.md 5.13), or between two points in time."""

    refused_warmups: int
    keeping_warmups: int
    warmup_bytes: int  # that these have kept
    refused: int  # samples in which a request for memory was refused
    keeping: int  # samples after which the heap held more
    kept_bytes: int  # in all of these

    def since(self, earlier: HeapRounds) -> HeapRounds:
        """Return what was counted after ``earlier``."""
        pairs = zip(self, earlier, strict=True)
        return HeapRounds(*((now - then) % (1 << 32) for now, then in pairs))

    def findings(self, name: str, samples: int, calls: int) -> Iterator[Finding]:
        """Yield what they say about a function that was called ``calls`` times in its samples."""
        if self.refused or self.refused_warmups:
            when = f"{self.refused:,} of {samples:,} samples"
            if not self.refused:
                when = f"{self.refused_warmups:,} of its warm-up calls"
            yield Finding(
                "heap-refused",
                f"{name} got no memory in {when}, because the heap was used up: the numbers "
                "include the cost of failing. Free what a call takes, or lower --warmup and "
                "--repeat",
                spoils=True,
            )
        kept_bytes = self.kept_bytes
        if self.refused:  # each warm-up is one call
            kept_bytes, calls = self.warmup_bytes, self.keeping_warmups
        elif self.keeping < 2:  # only the first call keeps something
            return
        if kept_bytes and calls:
            each, rest = divmod(kept_bytes, calls)
            about = "about " if rest or each % _PAGE == 0 else ""
            yield Finding("heap-kept", f"{name} keeps {about}{each:,} bytes of the heap per call")


def heap_rounds(session: Session, dictionary: Dictionary) -> HeapRounds | None:
    """Ask a board; None if its agent does not know, or the image has no heap."""
    function = next((f for f in dictionary.functions if f.name == _HEAP), None)
    value: Any = None if function is None else session.invoke(function.id, _HEAP)
    if value is None:
        return None
    if not (isinstance(value, list) and len(value) >= 6 and all(type(n) is int for n in value)):
        raise FrameError(f"{_HEAP} returned {value!r:.60}, not six numbers.")
    return HeapRounds(*value[:6])
