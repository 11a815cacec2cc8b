# SPDX-License-Identifier: Apache-2.0
"""Tune two macros and the flags of a kernel with kernel_tuner, on a board.

kernel_tuner has no place for a plug-in, so a backend of ours stands in place of its C backend. It
needs ``pip install kernel_tuner`` (1.5). Run it from the repository: ``python
examples/tuning/kernel_tuner_search.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import kernel_tuner
import kernel_tuner.backends.compiler
import numpy as np
from kernel_tuner.backends.backend import CompilerBackend
from kernel_tuner.observers import BenchmarkObserver

from boardprof.tune import Candidate, MeasureResult, Runner

BOARD, METRIC = "qemu-rv32", "instructions"
KERNEL = Path("examples/tuning/matmul.c")
CHOICES = {"flags": ["-O2", "-O3", "-Os"], "TILE": [1, 2, 4, 8], "UNROLL": [1, 2, 4, 8]}

a = np.arange(1024, dtype=np.int8)
b = np.flip(a).copy()
c = (a.reshape(32, 32).astype(np.int32) @ b.reshape(32, 32).astype(np.int32)).ravel()
runner = Runner(BOARD, {"a": a, "b": b, "c": np.zeros(1024, np.int32)}, METRIC, expect={"c": c})


class BoardBackend(CompilerBackend):
    """Measures while kernel_tuner thinks that it compiles; afterwards it only asks for the cost."""

    units: ClassVar[dict[str, str]] = {METRIC: METRIC}
    env: ClassVar[dict[str, str]] = {"board": BOARD}
    name = BOARD
    max_threads = 1024  # what kernel_tuner takes a block of threads to be at most

    def __init__(self, iterations: int, compiler_options: Any, compiler: str, observers: Any):
        """Take what kernel_tuner gives to its C backend."""
        self.observers = [*(observers or []), self.Cost(self)]
        self.last: MeasureResult | None = None

    class Cost(BenchmarkObserver):
        """Gives kernel_tuner the cost of the last candidate."""

        def __init__(self, backend: BoardBackend) -> None:
            """Belong to a backend."""
            self.backend = backend

        def get_results(self) -> dict[str, float]:
            """Return the cost."""
            assert self.backend.last is not None
            return {METRIC: self.backend.last.cost}

    def ready_argument_list(self, arguments: Any) -> Any:
        """The runner has them."""
        return arguments

    def compile(self, kernel_instance: Any) -> MeasureResult | None:
        """Build and measure; None is a failure. A wrong output is one, too."""
        flags = kernel_instance.params["flags"]
        (self.last,) = runner.measure([Candidate(text=kernel_instance.kernel_string, flags=flags)])
        return self.last if self.last.ok else None

    def nothing(self, *_: Any, **__: Any) -> None:
        """It has all been done."""

    start_event = stop_event = synchronize = run_kernel = memset = nothing
    memcpy_dtoh = memcpy_htod = refresh_memory = cleanup_lib = nothing

    def kernel_finished(self) -> bool:
        """It has all been done."""
        return True


kernel_tuner.backends.compiler.CompilerFunctions = BoardBackend
results, _ = kernel_tuner.tune_kernel(
    "matmul",
    str(KERNEL),
    1,
    [a, b, c],
    CHOICES,
    lang="C",
    objective=METRIC,
    objective_higher_is_better=False,
    iterations=1,
    quiet=True,
)
best = min((each for each in results if METRIC in each), key=lambda each: each[METRIC])
print(f"Best of {len(results)}: {best[METRIC]:,.0f} {METRIC} with", {k: best[k] for k in CHOICES})
