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

__version__ = "0.2.0"

TYPE_CHECKING = False  # typing's own takes longer to import than all of this
if TYPE_CHECKING:
    from boardprof.arguments.passing import Keep, Out
    from boardprof.board.board import Board
    from boardprof.comparison.compare import compare
    from boardprof.connection import connect
    from boardprof.errors import BoardprofError
    from boardprof.firmware.build import build
    from boardprof.metrics import Count, Duration, Percent, Ratio
    from boardprof.profiling.function import profile_function
    from boardprof.profiling.host_collectors import (
        DeviceWrapper,
        MetricCollector,
        PAPIMetricCollector,
    )
    from boardprof.profiling.program import Program, ProgramError
    from boardprof.profiling.timing import time_evaluator
    from boardprof.report.report import Report
    from boardprof.trace.export import tensorboard_trace_handler
    from boardprof.trace.flops import register_flops
    from boardprof.trace.profiler import profile
    from boardprof.trace.records import record_function
    from boardprof.trace.settings import ProfilerAction, ProfilerActivity, schedule

__all__ = [
    "Board",
    "BoardprofError",
    "Count",
    "DeviceWrapper",
    "Duration",
    "Keep",
    "MetricCollector",
    "Out",
    "PAPIMetricCollector",
    "Percent",
    "ProfilerAction",
    "ProfilerActivity",
    "Program",
    "ProgramError",
    "Ratio",
    "Report",
    "__version__",
    "build",
    "compare",
    "connect",
    "profile",
    "profile_function",
    "record_function",
    "register_flops",
    "schedule",
    "tensorboard_trace_handler",
    "time_evaluator",
]

_PARTS = ("itt", "profiling", "tune", "tvm")
"""Modules that users may import by name."""

_MODULES = {
    "Board": "board.board",
    "BoardprofError": "errors",
    "Count": "metrics",
    "DeviceWrapper": "profiling.host_collectors",
    "Duration": "metrics",
    "Keep": "arguments.passing",
    "MetricCollector": "profiling.host_collectors",
    "Out": "arguments.passing",
    "PAPIMetricCollector": "profiling.host_collectors",
    "Percent": "metrics",
    "ProfilerAction": "trace.settings",
    "ProfilerActivity": "trace.settings",
    "Program": "profiling.program",
    "ProgramError": "profiling.program",
    "Ratio": "metrics",
    "Report": "report.report",
    "build": "firmware.build",
    "compare": "comparison.compare",
    "connect": "connection",
    "profile": "trace.profiler",
    "profile_function": "profiling.function",
    "record_function": "trace.records",
    "register_flops": "trace.flops",
    "schedule": "trace.settings",
    "tensorboard_trace_handler": "trace.export",
    "time_evaluator": "profiling.timing",
}


def __getattr__(name: str) -> object:
    """Load the module that has ``name``, or is it (PEP 562)."""
    import importlib

    if name in _PARTS:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted([*__all__, *_PARTS])
