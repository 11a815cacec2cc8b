# SPDX-License-Identifier: Apache-2.0
"""The result for a test: the Report of one function, and its statistics by metric."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from boardprof.base.errors import UnknownNameError
from boardprof.base.metrics import metric_called
from boardprof.results.report.assemble import assemble
from boardprof.results.report.measurement import Measurement
from boardprof.results.stats.groups import summaries
from boardprof.results.stats.summary import Summary

__all__ = ["Measured"]


class Measured(Mapping[str, Summary]):
    """Statistics per call by metric: ``measured["instructions"].median``.

    Attributes:
        report: with every sample.
        result: the return value; None for void.
        outputs: arrays that one call wrote, by parameter name.
    """

    def __init__(self, *measurements: Measurement) -> None:
        """Summarise a measurement, or its sessions."""
        measurement = measurements[-1]
        self.report = assemble(measurements)
        self.result = measurement.result
        self.outputs: Mapping[str, Any] = measurement.outputs
        self._board = measurement.device.name
        self._found = {each.metric: each.summary for each in reversed(summaries(self.report))}

    def __getitem__(self, metric: str) -> Summary:
        """Return a metric's statistics.

        Raises:
            UnknownNameError: the board did not measure it.
        """
        name = metric_called(metric, self._found)
        if name is None:
            raise UnknownNameError("metric", metric, self, owner=self._board)
        return self._found[name]

    def __contains__(self, metric: object) -> bool:
        """Tell whether the board has measured it."""
        return isinstance(metric, str) and metric_called(metric, self._found) is not None

    def __iter__(self) -> Iterator[str]:
        """Iterate over the metrics, in the Report's order."""
        return reversed(self._found)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._found)
