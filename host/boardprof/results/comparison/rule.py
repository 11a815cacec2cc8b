# SPDX-License-Identifier: Apache-2.0
"""Rules that a change must not break, such as ``cycles:median>2%``."""

from __future__ import annotations

import difflib
import fnmatch
import math
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, cast

from boardprof.base.errors import UsageError, option
from boardprof.base.metrics import metric_called
from boardprof.base.printable import display_width
from boardprof.results.stats.summary import Summary

Unit: TypeAlias = Literal["%", "", "pp", "spread"]

STATISTICS: Final = ("median", "mean", "min", "max", "p5", "p25", "p75", "p95", "stddev", "cold")
"""The statistics that a rule may limit."""

_FORM = "METRIC[:STATISTIC]>LIMIT, e.g. 'cycles:median>2%', 'instructions:max>0', 'IPC<-5%'"
_LIMIT = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(.*)", re.DOTALL)

_MOST_DIGITS = 1000

_UNITS: Final = {"%": "%", "": "", "pp": "pp", "spread": "spread", "spreads": "spread"}


class RuleError(UsageError):
    """A rule does not parse; the message shows it with a caret under the error."""

    def __init__(self, text: str, column: int, message: str, *, hint: str | None = None) -> None:
        """Compose the message; ``column`` is that of the first wrong character, from 0."""
        shown = "".join(c if c.isprintable() else "?" for c in text)  # the caret must stay in line
        caret = " " * display_width(shown[:column]) + "^"
        super().__init__(f"{message}\n  {shown}\n  {caret}", hint=hint)
        self.text = text
        self.column = column


@dataclass(frozen=True)
class Usual:
    """What is usual for a value: its level in the runs since the last change."""

    middle: int | float  #: the median of the runs
    #: their median distance from it, times 1.4826. For a normal distribution this is the
    #: standard deviation; a single outlier has no weight.
    spread: float
    runs: int  #: how many there are


@dataclass(frozen=True)
class Rule:
    """A limit to the change of one statistic of the metrics with a name."""

    text: str  #: as it was written
    metric: str  #: a name, or a glob
    statistic: str  #: one of `STATISTICS`, per call
    sign: Literal[">", "<"]  #: ">" limits growth, "<" limits shrinking
    limit: int | float  #: >= 0 for ">", <= 0 for "<"; a change equal to the limit is allowed
    #: "%" of the old value, "" the metric's own unit, "pp" points of a Percent, "spread" spreads of
    #: earlier runs: the limit is then a distance from their median
    unit: Unit
    benchmark: str = ""  #: the only benchmark that it is for; "" for all rows

    def is_about(self, name: str, label: str) -> bool:
        """Tell whether it is for the rows of a function with a label."""
        return not self.benchmark or self.benchmark == (label or name)

    def __str__(self) -> str:
        """Return it as it was written."""
        return self.text

    @property
    def is_glob(self) -> bool:
        """Whether it is a pattern rather than the name of one metric."""
        return any(char in self.metric for char in "*?[")

    def chosen(self, names: Iterable[str]) -> set[str]:
        """Return the names that the rule applies to.

        A literal name has precedence over globs; see `metric_called`.
        """
        known = set(names)
        if self.metric in known:
            return {self.metric}
        if self.is_glob:
            return {name for name in known if fnmatch.fnmatchcase(name, self.metric)}
        found = metric_called(self.metric, sorted(known))
        return {name for name in known if found and name.casefold() == found.casefold()}

    @property
    def needs_runs(self) -> bool:
        """Whether the limit depends on earlier runs of a branch."""
        return self.unit == "spread"

    def largest(self, before: int | float, usual: Usual | None = None) -> float:
        """Return the largest allowed change, in the metric's own unit; see `is_broken`."""
        limit = abs(self.limit)
        if self.unit == "spread":
            return limit * usual.spread if usual is not None else 0.0
        return limit * abs(before) / 100 if self.unit == "%" else limit

    def is_broken(
        self, before: int | float, after: int | float, usual: Usual | None = None
    ) -> bool:
        """Tell whether a change is beyond the limit.

        Growth from 0 has no percentage; any growth is beyond a limit in percent. Without ``usual``,
        a limit in spreads is not broken.
        """
        change, limit = after - before, self.limit
        if self.unit == "spread":
            if usual is None:
                return False
            change, limit = after - usual.middle, limit * usual.spread
        if self.unit == "%":
            if before == 0:
                return change > 0 if self.sign == ">" else change < 0
            change = 100 * change / abs(before)
        if isinstance(before, float) or isinstance(after, float):
            limit *= 1 + 1e-9  # rounding is not a change
        return change > limit if self.sign == ">" else change < limit


def statistic(summary: Summary, name: str) -> int | float | None:
    """Return one of `STATISTICS` of a Summary; None if absent."""
    if name == "stddev":
        return summary.stddev
    return None if name == "cold" and summary.first is None else summary.exactly(name)


def parse_rule(text: str) -> Rule:
    """Read ``METRIC[:STATISTIC](>|<)LIMIT[%|pp]``; without a statistic, it is the median.

    Raises:
        RuleError: the form is not valid.
    """
    place = max(text.rfind(">"), text.rfind("<"))
    if place < 0:
        raise RuleError(text, len(text), "The rule has no '>' or '<'.", hint=_FORM)
    if (several := _several(text)) is not None:
        column, rules = several
        options = " ".join(option("--fail-if", shlex.quote(rule)) for rule in rules)
        raise RuleError(
            text, column, "This is more than one rule.", hint=f"pass each one separately: {options}"
        )
    if text[:place].rstrip().endswith((">", "<", "=")):
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
            "A rule names a change that is too large: growth beyond a limit (>), or shrinking "
            "beyond one (<-).",
            hint=f"{text[: place + 1]}{other}",
        )
    return Rule(text, metric, chosen, sign, limit, unit)


def parse_rules(rules: object) -> tuple[Rule, ...]:
    """Parse rules in the form that `compare` takes."""
    if not isinstance(rules, str | Rule | Iterable):
        raise UsageError(f"rules={rules!r:.60} are not rules.", hint="rules=['cycles>2%']")
    given = [rules] if isinstance(rules, str | Rule) else [*rules]
    for rule in given:
        if not isinstance(rule, str | Rule):
            raise UsageError(f"{rule!r:.60} is not a rule.", hint="e.g. 'cycles:median>2%'")
    return tuple(rule if isinstance(rule, Rule) else parse_rule(rule) for rule in given)


def _several(text: str) -> tuple[int, list[str]] | None:
    """Return the start of the second of several rules, and all rules; None if it is one rule."""
    for separator in (",", ";"):
        parts = text.split(separator)
        if len(parts) > 1 and all(">" in part or "<" in part for part in parts):
            return len(parts[0]) + 1, [part.strip() for part in parts]
    return None


def _close_statistics(name: str) -> list[str]:
    """Return the statistic that a word probably means."""
    percent = re.fullmatch(r"p(\d{1,3}(?:\.\d+)?)", name)
    if percent is None:
        return difflib.get_close_matches(name, STATISTICS, n=1)
    if float(percent[1]) == 50:
        return ["median"]
    known = [each for each in STATISTICS if each[1:].isdigit()]
    return [min(known, key=lambda each: abs(float(each[1:]) - float(percent[1])))]


def _left(text: str, place: int) -> tuple[str, str]:
    """Return the metric and the statistic. The statistic follows the last colon, if it is one."""
    left = text[:place]
    metric, colon, name = left.rpartition(":")
    name = name.strip()
    if colon and name.casefold() in STATISTICS:
        left, chosen = metric, name.casefold()
    else:
        chosen = "median"
        close = _close_statistics(name.casefold()) if colon else []
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


def _right(text: str, start: int) -> tuple[int | float, Unit]:
    right = text[start:]
    column = start + len(right) - len(right.lstrip())
    if right.startswith("="):
        raise RuleError(
            text, start, "'=' is not supported: a change equal to the limit is allowed.", hint=_FORM
        )
    found = _LIMIT.fullmatch(right.strip())
    if found is None:
        raise RuleError(text, column, "The limit is not a number.", hint=_FORM)
    is_whole = found[1].lstrip("+-").isdigit() and len(found[1]) <= _MOST_DIGITS
    limit = int(found[1]) if is_whole else float(found[1])
    unit = found[2].strip()
    if isinstance(limit, float) and not math.isfinite(limit):
        raise RuleError(text, column, "The limit is too large.", hint=_FORM)
    if unit not in _UNITS:
        raise RuleError(
            text,
            column + found.start(2),
            f"There is no unit {unit!r}.",
            hint="% of the old value, spread of earlier runs, pp for points of a Percent, none for "
            "the metric's own unit",
        )
    return limit, cast(Unit, _UNITS[unit])
