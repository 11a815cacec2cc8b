# SPDX-License-Identifier: Apache-2.0
"""TVM's profiling interface over any transport, and whole programs.

The names are those of ``tvm.runtime.profiling``, which has been removed from TVM: Reports,
collectors in Python, `profile_function` and `time_evaluator`. `Program` is what
``graph_executor.profile`` and ``vm.profile`` were.
"""

from __future__ import annotations

from boardprof.base.metrics import Count, Duration, Percent, Ratio
from boardprof.compat.tvm_profiler.function import Metrics, ProfiledFunction, profile_function
from boardprof.compat.tvm_profiler.host_collectors import (
    DeviceWrapper,
    MetricCollector,
    PAPIMetricCollector,
)
from boardprof.compat.tvm_profiler.program import Program, ProgramError
from boardprof.compat.tvm_profiler.timing import BenchmarkResult, TimeEvaluator, time_evaluator
from boardprof.results.report.report import Report

__all__ = [
    "BenchmarkResult",
    "Count",
    "DeviceWrapper",
    "Duration",
    "MetricCollector",
    "Metrics",
    "PAPIMetricCollector",
    "Percent",
    "ProfiledFunction",
    "Program",
    "ProgramError",
    "Ratio",
    "Report",
    "TimeEvaluator",
    "profile_function",
    "time_evaluator",
]
