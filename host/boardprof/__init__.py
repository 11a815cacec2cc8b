# SPDX-License-Identifier: Apache-2.0
"""Measure what a C function costs on a board: instructions, cycles, time and stack.

::

    import boardprof

    with boardprof.connect(port="/dev/ttyACM0", board="my-board") as board:
        report = board.profile("fir", repeat=20)
    print(report.table())

Names are loaded when they are first used, so that the command line starts fast.
"""

from __future__ import annotations

import importlib
import sys

__version__ = "0.2.0"

TYPE_CHECKING = False  # typing's own takes longer to import than all of this
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from boardprof.base.errors import BoardprofError
    from boardprof.base.metrics import Count, Duration, Percent, Ratio
    from boardprof.compat.torch.export import tensorboard_trace_handler
    from boardprof.compat.torch.flops import register_flops
    from boardprof.compat.torch.host_events import record_function
    from boardprof.compat.torch.profiler import profile
    from boardprof.compat.torch.settings import ProfilerAction, ProfilerActivity, schedule
    from boardprof.compat.tvm_profiler.function import profile_function
    from boardprof.compat.tvm_profiler.host_collectors import (
        DeviceWrapper,
        MetricCollector,
        PAPIMetricCollector,
    )
    from boardprof.compat.tvm_profiler.program import Program, ProgramError
    from boardprof.compat.tvm_profiler.timing import time_evaluator
    from boardprof.measure.board.board import Board
    from boardprof.measure.connect import build, connect
    from boardprof.measure.energy import open_meter
    from boardprof.measure.meter import MarkedWindow, Meter
    from boardprof.results.comparison.rule import parse_rule
    from boardprof.results.history.report_lookup import find_report
    from boardprof.results.history.run_comparison import compare
    from boardprof.results.history.store import History
    from boardprof.results.probes.heap import heap_of
    from boardprof.results.probes.run import read_run
    from boardprof.results.report.report import Report
    from boardprof.results.stats.groups import left_out, summaries
    from boardprof.results.stats.summary import change_points, summarize
    from boardprof.results.stats.warnings import warnings
    from boardprof.show.comparison_files import comparison_json as comparison_json
    from boardprof.show.comparison_files import comparison_junit as comparison_junit
    from boardprof.show.comparison_table import comparison_table as comparison_table
    from boardprof.show.exporters import exporter_names, find_exporter
    from boardprof.show.html import read_page, render_html
    from boardprof.show.markdown import comparison_markdown as comparison_markdown
    from boardprof.show.rows import render_csv as render_csv
    from boardprof.show.rows import to_pandas as to_pandas
    from boardprof.show.table import render_statistics as render_statistics
    from boardprof.show.table import render_table as render_table
    from boardprof.target.arguments.passing import Keep, Out
    from boardprof.wire.transport.base import DescriptorTransport, Transport
    from boardprof.wire.transport.faults import Faults, FaultyTransport

__all__ = [
    "Board",
    "BoardprofError",
    "Count",
    "DescriptorTransport",
    "DeviceWrapper",
    "Duration",
    "Faults",
    "FaultyTransport",
    "History",
    "Keep",
    "MarkedWindow",
    "Meter",
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
    "Transport",
    "__version__",
    "build",
    "change_points",
    "compare",
    "connect",
    "exporter_names",
    "find_exporter",
    "find_report",
    "heap_of",
    "left_out",
    "open_meter",
    "parse_rule",
    "profile",
    "profile_function",
    "read_page",
    "read_run",
    "record_function",
    "register_flops",
    "render_html",
    "schedule",
    "summaries",
    "summarize",
    "tensorboard_trace_handler",
    "time_evaluator",
    "warnings",
]

_PARTS = {
    "errors": "base.errors",
    "fleet": "jobs.fleet",
    "flops": "compat.torch.flops",
    "itt": "compat.itt",
    "metrics": "base.metrics",
    "profiling": "compat.tvm_profiler",
    "tune": "jobs.tune",
    "tvm": "compat.tvm",
}
"""Modules that users import as ``boardprof.NAME``, and the rooms in which they stand."""

_MODULES = {
    "Board": "measure.board.board",
    "BoardprofError": "base.errors",
    "Count": "base.metrics",
    "DescriptorTransport": "wire.transport.base",
    "DeviceWrapper": "compat.tvm_profiler.host_collectors",
    "Duration": "base.metrics",
    "Faults": "wire.transport.faults",
    "FaultyTransport": "wire.transport.faults",
    "History": "results.history.store",
    "Keep": "target.arguments.passing",
    "MarkedWindow": "measure.meter",
    "Meter": "measure.meter",
    "MetricCollector": "compat.tvm_profiler.host_collectors",
    "Out": "target.arguments.passing",
    "PAPIMetricCollector": "compat.tvm_profiler.host_collectors",
    "Percent": "base.metrics",
    "ProfilerAction": "compat.torch.settings",
    "ProfilerActivity": "compat.torch.settings",
    "Program": "compat.tvm_profiler.program",
    "ProgramError": "compat.tvm_profiler.program",
    "Ratio": "base.metrics",
    "Report": "results.report.report",
    "Transport": "wire.transport.base",
    "build": "measure.connect",
    "change_points": "results.stats.summary",
    "compare": "results.history.run_comparison",
    "connect": "measure.connect",
    "exporter_names": "show.exporters",
    "find_exporter": "show.exporters",
    "find_report": "results.history.report_lookup",
    "heap_of": "results.probes.heap",
    "left_out": "results.stats.groups",
    "open_meter": "measure.energy",
    "parse_rule": "results.comparison.rule",
    "profile": "compat.torch.profiler",
    "profile_function": "compat.tvm_profiler.function",
    "read_page": "show.html",
    "read_run": "results.probes.run",
    "record_function": "compat.torch.host_events",
    "register_flops": "compat.torch.flops",
    "render_html": "show.html",
    "schedule": "compat.torch.settings",
    "summaries": "results.stats.groups",
    "summarize": "results.stats.summary",
    "tensorboard_trace_handler": "compat.torch.export",
    "time_evaluator": "compat.tvm_profiler.timing",
    "warnings": "results.stats.warnings",
}

_VIEWS = {
    "comparison_json": "show.comparison_files",
    "comparison_junit": "show.comparison_files",
    "comparison_markdown": "show.markdown",
    "comparison_table": "show.comparison_table",
    "render_csv": "show.rows",
    "render_statistics": "show.table",
    "render_table": "show.table",
    "to_pandas": "show.rows",
}
"""What methods of Reports and Comparisons call: results may not import what shows them."""


class _Parts:
    """Finds a module of `_PARTS` by the name that users know; it is the same module object."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        package, _, part = name.partition(".")
        top, dot, rest = part.partition(".")
        if package != __name__ or top not in _PARTS:
            return None
        from importlib.machinery import ModuleSpec

        place = f"{__name__}.{_PARTS[top]}{dot}{rest}"
        return ModuleSpec(name, _Parts(place))  # type: ignore[arg-type]

    def __init__(self, place: str) -> None:
        self._place = place

    def create_module(self, spec: object) -> None:
        """Let an empty module be made, which gives way to the one in its room."""

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = importlib.import_module(self._place)


# First: through the ``__path__`` of a part, the usual finder would load its modules a second time.
sys.meta_path.insert(0, _Parts)


def __getattr__(name: str) -> object:
    """Load the module that has ``name``, or is it (PEP 562)."""
    if name in _PARTS:
        return importlib.import_module(f"{__name__}.{name}")
    module = _MODULES.get(name) or _VIEWS.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted([*__all__, *_PARTS])
