# SPDX-License-Identifier: Apache-2.0
"""All operators of a network tuned on a board, by MetaSchedule's ``tune_relax``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from boardprof.compat.tvm.lowering import C_TARGET
from boardprof.compat.tvm.network import Network
from boardprof.compat.tvm.tuning import (
    FUNCTION,
    OPERATOR,
    BoardRunner,
    kernel_c,
    kernel_runner,
    quick_start,
    random_arguments,
    searched,
)
from boardprof.jobs.tune.candidate import MeasureResult
from boardprof.target.descriptions.board import BoardSpec
from tvm import tirx
from tvm.s_tir import meta_schedule as ms

_BATCH = 8
"""Candidates of one operator at a time: TVM chooses the operator anew for each batch."""


@dataclass(frozen=True)
class TunedNetwork:
    """A network whose operators were tuned.

    Attributes:
        network: with the best schedules. An operator for which none is better keeps its own.
        untuned: the cost of each operator before.
        tuned: the cost of each operator that has another schedule now.
        trials: all measurements, in order.
    """

    network: Network
    untuned: Mapping[str, MeasureResult]
    tuned: Mapping[str, MeasureResult]
    trials: tuple[MeasureResult, ...]


def tune_network(
    network: Network,
    board: str | BoardSpec,
    metric: str = "cycles",
    *,
    trials: int = 64,
    seed: int = 1,
    tolerance: float = 0.0,
    **settings: Any,
) -> TunedNetwork:
    """Search schedules for all operators of a network; the costly ones get most of the trials.

    The output of each candidate must be that of its operator as TVM compiles it for this machine.

    Args:
        network: from `lower`.
        board: its name or description.
        metric: the cost, as for `Runner`.
        trials: candidates to measure in all, >= 1.
        seed: of the search, and of the arrays.
        tolerance: largest relative difference of floats.
        settings: more for `Runner`, such as ``constraints``.

    Raises:
        UsageError: an operator cannot be compiled for a board, or has no cost untuned.
        BoardprofError: see `Runner`.
    """
    named = _named(network.mod)
    with quick_start():
        tasks = ms.relax_integration.extract_tasks(named, C_TARGET, {})
    mods = {str(t.dispatched[0][FUNCTION].attrs[OPERATOR]): t.dispatched[0] for t in tasks}
    runners, untuned = {}, {}
    for name, mod in mods.items():
        values = random_arguments(mod[FUNCTION], seed)
        runners[name], untuned[name] = kernel_runner(
            name, mod, values, board, metric, tolerance=tolerance, **settings
        )
    measured = BoardRunner(runners)
    database = searched(_tune_tasks, tasks, runner=measured, trials=trials, batch=_BATCH, seed=seed)
    tuned = {}
    for name, mod in mods.items():
        schedule = ms.tir_integration.compile_tir(database, mod, C_TARGET)
        if schedule is None:
            continue
        (result,) = runners[name].measure([kernel_c(schedule.mod)])
        if result.ok and result.cost < untuned[name].cost:
            tuned[name] = result
            network = network.with_function(name, schedule.mod[FUNCTION].without_attr(OPERATOR))
    return TunedNetwork(network, untuned, tuned, tuple(measured.results))


def _tune_tasks(
    tasks: Sequence[Any],
    _target: object,
    folder: str,
    trials: int,
    *,
    space: Any,
    seed: int,
    **settings: Any,
) -> Any:
    """Do what ``tune_relax`` does, in one thread: with several, equal seeds give other results."""
    contexts, weights = ms.relax_integration.extracted_tasks_to_tune_contexts(
        tasks, folder, space, num_threads=1, seed=seed
    )
    return ms.tune_tasks(
        tasks=contexts,
        task_weights=weights,
        work_dir=folder,
        max_trials_global=trials,
        task_scheduler=ms.task_scheduler.GradientBased(seed=seed),
        **settings,
    )


def _named(mod: tvm.IRModule) -> tvm.IRModule:
    """Return a module whose TIR functions have their names as an attribute."""
    # MetaSchedule calls each of them ``main`` and keeps attributes, so a candidate has the name of
    # its operator.
    return tvm.IRModule(
        {
            name: f.with_attr(OPERATOR, name.name_hint) if isinstance(f, tirx.PrimFunc) else f
            for name, f in mod.functions.items()
        }
    )
