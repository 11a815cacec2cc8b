# SPDX-License-Identifier: Apache-2.0
"""A run from its plan to its Report."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass, replace

from boardprof.errors import BoardprofError
from boardprof.report.assemble import assemble
from boardprof.report.report import Report
from boardprof.run.findings import Findings
from boardprof.run.measuring import Listener, Note, results
from boardprof.run.plan import Plan, boards_of, with_each_setting
from boardprof.run.plan_data import read_plan_data
from boardprof.run.wanted_metrics import WantedMetrics

__all__ = ["Outcome", "run_plan"]


@dataclass(frozen=True)
class Outcome:
    """What came of a plan.

    Attributes:
        report: of all that could be measured; None when nothing could.
        failures: what could not be measured, and why, in the order in which it was found.
        interrupted: by Ctrl-C; the report has what was measured until then.
    """

    report: Report | None
    failures: tuple[BoardprofError, ...]
    interrupted: bool = False


def run_plan(plan: Plan, listener: Listener) -> Outcome:
    """Build, start and measure on one board after the other, and one setting after the other.

    A function that fails on a board, a board that fails or lacks what is asked for, and a setting
    that does not compile do not take the others' numbers with them, whatever the order.

    Args:
        plan: what to do.
        listener: hears what happens meanwhile; of equal notes, one.

    Raises:
        UsageError: the plan itself makes no sense; nothing was built.
    """
    specs = boards_of(plan)
    # A mistake in these is told before anything is built.
    names = [spec.name for spec in specs]
    data = read_plan_data(plan.arguments, plan.expect, plan.tolerance, plan.save_output, names)
    wanted = WantedMetrics(plan.metrics, len(specs))
    settings = with_each_setting(replace(plan, data=data, wanted=wanted))
    listener = replace(listener, on_note=once(listener.on_note))
    findings = Findings(names)
    interrupted = False
    try:
        for spec, setting in itertools.product(specs, settings):
            flags = None if plan.sweep is None else setting.code.cflags
            found = results(spec, setting, listener)
            with findings.failing(spec.name, flags), contextlib.closing(found):
                findings.take(found)
    except KeyboardInterrupt:
        if not findings.measurements:
            raise
        interrupted = True
    failures = wanted.failures(findings.failures, listener.on_note)
    findings.name_places()
    missing = [failure.message.partition("\n")[0].removesuffix(":") for failure in failures]
    missing += wanted.left_out()
    missing += ["what was left when it was interrupted"] if interrupted else []
    report = None
    if findings.measurements:
        report = assemble(findings.measurements, swept=plan.sweep is not None, missing=missing)
    return Outcome(report, tuple(failures), interrupted)


def once(on_note: Note) -> Note:
    noted: set[str] = set()

    def note(text: str) -> None:
        if text not in noted:
            noted.add(text)
            on_note(text)

    return note
