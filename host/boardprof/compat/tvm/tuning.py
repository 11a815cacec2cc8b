# SPDX-License-Identifier: Apache-2.0
"""TVM's MetaSchedule on a board: a builder, a runner and a space of schedules."""

from __future__ import annotations

import contextlib
import logging
import sys
import tempfile
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tvm
from boardprof.base.errors import UsageError
from boardprof.compat.tvm.c_source import c_file
from boardprof.compat.tvm.lowering import (
    C_TARGET,
    FUNCTION,
    c_arguments,
    c_functions,
    host_library,
    in_order,
    random_arguments,
)
from boardprof.compat.tvm.network import Network
from boardprof.jobs.tune import Candidate, Runner
from boardprof.jobs.tune.candidate import MeasureResult
from boardprof.target.descriptions.board import BoardSpec
from tvm import tirx
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

_KERNEL = "kernel"
"""Its name in C, where main is taken."""

_OPERATOR = "boardprof.operator"
"""Attribute of a TIR function: the operator of a network that it is a candidate for."""

_NO_LIMIT = -1

_BATCH = 16
"""Candidates that are chosen at a time."""


@derived_object
class CBuilder(ms.builder.PyBuilder):
    """Writes each candidate as a C file. The compiler runs later, for many candidates at once."""

    def build(self, build_inputs: Sequence[Any]) -> list[Any]:
        """Return the paths of the C files; TVM deletes the folder of each."""
        return [self._built(each.mod) for each in build_inputs]

    @staticmethod
    def _built(mod: tvm.IRModule) -> Any:
        try:
            text = _kernel_c(mod)
        except (UsageError, tvm.error.TVMError) as error:
            return ms.builder.BuilderResult(None, f"{error}")
        attributes = mod[FUNCTION].attrs
        name = attributes.get(_OPERATOR, _KERNEL)
        file = Path(tempfile.mkdtemp(prefix="boardprof-tvm-")) / f"{name}.c"
        file.write_text(text, encoding="utf-8")
        return ms.builder.BuilderResult(str(file), None)


@derived_object
class _Done(ms.runner.PyRunnerFuture):
    def __init__(self, result: MeasureResult) -> None:
        super().__init__()
        self._measured = result

    def done(self) -> bool:
        return True

    def result(self) -> Any:
        if self._measured.ok:
            return ms.runner.RunnerResult(list(self._measured.costs), None)
        return ms.runner.RunnerResult(None, f"{self._measured.error}")


@derived_object
class BoardRunner(ms.runner.PyRunner):
    """Measures the files of `CBuilder` on a board, a batch at a time.

    The costs that MetaSchedule calls seconds are in the unit of the runner's metric. A candidate
    with a wrong output, or over a limit, has none.
    """

    def __init__(self, runner: Runner | Mapping[str, Runner]) -> None:
        """Take a runner for the function ``kernel``; for a network, one for each operator."""
        super().__init__()
        self.runner = runner
        self.results: list[MeasureResult] = []

    def run(self, runner_inputs: Sequence[Any]) -> list[Any]:
        """Measure candidates; return finished futures."""
        files = [Path(each.artifact_path) for each in runner_inputs]
        found: dict[int, MeasureResult] = {}
        for name in dict.fromkeys(file.stem for file in files):  # a batch has mostly one operator
            chosen = [index for index, file in enumerate(files) if file.stem == name]
            texts = [files[index].read_text(encoding="utf-8") for index in chosen]
            runner = self.runner if isinstance(self.runner, Runner) else self.runner[name]
            measured = runner.measure([Candidate(text=text) for text in texts])
            found.update(zip(chosen, measured, strict=True))
        results = [found[index] for index in range(len(files))]
        self.results += results
        return [_Done(result) for result in results]


def _kernel_c(mod: tvm.IRModule) -> str:
    """Return the C file of a module's only function, under the name ``kernel``."""
    return c_file(c_functions(_kernel_module(mod)))


def _kernel_module(mod: tvm.IRModule) -> tvm.IRModule:
    return tvm.IRModule({_KERNEL: mod[FUNCTION]})


def microcontroller_space() -> Any:
    """Return a space of schedules without threads and vectors: tiles, accumulators, unrolling."""
    rules = [
        ms.schedule_rule.InlineConstantScalars(),
        ms.schedule_rule.AutoInline(
            into_producer=False,
            into_consumer=True,
            inline_const_tensor=True,
            disallow_if_then_else=True,
            require_injective=True,
            require_ordered=True,
            disallow_op=["tirx.exp"],
        ),
        ms.schedule_rule.MultiLevelTiling(
            structure="SSRSRS",
            max_innermost_factor=64,
            reuse_write=ms.schedule_rule.ReuseType(req="may", levels=[1, 2], scope="global"),
        ),
        ms.schedule_rule.ParallelizeVectorizeUnroll(
            max_jobs_per_core=_NO_LIMIT,
            max_vectorize_extent=_NO_LIMIT,
            unroll_max_steps=[0, 8, 32, 128],
            unroll_explicit=True,
        ),
        ms.schedule_rule.RandomComputeLocation(),
    ]
    after = [
        ms.postproc.DisallowDynamicLoop(),
        ms.postproc.RewriteParallelVectorizeUnroll(),
        ms.postproc.RewriteReductionBlock(),
    ]
    mutators = {
        ms.mutator.MutateTileSize(): 0.8,
        ms.mutator.MutateUnroll(): 0.1,
        ms.mutator.MutateComputeLocation(): 0.1,
    }
    return ms.space_generator.PostOrderApply(
        sch_rules=rules, postprocs=after, mutator_probs=mutators
    )


def cost_model() -> Any:
    """Return TVM's model of costs, used as soon as one batch is measured.

    By default, TVM ranks candidates at random until 100 are measured, which is more than a board
    usually measures at all.
    """
    return ms.cost_model.XGBModel(num_warmup_samples=_BATCH, num_tuning_cores=1)


@dataclass(frozen=True)
class Tuned:
    """The best that was found for a function; the function itself if nothing is better.

    Attributes:
        mod: the module with its schedule.
        text: the C file, with the function ``kernel``.
        result: its measurement.
        untuned: that of the function as TVM compiles it without a schedule.
        trials: all measurements, in order.
        database: of MetaSchedule, for ``compile_tir`` and later runs.
    """

    mod: tvm.IRModule
    text: str
    result: MeasureResult
    untuned: MeasureResult
    trials: tuple[MeasureResult, ...]
    database: Any


def tune(
    mod: tvm.IRModule | tirx.PrimFunc,
    board: str | BoardSpec,
    metric: str = "cycles",
    *,
    trials: int = 64,
    seed: int = 1,
    arguments: Mapping[str, npt.NDArray[Any]] | None = None,
    tolerance: float = 0.0,
    **settings: Any,
) -> Tuned:
    """Search a schedule with which a TIR function costs least on a board.

    Candidates must give the outputs of the function as TVM's LLVM compiles it for this machine.

    Args:
        mod: the function, of static shapes.
        board: its name or description.
        metric: the cost, as for `Runner`.
        trials: candidates to measure, >= 1.
        seed: of the search, and of the arrays.
        arguments: arrays by parameter; None for random ones.
        tolerance: largest relative difference of floats.
        settings: more for `Runner`, such as ``constraints``.

    Raises:
        UsageError: the function cannot be compiled for a board, or no candidate was right.
        BoardprofError: see `Runner`.
    """
    mod = _with_main(mod)
    values = in_order(mod[FUNCTION], arguments or random_arguments(mod[FUNCTION], seed))
    runner, untuned = _kernel_runner(
        "The function", mod, values, board, metric, tolerance=tolerance, **settings
    )
    measured = BoardRunner(runner)
    database = _searched(
        ms.tune_tir, mod, runner=measured, trials=trials, seed=seed, num_tuning_cores=1
    )
    trials_done = tuple(measured.results)
    if not any(each.ok for each in trials_done):
        raise UsageError(
            f"None of {len(trials_done)} candidates was right within the limits. "
            f"The first: {trials_done[0].error}",
            hint="take more trials, or wider constraints",
        )
    result = untuned
    schedule = ms.tir_integration.compile_tir(database, mod, C_TARGET)
    if schedule is not None:  # the space of a simple function has no schedule but its own
        (found,) = runner.measure([_kernel_c(schedule.mod)])
        if found.ok and found.cost < untuned.cost:
            mod, result = schedule.mod, found
    return Tuned(mod, _kernel_c(mod), result, untuned, trials_done, database)


def _with_main(mod: tvm.IRModule | tirx.PrimFunc) -> tvm.IRModule:
    """Return a module whose only TIR function is called ``main``."""
    every = mod.functions.values() if isinstance(mod, tvm.IRModule) else [mod]
    functions = [each for each in every if isinstance(each, tirx.PrimFunc)]
    if len(functions) != 1:
        raise UsageError(
            f"The module has {len(functions)} TIR functions, but one is tuned at a time.",
            hint="give one of them, or tune_network() the network",
        )
    return tvm.IRModule({FUNCTION: functions[0].with_attr("global_symbol", FUNCTION)})


def _kernel_runner(
    name: str,
    mod: tvm.IRModule,
    arguments: Mapping[str, npt.NDArray[Any]],
    board: str | BoardSpec,
    metric: str,
    **settings: Any,
) -> tuple[Runner, MeasureResult]:
    """Return a runner for candidates of a module's function, and the cost of the untuned one."""
    arguments = c_arguments(mod[FUNCTION], arguments)
    expected = _host_outputs(mod, arguments)
    runner = Runner(board, arguments, metric, function=_KERNEL, expect=expected, **settings)
    (untuned,) = runner.measure([_kernel_c(mod)])
    if not untuned.ok:
        raise UsageError(
            f"{name} has no cost untuned on {runner.spec.name}: {untuned.error}",
            hint="see whether its arrays fit; raise wall_timeout_s, or widen constraints",
        )
    return runner, untuned


def _searched(
    search: Callable[..., Any],
    *subject: Any,
    runner: BoardRunner,
    trials: int,
    seed: int,
    batch: int = _BATCH,
    **settings: Any,
) -> Any:
    """Run a search of MetaSchedule with what suits a board; return its database."""
    if trials < 1:
        raise UsageError(f"trials is {trials}, but must be at least 1.")
    folder = tempfile.TemporaryDirectory(prefix="boardprof-tvm-")
    with _quick_start(), _seeded(seed), folder as work:
        return search(
            *subject,
            C_TARGET,
            work,
            trials,
            num_trials_per_iter=min(trials, batch),
            builder=CBuilder(),
            runner=runner,
            database=ms.database.MemoryDatabase(),
            space=microcontroller_space(),
            cost_model=cost_model(),
            seed=seed,
            **settings,
        )


def _host_outputs(
    mod: tvm.IRModule, arguments: Mapping[str, npt.NDArray[Any]]
) -> dict[str, npt.NDArray[Any]]:
    """Run a function on this machine, compiled by TVM; return the arrays that it writes."""
    with host_library(mod) as library:
        arrays = {name: tvm.runtime.tensor(value) for name, value in arguments.items()}
        library[FUNCTION](*arrays.values())
    (function,) = c_functions(_kernel_module(mod))
    return {name: arrays[name].numpy() for name in function.outputs}


@contextlib.contextmanager
def _quick_start() -> Iterator[None]:
    """Keep TVM's logs to errors, and its GPUs' intrinsics out: they take 40 s to import."""
    logger, name = logging.getLogger("tvm.s_tir.meta_schedule"), "tvm.s_tir.tensor_intrin"
    level, is_there = logger.level, name in sys.modules
    logger.setLevel(logging.ERROR)
    sys.modules.setdefault(name, types.ModuleType(name))
    try:
        yield
    finally:
        logger.setLevel(level)
        if not is_there:
            del sys.modules[name]


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed numpy's global generator, from which TVM takes the ranks before there is a model."""
    state = np.random.get_state()
    np.random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(state)


# -- networks ----------------------------------------------------------------------------------

_NETWORK_BATCH = 8
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

    Candidates must give the outputs of their operator, compiled by TVM's LLVM for this machine.

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
    with _quick_start():
        tasks = ms.relax_integration.extract_tasks(named, C_TARGET, {})
    mods = {str(t.dispatched[0][FUNCTION].attrs[_OPERATOR]): t.dispatched[0] for t in tasks}
    runners, untuned = {}, {}
    for name, mod in mods.items():
        values = random_arguments(mod[FUNCTION], seed)
        runners[name], untuned[name] = _kernel_runner(
            name, mod, values, board, metric, tolerance=tolerance, **settings
        )
    measured = BoardRunner(runners)
    database = _searched(
        _tune_tasks, tasks, runner=measured, trials=trials, batch=_NETWORK_BATCH, seed=seed
    )
    tuned = {}
    for name, mod in mods.items():
        schedule = ms.tir_integration.compile_tir(database, mod, C_TARGET)
        if schedule is None:
            continue
        (result,) = runners[name].measure([_kernel_c(schedule.mod)])
        if result.ok and result.cost < untuned[name].cost:
            tuned[name] = result
            network = network.with_function(name, schedule.mod[FUNCTION].without_attr(_OPERATOR))
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
            name: f.with_attr(_OPERATOR, name.name_hint) if isinstance(f, tirx.PrimFunc) else f
            for name, f in mod.functions.items()
        }
    )
