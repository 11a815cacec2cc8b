# SPDX-License-Identifier: Apache-2.0
"""A profile as text: its functions, its source with a count at each line, its instructions."""

from __future__ import annotations

import posixpath
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from boardprof.base.errors import UsageError
from boardprof.results.report.profile import (
    CORE_CYCLES,
    MODELLED,
    FunctionCost,
    Interval,
    LineCost,
    Profile,
)
from boardprof.results.report.report import Report
from boardprof.results.row_origins import ProfiledRow, profiles_of
from boardprof.show.cells import plural
from boardprof.show.layout import Page, Table, record_table

CONTEXT = 2  # lines of source that are shown around those that ran
_LEAST_SHARE = 0.0005  # less than this rounds to 0.0 %
_INTERVAL = "95 % interval"

_RANGE = "Low to high"  # what modelled cycles may be
_SINGULAR = {"cycles": "cycle", "instructions": "instruction", "samples": "sample"}


def profiles_in(report: Report) -> list[ProfiledRow]:
    """Return the profiles in a Report; without any, this is a UsageError."""
    found = list(profiles_of(report))
    if not found:
        raise UsageError(
            "The Report has no profile.", hint="measure with: boardprof run --hotspots"
        )
    return found


def functions_page(profile: Profile, metric: str | None = None, most: int | None = None) -> Page:
    """Return the functions of a call, or the ``most`` first; those that cost most come first."""
    found = profile.functions(metric)
    shown = found if most is None else found[:most]
    total = profile.sum(metric)
    own = "Self" if profile.exact else "Samples"
    ranges = _ranges(profile, metric, profile.functions)
    headers = ["Function", own, _RANGE, "Self %", _INTERVAL, "Total", "Total %", "Calls", "Where"]
    rows = [
        {
            "Function": each.name,
            own: f"{each.self:,}",
            _RANGE: ranges.get((each.name, each.file, each.line), ""),
            "Self %": _percent(each.self, total),
            _INTERVAL: interval_text(each.interval),
            "Total": "" if each.total is None else f"{each.total:,}",
            "Total %": "" if each.total is None else _percent(each.total, total),
            "Calls": f"{each.calls:,}" if each.calls else "",
            "Where": _place(each.file, each.line),
        }
        for each in shown
    ]
    unknown = () if profile.exact else ("Total", "Total %", "Calls")
    kept = [header for header in headers if header not in unknown]
    rest = len(found) - len(shown)
    left = [f"{rest} more function{'s' * (rest > 1)}: --all"] if rest else []
    spare, optional = ("Total %", "Where"), (_INTERVAL, _RANGE)
    return [record_table(kept, rows, ["Where"], optional=optional, spare=spare), *left]


def _ranges(
    profile: Profile, metric: str | None, costs: Callable[[str], Sequence[FunctionCost | LineCost]]
) -> dict[tuple[object, ...], str]:
    """Return what modelled cycles of functions or lines may be; empty for other metrics."""
    if profile.columns[profile.column(metric)] != CORE_CYCLES:
        return {}
    low, high = ({_place_of(each): each.self for each in costs(name)} for name in MODELLED[1:])
    return {key: range_text(low[key], high[key]) for key in low if high[key]}


def _place_of(cost: FunctionCost | LineCost) -> tuple[object, ...]:
    name = cost.name if isinstance(cost, FunctionCost) else cost.function
    return name, cost.file, cost.line


def range_text(low: int, high: int) -> str:
    """Return what a modelled number may be; as one number if it is certain."""
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def modelled_text(profile: Profile) -> str:
    """Return the modelled core cycles of a call: ``1,200 [1,100 to 1,400] core-cycles``."""
    assert profile.core_cycles is not None
    point, low, high = profile.core_cycles
    return f"{point:,} [{range_text(low, high)}] {CORE_CYCLES}"


def titles(rows: Sequence[ProfiledRow]) -> list[str]:
    """Return what each profile is of: the function, and more where that is not enough."""
    several = Counter((row.name, row.device) for row in rows)
    return [row.title if several[row.name, row.device] > 1 else row.name for row in rows]


def heading(profile: Profile, metric: str | None = None, title: str | None = None) -> str:
    """Return what was recorded, in a line; its title is the function's name unless given."""
    name = profile.metric if metric is None else metric
    how = profile.sampled
    kind = "" if how is None else f" in {how.calls:,} call{'s' * (how.calls != 1)}"
    what = profile.function if title is None else title
    cost = _count(profile.sum(metric), name)
    if name in MODELLED:
        cost = f"{modelled_text(profile) if name == CORE_CYCLES else cost}, modelled"
    return f"{what} on {profile.board}: {cost}{kind}"


def notes(profile: Profile, metric: str | None = None) -> list[str]:
    """Return what a reader must know besides the figures; how the total was checked comes last."""
    told = []
    if not profile.is_complete:
        told.append(f"incomplete: {profile.failure or profile.state}")
    name = profile.metric if metric is None else metric
    if profile.modelled:
        shown = "" if name in MODELLED else f"{modelled_text(profile)}, "
        told.append(f"{shown}modelled {profile.modelled} (docs/cycles.md)")
    if profile.unmodelled:
        told.append(f"{CORE_CYCLES} are unknown: {profile.unmodelled}")
    handlers = profile.interrupts(name)
    if handlers and profile.is_complete:
        verb = "is" if handlers == 1 else "are"
        ways = ", without the core's ways in and out" if name in MODELLED else ""
        told.append(
            f"interrupts took {_count(handlers, name)}{ways}, which {verb} not in the total"
        )
    if profile.newer:
        names = ", ".join(map(posixpath.basename, profile.newer))
        told.append(f"newer than the image, so lines may be others: {names}")
    if profile.sampled is not None and profile.sum() < profile.sampled.wanted:
        told.append(
            f"{profile.sampled.wanted:,} samples were wanted; a call is so short that it is hardly "
            "ever hit"
        )
    if profile.sampled is not None and profile.sampled.outside:
        told.append(f"{profile.sampled.outside:,} more hit the agent or another stack")
    if profile.sampled is not None and profile.sampled.unreadable:
        told.append(
            f"{profile.sampled.unreadable:,} reads found no program counter: the core was halted, "
            "or what it executed must not be debugged"
        )
    told += _edges(profile, name)
    told.append(_check(profile))
    return told


def _edges(profile: Profile, metric: str) -> list[str]:
    """Say by how much the Report's count differs, where that is not a fault: on a pipeline."""
    checked = profile.checked
    if checked is None or metric not in profile.counted or metric == checked:
        return []
    has_interrupts = profile.counted[checked] != profile.sum(checked)
    interrupts = profile.interrupts(metric) if has_interrupts else 0
    more = profile.counted[metric] - profile.sum(metric) - interrupts
    if not more:
        return []
    return [
        f"the Report counts {profile.counted[metric]:,} {metric}, {abs(more):,} "
        f"{'more' if more > 0 else 'fewer'}: a call's first and last instructions overlap with the "
        "measurement (docs/numbers.md)"
    ]


def _check(profile: Profile) -> str:
    if profile.sampled is not None and profile.sampled.masked:
        return (
            f"sampled by {profile.sampled.timer}, whose interrupt the code masks: what runs masked "
            "is hit by no sample, so the shares may be wrong"
        )
    if profile.sampled is not None:
        return (
            f"sampled by {profile.sampled.timer}, not counted: a function's true share is within "
            "its interval in 95 of 100 such profiles; lines are less certain (docs/hotspots.md)"
        )
    if not profile.is_complete:
        return "total not checked: the profile is incomplete"
    name = profile.checked
    if profile.recorder:
        return f"total not checked: {profile.recorder} simulates its own CPU"
    if name is None and profile.sleeps:
        return "total not checked: the board's counters go on while the core sleeps"
    if name is None and profile.interrupts():
        return "total not checked: the board does not count interrupts apart exactly"
    if name is None:
        return "total not checked: this board has no instruction counter"
    return f"total checked: the board has counted the same {_count(profile.sum(name), name)}"


def lines_page(profile: Profile, metric: str | None = None) -> Page:
    """Return the source with the cost of each line, file by file, the costliest of them first."""
    by_file: defaultdict[str, dict[int, list[LineCost]]] = defaultdict(dict)
    for each in profile.lines(metric):
        by_file[each.file].setdefault(each.line, []).append(each)
    costs = {
        file: sum(each.self for found in lines.values() for each in found)
        for file, lines in by_file.items()
    }
    total = profile.sum(metric)
    page: list[Table | str] = []
    for file in sorted(by_file, key=lambda f: (f not in profile.sources, -costs[f], f)):
        told = f"{costs[file]:,} ({_percent(costs[file], total)} %)"
        text = profile.sources.get(file)
        if page and (text is not None or isinstance(page[-1], Table)):
            page.append("")
        if text is None:
            names = dict.fromkeys(e.function for found in by_file[file].values() for e in found)
            page.append(f"{posixpath.basename(file) or 'no file'}: {told}, {', '.join(names)}")
        else:
            ranges = _ranges(profile, metric, profile.lines)
            page += [f"{file}: {told}", _listing(by_file[file], text, total, ranges)]
    return page


def _listing(
    lines: Mapping[int, Sequence[LineCost]],
    text: str,
    total: int,
    ranges: Mapping[tuple[object, ...], str],
) -> Table:
    source = text.splitlines()
    is_sampled = any(each.interval is not None for found in lines.values() for each in found)
    own = "Samples" if is_sampled else "Self"
    headers = ["Line", own, _RANGE, "Self %", _INTERVAL, "Calls' cost", "Times", "Source"]
    rows = []
    for number in _rows(lines, source):
        costs = lines.get(number, ())
        cost = sum(each.self for each in costs)
        below = sum(each.calls for each in costs)
        times = max((each.executions for each in costs), default=0)
        row = {
            "Line": f"{number}" if number > 0 else "",
            own: f"{cost:,}" if cost else "",
            _RANGE: " | ".join(filter(None, (ranges.get(_place_of(e)) for e in costs))),
            "Self %": _percent(cost, total) if cost else "",
            _INTERVAL: " | ".join(filter(None, (interval_text(e.interval) for e in costs))),
            "Calls' cost": f"{below:,}" if below else "",
            "Times": f"{times:,}" if times else "",
            "Source": "..." if number < 0 else "",
        }
        if 1 <= number <= len(source):
            row["Source"] = source[number - 1].expandtabs(4)
        rows.append(row)
    spare = ("Calls' cost", "Times")
    return record_table(headers, rows, ["Source"], optional=headers, spare=spare, cuts_last=True)


def _rows(lines: Mapping[int, object], source: Sequence[str]) -> Iterator[int]:
    """Yield the numbers of the lines to show; -1 for a gap."""
    near = {n + d for n in lines for d in range(-CONTEXT, CONTEXT + 1) if n}
    shown = sorted(n for n in near if 1 <= n <= len(source))
    last = None
    for number in shown:
        if last is not None and number != last + 1:
            yield -1
        yield number
        last = number
    yield from (n for n in sorted(lines) if not 1 <= n <= len(source))


def instructions_page(profile: Profile, metric: str | None = None) -> Page:
    """Return the instructions that ran, each under its line, the costliest function first."""
    column, total = profile.column(metric), profile.sum(metric)
    is_modelled = profile.columns[column] == CORE_CYCLES
    columns = [0, *([profile.column(name) for name in MODELLED] if is_modelled else [column])]
    costs: defaultdict[int, list[int]] = defaultdict(lambda: [0] * len(columns))
    for node, number, cost in profile.counts:
        if node not in profile.in_interrupts:
            costs[number] = [a + cost[i] for a, i in zip(costs[number], columns, strict=True)]
    order = [each.name for each in profile.functions(metric)]
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for number in sorted(costs, key=lambda each: profile.instructions[each].address):
        numbers[profile.symbols[profile.instructions[number].symbol].name].append(number)
    page: list[Table | str] = []
    for name in sorted(numbers, key=order.index):
        own = sum(costs[number][1] for number in numbers[name])
        page += [""] if page else []
        page += [f"{name}: {own:,} ({_percent(own, total)} %)"]
        page.append(_instruction_table(profile, numbers[name], costs, total))
    return page


def _instruction_table(
    profile: Profile, numbers: Sequence[int], costs: Mapping[int, Sequence[int]], total: int
) -> Table:
    first = "Times" if profile.exact else "Samples"
    headers = ["Address", first, "Self", _RANGE, "Self %", "Instruction"]
    rows: list[dict[str, str]] = []
    last = None
    for number in numbers:
        instruction = profile.instructions[number]
        frame = instruction.frames[0] if instruction.frames else None
        place = (frame.file, frame.line) if frame is not None else ("", 0)
        if place != last and place[1]:
            lines = profile.sources.get(place[0], "").splitlines()
            said = lines[place[1] - 1].strip() if place[1] <= len(lines) else ""
            text = f"{_place(*place)}  {said}".rstrip()
            rows.append({**dict.fromkeys(headers, ""), "Instruction": text})
        last = place
        times, cost, *bounds = costs[number]
        row = {
            "Address": f"{instruction.address:x}",
            first: f"{times:,}",
            "Self": f"{cost:,}",
            _RANGE: range_text(*bounds) if bounds else "",
            "Self %": _percent(cost, total),
            "Instruction": "    " + instruction.text.replace("\t", " "),
        }
        rows.append(row)
    if len(profile.columns) == 1:  # each time costs one
        headers.remove("Self")
    return record_table(headers, rows, ["Instruction"], optional=[_RANGE], cuts_last=True)


def interval_text(interval: Interval | None) -> str:
    """Return an interval in percent; "" if there is none."""
    if interval is None:
        return ""
    low, high = interval
    return f"{100 * low:.1f} to {100 * high:.1f}"


def _count(number: int, metric: str) -> str:
    """Return a cost: ``1 cycle``, ``1,200 cycles``; the names of other metrics stay as they are."""
    one = _SINGULAR.get(metric)
    return f"{number:,} {metric}" if one is None else plural(number, one)


def _place(file: str, line: int) -> str:
    return f"{posixpath.basename(file)}:{line}" if file else ""


def _percent(part: int, whole: int) -> str:
    share = part / whole if whole else 0.0
    return "<0.1" if 0 < share < _LEAST_SHARE else f"{100 * share:.1f}"
