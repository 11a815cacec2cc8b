# SPDX-License-Identifier: Apache-2.0
"""Measure what a C function costs on a board that you can only reach through a wire.

::

    import boardprof

    with boardprof.connect(port="/dev/ttyACM0", board="my-board") as board:
        report = board.profile("fir", repeat=20)
    print(report.table())

Names are loaded when they are first used, so that the command line starts fast.
"""

from __future__ import annotations

from boardprof._version import __version__

TYPE_CHECKING = False  # typing's own takes longer to import than all of this
if TYPE_CHECKING:
    from boardprof.arguments.passing import Keep, Out
    from boardprof.board.board import Board
    from boardprof.connection import connect
    from boardprof.errors import BoardprofError
    from boardprof.firmware.firmware import build
    from boardprof.metrics import Count, Duration, Percent, Ratio
    from boardprof.papi import PAPIMetricCollector
    from boardprof.profiler import profile_function
    from boardprof.report.report import Report

__all__ = [
    "Board",
    "BoardprofError",
    "Count",
    "Duration",
    "Keep",
    "Out",
    "PAPIMetricCollector",
    "Percent",
    "Ratio",
    "Report",
    "__version__",
    "build",
    "connect",
    "profile_function",
]

_MODULES = {
    "Board": "board.board",
    "BoardprofError": "errors",
    "Count": "metrics",
    "Duration": "metrics",
    "Keep": "arguments.passing",
    "Out": "arguments.passing",
    "PAPIMetricCollector": "papi",
    "Percent": "metrics",
    "Ratio": "metrics",
    "Report": "report.report",
    "build": "firmware.firmware",
    "connect": "connection",
    "profile_function": "profiler",
}


def __getattr__(name: str) -> object:
    """Load the module that has ``name`` (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
