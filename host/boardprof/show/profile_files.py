# SPDX-License-Identifier: Apache-2.0
"""Profiles in callgrind's format, for callgrind_annotate and KCachegrind, for pprof, and as JSON.

Functions of callgrind's are those of the image. Lines are those of the innermost inlined function;
where its file is another one, ``fi`` and ``fe`` say so (Valgrind's manual, "Callgrind Format
Specification").

For pprof it is a protocol buffer, compressed. The messages are those of profile.proto
(github.com/google/pprof, proto/profile.proto); each field's number is given where it is written.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from boardprof import __version__
from boardprof.base.errors import UsageError
from boardprof.results.record_json import form_of
from boardprof.results.report.profile import (
    CORE_CYCLES,
    INTERRUPTS,
    MODELLED,
    Cost,
    Frame,
    FunctionCost,
    LineCost,
    Profile,
    Symbol,
)
from boardprof.results.report.report import Report
from boardprof.show import protobuf
from boardprof.show.flame_graph import stacks_of
from boardprof.show.profile_tables import profiles_in

_UNKNOWN = "???"  # what callgrind calls a file or a function that it does not know


def render_callgrind(report: Report) -> str:
    """Return the profile of a Report in callgrind's format."""
    profiles = profiles_in(report)
    if len(profiles) > 1:
        raise UsageError(
            f"The Report has {len(profiles)} profiles. A callgrind file holds one.",
            hint="export a Report of one function on one board",
        )
    return callgrind(profiles[0].profile)


def callgrind(profile: Profile) -> str:
    """Return a profile in callgrind's format. Interrupts in the call are left out."""
    sum_line = " ".join(map(str, profile.total))
    lines = [
        "# callgrind format",
        "version: 1",
        f"creator: boardprof {__version__}",
        f"cmd: {_name(profile.function)} on {_name(profile.board)}",
        f"desc: Trigger: {_name(profile.state)}{'' if profile.exact else ', sampled'}",
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
    files: dict[str, int] = {}
    functions: dict[str, int] = {}
    for number in sorted({*own, *calls}, key=lambda each: profile.symbols[each].name):
        symbol = profile.symbols[number]
        names = files, functions
        yield from _function(profile.symbols, symbol, own[number], calls[number], *names)


def _function(
    symbols: Sequence[Symbol],
    symbol: Symbol,
    own: dict[tuple[str, int], list[int]],
    calls: dict[tuple[tuple[str, int], int], list[int]],
    files: dict[str, int],
    functions: dict[str, int],
) -> Iterator[str]:
    yield f"fl={_short(files, symbol.file)}"
    yield f"fn={_short(functions, symbol.name)}"
    now = symbol.file
    for place in sorted({*own, *(place for place, _ in calls)}, key=lambda at: (at[0] != now, at)):
        file, line = place
        if file != now:
            yield f"{'fe' if file == symbol.file else 'fi'}={_short(files, file)}"
            now = file
        if place in own:
            yield " ".join(map(str, (line, *own[place])))
        for (at, callee), (count, *cost) in calls.items():
            if at == place:
                target = symbols[callee]
                yield f"cfi={_short(files, target.file)}"
                yield f"cfn={_short(functions, target.name)}"
                yield f"calls={count} {target.line}"
                yield " ".join(map(str, (line, *cost)))
    yield ""


def _short(known: dict[str, int], name: str) -> str:
    """Return a name as callgrind shortens it: in full once, then by number."""
    name = name or _UNKNOWN
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


# -- pprof -------------------------------------------------------------------------------------


def render_pprof(report: Report) -> bytes:
    """Return the profiles of a Report for pprof; several have their boards as outermost frames."""
    return pprof(row.profile for row in profiles_in(report))


def pprof(profiles: Iterable[Profile]) -> bytes:
    """Return profiles for pprof: a sample for each stack, with a value for each column."""
    found = list(profiles)
    columns = list(dict.fromkeys(name for each in found for name in each.columns))
    tables = _Tables()
    body = b""
    for name in columns:  # sample_type, a ValueType: type, unit
        body += protobuf.message(1, _number(1, tables.text(name)), _number(2, tables.text("count")))
    for profile in found:
        above = [Frame(profile.board, "", 0)] if len(found) > 1 else []
        values: dict[tuple[Frame, ...], list[int]] = {}
        for name in profile.columns:
            for stack, cost in stacks_of(profile, name).items():
                values.setdefault(stack, [0] * len(columns))[columns.index(name)] = cost
        for stack, costs in values.items():  # sample: location_id, the leaf first; value
            places = [tables.location(frame) for frame in reversed([*above, *stack])]
            body += protobuf.message(2, _packed(1, places), _packed(2, costs))
    body += tables.written()
    body += _number(14, tables.text(columns[0]) if columns else 0)  # default_sample_type
    # Last: all texts are known. string_table; the first is empty.
    body += b"".join(protobuf.text(6, each) for each in tables.texts)
    return gzip.compress(body, mtime=0)


class _Tables:
    """Locations, functions and texts, each once; their numbers begin with 1, texts' with 0."""

    def __init__(self) -> None:
        self.texts = {"": 0}
        self._functions: dict[tuple[str, str], int] = {}
        self._locations: dict[Frame, int] = {}

    def text(self, content: str) -> int:
        return self.texts.setdefault(content, len(self.texts))

    def location(self, frame: Frame) -> int:
        return self._locations.setdefault(frame, len(self._locations) + 1)

    def written(self) -> bytes:
        body = b""
        for frame, place in self._locations.items():  # location: id, line
            key = frame.function, frame.file
            function = self._functions.setdefault(key, len(self._functions) + 1)
            line = _number(1, function) + _number(2, frame.line)  # function_id, line
            body += protobuf.message(4, _number(1, place), protobuf.message(4, line))
        for (name, file), function in self._functions.items():  # function
            fields = _number(1, function) + _number(2, self.text(name))  # id, name
            fields += _number(3, self.text(name)) + _number(4, self.text(file))  # system_name
            body += protobuf.message(5, fields)  # filename is 4
        return body


def _number(field: int, value: int) -> bytes:
    """Return a field; 0 is the default, so it is left out."""
    return protobuf.number(field, value) if value else b""


def _packed(field: int, values: Iterable[int]) -> bytes:
    return protobuf.message(field, *map(protobuf.varint, values))


# -- JSON --------------------------------------------------------------------------------------


def render_profiles(profiles: Sequence[Profile]) -> str:
    """Return a profile as a JSON object, several as an array of them."""
    found = [profile_json(profile) for profile in profiles]
    return json.dumps(found[0] if len(found) == 1 else found, indent=1) + "\n"


def profile_json(profile: Profile) -> dict[str, Any]:
    """Return a profile as JSON values, for readers that want the result."""
    # Sampled figures have a share with a 95 % interval, and null where samples tell nothing.
    cycles = _own_cycles(profile)
    return {
        "function": profile.function,
        "board": profile.board,
        "metric": profile.metric,
        "total": profile.sum(),
        "exact": profile.exact,
        "complete": profile.is_complete,
        "interrupts": profile.interrupts(),
        **(
            {CORE_CYCLES: {**_cycles(profile.core_cycles), "modelled": profile.modelled}}
            if profile.core_cycles
            else {}
        ),
        "functions": [
            {
                "name": each.name,
                "file": each.file,
                "line": each.line,
                "self": each.self,
                "total": each.total,
                "calls": each.calls if profile.exact else None,
                **_estimate(each),
                **cycles.get((each.name, each.file, each.line), {}),
            }
            for each in profile.functions()
        ],
        "lines": [
            {
                "file": each.file,
                "line": each.line,
                "self": each.self,
                **_estimate(each),
                **cycles.get((each.file, each.line, each.function), {}),
            }
            for each in profile.lines()
        ],
        "record": json.loads(form_of(Profile).text(profile)),
    }


def _own_cycles(profile: Profile) -> dict[tuple[object, ...], dict[str, Any]]:
    if profile.core_cycles is None:
        return {}
    found: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for name in MODELLED:
        for function in profile.functions(name):
            found[function.name, function.file, function.line].append(function.self)
        for line in profile.lines(name):
            found[line.file, line.line, line.function].append(line.self)
    return {key: {CORE_CYCLES: _cycles(each)} for key, each in found.items()}


def _cycles(bounds: Iterable[int]) -> dict[str, int]:
    return dict(zip(("point", "low", "high"), bounds, strict=True))


def _estimate(cost: FunctionCost | LineCost) -> dict[str, Any]:
    return {} if cost.interval is None else {"share": cost.share, "interval": [*cost.interval]}
