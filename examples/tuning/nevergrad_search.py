# SPDX-License-Identifier: Apache-2.0
"""Tune two macros and the flags of a kernel by nevergrad's ask and tell.

It needs ``pip install nevergrad``. Run it from the repository: ``python
examples/tuning/nevergrad_search.py``.
"""

from __future__ import annotations

from typing import Any

import nevergrad
import numpy as np

from boardprof.tune import Candidate, MeasureResult, Runner

BOARD, METRIC = "qemu-rv32", "instructions"
BATCH, BATCHES = 8, 4
CHOICES: dict[str, list[Any]] = {
    "flags": ["-O2", "-O3", "-Os"],
    "TILE": [1, 2, 4, 8, 16, 32],
    "UNROLL": [1, 2, 4, 8, 16, 32],
}
FIRST = {name: values[0] for name, values in CHOICES.items()}
"""What the others are compared with."""

a = np.arange(1024, dtype=np.int8)
b = np.flip(a).copy()
c = (a.reshape(32, 32).astype(np.int32) @ b.reshape(32, 32).astype(np.int32)).ravel()


def candidate(choice: dict[str, Any]) -> Candidate:
    """Return the candidate of a choice."""
    return Candidate(
        flags=choice["flags"], defines={"TILE": choice["TILE"], "UNROLL": choice["UNROLL"]}
    )


def loss(result: MeasureResult) -> float:
    """Return the cost; a candidate that failed, or whose output is wrong, is the worst one."""
    return result.cost if result.ok else float("inf")


runner = Runner(
    BOARD,
    {"a": a, "b": b, "c": np.zeros(1024, np.int32)},
    METRIC,
    sources=["examples/tuning/matmul.c"],
    expect={"c": c},
)
space = nevergrad.p.Dict(**{name: nevergrad.p.Choice(values) for name, values in CHOICES.items()})
space.random_state.seed(1)
optimizer = nevergrad.optimizers.PortfolioDiscreteOnePlusOne(
    space, budget=BATCH * BATCHES, num_workers=BATCH
)
(first,) = runner.measure([candidate(FIRST)])
best, best_choice = first, FIRST
for _ in range(BATCHES):
    asked = [optimizer.ask() for _ in range(BATCH)]
    results = runner.measure([candidate(each.value) for each in asked])
    for each, result in zip(asked, results, strict=True):
        optimizer.tell(each, loss(result))
        if loss(result) < loss(best):
            best, best_choice = result, each.value
print(f"First: {first.cost:,.0f} {METRIC} with {FIRST}")
print(f"Best:  {best.cost:,.0f} {METRIC} with {best_choice}")
