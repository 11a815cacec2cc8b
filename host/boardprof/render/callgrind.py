# SPDX-License-Identifier: Apache-2.0
"""A profile in callgrind's format, for callgrind_annotate and KCachegrind.

Functions are those of the image. Lines are those of the innermost inlined function; where its file
is another one, ``fi`` and ``fe`` say so (Valgrind's manual, "Callgrind Format Specification").
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from boardprof import __version__
from boardprof.errors import UsageError
from boardprof.render.profile_tables import profiles_in
from boardprof.report.profile import INTERRUPTS, Cost, Profile, Symbol
from boardprof.report.report import Report

_UNKNOWN = "???"
"""What callgrind calls a file or a function that it does not know."""


def render_callgrind(report: Report) -> str:
    """Return the profile of a Report in callgrind's format.

    Raises:
        UsageError: the Report has no profile, or several, for which the format has no room.
    """
    profiles = profiles_in(report)
    if len(profiles) > 1:
        raise UsageError(
            f"The Report has {len(profiles)} profiles, and a file of callgrind holds one.",
            hint="export a Report of one function on one board",
        )
    return callgrind(profiles[0])


def callgrind(profile: Profile) -> str:
    """Return a profile in callgrind's format. Interrupts in the call are left out."""
    sum_line = " ".join(map(str, profile.total))
    lines = [
        "# callgrind format",
        "version: 1",
        f"creator: boardprof {__version__}",
        f"cmd: {_name(profile.function)} on {_name(profile.board)}",
        f"desc: Trigger: {_name(profile.state)}",
        "positions: line",
        f"events: {' '.join('-'.join(name.split()) for name in profile.columns)}",
        f"summary: {sum_line}",
        "",
        *_functions(profile),
        f"totals: {sum_line}",
    ]
    return "".join(f"{line}\n" for line in lines)


def _functions(profile: Profile) -> Iterator[str]:
    width = len(profile.columns)
    own: defaultdict[int, defaultdict[tuple[str, int], list[int]]] = defaultdict(
        lambda: defaultdict(lambda: [0] * width)
    )
    for node, number, cost in profile.counts:
        if node not in profile.in_interrupts:
            _add(own[profile.instructions[number].symbol][_place(profile, number)], cost)
    calls: defaultdict[int, dict[tuple[tuple[str, int], int], list[int]]] = defaultdict(dict)
    for site in profile.sites:
        if site.caller in profile.in_interrupts or site.callee == INTERRUPTS:
            continue
        key = _place(profile, site.instruction), profile.tree[site.callee].symbol
        caller = profile.instructions[site.instruction].symbol
        found = calls[caller].setdefault(key, [0] * (width + 1))
        _add(found, (site.calls, *site.cost))
    names = _Names()
    for number in sorted({*own, *calls}, key=lambda each: profile.symbols[each].name):
        symbol = profile.symbols[number]
        yield from _function(profile.symbols, symbol, own[number], calls[number], names)


def _function(
    symbols: Sequence[Symbol],
    symbol: Symbol,
    own: dict[tuple[str, int], list[int]],
    calls: dict[tuple[tuple[str, int], int], list[int]],
    names: _Names,
) -> Iterator[str]:
    yield f"fl={names.file(symbol.file)}"
    yield f"fn={names.function(symbol.name)}"
    now = symbol.file
    for place in sorted({*own, *(place for place, _ in calls)}, key=lambda at: (at[0] != now, at)):
        file, line = place
        if file != now:
            yield f"{'fe' if file == symbol.file else 'fi'}={names.file(file)}"
            now = file
        if place in own:
            yield _numbers(line, own[place])
        for (at, callee), (count, *cost) in calls.items():
            if at == place:
                target = symbols[callee]
                yield f"cfi={names.file(target.file)}"
                yield f"cfn={names.function(target.name)}"
                yield f"calls={count} {target.line}"
                yield _numbers(line, cost)
    yield ""


class _Names:
    """Names as callgrind shortens them: in full once, then by number."""

    def __init__(self) -> None:
        self._files: dict[str, int] = {}
        self._functions: dict[str, int] = {}

    def file(self, name: str) -> str:
        return _short(self._files, name or _UNKNOWN)

    def function(self, name: str) -> str:
        return _short(self._functions, name or _UNKNOWN)


def _short(known: dict[str, int], name: str) -> str:
    if name in known:
        return f"({known[name]})"
    known[name] = len(known) + 1
    return f"({known[name]}) {_name(name)}"


def _name(text: str) -> str:
    return " ".join(text.split())  # a line feed would end it


def _place(profile: Profile, number: int) -> tuple[str, int]:
    instruction = profile.instructions[number]
    if not instruction.frames or not instruction.frames[0].file:
        return profile.symbols[instruction.symbol].file, 0
    return instruction.frames[0].file, instruction.frames[0].line


def _add(to: list[int], cost: Cost) -> None:
    for index, amount in enumerate(cost):
        to[index] += amount


def _numbers(line: int, cost: Iterable[int]) -> str:
    return " ".join(map(str, (line, *cost)))
