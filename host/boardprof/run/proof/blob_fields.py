# SPDX-License-Identifier: Apache-2.0
"""What a board's registers read, as it stands in the blobs, before it is made a count of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from boardprof.board.board import Board
from boardprof.decode.dictionary import CounterInfo
from boardprof.decode.samples import Sample
from boardprof.report.measurement import Measurement
from boardprof_protocol.blob import split_blobs
from boardprof_protocol.layout import Counter

__all__ = ["blob_fields"]


def blob_fields(
    board: Board, measurement: Measurement, sample: Sample
) -> Iterator[tuple[CounterInfo, Counter, Mapping[str, Any]]]:
    """Yield each fixed counter of the first pass, with its meaning and its blob's fields."""
    mask = measurement.windows[0].mask
    collectors = [c for c in board.device.collectors if mask >> c.index & 1]
    for collector, blob in zip(collectors, split_blobs(sample.raw), strict=True):
        layout = board.layouts[collector.schema_id]
        fields = layout.struct.parse(blob.body)
        if not layout.programmable:
            for info, meaning in zip(collector.counters, layout.counters, strict=True):
                yield info, meaning, fields
