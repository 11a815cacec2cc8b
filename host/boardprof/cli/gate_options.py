# SPDX-License-Identifier: Apache-2.0
"""The options of all commands that hold a run against another: compare and run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from boardprof.cli.options import Real
from boardprof.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from boardprof.comparison.comparison import Comparison
    from boardprof.report.report import Report

__all__ = ["REGRESSION", "Gate", "gate_options", "taken_gate"]

REGRESSION = 1
"""Exit code: the command itself went well, but a rule is broken."""

Command = Callable[..., Any]


@dataclass(frozen=True)
class Gate:
    """What the options say.

    Attributes:
        rules: what a change must not break.
        alpha: level of the rank test.
        allow: mismatches to compare in spite of.
        fail_if_missing: what a rule could not judge is a failure.
    """

    rules: tuple[str, ...]
    alpha: float
    allow: tuple[str, ...]
    fail_if_missing: bool

    def compared(
        self,
        before: Report | str | int | Path,
        after: Report | str | int | Path,
        *,
        before_name: str | None = None,
        after_name: str | None = None,
        sessions: int = 1,
    ) -> Comparison:
        """Compare two Reports; raises as `boardprof.compare`."""
        from boardprof.comparison.compare import compare

        return compare(
            before,
            after,
            self.rules,
            alpha=self.alpha,
            allow=self.allow,
            before_name=before_name,
            after_name=after_name,
            fail_if_missing=self.fail_if_missing,
            sessions=sessions,
        )


def gate_options(command: Command) -> Command:
    """Add them; `taken_gate` has what was given."""
    for option in (
        click.option(
            "--fail-if-missing",
            is_flag=True,
            help="Also exit with 1 where a rule could not judge what it is for: it is gone, no "
            "number, of too few samples, of other calls, or its limit is less than the measuring "
            "itself is sure.",
        ),
        click.option(
            "--allow",
            multiple=True,
            type=click.Choice(["clock", "board", "compiler"]),
            help="Compare although the two differ in it.",
        ),
        click.option(
            "--alpha",
            default=0.01,
            show_default=True,
            type=Real(min=0, max=1, min_open=True, max_open=True),
            metavar="P",
            help="Level of the rank test, for metrics that are not exact counts.",
        ),
        click.option(
            "--fail-if",
            "rules",
            multiple=True,
            metavar="RULE",
            help="Exit with 1 where METRIC[:STATISTIC]>LIMIT holds of a change: "
            "'cycles:median>2%', 'instructions:max>0', 'IPC<-5%', 'busy:mean>1pp', '*>5%'.",
        ),
    ):
        command = option(command)
    return command


def taken_gate(options: Mapping[str, Any]) -> Gate:
    """Return what was given.

    Raises:
        UsageError: the lack of rules cannot be judged.
    """
    if options["fail_if_missing"] and not options["rules"]:
        raise UsageError("--fail-if-missing is about rules, and there is none.", hint="--fail-if")
    names = ("rules", "alpha", "allow", "fail_if_missing")
    return Gate(**{name: options[name] for name in names})
