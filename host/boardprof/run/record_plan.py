# SPDX-License-Identifier: Apache-2.0
"""Where the calls of a plan spend what they cost: record one call of each function."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from boardprof.hotspots.recordable import check_recordable
from boardprof.report.profile import Profile
from boardprof.run.function_choice import chosen_functions
from boardprof.run.measure_plan import Listener, built, connected
from boardprof.run.plan import Plan, boards_of, read_plan_data, with_each_setting


def record_plan(plan: Plan, listener: Listener) -> Iterator[Profile]:
    """Yield a profile of each function on each board, with each setting of a sweep.

    Args:
        plan: what to call; its number of samples counts for nothing.
        listener: gets notes.

    Raises:
        UsageError: nothing can record calls on a board.
        BoardprofError: as `run_plan`'s failures; the first one ends it.
    """
    specs = boards_of(plan)
    for spec in specs:
        check_recordable(spec)
    data = read_plan_data(plan.arguments)
    settings = with_each_setting(replace(plan, data=data))
    for spec, setting in itertools.product(specs, settings):
        firmware = built(spec, setting, listener)
        with connected(spec, setting, firmware, listener) as board:
            for name in chosen_functions(board, setting, firmware, listener.on_note):
                named = data.values(board.functions[name].signature)
                warmup = 1 if plan.warmup is None else plan.warmup
                yield board.hotspots(name, named=named, warmup=warmup)
