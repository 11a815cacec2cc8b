# SPDX-License-Identifier: Apache-2.0
"""Results for a tuner: the numbers of errors, and when two results are equal."""

from __future__ import annotations

import numpy as np

from boardprof.jobs.tune.candidate import MeasureError, MeasureResult


def test_the_numbers_of_errors_are_those_that_tvm_has_for_them() -> None:
    # 0 to 8 are those of tvm.autotvm.measure.MeasureErrorNo; TVM has no 9.
    assert [(error.value, error.name) for error in MeasureError] == [
        (0, "NO_ERROR"),
        (1, "INSTANTIATION_ERROR"),
        (2, "COMPILE_HOST"),
        (3, "COMPILE_DEVICE"),
        (4, "RUNTIME_DEVICE"),
        (5, "WRONG_ANSWER"),
        (6, "BUILD_TIMEOUT"),
        (7, "RUN_TIMEOUT"),
        (8, "UNKNOWN_ERROR"),
        (9, "OVER_LIMIT"),
    ]


def test_results_are_compared_without_their_arrays() -> None:
    one, other = (
        MeasureResult((17.0,), MeasureError.NO_ERROR, 0.5, 1e9, outputs={"y": np.arange(length)})
        for length in (3, 4)
    )
    assert one == other
