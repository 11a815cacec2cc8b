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
_MODULUS = 1 << 32


class HeapRounds(NamedTuple):
    """Counts of rounds since the board's start (SPEC.md 5.13), or between two points in time."""

    refused_warmups: int
    keeping_warmups: int
    warmup_bytes: int  # that the last of these has kept
    refused: int  # samples in which a request for memory was refused
    keeping: int  # samples after which the heap held more
    kept_bytes: int  # after the last of these

    def since(self, earlier: HeapRounds) -> HeapRounds:
        """Return what was counted after ``earlier``."""
        return HeapRounds(
            (self.refused_warmups - earlier.refused_warmups) % _MODULUS,
            (self.keeping_warmups - earlier.keeping_warmups) % _MODULUS,
            self.warmup_bytes,
            (self.refused - earlier.refused) % _MODULUS,
            (self.keeping - earlier.keeping) % _MODULUS,
            self.kept_bytes,
        )

    def findings(self, name: str, samples: int, number: int) -> Iterator[Finding]:
        """Yield what they say about a function with ``number`` calls in each sample."""
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
        if self.keeping > 1:
            each, rest = divmod(self.kept_bytes, number)
        elif self.refused and self.keeping_warmups:
            each, rest = self.warmup_bytes, 0
        else:  # nothing, or only in the first calls
            return
        about = "about " if rest else ""
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
