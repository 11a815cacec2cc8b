# SPDX-License-Identifier: Apache-2.0
"""Why a call costs more or less than before: the functions and lines that gained or lost.

Functions are those of the sources: what the compiler inlines today and calls tomorrow stays where
it was written. Lines are aligned by the text of both sources, so that a line that has moved is the
same line.
"""

from __future__ import annotations

import difflib
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from boardprof.results.report.profile import Profile

_ALIKE = 0.5  # likeness, 0 to 1, from which on two lines of a changed block are one line

_NEAR = 3  # lines apart that may cancel out: the compiler has moved an instruction

_CANCELS = 0.5  # share of the larger of two changes below which their sum counts as nothing


@dataclass(frozen=True)
class FunctionChange:
    """A function of the sources, or of a library."""

    name: str
    before: int  # cost of its own instructions, inlined or not
    after: int
    calls_before: int  # 0 if it was inlined everywhere, or did not run
    calls_after: int
    inlined_before: bool  # whether instructions of it were inlined into another function
    inlined_after: bool

    @property
    def change(self) -> int:
        """What it gained."""
        return self.after - self.before


@dataclass(frozen=True)
class LineChange:
    """One line of a source, or some that belong together."""

    file: str  # in the sources after the change, or before it if it is gone
    first: int  # line number in the same sources
    last: int  # the same as first, or the last one of several
    text: str  # of the line that changed most
    before: int  # cost of its instructions
    after: int
    times_before: int  # how often its most often executed instruction ran
    times_after: int
    is_new: bool = False  # the line was not there before
    is_gone: bool = False

    @property
    def change(self) -> int:
        """What it gained."""
        return self.after - self.before


@dataclass(frozen=True)
class ProfileDifference:
    """What changed between two profiles of one function."""

    metric: str
    before: int  # the cost of the call
    after: int
    functions: tuple[FunctionChange, ...]  # whose cost or calls changed, the largest first
    lines: tuple[LineChange, ...]  # likewise, of sources that are known
    is_sampled: bool = False  # the costs are estimates
    scale: int = 1  # the costs are in this fraction of the metric's unit


def profile_difference(
    before: Profile, after: Profile, metric: str | None = None
) -> ProfileDifference:
    """Compare two profiles of one function by a column of both, see `Profile.metric`."""
    name = after.metric if metric is None else metric
    functions = [
        each
        for each in _functions(before, after, name)
        if each.change or each.calls_before != each.calls_after
    ]
    lines = [
        each
        for file, aligned in aligned_lines(before, after, name).items()
        for each in _merged(file, [line for line in aligned if line.before or line.after])
        if each.change
    ]
    return ProfileDifference(
        name,
        before.sum(name),
        after.sum(name),
        tuple(sorted(functions, key=lambda each: (-abs(each.change), each.name))),
        tuple(sorted(lines, key=lambda each: (-abs(each.change), each.file, each.first))),
    )


# -- functions --------------------------------------------------------------------------------


def _functions(before: Profile, after: Profile, metric: str) -> Iterator[FunctionChange]:
    old, new = _Functions(before, metric), _Functions(after, metric)
    for name in dict.fromkeys([*new.own, *old.own]):
        yield FunctionChange(
            name,
            old.own.get(name, 0),
            new.own.get(name, 0),
            old.calls.get(name, 0),
            new.calls.get(name, 0),
            name in old.inlined,
            name in new.inlined,
        )


class _Functions:
    """The functions of the sources in a profile: their own cost, calls, and whether inlined."""

    def __init__(self, profile: Profile, metric: str) -> None:
        column = profile.column(metric)
        self.own: defaultdict[str, int] = defaultdict(int)
        self.inlined: set[str] = set()
        for node, number, cost in profile.counts:
            if node in profile.in_interrupts:
                continue
            instruction = profile.instructions[number]
            symbol = plain_name(profile.symbols[instruction.symbol].name)
            name = instruction.frames[0].function if len(instruction.frames) > 1 else ""
            self.own[name or symbol] += cost[column]
            if name and name != symbol:
                self.inlined.add(name)
        self.calls: defaultdict[str, int] = defaultdict(int)
        for each in profile.functions(metric):
            self.calls[plain_name(each.name)] += each.calls


def plain_name(symbol: str) -> str:
    """Return the name in the sources of a compiler's clone, such as ``fir.constprop.0``."""
    head, dot, _ = symbol.partition(".")
    return head if dot and head else symbol


# -- lines ------------------------------------------------------------------------------------


@dataclass
class AlignedLine:
    """A line's costs on both sides; ``old`` and ``new`` are its numbers, 0 where it is not."""

    old: int
    new: int
    text: str
    before: int = 0
    after: int = 0
    times_before: int = 0
    times_after: int = 0


def aligned_lines(before: Profile, after: Profile, metric: str) -> dict[str, list[AlignedLine]]:
    """Return the lines of each source, those of the newer one and those that are gone, in order."""
    old, new = _by_line(before, metric), _by_line(after, metric)
    found: dict[str, list[AlignedLine]] = {}
    for file in sorted({*old, *new}):
        if file not in before.sources and file not in after.sources:
            continue  # a library's: its function says it all
        lines = _aligned(before.sources.get(file), after.sources.get(file), old, new, file)
        for line in lines:
            line.before, line.times_before = old.get(file, {}).get(line.old, (0, 0))
            line.after, line.times_after = new.get(file, {}).get(line.new, (0, 0))
        found[file] = lines
    return found


_ByLine = Mapping[str, Mapping[int, tuple[int, int]]]


def _by_line(profile: Profile, metric: str) -> _ByLine:
    found: defaultdict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
    for each in profile.lines(metric):
        cost, times = found[each.file].get(each.line, (0, 0))
        found[each.file][each.line] = (cost + each.self, max(times, each.executions))
    return found


def _aligned(
    old_text: str | None, new_text: str | None, old: _ByLine, new: _ByLine, file: str
) -> list[AlignedLine]:
    """Pair the lines of two versions of a file, in the order of the new one."""
    if old_text is None or new_text is None or old_text == new_text:
        lines = (new_text or old_text or "").splitlines()
        numbers = sorted({*range(1, len(lines) + 1), *old.get(file, {}), *new.get(file, {})})
        return [AlignedLine(n, n, lines[n - 1] if 0 < n <= len(lines) else "") for n in numbers]
    a, b = old_text.splitlines(), new_text.splitlines()
    plain_a, plain_b = ([" ".join(line.split()) for line in side] for side in (a, b))
    found: list[AlignedLine] = []
    matcher = difflib.SequenceMatcher(None, plain_a, plain_b, autojunk=False)
    for kind, a1, a2, b1, b2 in matcher.get_opcodes():
        if kind == "equal":
            found += [AlignedLine(i + 1, b1 + i - a1 + 1, b[b1 + i - a1]) for i in range(a1, a2)]
        else:
            found += _paired(range(a1, a2), range(b1, b2), a, b, plain_a, plain_b)
    return found


def _paired(
    olds: range,
    news: range,
    a: Sequence[str],
    b: Sequence[str],
    plain_a: Sequence[str],
    plain_b: Sequence[str],
) -> Iterator[AlignedLine]:
    """Pair the lines of a changed block that resemble each other, in order."""
    left = list(olds)
    for new in news:
        best, likeness = None, _ALIKE
        for old in left:
            ratio = difflib.SequenceMatcher(None, plain_a[old], plain_b[new]).ratio()
            if plain_a[old] and ratio >= likeness:
                best, likeness = old, ratio
        if best is None:
            yield AlignedLine(0, new + 1, b[new])
        else:
            for old in [each for each in left if each < best]:
                yield AlignedLine(old + 1, 0, a[old])
            left = [each for each in left if each > best]
            yield AlignedLine(best + 1, new + 1, b[new])
    for old in left:
        yield AlignedLine(old + 1, 0, a[old])


def _merged(file: str, lines: Sequence[AlignedLine]) -> list[LineChange]:
    """Return the changes of lines; neighbours whose changes cancel out are one."""
    groups: list[list[AlignedLine]] = []
    for line in lines:
        if groups and _belongs(groups[-1], line):
            groups[-1].append(line)
        else:
            groups.append([line])
    return [_change(file, group) for group in groups]


def _belongs(group: Sequence[AlignedLine], line: AlignedLine) -> bool:
    """Tell whether a line's change makes up for a good part of that of the lines before it."""
    last = group[-1]
    apart = max(abs((line.new or line.old) - (last.new or last.old)), 1)
    ours = sum(each.after - each.before for each in group)
    its = line.after - line.before
    is_opposite = ours * its < 0
    return apart <= _NEAR and is_opposite and abs(ours + its) < _CANCELS * max(abs(ours), abs(its))


def _change(file: str, group: Sequence[AlignedLine]) -> LineChange:
    most = max(group, key=lambda each: abs(each.after - each.before))
    numbers = [each.new for each in group if each.new] or [each.old for each in group]
    return LineChange(
        file,
        min(numbers),
        max(numbers),
        most.text.strip(),
        sum(each.before for each in group),
        sum(each.after for each in group),
        max(each.times_before for each in group),
        max(each.times_after for each in group),
        is_new=all(not each.old for each in group),
        is_gone=all(not each.new for each in group),
    )


# -- samples ----------------------------------------------------------------------------------

_Z = 1.96  # of the 95 % interval of a normal distribution


def sampled_difference(
    before: Profile, after: Profile, metric: str, costs: tuple[float, float], scale: int
) -> ProfileDifference:
    """Compare two sampled profiles of calls of some costs; keep what is beyond the uncertainty.

    The result has the costs in a fraction of the metric's unit, the ``scale``.
    """
    old, new = (round(cost * scale) for cost in costs)
    found = profile_difference(
        _estimated(before, metric, old), _estimated(after, metric, new), metric
    )
    sizes = (old, before.sum()), (new, after.sum())
    return replace(
        found,
        functions=tuple(each for each in found.functions if _is_certain(each, *sizes)),
        lines=tuple(each for each in found.lines if _is_certain(each, *sizes)),
        is_sampled=True,
        scale=scale,
    )


def _estimated(profile: Profile, metric: str, cost: int) -> Profile:
    """Return a profile whose samples are the cost that they stand for."""
    total = profile.sum()
    counts = tuple((node, at, (round(n * cost / total),)) for node, at, (n,) in profile.counts)
    totals = tuple((round(n * cost / total),) for (n,) in profile.totals)
    return replace(profile, columns=(metric,), total=(cost,), totals=totals, counts=counts)


def _is_certain(
    change: FunctionChange | LineChange, old: tuple[int, int], new: tuple[int, int]
) -> bool:
    """Tell whether a change is beyond the 95 % interval of a difference of two estimates."""
    variance = _variance(change.before, *old) + _variance(change.after, *new)
    return abs(change.change) > _Z * math.sqrt(variance)


def _variance(part: int, cost: int, samples: int) -> float:
    """Return the variance of an estimated cost.

    Source: A. Agresti, B. A. Coull, "Approximate is better than exact", The American Statistician
    52 (1998): two hits and two misses more make it hold for rare places, too.
    """
    hits = samples * part / cost if cost else 0.0
    share = (hits + 2) / (samples + 4)
    return cost * cost * share * (1 - share) / (samples + 4)
