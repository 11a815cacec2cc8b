# SPDX-License-Identifier: Apache-2.0
"""``boardprof run --against RUN``: measure and hold it against an earlier run in one command."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from boardprof.cli.bisect import UNTESTABLE
from boardprof.cli.gate_options import REGRESSION, Gate, gate_options, taken_gate
from boardprof.cli.output import echo_table
from boardprof.errors import BoardprofError, UsageError

if TYPE_CHECKING:
    from boardprof.comparison.comparison import Comparison
    from boardprof.history.finding import Found
    from boardprof.report.report import Report

__all__ = ["Against", "against_options", "taken_against"]


class Against:
    """The comparison that a run ends with, if one was asked for."""

    def __init__(self, earlier: Found | None, gate: Gate, *, bisects: bool) -> None:
        """Compare nothing yet.

        Args:
            earlier: the run to compare with; None: there is to be no comparison.
            gate: what the change must keep.
            bisects: the exit code is for ``git bisect run``.
        """
        self._earlier = earlier
        self._gate = gate
        self._bisects = bisects
        self._comparison: Comparison | None = None

    def compare(self, report: Report) -> list[BoardprofError]:
        """Compare a Report with the earlier run; return why it could not be compared."""
        if self._earlier is None:
            return []
        names = {"before_name": self._earlier.label, "after_name": "this run"}
        try:
            self._comparison = self._gate.compared(self._earlier.report, report, **names)
        except BoardprofError as error:
            return [error]
        return []

    @property
    def failed(self) -> bool:
        """Whether a rule is broken, or could not judge what it is for where that is a failure."""
        return self._comparison is not None and self._comparison.failed

    def echo(self) -> None:
        """Print the comparison below the Report."""
        if self._comparison is not None:
            echo_table(f"\n{self._comparison.table()}")

    def exit_code(self, failures: Sequence[BoardprofError]) -> int:
        """Return the command's exit code.

        Args:
            failures: of the run itself.
        """
        found = self._comparison
        if self._bisects:
            if found is not None and found.regressed:
                return REGRESSION
            is_good = found is not None and found.held and not failures
            return 0 if is_good else UNTESTABLE
        if failures:
            return failures[0].exit_code
        return REGRESSION if self.failed else 0


def against_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--against``, the options of a gate, and ``--bisect``; `taken_against` has them."""
    bisect = click.option(
        "--bisect",
        is_flag=True,
        help="Exit code for `git bisect run`, with --against and --fail-if: 0 where the rules "
        "hold, 1 where one is broken, 125 where that cannot be judged.",
    )
    against = click.option(
        "--against",
        metavar="RUN",
        help="Compare with RUN, as `boardprof compare RUN` does, and print that, too. Rules: "
        "--fail-if.",
    )
    return against(gate_options(bisect(command)))


def taken_against(options: Mapping[str, Any]) -> Against:
    """Return what was given.

    The earlier run is looked up now, so ``last`` is the one before this, and a mistake is told
    before anything is measured.

    Raises:
        UsageError: options do not go together, a rule does not parse, or there is no such run.
    """
    ref, bisects = options["against"], options["bisect"]
    if bisects and not (ref and options["rules"]):
        raise UsageError(
            "--bisect needs a run to compare with, and a rule.",
            hint="--against RUN --fail-if 'instructions:max>0'",
        )
    if ref is None:
        _check_no_rule_was_given()
        return Against(None, taken_gate({**options, "fail_if_missing": False}), bisects=False)
    from boardprof.comparison.compare import parse_rules
    from boardprof.history.finding import find_run

    gate = taken_gate(options)
    parse_rules(gate.rules)
    return Against(find_run(ref), gate, bisects=bisects)


def _check_no_rule_was_given() -> None:
    """See that no rule was given in vain; in a file of settings it may be for `compare` alone."""
    context = click.get_current_context()
    for name, option in (("rules", "--fail-if"), ("fail_if_missing", "--fail-if-missing")):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(
                f"{option} is about a change, and there is nothing to compare with.",
                hint="--against RUN",
            )
