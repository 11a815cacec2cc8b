# SPDX-License-Identifier: Apache-2.0
"""Rules that a change must not break, such as ``cycles:median>2%``."""

from __future__ import annotations

import difflib
import fnmatch
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, cast

from boardprof.errors import UsageError
from boardprof.stats.summary import Summary

__all__ = ["STATISTICS", "Rule", "RuleError", "Unit", "parse_rule", "statistic"]

Unit: TypeAlias = Literal["%", "", "pp"]

STATISTICS: Final = ("median", "mean", "min", "max", "p5", "p25", "p75", "p95", "stddev", "cold")
"""What a rule may limit."""

_ALIASES: Final = {
    "cpu-cycles": "cycles",
    "branch-instructions": "branches",
    "faults": "page-faults",
    "cs": "context-switches",
    "migrations": "cpu-migrations",
    "insn": "instructions",
    "duration": "Duration (us)",
    "time": "Duration (us)",
    "stack": "Stack (bytes)",
}
"""Other names of metrics: perf's own aliases, and ours without the unit."""

_FORM = "METRIC[:STATISTIC]>LIMIT, e.g. 'cycles:median>2%', 'instructions:max>0', 'IPC<-5%'"
_LIMIT = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(.*)", re.DOTALL)


class RuleError(UsageError):
    """A rule does not parse; the message shows it with a caret under the place."""

    def __init__(self, text: str, column: int, message: str, *, hint: str | None = None) -> None:
        """Compose the message.

        Args:
            text: the rule.
            column: of the first character that is wrong, from 0.
            message: what is wrong there.
            hint: what to write.
        """
        shown = "".join(c if c.isprintable() else "?" for c in text)  # the caret must stay in line
        super().__init__(f"{message}\n  {shown}\n  {' ' * column}^", hint=hint)
        self.text = text
        self.column = column


@dataclass(frozen=True)
class Rule:
    """A limit to the change of one statistic of the metrics of a name.

    Attributes:
        text: as it was written.
        metric: a name, or a glob.
        statistic: one of `STATISTICS`, per call.
        sign: ">" limits growth, "<" what shrinks.
        limit: >= 0 for ">", <= 0 for "<"; a change of just so much is within it.
        unit: "%" of the old value, "" the metric's own unit, "pp" points of a Percent.
    """

    text: str
    metric: str
    statistic: str
    sign: Literal[">", "<"]
    limit: float
    unit: Unit

    def __str__(self) -> str:
        """Return it as it was written."""
        return self.text

    @property
    def is_glob(self) -> bool:
        """Whether it is for whatever fits, rather than for one metric."""
        return any(char in self.metric for char in "*?[")

    def chosen(self, names: Iterable[str]) -> set[str]:
        """Return those of the names that the rule is for.

        A name is itself before it is a glob or an alias; without such a name, case does not matter.
        """
        known = set(names)
        if self.metric in known:
            return {self.metric}
        if self.is_glob:
            return {name for name in known if fnmatch.fnmatchcase(name, self.metric)}
        wanted = self.metric.casefold()
        wanted = _ALIASES.get(wanted, wanted).casefold()
        return {name for name in known if name.casefold() == wanted}

    def is_broken(self, before: float, after: float) -> bool:
        """Tell whether a change is beyond the limit.

        Growth from 0 has no percentage; any is beyond a limit in percent.
        """
        change = after - before
        if self.unit == "%":
            if before == 0:
                return change > 0 if self.sign == ">" else change < 0
            change = 100 * change / abs(before)
        # What a decimal fraction in the rule cannot say exactly is not beyond it.
        limit = self.limit + math.copysign(1e-9 * abs(self.limit), self.limit)
        return change > limit if self.sign == ">" else change < limit


def statistic(summary: Summary, name: str) -> float | None:
    """Return one of `STATISTICS` of a Summary; None where it has none."""
    match name:
        case "min":
            return summary.minimum
        case "max":
            return summary.maximum
        case "mean":
            return summary.mean
        case "stddev":
            return summary.stddev
        case "cold":
            return summary.first
        case "median":
            return summary.median
    return summary.percentiles[int(name.removeprefix("p"))]


def parse_rule(text: str) -> Rule:
    """Read ``METRIC[:STATISTIC](>|<)LIMIT[%|pp]``; without a statistic, it is the median.

    Raises:
        RuleError: it has another form.
    """
    place = max(text.rfind(">"), text.rfind("<"))
    if place < 0:
        raise RuleError(text, len(text), "The rule has no '>' or '<'.", hint=_FORM)
    if text[:place].rstrip().endswith((">", "<")):
        raise RuleError(text, place, "There are two signs.", hint=_FORM)
    metric, chosen = _left(text, place)
    limit, unit = _right(text, place + 1)
    sign = cast(Literal[">", "<"], text[place])
    if limit * (1 if sign == ">" else -1) < 0:
        number = text[place + 1 :].strip()
        other = number.lstrip("+-") if sign == ">" else f"-{number.lstrip('+')}"
        raise RuleError(
            text,
            place,
            "A rule names a change that is too much: growth beyond a limit (>), or what shrinks "
            "beyond one (<-).",
            hint=f"{text[: place + 1]}{other}",
        )
    return Rule(text, metric, chosen, sign, limit, unit)


def _left(text: str, place: int) -> tuple[str, str]:
    """Return the metric and the statistic, which is what follows the last colon, if it is one."""
    left = text[:place]
    metric, colon, name = left.rpartition(":")
    name = name.strip()
    if colon and name.casefold() in STATISTICS:
        left, chosen = metric, name.casefold()
    else:
        chosen = "median"
        close = difflib.get_close_matches(name.casefold(), STATISTICS, n=1) if colon else []
        if close or (colon and not name):
            raise RuleError(
                text,
                len(metric) + 1,
                f"There is no statistic {name!r}." if name else "The colon has no statistic.",
                hint=f"{close[0]!r}" if close else ", ".join(STATISTICS),
            )
    if not left.strip():
        raise RuleError(text, 0, "The rule names no metric.", hint=_FORM)
    return left.strip(), chosen


def _right(text: str, start: int) -> tuple[float, Unit]:
    right = text[start:]
    column = start + len(right) - len(right.lstrip())
    if right.startswith("="):
        raise RuleError(
            text, start, "A change of just the limit is within it: there is no '='.", hint=_FORM
        )
    found = _LIMIT.fullmatch(right.strip())
    if found is None:
        raise RuleError(text, column, "The limit is no number.", hint=_FORM)
    limit, unit = float(found[1]), found[2].strip()
    if not math.isfinite(limit):
        raise RuleError(text, column, "The limit is too large.", hint=_FORM)
    if unit not in ("%", "", "pp"):
        raise RuleError(
            text,
            column + found.start(2),
            f"There is no unit {unit!r}.",
            hint="% of the old value, pp for points of a Percent, none for the metric's own unit",
        )
    return limit, cast(Unit, unit)
