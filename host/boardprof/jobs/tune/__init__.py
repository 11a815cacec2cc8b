# SPDX-License-Identifier: Apache-2.0
"""Measure many candidates of one function on a board, for a tuner of any kind.

::

    from boardprof.tune import Candidate, Runner

    runner = Runner("ibex-rtl", {"a": a, "b": b, "c": c}, function="matmul", expect={"c": a @ b})
    tiles = [Candidate("matmul.c", defines={"TILE": n}) for n in (1, 2, 4, 8)]
    for result in runner.measure(tiles):
        print(result.cost, result.metrics, result.error)
"""

from boardprof.jobs.tune.candidate import Candidate, MeasureError, MeasureResult
from boardprof.jobs.tune.runner import Runner

__all__ = ["Candidate", "MeasureError", "MeasureResult", "Runner"]
