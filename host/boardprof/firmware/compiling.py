# SPDX-License-Identifier: Apache-2.0
"""Compiles on all processors what the cache does not have."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager

from boardprof.progress import activity
from boardprof.toolchain.compile_unit import Unit
from boardprof.toolchain.compiler import Compiler, Object

Wait = Callable[[int, int], list[Object]]
"""Return the objects of the units from one number to before another, once they are there."""


@contextmanager
def compiling(
    what: str, units: Sequence[tuple[Compiler, Unit]], known: Sequence[Object | None]
) -> Iterator[Wait]:
    """Compile units, the first ones first, while the context lasts.

    Of several errors, that of the first unit is raised.

    Args:
        what: name of the work, for progress.
        units: each with its compiler.
        known: the objects that need not be compiled. None if this unit has no object.
    """
    done = itertools.count(1)
    with activity(what, len(units)) as step, ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [_job(pool, *unit, made) for unit, made in zip(units, known, strict=True)]

        def wait(first: int, end: int) -> list[Object]:
            for job in as_completed(jobs[first:end]):
                if job.exception() is not None:
                    break
                step(next(done))
            return [job.result() for job in jobs[first:end]]

        try:
            yield wait
        except BaseException as error:
            pool.shutdown(wait=False, cancel_futures=True)
            if isinstance(error, KeyboardInterrupt):  # a compiler may take minutes
                for cc, _ in units:
                    cc.stop()
            raise


def _job(pool: ThreadPoolExecutor, cc: Compiler, unit: Unit, made: Object | None) -> Future[Object]:
    if made is None:
        return pool.submit(cc.compile, unit)
    job: Future[Object] = Future()
    job.set_result(made)
    return job
